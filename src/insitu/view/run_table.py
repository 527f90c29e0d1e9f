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
    """The missing parts and the errors of a run, then its variables, or those that the patterns name."""
    summaries = _summaries(run, only)
    for text in troubles(run.missing, run.events):
        yield Line(((f"! {safe(text)}", "red"),))
    for text in remarks(run):
        yield Line(((safe(text), "grey"),))
    if not summaries:
        yield Line((("nothing was recorded", "grey"),))
        return
    rows = [tuple(variable_cells(summary).values()) for summary in summaries]
    yield Line((("path", "bold"),), tuple(map(_heading, COLUMNS, zip(*rows, strict=True))), COLUMNS)
    for summary, cells in zip(summaries, rows, strict=True):
        yield Line(((safe(summary.path) or "(root)", "bold"),), cells, COLUMNS)


def _heading(column: Column, cells: Iterable[Span]) -> Span:
    """The name of a column; an empty column, and its name, are left out."""
    if any(text for text, _ in cells):
        return (column.name, "bold")
    return ("", "bold")


def run_facts(run: RunSummary, only: Sequence[str] = ()) -> dict[str, Any]:
    """The facts about a run as plain data, for JSON."""
    return {
        "missing": list(run.missing),
        "others": list(run.others),
        "troubles": _trouble_texts(run.events),
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
            raise PatternError(f"{pattern.text!r} was not recorded{pattern.nearest(paths) or _examples(paths)}")
    if not patterns:
        return list(paths)
    found: dict[str, None] = {}
    for pattern in patterns:
        found |= dict.fromkeys(filter(pattern.match, paths))
    return list(found)


def _examples(paths: Sequence[str]) -> str:
    """A few of the recorded paths."""
    few = ", ".join(map(repr, paths[:5]))
    return f"; there is {few or 'nothing'}"


def troubles(missing: Iterable[str], events: Iterable[RunEvent]) -> Iterator[str]:
    """A sentence for each thing that is missing, and for each error."""
    yield from missing
    yield from _trouble_texts(events)


def _trouble_texts(events: Iterable[RunEvent]) -> list[str]:
    return [str(event) for event in events if event.kind in TROUBLES]


def remarks(run: RunSummary) -> Iterator[str]:
    """The attempts of a run that was restarted, and the runs beside it, each as a sentence."""
    if len(run.attempts) > 1:
        yield from map(str, run.attempts)
        yield "a step that several attempts recorded is counted in each; the means are those of the last"
    yield from (f"{other} is in the same folder, and not shown" for other in run.others)


def variable_cells(summary: VariableSummary) -> dict[str, Span]:
    """The cells of a variable by the names of their columns."""
    cells: tuple[Span, ...] = (
        (f"{summary.rows:,} × {_type(summary)}", "blue"),
        (_span(*summary.steps), ""),
        (_ranks(summary.ranks), ""),
        _range_span(summary),
        (sparkline(summary.means), "green"),
        (short(safe(summary.source or ""), MOST_SOURCE), "grey"),
    )
    return {column.name: cell for column, cell in zip(COLUMNS, cells, strict=True)}


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
        return {"json": "Python value"}.get(summary.dtype, summary.dtype)
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


def _range_span(summary: VariableSummary) -> Span:
    """The range of the values, in red if there is NaN."""
    text = _range(summary)
    if summary.nan:
        return (text, "red")
    return (text, "")


def _range(summary: VariableSummary) -> str:
    """The range of the values, or how many of them are not finite; marked if only a sample was looked at."""
    odd = count_text({"NaN": summary.nan, "Inf": summary.inf})
    if odd:
        return _marked("≥", odd, summary)
    if summary.low is None or summary.high is None:
        return ""
    return _marked("≈", limits(summary.low, summary.high), summary)


def _marked(sign: str, text: str, summary: VariableSummary) -> str:
    """A text with a sign before it, if it comes from a sample of the values."""
    if summary.sampled:
        return f"{sign} {text}"
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
    half = high / 2 - low / 2  # halves, because the whole may be too large for a float
    if not half:
        return BARS[3]
    return BARS[round((mean / 2 - low / 2) / half * 7)]
