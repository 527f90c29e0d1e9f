"""What was judged, told: a row for each pair of calls, and the causes with the calls where they begin."""

from __future__ import annotations

from functools import cached_property

from insitu.trace.compare.closeness import CERTAINTIES
from insitu.trace.compare.gradients import parting_gradient
from insitu.trace.compare.judge import Judge
from insitu.trace.compare.manner import draws
from insitu.trace.compare.repeats import merged
from insitu.trace.compare.stops import Side, Stop
from insitu.trace.compare.units import NONE, Unit
from insitu.trace.diff import Cause, Compared, Diff, Difference, Effect, Status
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
        causes, numbers = merged([(number, self._cause(self._units[number])) for number in self._causes])
        rows: list[Difference] = []
        results: list[Difference] = []
        for unit in self._units:
            if unit.shown:
                own = self._rows(unit, numbers)
                rows += own
                results += own if not unit.used else ()
                self._count(unit, causes, numbers)
        return Diff(rows, causes, notes, evidence, labels, self._judge.tolerance, results)

    def _count(self, unit: Unit, causes: list[Cause], numbers: dict[int, int]) -> None:
        """Count a unit among the followers of its causes; a cause that occurs again does not follow from itself."""
        if not unit.differs or unit.number in numbers:
            return
        for place in {numbers[number] for number in unit.roots if number in numbers}:
            causes[place].followers += max(len(unit.a), len(unit.b))

    def _real(self) -> list[int]:
        """The causes that have an effect, those whose effect reaches the results first; see `_effect`."""
        found = NONE.union(*(unit.roots for unit in self._units))
        has_effect = self._reaching | self._judge.past.inside
        causes = [number for number in found if number in has_effect or self._is_unexplained(number)]
        return sorted(causes, key=self._rank)

    def _is_unexplained(self, number: int) -> bool:
        """Whether the same call with the same inputs ends otherwise: to be told, whatever becomes of it."""
        unit = self._units[number]
        return unit.raised or unit.kind in ("output", "random", "gradient")

    @cached_property
    def _reaching(self) -> set[int]:
        """The causes because of which something differs that no other call uses: what comes out of the run.

        What other calls make up for again is not among them.
        """
        found: set[int] = set()
        for unit in self._units:
            if not unit.used and unit.seen is None:
                found |= unit.roots or unit.taken
        return found

    def _rank(self, number: int) -> tuple[bool, bool, int]:
        """The order of causes: by what their effect reaches, then as in the run."""
        return self._effect(number) == "lost", number not in self._judge.past.results, number

    def _effect(self, number: int) -> Effect:
        unit = self._units[number]
        if not unit.differs:
            return "unknown"
        is_result = number in self._reaching or unit.raised or unit.kind == "gradient"
        return "results" if is_result else "lost"

    def _unseen(self) -> list[int]:
        """Where nothing is known to differ: calls that are made otherwise, with an effect that nobody can see."""
        return [unit.number for unit in self._units if _may_matter(unit) and not unit.after]

    def _rows(self, unit: Unit, numbers: dict[int, int]) -> list[Difference]:
        if unit.matched and not (unit.roots or unit.own or unit.notes or unit.cut):  # most of them
            a, b = unit.a[0].event, unit.b[0].event
            return [Difference(_equality(unit), a, b, "", unit.delta, unit.measure, unit.certainty)]
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
        status = _equality(unit)
        texts = [*unit.own, *unit.notes, *([unit.cut] if unit.cut else ())]
        if unit.raised:
            status = "raised"
        elif is_cause:
            status = "argument" if unit.kind == "argument" or not unit.differs else "differs"
        elif cause is not None:
            status = "follows"
        elif unit.roots:
            end = "the result agrees" if unit.seen is not None else "it differs, and other calls make up for it"
            status, texts = "structure", [*texts, end]
        elif unit.own:
            status = "argument"
        elif unit.notes or unit.cut:
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
            effect=self._effect(unit.number),
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
        telling = [stop for stop in leading if not stop.operation.is_copy]
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


def _equality(unit: Unit) -> Status:
    """The status of a pair that does not differ: whether it is the same, or the same within the tolerance."""
    return "close" if unit.measure and not unit.differs else "same"


