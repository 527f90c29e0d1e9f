"""A run of several ranks beside that of one process: join the ranks, compare, and say what is wrong with the parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from insitu.errors import RanksError
from insitu.trace.compare.closeness import Tolerance
from insitu.trace.compare.relation import Relation
from insitu.trace.compare.rename import renamer
from insitu.trace.compare.traces import compare_traces
from insitu.trace.diff import Cause, Diff, RankJoin
from insitu.trace.event import Variable
from insitu.trace.placements.joined_value import JoinedValue
from insitu.trace.placements.joiner import Joiner
from insitu.trace.placements.part import content
from insitu.trace.placements.rank_fault import find_rank_fault
from insitu.trace.placements.whole_run import JoinedTrace, RankedRun, join_run
from insitu.trace.trace import Trace

Rename = Mapping[str, str] | None


def needs_joining(a: RankedRun, b: RankedRun) -> bool:
    """Whether one of two runs has several ranks, and the other is one process.

    Raises RanksError if both have several, and not equally many, or if a rank is missing that must be joined.
    """
    if a.world_size == b.world_size:
        return False
    if min(a.world_size, b.world_size) > 1:
        raise RanksError(
            f"a has {a.world_size} ranks and b has {b.world_size}: two runs of several ranks are compared rank by rank,"
            " so they need equal numbers of ranks. Compare each with a run of one process"
        )
    for name, run in (("a", a), ("b", b)):
        lacking = sorted(set(range(run.world_size)).difference(run.ranks))
        if run.world_size > 1 and lacking:
            ranks = ", ".join(map(str, lacking))
            raise RanksError(
                f"{name} is a run of {run.world_size} ranks, and there is nothing of rank {ranks}: without these parts"
                " its values cannot be joined"
            )
    return True


def compare_ranks(
    a: RankedRun, b: RankedRun, rename: Rename, tolerance: Tolerance, labels: tuple[str, str]
) -> tuple[Diff, tuple[Trace, Trace]]:
    """Compare a run of one process with one of several ranks; returns the traces that were compared, too."""
    is_b_joined = b.world_size > 1
    to_b = renamer(rename, {event.name for event in a.trace.events if isinstance(event, Variable)})
    if is_b_joined:
        joined = join_run(b, a.trace, to_b, tolerance)
        traces = (a.trace, joined.trace)
    else:
        joined = join_run(a, b.trace, _names_in_a(a.trace, to_b), tolerance)
        traces = (joined.trace, b.trace)
    diff = compare_traces(*traces, rename=rename, tolerance=tolerance, labels=labels)
    diff.ranks = RankJoin("b" if is_b_joined else "a", len(joined.ranks), joined.counts)
    joiner = Joiner(tolerance)
    diff.causes = tuple([_with_fault(cause, joined, joiner, is_b_joined) for cause in diff.causes])
    return diff, traces


def _names_in_a(trace: Trace, to_b: Callable[[str], str]) -> Callable[[str], str]:
    """The function that gives paths of b the names that a has."""
    names = {to_b(event.name): event.name for event in trace.events if isinstance(event, Variable)}
    return lambda path: names.get(path, path)


def _with_fault(cause: Cause, joined: JoinedTrace, joiner: Joiner, is_b_joined: bool) -> Cause:
    """The cause, with what is wrong with the parts of the ranks there."""
    whole, ours = (cause.a, cause.b) if is_b_joined else (cause.b, cause.a)
    if not isinstance(whole, Variable) or not isinstance(ours, Variable):
        return cause
    fault = find_rank_fault(joined.values[ours.id], content(whole), joiner)
    relations = [] if fault is None else [Relation("ranks", ranks=fault)]
    relations += [Relation("unfinished", before) for before in _partial_before(ours, joined)]
    return replace(cause, relations=(*relations, *cause.relations))


def _partial_before(variable: Variable, joined: JoinedTrace) -> list[str]:
    """The value before this one of which each rank has only a part of the sum; of several in a row, the first."""
    names: list[str] = []
    for event in joined.trace.events[: variable.id]:
        if not isinstance(event, Variable) or event.step != variable.step:
            continue
        if not _is_partial(joined.values[event.id]):
            names.clear()
            continue
        names.append(event.name)
    return names[:1]


def _is_partial(value: JoinedValue) -> bool:
    return any(placement.kind == "partial" for placement in value.placements)
