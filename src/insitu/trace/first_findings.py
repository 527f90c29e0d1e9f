"""The findings of the first NaN and the first Inf in the events of a trace, as a guard would report them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from insitu.trace.event import Call, TensorFacts, Variable
from insitu.trace.explain.range_origins import MOST_STEPS
from insitu.trace.findings import NonFinite, NonFiniteInput, NonFiniteLiteral, NonFiniteResult, TensorOperand
from insitu.trace.kept_values import with_statistics
from insitu.trace.nonfinite import NonFiniteEvent, finiteness_of, nonfinite_among, passage_of
from insitu.trace.operation import operation
from insitu.trace.origin import Beginning, beginning

Events = Mapping[int, Call | Variable]


def first_origins(found: Mapping[int, NonFiniteEvent]) -> list[int]:
    """The calls where the first NaN began and, if that was earlier, the first Inf, in the order in which they ended.

    Where no call is known in which it began, the first event that contains it: a variable.
    """
    wrong = {id: event for id, event in found.items() if event.is_wrong}
    origins = [id for id, event in wrong.items() if event.is_origin] or list(wrong)
    first = origins[:1]
    nan = [id for id in origins if wrong[id].contents.nan][:1]
    return list(dict.fromkeys([*first, *nan]))


def nonfinite_finding(call: Call, events: Events) -> NonFinite:
    """The finding of a call in which NaN or Inf began; `events` are those that may have produced its inputs, by id."""
    worst = _worst(nonfinite_among(call.outputs))
    output = with_statistics(worst)
    contents, passage = finiteness_of(output), passage_of(call, worst)
    begins = beginning(passage, contents)
    if begins is Beginning.EARLIER:
        given = [facts for facts in nonfinite_among(call.inputs) if facts is not worst]
        return NonFiniteInput(
            call=call,
            path=call.path,
            site=call.site,
            phase=call.phase,
            output=output,
            operands=tuple(map(TensorOperand, given)),
        )
    if begins is not Beginning.HERE:
        return NonFiniteLiteral(call=call, path=call.path, site=call.site, phase=call.phase, output=output)
    return NonFiniteResult(
        kind="nan" if contents.nan else "inf",
        call=call,
        path=call.path,
        site=call.site,
        phase=call.phase,
        output=output,
        operands=tuple(_operand(facts, worst, events) for facts in call.inputs),
        has_finite_inputs=passage.has_finite_inputs,
        has_positive_infinity=_has_positive_infinity(call),
    )


def _has_positive_infinity(call: Call) -> bool | None:
    """Whether an input contains +inf; None if only statistics are known, which do not tell the sign."""
    if any(facts.stats is not None and facts.stats.inf > 0 for facts in call.inputs):
        return None
    return any(finiteness_of(facts).inf for facts in call.inputs)


def _worst(bad: list[TensorFacts]) -> TensorFacts:
    """The first tensor that contains NaN, else the first that contains Inf."""
    return next((facts for facts in bad if finiteness_of(facts).nan), bad[0])


def _operand(facts: TensorFacts, output: TensorFacts, events: Events) -> TensorOperand:
    """A tensor that went into a call; one that the call has changed is not what it was."""
    producer = _producer(facts, events)
    if facts is output:
        return TensorOperand(replace(facts, stats=None, kept=None), "", producer, _source(producer, events))
    return TensorOperand(with_statistics(facts), "", producer, _source(producer, events))


def _producer(facts: TensorFacts, events: Events) -> Call | None:
    if facts.producer is None:
        return None
    producer = events.get(facts.producer)
    if isinstance(producer, Call):
        return producer
    return None


def _source(call: Call | None, events: Events) -> Call | None:
    """The call that computed the numbers of a result, behind all calls that only pass them on."""
    for _ in range(MOST_STEPS):
        if call is None or call.kind != "function":
            return None
        if not operation(call.kind, call.name).passes_on:
            return call
        call = next((_producer(facts, events) for facts in call.inputs), None)
    return None
