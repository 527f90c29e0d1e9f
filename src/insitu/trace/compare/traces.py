"""Two traces compared: aligned, judged, and told as a `Diff`."""

from __future__ import annotations

from collections.abc import Mapping

from insitu.errors import ChoiceError
from insitu.trace.collector import collector_paused
from insitu.trace.compare.closeness import Tolerance
from insitu.trace.compare.judge import Judge
from insitu.trace.compare.rename import renamer
from insitu.trace.compare.stops import Side, kinds, paths, side
from insitu.trace.compare.units import units
from insitu.trace.compare.verdict import Verdict
from insitu.trace.diff import Diff
from insitu.trace.event import Event
from insitu.trace.trace import Trace

TORCH_TESTING = Tolerance()


def compare_traces(
    a: Trace,
    b: Trace,
    *,
    rename: Mapping[str, str] | None = None,
    tolerance: Tolerance = TORCH_TESTING,
    labels: tuple[str, str] = ("a", "b"),
) -> Diff:
    """How two traces differ; see `insitu.compare`.

    >>> from insitu.trace.event import Call, TensorFacts
    >>> one, other = (TensorFacts(0, (2,), "f32", "cpu", kept=value) for value in (1.0, 1.5))
    >>> a, b = (Trace([Call(0, None, "function", "torch.rand", args=(2,), result=made)]) for made in (one, other))
    >>> diff = compare_traces(a, b)
    >>> diff.first.kind, diff.first.delta, diff.first.followers
    ('random', 0.5, 0)
    """
    with collector_paused():  # what was needed on the way is gone when it goes on: only the diff is left to look at
        return _compared(_sides(a.events, b.events, rename), tolerance, labels)


def _compared(sides: tuple[Side, Side], tolerance: Tolerance, labels: tuple[str, str]) -> Diff:
    every, notes = units(*sides)
    judge = Judge(*sides, tolerance)
    judge(every)
    return Verdict(every, judge, sides).diff(notes, labels)


def _sides(a: list[Event], b: list[Event], rename: Mapping[str, str] | None) -> tuple[Side, Side]:
    """The stops of both runs, at the finest level that both have."""
    kinds_a, kinds_b = kinds(a), kinds(b)
    chosen = kinds_a & kinds_b if kinds_a and kinds_b else kinds_a | kinds_b
    if not chosen and (kinds_a or kinds_b):
        raise ChoiceError(
            f"nothing to compare: a has only {', '.join(sorted(kinds_a))}, b only {', '.join(sorted(kinds_b))} events;"
            " record both at the same level"
        )
    paths_a, paths_b = paths(a), paths(b)
    renamed = renamer(rename, paths_a)
    shared = {renamed(path) for path in paths_a} & paths_b
    return side(a, chosen, renamed, shared), side(b, chosen, str, shared)
