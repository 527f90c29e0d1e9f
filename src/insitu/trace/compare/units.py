"""Two runs laid side by side: pairs of stops that belong together, and the stretches between that do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from insitu.trace.compare.align import Pair, align
from insitu.trace.compare.closeness import Certainty
from insitu.trace.compare.stops import Group, Side, Stop
from insitu.trace.diff import CauseKind
from insitu.trace.event import Call, TensorFacts

Numbers = frozenset[int]
NONE: Numbers = frozenset()


@dataclass(slots=True, eq=False)
class Unit:
    """A pair of stops, or a stretch of calls for which the other run has none or others; and what is found of it.

    `roots` are the numbers of the units because of which what it makes differs: its own if it is a cause; `blamed`
    are those of what goes into it. `origin` is a unit that may have made what it makes different without being
    noticed, and `after` says that such a one is among what goes into it. `seen` is how what it makes was found to be
    the same, `leaving` the tensors by which it was found to differ, `seen_at` the later unit in whose output it shows,
    `used` whether anything uses it, `blank` that it makes memory as it was found. `own` is what is different about
    the calls themselves, `notes` what has no effect, `around` the calls around it that have something of their own.
    `taken` are the causes of what goes into it and differs beyond the tolerance. `loose` says that what it makes has
    another dtype or shape, `reshaped` that it has other dimensions of size one. `drift` is how far what it makes is off
    within the tolerance, `input_drift` what goes into it, and `suspects` are the units that may have begun it. `cuts`
    are the units that keep gradients from passing through what it makes, in one run only; `cut` says how this unit
    does so.
    """

    a: list[Stop]
    b: list[Stop]
    matched: bool
    last: bool = False
    number: int = 0
    roots: Numbers = NONE
    blamed: Numbers = NONE
    origin: Unit | None = None
    after: bool = False
    seen: Certainty | None = None
    used: bool = False
    leaving: tuple[TensorFacts, TensorFacts] | None = None
    seen_at: Unit | None = None
    around: tuple[Unit, ...] = ()
    shown: bool = True
    blank: bool = False
    kind: CauseKind = "output"
    differs: bool = False
    raised: bool = False
    own: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    delta: float | None = None
    measure: str = ""
    certainty: Certainty = "values"
    taken: Numbers = NONE
    loose: bool = False
    reshaped: bool = False
    drift: float = 0.0
    input_drift: float = 0.0
    suspects: Numbers = NONE
    cuts: Numbers = NONE
    cut: str = ""


def units(a: Side, b: Side) -> tuple[list[Unit], list[str]]:
    """All units in the order of the run, and what is said of ranks and steps that only one side has."""
    pairs, notes = _paired(list(a.groups), list(b.groups))
    if bool(a.groups) != bool(b.groups):
        notes = [_empty(a, "a", "b") if a.groups else _empty(b, "b", "a")]
    placed: list[tuple[int, Unit]] = []
    for group_a, group_b in pairs:
        place = 0
        for unit in _aligned(a.groups[group_a], b.groups[group_b]):
            if unit.a and unit.a[0].role != "end":
                place = max(place, unit.a[0].event.id)
            placed.append((place, unit))
    placed.sort(key=_place)
    found = [unit for _, unit in placed]
    for number, unit in enumerate(found):
        unit.number = number
    return found, notes


def _empty(side: Side, name: str, other: str) -> str:
    """What to say where only one side has calls."""
    count = sum(stop.role in ("call", "variable") for stops in side.groups.values() for stop in stops)
    return f"{other} is empty: {'the only call is' if count == 1 else f'all {count:,} calls are'} only in {name}"


def _place(placed: tuple[int, Unit]) -> int:
    return placed[0]


def _paired(groups_a: list[Group], groups_b: list[Group]) -> tuple[list[tuple[Group, Group]], list[str]]:
    """The groups that belong together: ranks, threads and steps by number, or in order where no number is shared."""
    same: list[dict[int, int]] = []
    for part in range(3):
        same.append(_numbered({group[part] for group in groups_a}, {group[part] for group in groups_b}))
    known = set(groups_b)
    pairs: list[tuple[Group, Group]] = []
    for group in groups_a:
        other = (same[0].get(group[0], -1), same[1].get(group[1], -1), same[2].get(group[2], -1))
        if other in known:
            pairs.append((group, other))
    notes = []
    for groups, place, name in ((groups_a, 0, "a"), (groups_b, 1, "b")):
        paired = {pair[place] for pair in pairs}
        notes += _lonely(groups, [group for group in groups if group not in paired], name)
    return pairs, notes


def _numbered(a: set[int], b: set[int]) -> dict[int, int]:
    shared = a & b
    if shared:
        return {number: number for number in shared}
    return dict(zip(sorted(a), sorted(b), strict=False))


def _lonely(groups: list[Group], alone: list[Group], name: str) -> list[str]:
    """What to say of groups that have no counterpart: steps, ranks or threads that one side lacks."""
    notes: list[str] = []
    for part, what in ((0, "rank"), (2, "step"), (1, "thread")):
        left = set(alone)
        whole = {group[part] for group in groups} - {group[part] for group in groups if group not in left}
        if whole:
            notes.append(f"{_counted(what, sorted(whole))} only in {name}")
            alone = [group for group in alone if group[part] not in whole]
    if alone:
        notes.append(f"{len(alone)} threads of some steps only in {name}")
    return notes


def _counted(what: str, numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{what} {numbers[0]}"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"{what}s {numbers[0]} … {numbers[-1]}"
    return f"{what}s {', '.join(map(str, numbers[:8]))}" + (", …" if len(numbers) > 8 else "")


def _aligned(a: list[Stop], b: list[Stop]) -> Iterator[Unit]:
    """The units of one group, in order."""
    pairs = align([stop.exact for stop in a], [stop.exact for stop in b])
    pairs = list(_refined(a, b, pairs))
    before = (0, 0)
    for here_a, here_b in [*pairs, (len(a), len(b))]:
        gap = _gap(a[before[0] : here_a], b[before[1] : here_b]) if before != (here_a, here_b) else None
        if gap is not None:
            gap.last = here_a == len(a) and here_b == len(b)
            yield gap
        if here_a < len(a):
            yield Unit([a[here_a]], [b[here_b]], matched=True)
        before = (here_a + 1, here_b + 1)


def _refined(a: list[Stop], b: list[Stop], pairs: list[Pair]) -> Iterator[Pair]:
    """The pairs, and between them those of stops that are alike though they are not in the same module."""
    before = (0, 0)
    for here_a, here_b in [*pairs, (len(a), len(b))]:
        if before[0] < here_a and before[1] < here_b:
            left, right = a[before[0] : here_a], b[before[1] : here_b]
            for i, j in align([stop.loose for stop in left], [stop.loose for stop in right]):
                yield before[0] + i, before[1] + j
        if here_a < len(a):
            yield here_a, here_b
        before = (here_a + 1, here_b + 1)


def _gap(a: Iterable[Stop], b: Iterable[Stop]) -> Unit | None:
    """The calls of a stretch; what is only around calls, such as a wrapper, is no difference."""
    left, right = list(filter(_makes, a)), list(filter(_makes, b))
    return Unit(left, right, matched=False, kind="calls") if left or right else None


def _makes(stop: Stop) -> bool:
    """Whether something happens at a stop; at the end of a call only if nobody saw what in it made its result."""
    event = stop.event
    if stop.role == "end" and type(event) is Call:
        return any(facts.producer == event.id for facts in event.outputs)
    return stop.role != "begin"
