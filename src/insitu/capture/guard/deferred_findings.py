"""The findings of a step whose numbers came over at its end: where a NaN or Inf began, by the marks of its tensors.

The tensors themselves are gone mostly. The rule is that of `trace.nonfinite`, on the calls of the step with what the
marks tell about their tensors. How many elements are not finite, and which is the first, is known only of a tensor that
is still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.explain.reading import Reading, values
from insitu.capture.finite import finiteness_of, first_bad
from insitu.capture.guard.facts import facts_of, input_values, module_chain, names_at, parameter_path
from insitu.capture.guard.finite_marks import Extremes, FiniteMark, GradientMarks, StepMarks, UpdateMarks
from insitu.capture.guard.gradient import place_of
from insitu.capture.guard.places import site_at
from insitu.capture.guard.risk import can_produce
from insitu.capture.tensors import Value, short_dtype
from insitu.capture.value_decoder import sizes
from insitu.trace.event import Call, TensorFacts
from insitu.trace.findings import (
    Finding,
    FindingKind,
    NonFinite,
    NonFiniteGradient,
    NonFiniteInput,
    NonFiniteResult,
    NonFiniteUpdate,
    Reach,
    TensorOperand,
    UncheckedGradient,
)
from insitu.trace.first_findings import first_origins, nonfinite_finding
from insitu.trace.nonfinite import LEAVING, NonFiniteSearch
from insitu.trace.operation import operation
from insitu.trace.order import completion_order
from insitu.trace.origin import FINITE, Finiteness, GradientOrigin, gradient_origin, literals, union

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks


def step_findings(check: ProbeChecks, marks: StepMarks, *, is_last: bool) -> list[Finding]:
    """What the marks of a step tell; nothing if all of them are finite. At the end, -inf that nobody used counts."""
    if not marks.is_alarming(is_last=is_last):
        return []
    updates = [finding for update in marks.updates if (finding := update_finding(check, update)) is not None]
    if updates:
        return updates
    with Reading(check.probe.tape) as reading:
        return DeferredStep(check, marks, reading).findings(is_last=is_last)


class DeferredStep:
    """The calls of one step, with what the marks of their tensors tell."""

    def __init__(self, check: ProbeChecks, marks: StepMarks, reading: Reading) -> None:
        self._check, self._marks, self._reading = check, marks, reading
        self._extremes = dict(marks.extremes)
        self._values: dict[int, Value] = {}  # by the ids of their facts
        self._calls = {call.id: call for call in self._marked_calls()}
        self._search = NonFiniteSearch()
        for call in completion_order(self._calls.values()):
            if isinstance(call, Call):
                self._search.add(call)

    def findings(self, *, is_last: bool) -> list[Finding]:
        """The finding of a forward call whose NaN or Inf has reached what matters or, without one, of a gradient."""
        arrival = next(iter(self._arrivals(is_last=is_last)), None)
        origins = self._origins_behind(arrival.facts) if arrival is not None else []
        wrong = [self._finding(id, arrival) for id in origins if self._is_news(id)]
        findings: list[Finding] = [*wrong] or list(self._gradient_findings())
        self._settle_facts()
        return findings

    def _arrivals(self, *, is_last: bool) -> Iterator[Arrival]:
        """Where NaN or Inf has come that matters: losses, results of models, what leaves torch as a number, and at the
        end of the block (`is_last`) what no call has used."""
        for call in self._calls.values():
            yield from arrivals_at(call)
        if not is_last:
            return
        used = {id(facts) for call in self._calls.values() for facts in call.inputs}
        for call in self._calls.values():
            for facts in filter(is_nonfinite, call.outputs):
                if id(facts) not in used:
                    yield Arrival(facts, "unused")

    def _origins_behind(self, facts: TensorFacts) -> list[int]:
        """The call where the NaN or Inf in a tensor began: the first of the origins behind it."""
        origins, found = set(self._search.origins), self._search.result()
        behind: set[int] = set()
        waiting, seen = [facts], set[int]()
        while waiting:
            producer = waiting.pop().producer
            call = self._calls.get(producer) if producer is not None else None
            if call is None or call.id in seen:
                continue
            seen.add(call.id)
            if call.id in origins:
                behind.add(call.id)
            waiting += filter(is_nonfinite, call.inputs)
        if behind:
            return [min(behind)]
        return first_origins({id: event for id, event in found.items() if not event.contents.is_minus_inf})

    # ---- calls

    def _marked_calls(self) -> Iterator[Call]:
        """The calls of the step, in the order in which they began."""
        for at in self._reading.tape.calls():
            callee = self._reading.callee(at)
            if at < self._marks.begin or callee.kind == "mark" or self._reading.has_raised(at):
                continue
            if self._reading.tape.is_running(at):
                continue
            if not can_produce(callee):
                self._pass_on(at)
            call = self._reading.call(at)
            self._add_statistics(at)
            yield call

    def _pass_on(self, at: int) -> None:
        """A call that only moves numbers: its results, which have no marks, are as its arguments."""
        given = [self._extremes[id(value)] for value in input_values(self._reading, at) if id(value) in self._extremes]
        worst = next((each for each in given if each.finiteness != FINITE), None)
        if worst is None:
            return
        for value in values(self._reading.result(at)):
            self._extremes.setdefault(id(value), worst)

    def _add_statistics(self, at: int) -> None:
        for value in (*input_values(self._reading, at), *values(self._reading.result(at))):
            facts = self._reading.plain(value)
            self._values[id(facts)] = value
            extremes = self._extremes.get(id(value))
            if extremes is not None:
                facts.stats = extremes.stats()

    def _is_news(self, id: int) -> bool:
        call = self._calls.get(id)
        return call is not None and not self._check.is_allowed(self._reading, id)

    def _finding(self, id: int, arrival: Arrival | None = None) -> NonFinite:
        """The finding of the call where a NaN or Inf began, and of where it has come that matters."""
        call = self._calls[id]
        finding = nonfinite_finding(call, self._calls)
        if isinstance(finding, NonFiniteResult) and arrival is not None:
            is_metric = arrival.reach in ("number", "unused") and self._check.checks.has_trained
            finding = replace(finding, reach=arrival.reach, consumer=arrival.call, is_metric=is_metric)
        if isinstance(finding, NonFiniteInput):
            self._check.checks.has_incoming = True
        else:
            self._check.checks.has_found = True
        return replace(
            finding,
            output=self._output(finding.output),
            operands=tuple(self._named(operand, id) for operand in finding.operands),
            modules=module_chain(self._reading, id),
            is_late=True,
            has_unseen_nan=finding.has_nan,
        )

    def _named(self, operand: TensorOperand, at: int) -> TensorOperand:
        value = self._values.get(id(operand.facts))
        if value is None:
            return operand
        name = parameter_path(self._check.probe, value()) or names_at(self._reading, at).get(id(value), "")
        return replace(operand, name=name)

    def _output(self, facts: TensorFacts | None) -> TensorFacts | None:
        """The facts of a result; with statistics if the tensor is still there, and nobody has changed it."""
        value = self._values.get(id(facts))
        tensor = value() if value is not None else None
        is_same = tensor is not None and self._check.probe.table.get(id(tensor)) is value
        if facts is None or tensor is None or not is_same:
            return facts
        return replace(facts, stats=facts_of(tensor).stats)

    def _settle_facts(self) -> None:
        """Leave out the statistics that served the judgement only: of NaN and Inf nobody has counted the elements."""
        for call in self._calls.values():
            for facts in (*call.inputs, *call.outputs):
                if is_nonfinite(facts):
                    facts.stats = None

    # ---- gradients

    def _gradient_findings(self) -> Iterator[Finding]:
        """The first gradient that is not finite, and the node that produced it."""
        checks = self._check.checks
        is_known = checks.has_found
        for node in self._marks.gradients:
            outgoing, incoming = contents(node.outgoing), contents(node.incoming)
            origin = gradient_origin(outgoing, incoming, is_known=is_known, is_scaled=checks.is_scaled)
            is_known = is_known or outgoing != FINITE
            if origin is GradientOrigin.KNOWN:
                continue
            finding = self._gradient_finding(node, origin, outgoing, incoming)
            if finding is not None:
                checks.has_found = True
                yield finding
                return

    def _gradient_finding(
        self, node: GradientMarks, origin: GradientOrigin, outgoing: Finiteness, incoming: Finiteness
    ) -> Finding | None:
        tape, at = place_of(self._check, node.number)
        call = self._calls.get(at) if at is not None and tape is self._check.probe.tape else None
        if at is not None and call is not None:
            if self._check.is_allowed(self._reading, at):
                return None
            healed = self._origin_before(call)
            if healed is not None:
                return replace(healed, reach="gradient", consumer=call)
        facts: dict[str, Any] = {
            "call": call,
            "path": call.path if call is not None else "",
            "site": call.site if call is not None else None,
            "output": bad_facts(node),
            "operands": tuple(map(TensorOperand, call.inputs)) if call is not None else (),
            "modules": module_chain(self._reading, at) if call is not None and at is not None else (),
            "is_late": True,
            "has_unseen_nan": outgoing.nan,
            "node": node.name,
        }
        if origin is GradientOrigin.UNCHECKED:
            return UncheckedGradient(**facts)
        kind: FindingKind = "nan" if outgoing.nan else "inf"
        is_finite = incoming.is_finite
        return NonFiniteGradient(kind=kind, has_finite_inputs=is_finite, has_infinite_gradient=not is_finite, **facts)

    def _origin_before(self, call: Call) -> NonFiniteResult | None:
        """The finding of the call behind the NaN or Inf that a forward call got, although it healed later."""
        is_bad = any(map(is_nonfinite, call.inputs))
        origins = [id for id in self._search.origins if id <= call.id]
        if not is_bad or not origins:
            return None
        finding = self._finding(origins[-1])
        if isinstance(finding, NonFiniteResult):
            return finding
        return None


def is_nonfinite(facts: TensorFacts) -> bool:
    """Whether a tensor contains NaN or Inf."""
    return facts.stats is not None and bool(facts.stats.nan or facts.stats.inf)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A tensor that is not finite where it matters, and the call there."""

    facts: TensorFacts
    reach: Reach
    call: Call | None = None


