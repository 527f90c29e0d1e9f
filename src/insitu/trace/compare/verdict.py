"""What was judged, told: a row for each pair of calls, and the causes with the calls where they begin."""

from __future__ import annotations

from functools import cached_property

from insitu.trace.compare.closeness import CERTAINTIES
from insitu.trace.compare.gradients import parting_gradient
from insitu.trace.compare.judge import Judge
from insitu.trace.compare.manner import draws
from insitu.trace.compare.operation import UNCHANGING
from insitu.trace.compare.stops import Side, Stop
from insitu.trace.compare.units import NONE, Unit
from insitu.trace.diff import Cause, Compared, Diff, Difference, Status
from insitu.trace.event import Call, TensorFacts


class Verdict:
    """Turns judged units into rows and causes."""

    def __init__(self, every: list[Unit], judge: Judge, sides: tuple[Side, Side]) -> None:
        self._units = every
        self._judge = judge
        self._sides = sides
        self._causes = self._real() or self._unseen() or parting_gradient(every, judge.lineage)

    def diff(self, notes: list[str], labels: tuple[str, str]) -> Diff:
        """All that was found."""
        evidence = {kind: self._judge.evidence[kind] for kind in reversed(CERTAINTIES)}
        numbers = {number: place for place, number in enumerate(self._causes)}
        rows = [row for unit in self._units if unit.shown for row in self._rows(unit, numbers)]
        causes = [self._cause(self._units[number]) for number in self._causes]
        for unit in self._units:
            if unit.shown and unit.differs:
                for number in unit.roots & numbers.keys():
                    if number != unit.number:
                        causes[numbers[number]].followers += max(len(unit.a), len(unit.b))
        return Diff(rows, causes, notes, evidence, labels)

    def _real(self) -> list[int]:
        """The causes whose effect stays; what other calls make up for again is none."""
        found: set[int] = set()
        staying: set[int] = set(self._judge.escaped)
        for unit in self._units:
            found |= unit.roots
            if not unit.used:
                staying |= unit.roots or (unit.blamed if unit.seen is None else NONE)
        return sorted(
            number
            for number in found
            if number in staying or self._units[number].kind not in ("calls", "argument") or self._units[number].raised
        )

    def _unseen(self) -> list[int]:
        """Where nothing is known to differ: calls that are made otherwise, with an effect that nobody can see."""
        return [unit.number for unit in self._units if _may_matter(unit) and not unit.after]

    def _rows(self, unit: Unit, numbers: dict[int, int]) -> list[Difference]:
        if unit.matched and not (unit.roots or unit.own or unit.notes):  # most of them
            a, b = unit.a[0].event, unit.b[0].event
            return [Difference("same", a, b, "", unit.delta, unit.measure, unit.certainty)]
        known = sorted(numbers[number] for number in unit.roots if number in numbers)
        own = numbers.get(unit.number)
        cause = own if own is not None else known[0] if known else None
        if unit.matched:
            return [self._pair(unit, cause, is_cause=own is not None)]
        facts = (_of_stretch(unit, cause), unit.delta, unit.measure, unit.certainty, cause)
        left = [Difference("only in a", stop.event, None, *facts) for stop in unit.a]
        return left + [Difference("only in b", None, stop.event, *facts) for stop in unit.b]

    def _pair(self, unit: Unit, cause: int | None, *, is_cause: bool) -> Difference:
        a, b = unit.a[0].event, unit.b[0].event
        status: Status = "same"
        texts = [*unit.own, *unit.notes]
        if unit.raised:
            status = "raised"
        elif is_cause:
            status = "argument" if unit.kind == "argument" or not unit.differs else "differs"
        elif cause is not None:
            status = "follows"
        elif unit.roots:
            status, texts = "structure", [*texts, "the same result by other calls"]
        elif unit.own:
            status = "argument"
        elif unit.notes:
            status = "structure"
        what = ", ".join(texts)
        return Difference(status, a, b, what, unit.delta, unit.measure, unit.certainty, cause)

    def _cause(self, unit: Unit) -> Cause:
        return Cause(
            unit.kind if unit.differs or not unit.own else "argument",
            self._beginning(unit, 0),
            self._beginning(unit, 1),
            _why(unit),
            tuple(stop.event for stop in unit.a),
            tuple(stop.event for stop in unit.b),
            self._instead(unit),
            unit.delta,
            unit.measure,
            "structure" if unit.unknown or not unit.differs else unit.certainty,
            unit.unknown,
            seen_at=_event(unit.seen_at) if unit.seen_at is not None else None,
        )

    @cached_property
    def _events(self) -> tuple[dict[int, Compared], dict[int, Compared]]:
        """The events of either side by their id."""
        a = {stop.event.id: stop.event for unit in self._units for stop in unit.a}
        return a, {stop.event.id: stop.event for unit in self._units for stop in unit.b}

    @cached_property
    def _following(self) -> tuple[list[Compared | None], list[Compared | None]]:
        """For each unit, the next event of either side after it that is no beginning or end."""
        found: tuple[list[Compared | None], list[Compared | None]] = ([], [])
        following: list[Compared | None] = [None, None]
        for unit in reversed(self._units):
            for side, stops in enumerate((unit.a, unit.b)):
                found[side].append(following[side])
                here = (stop.event for stop in stops if stop.role in ("call", "variable"))
                following[side] = next(here, following[side])
        for events in found:
            events.reverse()
        return found

    def _instead(self, unit: Unit) -> tuple[Compared, ...]:
        """Where the run goes on that lacks these calls: the call that made what it goes on with, and the next one."""
        if unit.a and unit.b:
            return ()
        lacking = 0 if not unit.a else 1
        maker = None
        if unit.leaving is not None and (producer := unit.leaving[lacking].producer) is not None:
            maker = self._events[lacking].get(self._sides[lacking].within.get(producer, producer))
        following = self._following[lacking][unit.number]
        return tuple(event for event in (maker, following) if event is not None)

    def _beginning(self, unit: Unit, number: int) -> Compared | None:
        """Where a cause begins on one side: of a stretch, the first call that leads to what differs."""
        stops = (unit.a, unit.b)[number]
        if unit.matched or len(stops) < 2:
            return stops[0].event if stops else None
        leading = self._leading(stops, unit.leaving[number] if unit.leaving is not None else None, number)
        telling = [stop for stop in leading if stop.name not in UNCHANGING]
        return (telling or leading or stops)[0].event

    def _leading(self, stops: list[Stop], leaving: TensorFacts | None, number: int) -> list[Stop]:
        """The calls of a stretch through which a tensor came to be."""
        if leaving is None:
            return stops
        within = self._sides[number].within
        waiting = [within.get(leaving.producer, leaving.producer)] if leaving.producer is not None else []
        by_id = {stop.event.id: stop for stop in stops}
        found: set[int] = set()
        while waiting:
            stop = by_id.get(waiting.pop())
            if stop is None or stop.event.id in found or type(stop.event) is not Call:
                continue
            found.add(stop.event.id)
            made = (facts.producer for facts in stop.event.inputs if facts.producer is not None)
            waiting += [within.get(producer, producer) for producer in made]
        return [stop for stop in stops if stop.event.id in found]


