"""Which calls are the cause of a difference, and which differ only because of what went into them.

The units of two runs are taken in the order of the run. A pair whose inputs agree and whose output does not is a
cause, as is one that is made with another argument, or a stretch of calls that the other run lacks, once what comes
out of it is seen to differ. All that such a tensor goes into, and that differs, follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from insitu.trace.compare.arguments import Argument, differing_arguments, differing_settings
from insitu.trace.compare.blame import Blame, Facts, Lineage, described, joined, promoted
from insitu.trace.compare.closeness import Closeness, Tolerance, close_plain, weakest
from insitu.trace.compare.manner import casts, draws, exception, places, texts
from insitu.trace.compare.operation import COMMUTING, MOVING, READING, UNCHANGING, UNINITIALISED
from insitu.trace.compare.stops import Side, inputs
from insitu.trace.compare.units import NONE, Numbers, Unit
from insitu.trace.event import Call, TensorFacts, Variable, tensors


class Judge:
    """Goes through the units once and notes in each what is found."""

    def __init__(self, a: Side, b: Side, tolerance: Tolerance) -> None:
        self.evidence: Counter[Any] = Counter()
        self.escaped: set[int] = set()
        self.lineage = Lineage(a, b, tolerance)
        self._tolerance = tolerance
        self._begun: dict[int, Unit] = {}
        self._around: list[Unit] = []
        self._latest: Unit | None = None
        self._raised: Unit | None = None
        self._first: Unit | None = None
        self._scalars: dict[tuple[Any, Any], frozenset[int]] = {}

    def __call__(self, units: Iterable[Unit]) -> None:
        """Judge all units, in the order of the run."""
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
            if unit.differs:
                self._latest = unit
                self._first = self._first or unit

    def _call(self, unit: Unit) -> None:
        """A pair of calls: what goes in, how they are made, what comes out."""
        a, b = unit.a[0].event, unit.b[0].event
        assert type(a) is Call and type(b) is Call
        name = unit.a[0].name
        into_a, into_b = self._inputs(a, b, name)
        blame = self.lineage.blame(unit, into_a, into_b)
        self.lineage.made(unit)
        out = NOTHING_DIFFERS if name in UNINITIALISED else self._output(unit, a, b)
        self._manner(unit, a, b, blame, (into_a, into_b))
        self._decide(unit, blame, out, (a, into_a))

    def _inputs(self, a: Call, b: Call, name: str) -> tuple[Facts, Facts]:
        """The tensors that go in; those of `x + y` may be the other way round."""
        into_a, into_b = inputs(a), inputs(b)
        if name in COMMUTING and len(into_a) == 2 and len(into_b) == 2:
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
                return Closeness(False, "structure", measure=f"{len(outs_a)} | {len(outs_b)} outputs")
            found = [self._tensors(unit, left, right) for left, right in zip(outs_a, outs_b, strict=True)]
            if not outs_a and not (a.result is None and b.result is None):
                found.append(self._plain(a.result, b.result))
        return worst(found)

    def _tensors(self, unit: Unit, a: TensorFacts, b: TensorFacts) -> Closeness:
        found = self.lineage.close(a, b)
        self.evidence[found.certainty] += 1
        if found.same is False:
            self.lineage.bad[0].add(id(a))
            self.lineage.bad[1].add(id(b))
        return found

    def _plain(self, a: Any, b: Any) -> Closeness:
        rtol, atol = self._tolerance.of("f32", "f32")
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
            unit.own += (f"{a.name} | {b.name}",)
        elif name != unit.b[0].name:
            unit.notes += (f"{name} | {unit.b[0].name}",)
        unit.notes += places(a, b)

    def _exception(self, unit: Unit, a: Call, b: Call) -> None:
        if a.raised != b.raised:
            unit.raised = True
            unit.own += (exception(a, b),)

    def _made_otherwise(
        self, unit: Unit, a: Call, arguments: list[Argument], blame: Blame, into: tuple[Facts, Facts]
    ) -> None:
        """Note other arguments; those that came out of an earlier call that differs follow from it."""
        known = self._scalars
        followed = [known.get((_key(left), _key(right))) for _, left, right in arguments] if known else []
        if followed and all(roots is not None for roots in followed):
            blame.roots = joined(blame.roots, *(roots for roots in followed if roots is not None))
            arguments = []
        unit.own += texts(arguments)
        if len(into[0]) != len(into[1]):
            unit.own += (f"{len(into[0])} | {len(into[1])} tensors",)
        name = unit.a[0].name
        others = (described(index, into[0], name, a.kwargs) for index in blame.rewired)
        unit.own += tuple(f"{other} is another tensor" for other in others)

    def _decide(self, unit: Unit, blame: Blame, out: Closeness, called: tuple[Call, Facts]) -> None:
        """Whether a pair of calls is a cause, follows, or is the same."""
        unit.blamed = joined(blame.roots, blame.faint)
        unit.after = bool(blame.roots or blame.origins)
        unit.certainty = weakest(blame.certainty, out.certainty)
        unit.delta, unit.measure = out.delta, out.measure
        call, into = called
        if blame.given and not blame.roots:
            self._given(unit, blame, called)
        elif out.same is False or unit.raised:
            self._differs(unit, blame, out, called)
        else:
            self._agrees(unit, blame, out, lone=len(into) == 1)
        if not blame.unknown or unit.roots != {unit.number}:
            return
        unit.unknown = tuple(described(index, into, unit.a[0].name, call.kwargs) for index in blame.unknown)

    def _given(self, unit: Unit, blame: Blame, called: tuple[Call, Facts]) -> None:
        """A call that is given another tensor, which no call in the trace has made."""
        call, into = called
        unit.differs = True
        if self._latest is not None and self._may_follow(call, tuple(into[index] for index in blame.given)):
            unit.roots = self._latest.roots
            return
        unit.kind, unit.roots = "input", frozenset((unit.number,))
        unit.own = tuple(described(index, into, unit.a[0].name, call.kwargs) for index in blame.given)
        if call.parent is not None and any(into[index].type != "Parameter" for index in blame.given):
            unit.notes += ("not made by a call that was recorded",)

    def _differs(self, unit: Unit, blame: Blame, out: Closeness, called: tuple[Call, Facts]) -> None:
        unit.differs = True
        call, into = called
        name = unit.a[0].name
        if unit.raised and self._raised is None:
            self._raised = unit
        if blame.roots:
            unit.roots = blame.roots
        elif unit.own:
            unit.roots, unit.kind = frozenset((unit.number,)), "raised" if unit.raised else "argument"
        elif blame.faint or self._backward(unit):
            unit.roots = blame.faint or self._backward(unit)
        elif call.name in READING and self._latest is not None:
            unit.roots = self._latest.roots
        elif blame.origins:
            unit.roots = joined(*(promoted(origin, None, out, unit) for origin in blame.origins))
        elif self._latest is not None and blame.outside and self._may_follow(call, into):
            unit.roots = self._latest.roots
        else:
            unit.roots = frozenset((unit.number,))
            given = blame.outside and name in MOVING and len(into) == 1
            unit.kind = "input" if given or call.name in READING else "random" if draws(unit.a[0]) else "output"
        if call.result is not None and type(call.result) is not TensorFacts and not call.outputs:
            other = unit.b[0].event
            self._scalars[(_key(call.result), _key(other.result if type(other) is Call else None))] = unit.roots

    def _backward(self, unit: Unit) -> Numbers:
        """Why the forward calls differ whose gradients these backward calls compute."""
        roots = NONE
        for side, stops in enumerate((unit.a, unit.b)):
            calls = [stop.event for stop in stops if type(stop.event) is Call]
            forward = [self.lineage.forward(side, call) for call in calls]
            roots = joined(roots, *(other.roots for other in forward if other is not None))
        return roots

    def _may_follow(self, call: Call, facts: Facts) -> bool:
        """Whether tensors may be others because the runs have parted before; parameters only since an earlier step."""
        if self._first is None:
            return False
        began = (*self._first.a, *self._first.b)[0].event.step
        if call.step != began:  # an optimizer has been at work since
            return True
        unseen = call.kind in ("module", "python") or call.parent is None
        return unseen and any(tensor.type != "Parameter" for tensor in facts)

    def _agrees(self, unit: Unit, blame: Blame, out: Closeness, *, lone: bool) -> None:
        """An output that is the same, or of which nothing is known: what may still be wrong with it.

        Values in another order have the same statistics, and still have them after a call with that tensor alone.
        """
        loose = any(note.startswith("dtype") for note in unit.notes)
        if out.same and blame.roots and not unit.own and not unit.notes:
            self.escaped |= blame.roots  # a difference that went in, and was lost in it
        if out.same:
            unit.seen = out.certainty
            if out.certainty == "values" and not loose:
                unit.blamed = unit.blamed if out.delta else NONE
                return
        if unit.own or (loose and not blame.origins):
            unit.origin = unit
        elif blame.origins and (loose or out.same is None or lone or unit.a[0].name in MOVING):
            unit.origin = blame.origins[0]

    def _begin(self, unit: Unit) -> None:
        """A module or a watched function that is called: with which arguments."""
        a, b = unit.a[0].event, unit.b[0].event
        assert type(a) is Call and type(b) is Call
        self._begun[a.id] = unit
        blame = self.lineage.blame(unit, a.inputs, b.inputs, using=False)
        unit.after = bool(blame.roots or blame.origins)
        unit.own = texts(differing_arguments(a, b, unit.a[0].name))
        unit.notes = texts(differing_settings(a, b))
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
        if self._latest is not None and begun is not None and self._latest.number > begun.number:
            blame.roots = joined(blame.roots, self._latest.roots)
        self._decide(unit, blame, out, (a, a.inputs))

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
        before = self._first.roots if self._first is not None else NONE
        unit.roots = blame.roots or before or frozenset((unit.number,))

    def _stretch(self, unit: Unit) -> None:
        """Calls that the other run does not make: what goes into them; what comes out is seen where it is used."""
        self.lineage.made(unit)
        for side, stops in enumerate((unit.a, unit.b)):
            for stop in stops:
                for facts in stop.event.inputs if type(stop.event) is Call else ():
                    maker = self.lineage.maker(side, facts)
                    if maker is None or maker is unit:
                        continue
                    maker.used = True
                    if maker.origin is not None:
                        unit.after, unit.origin = True, unit.origin or maker.origin
                    if id(facts) in self.lineage.bad[side] or not maker.matched or not _is_known(facts):
                        unit.blamed = joined(unit.blamed, maker.roots or (maker.blamed if maker.matched else NONE))
        every = (*unit.a, *unit.b)
        if not all(stop.name in UNCHANGING for stop in every) or (unit.origin is None and any(map(casts, every))):
            unit.origin = unit
        if self._raised is not None and not (unit.a and unit.b):
            unit.roots, unit.differs = self._raised.roots, True  # the other run has ended
        unit.blamed = unit.blamed or self._backward(unit)
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
            unit.seen = out.certainty
        elif out.same is False:
            promoted(unit, None, out)


NOTHING_DIFFERS = Closeness(None, "values")


def worst(found: Iterable[Closeness]) -> Closeness:
    """The largest difference, if there is one; else what they have in common."""
    every = list(found)
    if len(every) == 1:
        return every[0]
    different = [one for one in every if one.same is False]
    if different:
        return max(different, key=lambda one: one.delta or 0.0)
    known = [one for one in every if one.same]
    if not known:
        return every[0] if every else NOTHING_DIFFERS
    if len(known) < len(every) and any(one.certainty == "structure" for one in every):
        return Closeness(None, "structure")
    largest = max(known, key=lambda one: one.delta or 0.0)
    return Closeness(True, weakest(*(one.certainty for one in known)), largest.delta, largest.measure)


def _is_known(facts: TensorFacts) -> bool:
    return facts.stats is not None or facts.kept is not None


def _leaving(events: list[Any]) -> list[TensorFacts]:
    """What a stretch of calls makes and does not use itself."""
    calls = [event for event in events if type(event) is Call]
    used = {id(facts) for call in calls for facts in call.inputs}
    return [facts for call in calls for facts in call.outputs if id(facts) not in used]


def _key(item: Any) -> Any:
    return item if isinstance(item, (int, float, str, bool, complex)) else id(item)
