"""Which calls are the cause of a difference, and which differ only because of what went into them.

The units of two runs are taken in the order of the run. A pair whose inputs agree and whose output does not is a
cause, as is one with another argument, or a stretch of calls that the other run lacks, once what comes
out of it is seen to differ. All that such a tensor goes into, and that differs, follows.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import Any

from insitu.trace.compare.arguments import Argument, differing_arguments, differing_settings
from insitu.trace.compare.blame import Blame, Facts, Lineage, described, joined, promoted
from insitu.trace.compare.closeness import NOTHING_DIFFERS, Closeness, Tolerance, basis, close_plain, weakest, worst
from insitu.trace.compare.cuts import learns_unseen
from insitu.trace.compare.manner import apart, casts, exception, has_nan, is_loose, is_reshaped, places, texts
from insitu.trace.compare.past import Past, kind_of_cause
from insitu.trace.compare.stops import Side, inputs
from insitu.trace.compare.units import NONE, Numbers, Unit
from insitu.trace.event import Call, TensorFacts, Variable, tensors
from insitu.trace.operation import Operation


class Judge:
    """Goes through the units once and notes in each what is found."""

    def __init__(self, a: Side, b: Side, tolerance: Tolerance) -> None:
        self.evidence: Counter[Any] = Counter()
        self.lineage = Lineage(a, b, tolerance)
        self.past = Past(self.lineage)
        self.tolerance = tolerance
        self._sides = (a, b)
        self._begun: dict[int, Unit] = {}
        self._around: list[Unit] = []
        self._raised: Unit | None = None

    def __call__(self, units: list[Unit]) -> None:
        """Judge all units, in the order of the run."""
        self.past.units = units
        for unit in units:
            unit.around = tuple(self._around) if self._around else ()
            if not unit.matched:
                self._stretch(unit)
            elif unit.a[0].role == "begin":
                self._begin(unit)
            elif unit.a[0].role == "end":
                self._end(unit)
            elif unit.a[0].role == "variable":
                self._variable(unit)
            else:
                self._call(unit)
                self._raised = self._raised if unit.raised else None
            self.past.note(unit)
        for unit in units:
            if unit.reshaped and not (unit.used or unit.differs):
                self._result_of_other_shape(unit)

    def _result_of_other_shape(self, unit: Unit) -> None:
        """What nothing uses has the same values in another shape: for whoever gets it, that is another result."""
        unit.roots = promoted(unit.origin or unit, None, Closeness(False, "structure", measure="shape"))
        unit.differs, unit.seen, unit.delta, unit.measure = True, None, None, "shape"

    def _call(self, unit: Unit) -> None:
        """A pair of calls: what goes in, how they are made, what comes out."""
        a, b = unit.a[0].event, unit.b[0].event
        assert type(a) is Call and type(b) is Call
        what = unit.a[0].operation
        into_a, into_b = self._inputs(a, b, what)
        blame = self.lineage.blame(unit, into_a, into_b)
        self.lineage.made(unit)
        out = NOTHING_DIFFERS if what.is_uninitialized else self._output(unit, a, b)
        if blame.roots and out.drifts and out.certainty == "statistics":
            out = worst([self._doubted(left, right) for left, right in zip(a.outputs, b.outputs, strict=True)])
        self._manner(unit, a, b, blame, (into_a, into_b))
        self.past.cuts.pair(unit, (into_a, into_b), a, b)
        if what.runs_backward:
            self._goes_backward(unit, a, b, blame)
        self._decide(unit, blame, out, (a, into_a))
        self.past.generators.note(unit, out)

    def _goes_backward(self, unit: Unit, a: Call, b: Call, blame: Blame) -> None:
        """A backward pass: what differs in the loss, or is cut off from it, shows in the gradients."""
        cuts = self.past.cuts.behind(unit, (a.inputs, b.inputs))
        if cuts:
            blame.roots = joined(blame.roots, self.past.cuts.reach_backward(cuts, self.past.units))
            unit.roots, unit.differs = blame.roots, True
        self.past.reach_results(blame.roots)

    def _inputs(self, a: Call, b: Call, what: Operation) -> tuple[Facts, Facts]:
        """The tensors that go in; those of `x + y` may be the other way round."""
        into_a, into_b = inputs(a), inputs(b)
        if what.commutes and len(into_a) == 2 and len(into_b) == 2:
            crossed = (self.lineage.close(into_a[0], into_b[1]), self.lineage.close(into_a[1], into_b[0]))
            straight = self.lineage.close(into_a[0], into_b[0])
            if straight.same is False and all(pair.same for pair in crossed):
                return into_a, (into_b[1], into_b[0])
        return into_a, into_b

    def _output(self, unit: Unit, a: Call, b: Call) -> Closeness:
        """Compare what comes out; the worst of it."""
        if a.raised is not None or b.raised is not None:
            return NOTHING_DIFFERS
        if type(a.result) is TensorFacts and type(b.result) is TensorFacts:
            found = [self._tensors(unit, a.result, b.result)]
        else:
            outs_a, outs_b = a.outputs, b.outputs
            if len(outs_a) != len(outs_b):
                return Closeness(False, "structure", measure="number of outputs")
            found = [self._tensors(unit, left, right) for left, right in zip(outs_a, outs_b, strict=True)]
            if not outs_a and not (a.result is None and b.result is None):
                found.append(self._plain(a.result, b.result))
        return worst(found)

    def _tensors(self, unit: Unit, a: TensorFacts, b: TensorFacts) -> Closeness:
        found = self.lineage.close(a, b)
        self.evidence[found.certainty if found.same is not False else basis(a, b)] += 1
        if found.same is False:
            self.lineage.bad[0].add(id(a))
            self.lineage.bad[1].add(id(b))
        return found

    def _doubted(self, a: TensorFacts, b: TensorFacts) -> Closeness:
        found = self.lineage.doubt(a, b)
        if found.same is False:
            self.lineage.bad[0].add(id(a))
            self.lineage.bad[1].add(id(b))
        return found

    def _plain(self, a: Any, b: Any) -> Closeness:
        rtol, atol = self.tolerance.of("f32", "f32")
        return close_plain(a, b, rtol, atol) or NOTHING_DIFFERS

    def _manner(self, unit: Unit, a: Call, b: Call, blame: Blame, into: tuple[Facts, Facts]) -> None:
        """How the calls are made: arguments, exceptions, dtypes, devices."""
        name = unit.a[0].name
        arguments = differing_arguments(a, b, name)
        if arguments or len(into[0]) != len(into[1]) or blame.rewired:
            self._made_otherwise(unit, a, arguments, blame, into)
        unit.own += texts(differing_settings(a, b)) if a.kind == "module" else ()
        self._exception(unit, a, b)
        if a.kind == "module" and a.name != b.name:
            unit.own += (apart("the class", a.name, b.name),)
        elif name != unit.b[0].name:
            unit.notes += (apart("the call", name, unit.b[0].name),)
        layout = places(a, b)
        if layout:
            unit.notes += layout
            unit.loose, unit.reshaped = is_loose(a, b), is_reshaped(a, b)

    def _exception(self, unit: Unit, a: Call, b: Call) -> None:
        if a.raised != b.raised:
            unit.raised = True
            unit.own += (exception(a, b),)

    def _made_otherwise(
        self, unit: Unit, a: Call, arguments: list[Argument], blame: Blame, into: tuple[Facts, Facts]
    ) -> None:
        """Note other arguments; those that came out of an earlier call that differs follow from it."""
        followed = [self.past.numbers.roots_of(left, right) for _, left, right in arguments]
        if followed and all(followed):
            blame.roots = joined(blame.roots, *followed)
            arguments = []
        what = unit.a[0].operation
        unit.own += texts(arguments, what)
        if len(into[0]) != len(into[1]):
            unit.own += (apart("the number of tensors", len(into[0]), len(into[1])),)
        others = (described(index, into[0], what, a.kwargs) for index in blame.rewired)
        unit.own += tuple(f"{other} is another tensor" for other in others)

    def _decide(self, unit: Unit, blame: Blame, out: Closeness, called: tuple[Call, Facts]) -> None:
        """Whether a pair of calls is a cause, follows, or is the same."""
        unit.taken, unit.blamed = blame.roots, joined(blame.roots, blame.faint)
        unit.after = bool(blame.roots or blame.origins)
        unit.certainty = weakest(blame.certainty, out.certainty)
        unit.delta, unit.measure = out.delta, out.measure
        unit.input_drift = blame.drift
        call, into = called
        if blame.given and not blame.roots:
            self._given(unit, blame, called)
            if out.same:
                unit.seen = out.certainty
                self._lose(unit, unit.roots)
        elif out.same is False or unit.raised:
            self._differs(unit, blame, out, called)
        else:
            self._agrees(unit, blame, out, called)
        if not blame.unknown or unit.roots != {unit.number}:
            return
        unit.unknown = tuple(described(index, into, unit.a[0].operation, call.kwargs) for index in blame.unknown)

    def _given(self, unit: Unit, blame: Blame, called: tuple[Call, Facts]) -> None:
        """A call that is given another tensor, which no call in the trace has made."""
        call, into = called
        unit.differs = True
        unit.roots = self.past.carried(call, tuple(into[index] for index in blame.given))
        if unit.roots:
            return
        unit.kind, unit.roots = "input", frozenset((unit.number,))
        unit.own = tuple(described(index, into, unit.a[0].operation, call.kwargs) for index in blame.given)
        if call.parent is not None and any(into[index].type != "Parameter" for index in blame.given):
            unit.notes += ("not made by a call that was recorded",)

    def _lose(self, unit: Unit, roots: Numbers) -> None:
        """Note a difference that goes into a call and does not come out, in which much may be lost."""
        if roots and (unit.a[0].operation.decides or has_nan(unit.a[0].event)):
            self.past.inside |= roots

    def _differs(self, unit: Unit, blame: Blame, out: Closeness, called: tuple[Call, Facts]) -> None:
        unit.differs = True
        call, _ = called
        if unit.raised and self._raised is None:
            self._raised = unit
        unit.roots = self.past.followed(unit, blame, out, called)
        if not unit.roots:
            unit.roots = frozenset((unit.number,))
            unit.kind = kind_of_cause(unit, blame, called)
        other = unit.b[0].event
        if type(other) is Call and type(call.result) is not TensorFacts and not call.outputs:
            self.past.numbers.note(call.result, other.result, unit.roots)

    def _agrees(self, unit: Unit, blame: Blame, out: Closeness, called: tuple[Call, Facts]) -> None:
        """An output that is the same, or of which nothing is known: what may still be wrong with it.

        Values in another order have the same statistics, and still have them after a call with that tensor alone.
        """
        _, into = called
        what, loose = unit.a[0].operation, unit.loose
        if out.drifts:
            _drift(unit, blame, out)
        if out.same:
            self._lose(unit, blame.roots)
            unit.seen = out.certainty
            if out.certainty == "values" and not loose:
                unit.blamed = unit.blamed if out.drifts else NONE
                return
        if what.draws == "order":
            unit.origin, unit.kind = unit, "random"
            unit.blamed = joined(unit.blamed, self.past.drawn(unit, out))
        elif unit.own or (loose and not blame.origins):
            unit.origin = unit
        elif blame.origins and (loose or out.same is None or len(into) == 1 or what.is_move):
            unit.origin = blame.origins[0]

    def _begin(self, unit: Unit) -> None:
        """A module or a watched function that is called: with which arguments."""
        a, b = unit.a[0].event, unit.b[0].event
        assert type(a) is Call and type(b) is Call
        self._begun[a.id] = unit
        blame = self.lineage.blame(unit, a.inputs, b.inputs, using=False)
        unit.after = bool(blame.roots or blame.origins)
        unit.own = texts(differing_arguments(a, b, unit.a[0].name), unit.a[0].operation)
        unit.notes = texts(differing_settings(a, b))
        if unit.a[0].operation.runs_backward:
            self._goes_backward(unit, a, b, blame)
        if blame.given and not blame.roots:
            self._given(unit, blame, (a, a.inputs))
            worst_of = worst([self.lineage.close(a.inputs[index], b.inputs[index]) for index in blame.given])
            unit.delta, unit.measure, unit.certainty = worst_of.delta, worst_of.measure, worst_of.certainty
        unit.shown = bool(unit.own)
        if unit.own or unit.notes:
            self._around.append(unit)

    def _end(self, unit: Unit) -> None:
        """What comes out of a module or a watched function: what lies in it made it, or nobody saw who did."""
        a, b = unit.a[0].event, unit.b[0].event
        assert type(a) is Call and type(b) is Call
        begun = self._begun.get(a.id)
        if begun is not None and begun in self._around:
            self._around.remove(begun)
        looked = self.lineage.blame(unit, a.outputs, b.outputs, using=False)
        if begun is not None and a.outputs and not (looked.roots or looked.given or looked.rewired or looked.unknown):
            begun.seen = looked.certainty
        self._comes_out(unit, begun, looked)
        own = any(facts.producer == a.id for facts in a.outputs) or not (a.outputs or b.outputs)
        if own:
            self.lineage.made(unit)
        if self._raised is None:  # else it only passes through here
            self._exception(unit, a, b)
        unit.shown = own and bool(a.outputs) and a.raised is None and b.raised is None
        out = self._output(unit, a, b) if own else NOTHING_DIFFERS
        if out.same is not False and not unit.raised:
            return
        unit.shown = True
        blame = self.lineage.blame(unit, a.inputs, b.inputs)
        latest = self.past.latest
        if latest is not None and begun is not None and latest.number > begun.number:
            blame.roots = joined(blame.roots, latest.roots)
        self._decide(unit, blame, out, (a, a.inputs))

    def _comes_out(self, unit: Unit, begun: Unit | None, looked: Blame) -> None:
        """Note which causes show in what a module returns: those within it, and all if it is the outermost one."""
        a, b = unit.a[0].event, unit.b[0].event
        assert type(a) is Call and type(b) is Call
        if a.kind != "module" or a.module is None:
            return
        if a.parent is None and not a.module.leaf:
            self.past.reach_results(looked.roots)
        is_same_module = unit.a[0].exact == unit.b[0].exact and not a.module.leaf
        if begun is not None and is_same_module:
            self.past.inside |= {number for number in looked.roots if number > begun.number}
        if a.parent is None:
            self._may_go_backward(unit, a, b)

    def _may_go_backward(self, unit: Unit, a: Call, b: Call) -> None:
        """What the model returns: if a backward pass that was not recorded begins with it, cuts show in gradients."""
        cuts = self.past.cuts.behind(unit, (a.outputs, b.outputs))
        if cuts and self._learns_unseen:
            unit.roots, unit.differs = self.past.cuts.reach_backward(cuts, self.past.units), True
            self.past.reach_results(unit.roots)

    @cached_property
    def _learns_unseen(self) -> bool:
        """Whether both runs went backward, and no call that did so was recorded."""
        return all(map(learns_unseen, self._sides))

    def _variable(self, unit: Unit) -> None:
        """A variable after it changed: it follows from what made its tensors, or from what differed before."""
        a, b = unit.a[0].event, unit.b[0].event
        assert type(a) is Variable and type(b) is Variable
        held = (tuple(tensors(a.value)), tuple(tensors(b.value)))
        found = [self._tensors(unit, left, right) for left, right in zip(*held, strict=False)]
        found.append(self._plain(a.value, b.value))
        out = worst(found)
        unit.delta, unit.measure, unit.certainty = out.delta, out.measure, out.certainty
        if out.same is not False:
            unit.seen = out.certainty
            return
        blame = self.lineage.blame(unit, *held, using=False)
        unit.differs = True
        before = self.past.first
        unit.roots = blame.roots or (before.roots if before is not None else NONE) or frozenset((unit.number,))

    def _stretch(self, unit: Unit) -> None:
        """Calls that the other run does not make: what goes into them; what comes out is seen where it is used."""
        self.lineage.made(unit)
        self.lineage.feed(unit)
        every = (*unit.a, *unit.b)
        if not all(stop.operation.is_copy for stop in every) or (unit.origin is None and any(map(casts, every))):
            unit.origin = unit
        unit.suspects = joined(unit.suspects, frozenset((unit.number,)))
        self.past.cuts.stretch(unit)
        self.past.generators.note(unit)
        if self._raised is not None and not (unit.a and unit.b):
            unit.roots, unit.differs = self._raised.roots, True  # the other run has ended
        unit.blamed = unit.taken = unit.blamed or self.past.backward(unit)
        self._raises(unit)
        if unit.last and not unit.differs:
            self._ending(unit)

    def _raises(self, unit: Unit) -> None:
        """A call that only one run makes, and that ends in an exception."""
        ends = [stop.event.raised for stop in (*unit.a, *unit.b) if type(stop.event) is Call and stop.event.raised]
        if ends and not unit.differs:
            unit.raised, unit.kind = True, "raised"
            unit.own += (f"raises {ends[0]}",)
            promoted(unit)
            self._raised = self._raised or unit

    def _ending(self, unit: Unit) -> None:
        """The last calls of a run: nobody uses what they make, so it is compared here."""
        leaving = [_leaving([stop.event for stop in stops]) for stops in (unit.a, unit.b)]
        found = [self.lineage.close(left, right) for left, right in zip(*leaving, strict=False)]
        if len(leaving[0]) != len(leaving[1]) and unit.origin is unit:
            found.append(Closeness(False, "structure", measure="last call"))
        out = worst(found)
        if out.same:
            unit.seen, unit.delta, unit.measure = out.certainty, out.delta, out.measure
        elif out.same is False:
            promoted(unit, None, out)


def _drift(unit: Unit, blame: Blame, out: Closeness) -> None:
    """Note that what a unit makes is off within the tolerance, and which units may have begun it."""
    begins = bool(unit.own) or unit.loose
    unit.suspects = joined(blame.suspects, frozenset((unit.number,)) if begins else NONE)
    unit.drift = max(unit.drift, out.delta or 0.0)


def _leaving(events: list[Any]) -> list[TensorFacts]:
    """What a stretch of calls makes and does not use itself."""
    calls = [event for event in events if type(event) is Call]
    used = {id(facts) for call in calls for facts in call.inputs}
    return [facts for call in calls for facts in call.outputs if id(facts) not in used]
