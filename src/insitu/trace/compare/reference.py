"""Three runs: how far two runs that differ are from a third one, in which both should agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from insitu.trace.compare.closeness import Tolerance
from insitu.trace.compare.distance import Distance
from insitu.trace.compare.relative import RelativeError
from insitu.trace.compare.traces import compare_traces
from insitu.trace.diff import Cause, Compared, Diff, Difference
from insitu.trace.event import Call
from insitu.trace.trace import Trace

_AGREEING = frozenset(("same", "close"))
Rows = dict[int, Difference]


def add_distances(
    diff: Diff, runs: tuple[Trace, Trace], reference: Trace, rename: Mapping[str, str] | None, tolerance: Tolerance
) -> None:
    """Measure how far both runs are from the reference: at each cause, and in the result."""
    renames = _renames(runs, reference, rename)
    rows = []
    for run, names in zip(runs, renames, strict=True):
        apart = compare_traces(run, reference, rename=names, tolerance=tolerance)
        rows.append({id(row.a): row for row in apart.differences if row.a is not None})
    diff.causes = tuple([replace(cause, distance=_at_cause(cause, rows[0], rows[1])) for cause in diff.causes])
    diff.distance = _in_result(diff, rows[0], rows[1])


def _renames(
    runs: tuple[Trace, Trace], reference: Trace, rename: Mapping[str, str] | None
) -> tuple[Mapping[str, str] | None, Mapping[str, str] | None]:
    """How the paths of a, and those of b, are called in the reference: it has the names of one of them."""
    if not rename:
        return None, None
    known = _paths(reference)
    if len(known & _paths(runs[0])) >= len(known & _paths(runs[1])):
        return None, {new: old for old, new in rename.items()}
    return rename, None


def _paths(trace: Trace) -> set[str]:
    return {event.path for event in trace.events if isinstance(event, Call)}


def _at_cause(cause: Cause, rows_a: Rows, rows_b: Rows) -> Distance:
    """The distances where a cause begins; where its output is not in the reference, those where it shows first."""
    found = _distance(cause.a, cause.b, rows_a, rows_b)
    last = (cause.calls_a[-1:], cause.calls_b[-1:])
    if found.wrong == "unknown" and all(last):
        return _distance(last[0][0], last[1][0], rows_a, rows_b)
    return found


def _in_result(diff: Diff, rows_a: Rows, rows_b: Rows) -> Distance | None:
    """The distances in the result that the first cause reaches, or else in the last one of the run."""
    first = diff.first
    if first is not None and first.result is not None:
        return _distance(first.result.a, first.result.b, rows_a, rows_b)
    whole = [row for row in diff.results if row.a is not None and row.b is not None]
    if not whole:
        return None
    return _distance(whole[-1].a, whole[-1].b, rows_a, rows_b)


def _distance(a: Compared | None, b: Compared | None, rows_a: Rows, rows_b: Rows) -> Distance:
    one, other = rows_a.get(id(a)), rows_b.get(id(b))
    return Distance(_error(one), _error(other), _agrees(one), _agrees(other))


def _error(row: Difference | None) -> RelativeError | None:
    """The relative error of a call against the reference."""
    if row is None or row.b is None or row.certainty == "structure":
        return None
    if row.relative is not None:
        return row.relative
    if row.status in _AGREEING:
        return RelativeError(0.0, is_bound=row.certainty == "statistics")
    return None


def _agrees(row: Difference | None) -> bool:
    """Whether a call agrees with the reference within the tolerance."""
    if row is None:
        return False
    if row.status == "structure":  # the same values in another dtype, unless other calls have to make up for them
        return row.outcome in ("", "agrees")
    return row.status in _AGREEING
