"""What goes into a call, compared: whether it agrees, and if not, because of which earlier call it does not."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.trace.compare.closeness import Certainty, Closeness, Tolerance, close, weakest
from insitu.trace.compare.stops import Side
from insitu.trace.compare.units import NONE, Numbers, Unit
from insitu.trace.diff import Compared
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import Operation

MOST_ROOTS = 16  # that are remembered for one call

Facts = tuple[TensorFacts, ...]


@dataclass(slots=True, eq=False)
class Blame:
    """What is known of the inputs of a pair of calls.

    `roots` are the units because of which they differ, `faint` those because of which they are not quite the same,
    though close, and `origins` those because of which they may differ unseen; `given` are inputs
    that differ from the start, `rewired` those that another call made, `unknown` those of which nothing is known.
    `drift` is how far inputs are off within the tolerance, and `suspects` are the units that may have begun it.
    """

    roots: Numbers = NONE
    faint: Numbers = NONE
    origins: tuple[Unit, ...] = ()
    given: tuple[int, ...] = ()
    rewired: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    outside: bool = False
    certainty: Certainty = "values"
    drift: float = 0.0
    suspects: Numbers = NONE


class Lineage:
    """Who made which tensor in either run, and which pairs of tensors were found to differ."""

    def __init__(self, a: Side, b: Side, tolerance: Tolerance) -> None:
        self._sides = (a, b)
        self._makers: tuple[dict[int, Unit], dict[int, Unit]] = ({}, {})
        self._given: dict[tuple[int, int], Unit] = {}
        self._close: dict[tuple[int, int], Closeness] = {}
        self._tolerance = tolerance
        self._tight = tolerance.tightened()
        self.bad: tuple[set[int], set[int]] = (set(), set())

    def forward(self, side: int, call: Call) -> Unit | None:
        """The unit of the call whose gradient a backward call computes."""
        if call.forward is None:
            return None
        return self._makers[side].get(self._sides[side].within.get(call.forward, call.forward))

    def made(self, unit: Unit) -> None:
        """Note that the calls of this unit are made by it."""
        for side, stops in ((0, unit.a), (1, unit.b)):
            makers = self._makers[side]
            for stop in stops:
                makers[stop.event.id] = unit
                if stop.operation.is_uninitialized or (stop.operation.fills and self._fills(side, stop.event)):
                    unit.blank = True

    def _fills(self, side: int, event: Compared) -> bool:
        """Whether a call fills a part of memory that is as it was found."""
        target = event.inputs[0] if type(event) is Call and event.inputs else None
        maker = self.maker(side, target) if target is not None else None
        return maker is not None and maker.blank

    def maker(self, side: int, facts: TensorFacts) -> Unit | None:
        """The unit that made a tensor; None if it was given, or made where nobody looked."""
        producer = facts.producer
        if producer is None:
            return None
        return self._makers[side].get(self._sides[side].within.get(producer, producer))

    def close(self, a: TensorFacts, b: TensorFacts) -> Closeness:
        """Whether two tensors are the same; each pair is compared once."""
        key = (id(a), id(b))
        found = self._close.get(key)
        if found is None:
            found = self._close[key] = close(a, b, self._tolerance)
        return found

    def doubt(self, a: TensorFacts, b: TensorFacts) -> Closeness:
        """Compare two tensors again whose calls took tensors that differ.

        Statistics hide most of what elements differ by. So a difference that went in is taken for lost only if the
        statistics of what comes out agree within a tenth of the tolerance.
        """
        found = self.close(a, b)
        if found.drifts and found.certainty == "statistics":
            again = close(a, b, self._tight)
            if again.same is False:
                self._close[(id(a), id(b))] = again
                return again
        return found

    def blame(self, unit: Unit, a: Facts, b: Facts, *, using: bool = True) -> Blame:
        """Compare what goes into a pair of calls; with `using` off it is only looked at."""
        found = Blame()
        for index, (left, right) in enumerate(zip(a, b, strict=False)):
            makers = (self.maker(0, left), self.maker(1, right))
            blank = False
            for maker in makers:
                if maker is not None:
                    maker.used |= using
                    blank |= maker.blank
            if blank:
                continue
            closeness = self.close(left, right)
            if closeness.certainty != found.certainty:
                found.certainty = weakest(found.certainty, closeness.certainty)
            if closeness.same is False:
                self._differing(unit, index, (left, right), makers, found, closeness)
            else:
                _agreeing(index, (left, right), makers, closeness, found)
        return found

    def feed(self, unit: Unit) -> None:
        """Note what goes into calls that only one run makes: it cannot be compared with that of the other run."""
        for side, stops in enumerate((unit.a, unit.b)):
            calls = [stop.event for stop in stops if type(stop.event) is Call]
            for facts in [facts for call in calls for facts in call.inputs]:
                maker = self.maker(side, facts)
                if maker is not None and maker is not unit:
                    self._feed(unit, side, facts, maker)

    def _feed(self, unit: Unit, side: int, facts: TensorFacts, maker: Unit) -> None:
        maker.used = True
        if maker.origin is not None:
            unit.after, unit.origin = True, unit.origin or maker.origin
        unit.suspects = joined(unit.suspects, maker.suspects)
        is_unknown = facts.stats is None and facts.kept is None
        if id(facts) in self.bad[side] or not maker.matched or is_unknown:
            unit.blamed = joined(unit.blamed, maker.roots or (maker.blamed if maker.matched else NONE))

    def _differing(
        self,
        unit: Unit,
        index: int,
        pair: tuple[TensorFacts, TensorFacts],
        makers: tuple[Unit | None, Unit | None],
        found: Blame,
        closeness: Closeness,
    ) -> None:
        if makers == (None, None):
            first = self._given.setdefault((id(pair[0]), id(pair[1])), unit)
            if first is unit:
                found.given += (index,)
            else:
                found.roots = joined(found.roots, first.roots)
            return
        one, other = makers
        if one is other and one is not None:
            roots = one.roots or (NONE if _are_others(one, pair) else promoted(one, pair, closeness))
        else:
            at_fault = [maker for maker in makers if maker is not None and (maker.roots or not maker.matched)]
            roots = joined(*(promoted(maker, pair, closeness) for maker in at_fault))
        if roots:
            found.roots = joined(found.roots, roots)
        else:
            found.rewired += (index,)


def _agreeing(
    index: int,
    pair: tuple[TensorFacts, TensorFacts],
    makers: tuple[Unit | None, Unit | None],
    closeness: Closeness,
    found: Blame,
) -> None:
    """What is still to be suspected of an input that agrees, or of which nothing is known."""
    tight = pair[0].dtype == pair[1].dtype and pair[0].shape == pair[1].shape and closeness.certainty == "values"
    if closeness.drifts:
        _drifting(makers, closeness.delta or 0.0, found)
    for maker in makers:
        if maker is None:
            continue
        if closeness.same:
            maker.seen = closeness.certainty if maker.seen is None else weakest(maker.seen, closeness.certainty)
            found.faint = joined(found.faint, maker.blamed) if closeness.delta else found.faint
        else:
            found.roots = joined(found.roots, maker.roots or (maker.blamed if maker.seen is None else NONE))
        if maker.origin is not None and not tight:
            found.origins += (maker.origin,)
    if closeness.same is None:
        found.unknown += (index,)
        found.outside |= makers == (None, None)
        one, other = makers
        matched = one is not None and other is not None and one.matched and other.matched
        if one is not None and matched and (one is not other or _are_others(one, pair)):
            found.rewired += (index,)


def _drifting(makers: tuple[Unit | None, Unit | None], delta: float, found: Blame) -> None:
    """Note an input that is the same within the tolerance, but not exactly."""
    found.drift = max(found.drift, delta)
    for maker in makers:
        if maker is not None:
            maker.drift = max(maker.drift, delta)
            found.suspects = joined(found.suspects, maker.suspects)


def _are_others(maker: Unit, pair: tuple[TensorFacts, TensorFacts]) -> bool:
    """Whether these are two outputs of a pair of calls, but not the same one of both."""
    first, second = maker.a[0].event if maker.a else None, maker.b[0].event if maker.b else None
    if type(first) is not Call or type(second) is not Call or type(first.result) is TensorFacts:
        return False
    places = [
        [index for index, facts in enumerate(call.outputs) if facts is tensor]
        for call, tensor in zip((first, second), pair, strict=True)
    ]
    return bool(places[0] and places[1]) and places[0] != places[1]


def promoted(
    unit: Unit,
    leaving: tuple[TensorFacts, TensorFacts] | None = None,
    closeness: Closeness | None = None,
    seen_at: Unit | None = None,
) -> Numbers:
    """The causes of what a unit makes, which has just been found to differ: those of its inputs, or itself.

    With `seen_at` it was found in what that unit makes of it: how large it is there says nothing of this one.
    """
    if not unit.roots:
        origin = unit.origin
        passed_on = origin is not None and origin is not unit and not unit.blamed
        unit.roots = (
            promoted(origin, None, closeness, seen_at or unit) if origin is not None and passed_on else unit.blamed
        )
        unit.roots = unit.roots or frozenset((unit.number,))
        unit.differs, unit.leaving = True, leaving
        unit.seen_at = seen_at
        if closeness is not None:
            unit.certainty = closeness.certainty
            unit.delta, unit.measure = (closeness.delta, closeness.measure) if seen_at is None else (None, "")
        if unit.own and unit.kind == "output":
            unit.kind = "argument"
    return unit.roots


def joined(*numbers: Numbers) -> Numbers:
    """Several causes as one set; of very many the first ones."""
    if len(numbers) == 2:  # most often they are the same, and then they share one set
        one, other = numbers
        if one is other or one >= other:
            return one
        if one <= other:
            return other
    every = NONE.union(*numbers)
    return every if len(every) <= MOST_ROOTS else frozenset(sorted(every)[:MOST_ROOTS])


def described(index: int, a: Facts, operation: Operation, kwargs: dict[str, object]) -> str:
    """An input by its name, with dtype and shape: `weight f32[24, 8]`."""
    facts = a[index]
    for own, item in kwargs.items():
        if item is facts:
            return f"{own} {facts!r}"
    return f"{operation.input_name(index, len(a))} {facts!r}"