def arrivals_at(call: Call) -> Iterator[Arrival]:
    """The tensors of a call that are not finite, and must be: losses, and results of models that learn or are NaN."""
    what = operation(call.kind, call.name)
    if what.runs_backward:
        yield from (Arrival(facts, "loss", call) for facts in filter(is_nonfinite, call.inputs))
    elif what.own in LEAVING or not literals(call.result).is_finite:
        yield from (Arrival(facts, "number", call) for facts in filter(is_nonfinite, call.inputs))
    elif call.kind == "module" and call.parent is None:
        bad = [facts for facts in filter(is_nonfinite, call.outputs) if facts.requires_grad or has_nan(facts)]
        yield from (Arrival(facts, "model", call) for facts in bad)


def has_nan(facts: TensorFacts) -> bool:
    """Whether a tensor contains NaN."""
    return facts.stats is not None and facts.stats.nan > 0


def contents(marks: tuple[FiniteMark, ...]) -> Finiteness:
    """What some tensors contain together that is not finite."""
    return union(mark.read().finiteness for mark in marks)


def bad_facts(node: GradientMarks) -> TensorFacts:
    """The facts of the first gradient that left a node and is not finite."""
    layouts = zip(node.outgoing, node.layouts, strict=True)
    shape, dtype, device, *_ = next(layout for mark, layout in layouts if mark.read().finiteness != FINITE)
    return TensorFacts(-1, sizes(shape or ()), short_dtype(dtype), str(device))


def update_finding(check: ProbeChecks, update: UpdateMarks) -> Finding | None:
    """The finding of the parameters that a step of an optimizer has made not finite."""
    steps = update.steps
    pairs = zip(update.parameters, update.marks, strict=True)
    bad = [parameter for parameter, mark in pairs if mark is not None and is_bad(mark.read())]
    new = [parameter for parameter in bad if id(parameter) not in steps.bad]
    steps.bad.update(map(id, new))
    if not new or check.checks.has_found:
        return None
    first: Tensor = new[0]
    path = parameter_path(check.probe, first)
    if check.checks.is_allowed("", path):
        return None
    check.checks.has_found = True
    return NonFiniteUpdate(
        path=path,
        site=site_at(update.place),
        output=facts_of(first),
        index=first_bad(first, nan=finiteness_of(first).nan),
        optimizer=steps.name,
        rate=steps.rate,
        count=len(new),
        is_late=True,
    )


def is_bad(extremes: Extremes) -> bool:
    """Whether there is NaN or Inf."""
    return extremes.finiteness != FINITE
