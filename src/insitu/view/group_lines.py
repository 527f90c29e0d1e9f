"""What compiled code computes otherwise than its graph, in a few lines of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from insitu.trace.compare.fused_groups import FusedGroup, GroupStatus, first_that_differs
from insitu.trace.compiled.compiled_rows import lines_text
from insitu.trace.diff import Diff
from insitu.view.effect import away_text
from insitu.view.line import Line
from insitu.view.value import safe

_WORDS: dict[GroupStatus, str] = {
    "same": "the same",
    "close": "equal within the tolerance",
    "differs": "different",
    "random": "not compared, because compiled code draws its own random numbers",
    "unknown": "not compared, because the trace does not have their outputs",
}

_VERDICTS = {
    "a": "eager is wrong",
    "b": "compiled is wrong",
    "both": "both are beyond the tolerance",
    "neither": "both are within the tolerance",
    "unknown": "which is wrong is not known",
}


def group_lines(diff: Diff) -> Iterator[Line]:
    """The first fused group that differs, or that none does; nothing if no graph was interpreted."""
    groups = diff.groups
    if not groups:
        return
    first = first_that_differs(groups)
    if first is None:
        yield Line((("  kernels: ", "bold"), (_counts(groups), "")))
        if not diff.agrees:
            yield Line((("  no kernel differs from its graph: the captured graph differs from eager code", ""),))
        yield from _largest_distance(groups)
        return
    yield Line((("✗ ", "red"), (f"first fused group that differs: {_title(first)}", "bold")))
    yield Line(((f"  {_size(first)}", ""),))
    if first.distance is not None:
        yield Line(((f"  {_distance(first)}", "bold"),))
    yield Line(((f"  all kernels: {_counts(groups)}", "grey"),))


def _title(group: FusedGroup) -> str:
    name = safe(group.kernel.name)
    if not group.lines:
        return f"{name} (its lines are not known)"
    return f"{name} (fuses {safe(lines_text(group.lines))})"


def _size(group: FusedGroup) -> str:
    known = f"known from {group.certainty}"
    if group.relative is None:
        return f"its output is not that of the same graph run call by call; {known}"
    return f"relative error {away_text(group.relative)}, against the same graph run call by call; {known}"


def _distance(group: FusedGroup) -> str:
    distance = group.distance
    assert distance is not None
    eager, compiled = away_text(distance.a), away_text(distance.b)
    return f"from double precision, eager is {eager} away and compiled {compiled}: {_VERDICTS[distance.wrong]}"


def _largest_distance(groups: tuple[FusedGroup, ...]) -> Iterator[Line]:
    """The kernel that is furthest from double precision."""
    known = [group for group in groups if group.distance is not None and group.distance.b is not None]
    if not known:
        return
    furthest = max(known, key=lambda group: group.distance.b.size if group.distance and group.distance.b else 0.0)
    yield Line(((f"  furthest from double precision: {_title(furthest)}", ""),))
    yield Line(((f"  {_distance(furthest)}", "bold"),))


def _counts(groups: tuple[FusedGroup, ...]) -> str:
    counts = Counter([group.status for group in groups])
    return ", ".join(f"{counts[status]:,} {text}" for status, text in _WORDS.items() if counts[status])
