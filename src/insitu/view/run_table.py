"""A recorded run as lines: what is wrong with it, then each variable with its steps, ranks, type, range and mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from insitu.errors import PatternError
from insitu.trace.dtype import dtype_named
from insitu.trace.path import Pattern
from insitu.trace.run import RunEvent, RunSummary, VariableSummary
from insitu.view.line import Column, Line, Span
from insitu.view.number import count_text, limits
from insitu.view.value import safe, short

COLUMNS = (
    Column("values"),
    Column("steps", drop=4),
    Column("ranks", drop=3),
    Column("range", drop=5),
    Column("mean over steps", drop=2),
    Column("source", drop=1),
)
TROUBLES = ("raised", "error", "trouble")  # kinds of events that come before everything else
BARS = "▁▂▃▄▅▆▇█"
MOST_RANKS, MOST_SOURCE = 12, 40  # characters


def run_lines(run: RunSummary, only: Sequence[str] = ()) -> Iterator[Line]:
    """What is missing in a run and went wrong in it, then its variables, or those that the patterns name."""
    summaries = _summaries(run, only)
    for text in troubles(run.missing, run.events):
        yield Line(((f"! {safe(text)}", "red"),))
    for text in remarks(run):
        yield Line(((safe(text), "grey"),))
    if not summaries:
        yield Line((("nothing was recorded", "grey"),))
        return
    rows = [_cells(summary) for summary in summaries]
    yield Line((("path", "bold"),), tuple(map(_heading, COLUMNS, zip(*rows, strict=True))), COLUMNS)
    for summary, cells in zip(summaries, rows, strict=True):
        yield Line(((safe(summary.path) or "(root)", "bold"),), cells, COLUMNS)


def _heading(column: Column, cells: Iterable[Span]) -> Span:
    """The name of a column; an empty column, and its name, are left out."""
    return (column.name if any(text for text, _ in cells) else "", "bold")


def run_facts(run: RunSummary, only: Sequence[str] = ()) -> dict[str, Any]:
    """The same as plain data, for JSON."""
    return {
        "missing": list(run.missing),
        "others": list(run.others),
        "troubles": [str(event) for event in run.events if event.kind in TROUBLES],
        "variables": [asdict(summary) for summary in _summaries(run, only)],
    }


def points_in(width: int) -> int:
    """How many means of a variable fit into a line of this width."""
    return max(8, min(32, width // 5))


def _summaries(run: RunSummary, only: Sequence[str]) -> list[VariableSummary]:
    found = {summary.path: summary for summary in run.variables}
    return [found[path] for path in matching_paths(list(found), only)]


def matching_paths(paths: Sequence[str], only: Sequence[str]) -> list[str]:
    """The recorded paths that the patterns name, in their order; one that names none is an error with the nearest.

    >>> matching_paths(["forward.x", "loss"], ["forward.*"]), matching_paths(["loss"], [])
    (['forward.x'], ['loss'])
    """
    patterns = [Pattern.of(text) for text in only]
    for pattern in patterns:
        if not any(map(pattern.match, paths)):
            few = ", ".join(map(repr, paths[:5])) if paths else "nothing"
            raise PatternError(f"{pattern.text!r} was not recorded{pattern.nearest(paths) or f'; there is {few}'}")
    if not patterns:
        return list(paths)
    return list(dict.fromkeys(path for pattern in patterns for path in filter(pattern.match, paths)))


def troubles(missing: Iterable[str], events: Iterable[RunEvent]) -> Iterator[str]:
    """What is not there, and what went wrong, each as a sentence."""
    yield from missing
    yield from (str(event) for event in events if event.kind in TROUBLES)


def remarks(run: RunSummary) -> Iterator[str]:
    """The attempts of a run that was restarted, and the runs beside it, each as a sentence."""
    if len(run.attempts) > 1:
        yield from map(str, run.attempts)
        yield "a step that several attempts recorded is counted in each; the means are those of the last"
    yield from (f"{other} is in the same folder, and not shown" for other in run.others)


def _cells(summary: VariableSummary) -> tuple[Span, ...]:
    """The cells of a variable, one for each column."""
    return (
        (f"{summary.rows:,} × {_type(summary)}", "blue"),
        (_span(*summary.steps), ""),
        (_ranks(summary.ranks), ""),
        (_range(summary), "red" if summary.nan else ""),
        (sparkline(summary.means), "green"),
        (short(safe(summary.source or ""), MOST_SOURCE), "grey"),
    )


def _span(least: int, largest: int) -> str:
    """Two ends, or the one number that they are.

    >>> _span(3, 3), _span(3, 7)
    ('3', '3–7')
    """
    if least == largest:
        return f"{least}"
    return f"{least}–{largest}"


def _type(summary: VariableSummary) -> str:
    """Dtype and shape, or what else was recorded."""
    if not summary.shapes:
        if summary.dtype == "json":
            return "Python value"
        return summary.dtype
    least, largest = summary.shapes
    text = safe(dtype_named(summary.dtype).short)
    if len(least) != len(largest):
        return f"{text}[…]"
    return f"{text}[{', '.join(map(_span, least, largest))}]"


def _ranks(ranks: tuple[int, ...]) -> str:
    """The numbers of the ranks; of several without a gap, the first and the last."""
    has_gap = ranks[-1] - ranks[0] != len(ranks) - 1
    if has_gap or len(ranks) < 3:
        return short(", ".join(map(str, ranks)), MOST_RANKS)
    return _span(ranks[0], ranks[-1])


def _range(summary: VariableSummary) -> str:
    """The range of the values, or how many of them are not finite; marked if only a sample was looked at."""
    odd = count_text({"NaN": summary.nan, "Inf": summary.inf})
    if odd:
        if summary.sampled:
            return f"≥ {odd}"
        return odd
    if summary.low is None or summary.high is None:
        return ""
    text = limits(summary.low, summary.high)
    if summary.sampled:
        return f"≈ {text}"
    return text


def sparkline(means: Sequence[float | None]) -> str:
    """Numbers as bars, from the least to the largest; a dot where no number is finite.

    >>> sparkline([0.0, 1.0, None, 7.0]), sparkline([2.0, 2.0])
    ('▁▂·█', '▄▄')
    """
    known = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return "".join([_bar(mean, low, high) for mean in means])


def _bar(mean: float | None, low: float, high: float) -> str:
    """The bar of one number between the least and the largest."""
    if mean is None:
        return "·"
    if low == high:
        return BARS[3]
    half = high / 2 - low / 2  # halves, because the whole may be too large for a float
    return BARS[round((mean / 2 - low / 2) / half * 7)]
