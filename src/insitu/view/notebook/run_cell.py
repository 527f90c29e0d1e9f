"""A recorded run and its variables in a notebook: a table with a small curve for each, a chart for one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from insitu.trace.run import RunSummary, SeriesSummary, VariableSummary
from insitu.view.line import Line, Span
from insitu.view.notebook.folded_list import spans_of
from insitu.view.notebook.markup import NOTHING, Markup, element, joined
from insitu.view.notebook.picture import chart, known, labelled_chart, spark
from insitu.view.number import figure, limits
from insitu.view.run_table import (
    COURSE,
    course,
    first_odd_text,
    remarks,
    run_lines,
    sparkline,
    troubles,
    variable_cells,
)
from insitu.view.value import safe

if TYPE_CHECKING:
    from insitu.trace.curve import Band, Curve

MOST_VARIABLES = 200
MOST_TROUBLES = 20
SPARK_POINTS = 60


# A run.


def run_text(title: str, run: RunSummary) -> Iterator[Line]:
    """A run as lines of text."""
    yield Line(((title, "bold"),))
    yield from run_lines(run)


def run_html(title: str, run: RunSummary) -> Markup:
    """A run as a table, below what is wrong with it."""
    parts = [element("div", element("b", title), class_="i-title")]
    parts += [element("div", f"! {safe(text)}", class_="i-red") for text in _troubles(run)]
    parts += [element("div", safe(text), class_="i-grey") for text in remarks(run)]
    if odd := first_odd_text(run.variables):
        parts.append(element("div", odd, class_="i-red"))
    if not run.variables:
        return joined(*parts, element("div", "nothing was recorded", class_="i-grey"))
    return joined(*parts, _table(run.variables))


def _troubles(run: RunSummary) -> list[str]:
    """What is wrong; of very much the first."""
    found = list(troubles(run.missing, run.events))
    if len(found) > MOST_TROUBLES:
        return [*found[:MOST_TROUBLES], f"… {len(found) - MOST_TROUBLES:,} more"]
    return found


def _table(variables: Sequence[VariableSummary]) -> Markup:
    """The variables as a table, without columns that are empty; of very many, the first."""
    shown = variables[:MOST_VARIABLES]
    has_ranks = any(len(summary.ranks) > 1 for summary in variables)
    cells = [variable_cells(summary, has_ranks=has_ranks) for summary in shown]
    used = [name for name in cells[0] if any(row[name][0] for row in cells)]
    head = element("tr", element("th", "path"), *[element("th", name) for name in used])
    rows = [_row(summary, row, used) for summary, row in zip(shown, cells, strict=True)]
    more = NOTHING
    if len(variables) > len(shown):
        more = element("div", f"… {len(variables) - len(shown):,} more variables", class_="i-grey")
    return joined(element("table", element("thead", head), element("tbody", *rows)), more)


def _row(summary: VariableSummary, cells: dict[str, Span], used: list[str]) -> Markup:
    """The row of a variable, with the columns that are used."""
    texts = [_cell(name, cells[name], summary) for name in used]
    path = safe(summary.path) or "(root)"
    return element("tr", element("td", element("b", path)), *[element("td", text) for text in texts])


def _cell(name: str, span: Span, summary: VariableSummary) -> Markup:
    """The text of a cell; the curve in place of a text that draws it."""
    if name == COURSE and course(summary):
        return spark(course(summary))
    return spans_of([span])


# A variable.


def series_text(title: str, series: SeriesSummary) -> Iterator[Line]:
    """A variable as lines of text."""
    yield Line(((title, "bold"),))
    for spans in _facts(series):
        yield Line((("  ", ""), *spans))
    for curve in series.curves:
        yield Line(((f"  {_rank(series, curve)}", "grey"), (sparkline(_few(curve.mean.tolist())), "green")))
    for stretch in series.texts:
        yield Line(((f"  {_steps(stretch)}  ", "grey"), (safe(stretch.text), "")))


def series_html(title: str, series: SeriesSummary) -> Markup:
    """A variable as a chart, or its texts."""
    parts = [element("div", element("b", title), class_="i-title")]
    ends = series.ends
    if ends is not None:
        parts.append(_chart(series, ends))
    parts += [element("div", spans_of(spans)) for spans in _facts(series)]
    if series.texts:
        parts.append(element("table", element("tbody", *map(_stretch_row, series.texts))))
    return joined(*parts)


def _chart(series: SeriesSummary, ends: tuple[float, float]) -> Markup:
    first, last = series.steps
    low, high = (figure(end, 4, whole=series.is_whole) for end in ends)
    words = f"{limits(*ends, whole=series.is_whole)} over the steps {first} to {last}"
    return labelled_chart(chart(series.curves, ends, (first, last), words), (low, high), (str(first), str(last)))


def _facts(series: SeriesSummary) -> Iterator[tuple[Span, ...]]:
    """The range, the last number of each rank, and the steps with NaN or Inf."""
    if series.ends is not None:
        lasts = [f"{_rank(series, curve)}{_last_number(curve)}" for curve in series.curves]
        span: Span = (limits(*series.ends, whole=series.is_whole), "")
        yield (("range ", "grey"), span, ("  last ", "grey"), (", ".join(lasts), ""))
    odd = sorted({step for curve in series.curves for step in curve.odd.tolist()})
    if odd:
        count = {1: "1 step"}.get(len(odd), f"{len(odd):,} steps")
        first = "the first of those shown" if series.is_sample else "the first"
        yield ((f"✗ NaN or Inf in {count}, {first} is {odd[0]}", "red"),)
    if series.is_sample:
        yield (("some of the steps are left out: there are too many values to show them all", "grey"),)


def _rank(series: SeriesSummary, curve: Curve) -> str:
    """The number of a rank, if there are several."""
    if len(series.curves) > 1:
        return f"rank {curve.rank}: "
    return ""


def _last_number(curve: Curve) -> str:
    last = known(curve.mean[-1].item())
    if last is None:
        return "not finite"
    return figure(last, 4, whole=curve.is_whole)


def _few(means: list[float]) -> list[float | None]:
    """Some of the means, at even distances."""
    count = min(len(means), SPARK_POINTS)
    return [known(means[place * len(means) // count]) for place in range(count)]


def _stretch_row(stretch: Band) -> Markup:
    return element("tr", element("td", _steps(stretch), class_="i-grey"), element("td", safe(stretch.text)))


def _steps(stretch: Band) -> str:
    if stretch.first == stretch.last:
        return f"step {stretch.first}"
    return f"steps {stretch.first} … {stretch.last}"