def _of_stretch(unit: Unit, cause: int | None) -> str:
    cut = [unit.cut] if unit.cut else []
    if cause is not None:
        return ", ".join([*unit.own, *cut])
    healed = unit.seen is not None or unit.roots
    return ", ".join(["the same result by other calls" if healed else "no effect seen", *cut])


def _why(unit: Unit) -> str:
    """A cause in a sentence."""
    text = _reason(unit)
    if unit.unknown:
        text += f"; nothing is known of {', '.join(unit.unknown)}"
    for outer in unit.around if unit.kind in ("calls", "output") else ():
        text += f"; {outer.a[0].event.name}: {', '.join([*outer.own, *outer.notes])}"
    return text


def _reason(unit: Unit) -> str:
    if unit.kind == "gradient":
        return _reason_of_gradient(unit)
    if unit.kind == "calls" and not unit.own:
        return _reason_of_stretch(unit)
    if unit.raised:
        return ", ".join(unit.own)
    if unit.kind == "input":
        return _reason_of_input(unit)
    if unit.own:
        return _reason_of_argument(unit)
    if unit.notes and (unit.seen is not None or not unit.differs):
        told = ": close, but what follows from it differs" if unit.differs else "; its effect is not known"
        return ", ".join(unit.notes) + told
    return _reason_of_output(unit)


def _reason_of_argument(unit: Unit) -> str:
    told = _growing(unit) if unit.differs else "; its effect is not known"
    return ", ".join(unit.own) + told


def _reason_of_gradient(unit: Unit) -> str:
    if not unit.cut:
        return ", ".join([*unit.own, *unit.notes])
    return unit.cut if unit.matched else f"{_makers(unit)}: {unit.cut}"


def _reason_of_input(unit: Unit) -> str:
    if not unit.own:
        return "the tensor that it reads differs"
    named = " and ".join(filter(None, [", ".join(unit.own[:-1]), unit.own[-1]]))
    verb = "differs" if len(unit.own) == 1 else "differ"
    return ", ".join([f"{named} {verb}", *unit.notes])


def _reason_of_output(unit: Unit) -> str:
    event = unit.a[0].event
    if type(event) is not Call:
        return "the value differs"
    text = f"{_equal_inputs(unit, event)}the output differs"
    if unit.kind == "random" or draws(unit.a[0]):
        return (
            f"{text}: it draws random numbers, and the generators were in different states: "
            "no seed, another seed, or an earlier draw that was not recorded"
        )
    return text


def _equal_inputs(unit: Unit, call: Call) -> str:
    """How far what goes into a call is known to be equal."""
    count = len(call.inputs)
    if len(unit.unknown) == count:
        return "" if count else "it takes no tensor, "
    which = "all other inputs" if unit.unknown else "the inputs"
    if unit.input_drift:
        return f"{which} are equal within the tolerance (largest difference {unit.input_drift:.3g}), "
    if unit.certainty == "statistics":
        return f"{which} are equal as far as statistics show, "
    return f"{which} are equal, "


def _reason_of_stretch(unit: Unit) -> str:
    makers = _makers(unit)
    if not unit.differs:
        return f"{makers}; its effect is not known"
    moves_stream = unit.seen_at is not None and bool(unit.seen_at.a) and draws(unit.seen_at.a[0])
    if moves_stream and any(draws(stop) for stop in (*unit.a, *unit.b)):
        return f"{makers}: it draws random numbers, so later draws differ"
    growing = _growing(unit)
    return f"{makers}{growing}" if growing else f"{makers}, and the result differs"


def _growing(unit: Unit) -> str:
    """What to say of a difference within the tolerance that is beyond it later."""
    if unit.seen_at is None or not unit.drift:
        return ""
    return f": the result is equal within the tolerance (largest difference {unit.drift:.3g}), but not what follows"


def _makers(unit: Unit) -> str:
    """Which run makes the calls of a stretch."""
    if unit.a and unit.b:
        return "a and b make different calls here"
    number = len(unit.a or unit.b)
    return f"only {'a' if unit.a else 'b'} makes {'this call' if number == 1 else f'these {number} calls'}"