def _event(unit: Unit) -> Compared:
    return (unit.a or unit.b)[0].event


def _may_matter(unit: Unit) -> bool:
    """Whether calls are made otherwise, and it was never seen that their result is the same."""
    if unit.differs or unit.seen is not None:
        return False
    return (unit.matched and bool(unit.own)) or (unit.origin is unit and unit.used)


def _of_stretch(unit: Unit, cause: int | None) -> str:
    if cause is not None:
        return ", ".join(unit.own)
    return "the same result by other calls" if unit.seen is not None or unit.roots else "no effect seen"


def _why(unit: Unit) -> str:
    """A cause in a sentence."""
    text = _reason(unit)
    if unit.unknown:
        text += f"; nothing is known of {', '.join(unit.unknown)}"
    for outer in unit.around if unit.kind in ("calls", "output") else ():
        text += f"; {outer.a[0].event.name} has {', '.join([*outer.own, *outer.notes])}"
    return text


def _reason(unit: Unit) -> str:
    what = ", ".join(unit.own)
    if unit.kind == "calls" and not unit.own:
        return _reason_of_stretch(unit)
    if unit.raised:
        return what
    if unit.kind == "gradient":
        return ", ".join([*unit.own, *unit.notes])
    if unit.kind == "input":
        return f"given another {', '.join([what, *unit.notes])}" if what else "the tensor that it is given differs"
    if what:
        return f"made with another argument: {what}" if unit.differs else f"{what}; its effect is not known"
    if not unit.differs:
        return f"{', '.join(unit.notes)}; its effect is not known"
    if unit.seen is not None and unit.notes:
        return f"{', '.join(unit.notes)}: close, but what follows from it differs"
    event = unit.a[0].event
    if unit.kind == "random" or draws(unit.a[0]):
        return f"{_equal_inputs(unit)}, output differs: it draws random numbers, with no seed or another one"
    if type(event) is Call and not event.inputs:
        return "no tensor goes in, and the output differs"
    return f"{_equal_inputs(unit)}, output differs" if type(event) is Call else "the value differs"


def _equal_inputs(unit: Unit) -> str:
    event = unit.a[0].event
    by_statistics = unit.certainty == "statistics" and type(event) is Call and event.inputs
    return "inputs equal as far as statistics tell" if by_statistics else "inputs equal"


def _reason_of_stretch(unit: Unit) -> str:
    after = "and what comes out differs" if unit.differs else "and what comes out is not known"
    if unit.a and unit.b:
        return f"other calls, {after}"
    number = len(unit.a or unit.b)
    return f"{'a call' if number == 1 else f'{number} calls'} only in {'a' if unit.a else 'b'}, {after}"
