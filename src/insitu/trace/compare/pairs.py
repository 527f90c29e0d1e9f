"""Two runs side by side: the calls that belong together, and the stretches of calls that do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter, itemgetter
from typing import Literal, NamedTuple

from insitu.trace.compare.align import Match, align
from insitu.trace.compare.change import EmptyRun, LonePart, Remark, SideName
from insitu.trace.compare.stops import Group, Side, Stop
from insitu.trace.event import Call

Stops = tuple[Stop, ...]


class Pair(NamedTuple):
    """A stop of a beside a stop of b; or, if not `matched`, a stretch of calls that the other run does not make.

    A stretch has any number of stops on either side. `number` is the place of the pair in the run, and `last` says
    that nothing comes after the stretch.
    """

    number: int
    a: Stops
    b: Stops
    matched: bool = True
    last: bool = False

    @property
    def calls_a(self) -> list[Call]:
        """The calls of a."""
        return _calls(self.a)

    @property
    def calls_b(self) -> list[Call]:
        """The calls of b."""
        return _calls(self.b)


def _calls(stops: Stops) -> list[Call]:
    return [stop.event for stop in stops if type(stop.event) is Call]


class _Row(NamedTuple):
    """A pair that has no number yet, and its place in the run: the number of an event of a."""

    place: int
    a: Stops
    b: Stops
    matched: bool
    last: bool


def align_sides(a: Side, b: Side) -> tuple[list[Pair], list[Remark]]:
    """All pairs in the order of the run, and the ranks, threads and steps that only one side has."""
    groups, remarks = _align_groups(list(a.groups), list(b.groups))
    if bool(a.groups) != bool(b.groups):
        remarks = [_empty_run(a, b)]
    rows: list[_Row] = []
    for group_a, group_b in groups:
        rows += _rows(a.groups[group_a], b.groups[group_b])
    rows.sort(key=itemgetter(0))
    return [Pair(number, *row[1:]) for number, row in enumerate(rows)], remarks


def _empty_run(a: Side, b: Side) -> EmptyRun:
    """The side without calls, and how many the other side has."""
    if a.groups:
        return EmptyRun("b", a.count)
    return EmptyRun("a", b.count)


def _align_groups(groups_a: list[Group], groups_b: list[Group]) -> tuple[list[tuple[Group, Group]], list[Remark]]:
    """The groups that belong together: ranks, threads and steps by number, or in order where no number is shared."""
    rank, thread, step = (_same_numbers(groups_a, groups_b, part) for part in range(3))
    known = set(groups_b)
    pairs: list[tuple[Group, Group]] = []
    for group in groups_a:
        other = (rank.get(group[0], -1), thread.get(group[1], -1), step.get(group[2], -1))
        if other in known:
            pairs.append((group, other))
    with_partner = dict(pairs)
    alone_a = _lone_parts(groups_a, set(with_partner), "a")
    alone_b = _lone_parts(groups_b, set(with_partner.values()), "b")
    return pairs, [*alone_a, *alone_b]


def _same_numbers(groups_a: list[Group], groups_b: list[Group], part: int) -> dict[int, int]:
    """For the numbers of ranks, threads or steps of a, those of b."""
    number = itemgetter(part)
    a, b = set(map(number, groups_a)), set(map(number, groups_b))
    shared = a & b
    if shared:
        return dict(zip(shared, shared, strict=True))
    return dict(zip(sorted(a), sorted(b), strict=False))


_PARTS: tuple[tuple[int, Literal["rank", "step", "thread"]], ...] = ((0, "rank"), (2, "step"), (1, "thread"))


def _lone_parts(groups: list[Group], with_partner: set[Group], side: SideName) -> Iterator[LonePart]:
    """The steps, ranks and threads of one side of which no group has a counterpart."""
    alone = set(groups) - with_partner
    for place, part in _PARTS:
        number = itemgetter(place)
        whole = set(map(number, alone)) - set(map(number, set(groups) - alone))
        if whole:
            yield LonePart(part, tuple(sorted(whole)), side)
            alone = {group for group in alone if number(group) not in whole}
    if alone:
        yield LonePart("thread", (), side, len(alone))


def _rows(a: list[Stop], b: list[Stop]) -> Iterator[_Row]:
    """The pairs of one group, in order."""
    place = before_a = before_b = 0
    for here_a, here_b in _matches(a, b):
        is_end = here_a == len(a)
        if before_a < here_a or before_b < here_b:
            stretch_a, stretch_b = _acting(a[before_a:here_a]), _acting(b[before_b:here_b])
            if stretch_a or stretch_b:
                place = _place(stretch_a, place)
                yield _Row(place, stretch_a, stretch_b, False, is_end)
        if is_end:
            return
        left = (a[here_a],)
        place = _place(left, place)
        yield _Row(place, left, (b[here_b],), True, False)
        before_a, before_b = here_a + 1, here_b + 1


def _place(stops: Stops, before: int) -> int:
    """The place of a pair: that of its first event in a, unless it is the end of a call."""
    if not stops or stops[0].role == "end":
        return before
    return max(before, stops[0].event.id)


def _matches(a: list[Stop], b: list[Stop]) -> Iterator[Match]:
    """The places of stops that belong together, and the ends of both sides.

    Stops of the same module come first. Between them, stops belong together if they do the same in another module.
    """
    exact = align(list(map(_exact, a)), list(map(_exact, b)))
    before_a = before_b = 0
    for here_a, here_b in [*exact, (len(a), len(b))]:
        if before_a < here_a and before_b < here_b:
            left, right = a[before_a:here_a], b[before_b:here_b]
            for i, j in align(list(map(_loose, left)), list(map(_loose, right))):
                yield before_a + i, before_b + j
        yield here_a, here_b
        before_a, before_b = here_a + 1, here_b + 1


_exact, _loose = attrgetter("exact"), attrgetter("loose")


def _acting(stops: Iterable[Stop]) -> Stops:
    """The stops of a stretch at which something happens; what is only around calls, as a wrapper is, makes nothing."""
    return tuple(filter(_acts, stops))


def _acts(stop: Stop) -> bool:
    """Whether something happens at a stop; at the end of a call only if no recorded call in it made its result."""
    event = stop.event
    if stop.role == "end" and type(event) is Call:
        return any(facts.producer == event.id for facts in event.outputs)
    return stop.role != "begin"
