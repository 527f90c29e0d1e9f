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
from insitu.view.value import limits, safe, short

COLUMNS = (
    Column("values"),
    Column("steps", drop=4),
    Column("ranks", drop=3),
    Column("range", drop=5),
    Column("mean over steps", drop=2),
    Column("source", drop=1),
)
TROUBLES = ("raised", "error", "trouble")  # kinds of events that are told before everything else
BARS = "▁▂▃▄▅▆▇█"


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
    # An empty column is left out, its name too.
    names = tuple((column.name if any(texts) else "", "bold") for column, *texts in _columns(rows))
    yield Line((("path", "bold"),), names, COLUMNS)
    for summary, cells in zip(summaries, rows, strict=True):
        yield Line(((safe(summary.path) or "(root)", "bold"),), cells, COLUMNS)


def _columns(rows: list[tuple[Span, ...]]) -> Iterator[Any]:
    return zip(COLUMNS, *([text for text, _ in cells] for cells in rows), strict=True)


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
    return [found[path] for path in chosen(list(found), only)]


def chosen(paths: Sequence[str], only: Sequence[str]) -> list[str]:
    """The recorded paths that the patterns name, in their order; one that names none is an error with the nearest.

    >>> chosen(["forward.x", "loss"], ["forward.*"]), chosen(["loss"], [])
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
    first, last = summary.steps
    return (
        (f"{summary.rows:,} × {_typed(summary)}", "blue"),
        (f"{first}" if first == last else f"{first}–{last}", ""),
        (_ranks(summary.ranks), ""),
        (_range(summary), "red" if summary.nan else ""),
        (sparkline(summary.means), "green"),
        (short(safe(summary.source or ""), 40), "grey"),
    )


def _typed(summary: VariableSummary) -> str:
    if not summary.shapes:
        return "Python value" if summary.dtype == "json" else summary.dtype
    least, largest = summary.shapes
    text = safe(dtype_named(summary.dtype).short)
    if len(least) != len(largest):
        return f"{text}[…]"
    sizes = [str(a) if a == b else f"{a}–{b}" for a, b in zip(least, largest, strict=True)]
    return f"{text}[{', '.join(sizes)}]"


def _ranks(ranks: tuple[int, ...]) -> str:
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]}–{ranks[-1]}"
    return short(", ".join(map(str, ranks)), 12)


def _range(summary: VariableSummary) -> str:
    about = "≈ " if summary.sampled else ""
    if summary.nan or summary.inf:
        counts = ((summary.nan, "NaN"), (summary.inf, "Inf"))
        return ("≥ " if summary.sampled else "") + ", ".join(f"{count:,} {name}" for count, name in counts if count)
    if summary.low is None or summary.high is None:
        return ""
    return about + limits(summary.low, summary.high)


def sparkline(means: Sequence[float | None]) -> str:
    """Numbers as bars, from the least to the largest; a dot where there is none that is finite.

    >>> sparkline([0.0, 1.0, None, 7.0]), sparkline([2.0, 2.0])
    ('▁▂·█', '▄▄')
    """
    known: list[Any] = [mean for mean in means if mean is not None]
    if not known:
        return ""
    low, span = min(known) / 2, max(known) / 2 - min(known) / 2  # halves, for the whole may be too large for a float
    scaled = (None if mean is None else (mean / 2 - low) / span * 7 if span else 3 for mean in means)
    return "".join("·" if place is None else BARS[round(place)] for place in scaled)
