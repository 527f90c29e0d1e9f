"""What notebooks display: for each public noun its text, and HTML that works without any script.

Each function returns what `_repr_mimebundle_` must: a form for each kind that the front end wants. The HTML holds no
reference to anything outside of it, and its style follows the colours of the notebook. A trace and a diff also have
their page, in a frame; see `page_frame.py` for how only one of page and list is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import chain, islice

from insitu.trace.diff import Diff
from insitu.trace.event import Call
from insitu.trace.explain.explanation import Explanation
from insitu.trace.findings import Finding
from insitu.trace.run import RunSummary, SeriesSummary
from insitu.trace.trace import Trace
from insitu.view import replay
from insitu.view.call_card import call_card
from insitu.view.card import card_lines
from insitu.view.diff import diff_lines, pair_lines, verdict_lines
from insitu.view.error import lines as explanation_lines
from insitu.view.finding_card import CountedFinding, finding_card, finding_lines, guard_lines, guard_title
from insitu.view.line import Line
from insitu.view.missing_text import missing_lines
from insitu.view.notebook.card_html import card_html
from insitu.view.notebook.folded_list import MOST_ROWS, folded, preformatted
from insitu.view.notebook.forms import Forms, Kinds, forms
from insitu.view.notebook.markup import NOTHING, Markup, element, joined
from insitu.view.notebook.page_frame import page_or_list
from insitu.view.notebook.run_cell import SPARK_POINTS, run_html, run_text, series_html, series_text
from insitu.view.tree import Tree
from insitu.view.value import safe

__all__ = [
    "SPARK_POINTS",
    "call_forms",
    "diff_forms",
    "explanation_forms",
    "finding_forms",
    "guard_forms",
    "run_forms",
    "series_forms",
    "trace_forms",
]


def trace_forms(trace: Trace, include: Kinds = None, exclude: Kinds = None) -> Forms:
    """A trace: the tree as text, and the page.

    >>> trace_forms(Trace([Call(0, None, "function", "torch.ones", args=(3,))]))["text/plain"]
    'torch.ones(3)'
    """

    def lines() -> Iterator[Line]:
        return chain(missing_lines(trace), replay(trace.events, Tree(live=False, inputs=False)))

    return forms(trace, (include, exclude), lines, lambda rows: page_or_list(trace, len(rows), folded(rows)))


def diff_forms(diff: Diff, include: Kinds = None, exclude: Kinds = None) -> Forms:
    """A diff: the verdict, which begins with the first cause, and the page.

    >>> diff_forms(Diff())["text/plain"]
    'nothing to compare: neither run has a call'
    """

    def html(rows: list[Line]) -> Markup:
        verdict = preformatted(verdict_lines(diff))
        return joined(verdict, page_or_list(diff, len(diff.differences), _calls_side_by_side(diff)))

    return forms(diff, (include, exclude), lambda: diff_lines(diff), html)


def _calls_side_by_side(diff: Diff) -> Markup:
    calls = list(islice(pair_lines(diff), MOST_ROWS))
    if not calls:
        return NOTHING
    return element("details", element("summary", "the calls side by side"), preformatted(calls))


def call_forms(call: Call, include: Kinds = None, exclude: Kinds = None) -> Forms:
    """A call on a card."""
    return forms(call, (include, exclude), lambda: card_lines(call_card(call)), lambda rows: card_html(call_card(call)))


def explanation_forms(explanation: Explanation, include: Kinds = None, exclude: Kinds = None) -> Forms:
    """An explanation: the source with the values under it, the misfits, the origins."""
    return forms(explanation, (include, exclude), lambda: explanation_lines(explanation), preformatted)


def finding_forms(finding: Finding, include: Kinds = None, exclude: Kinds = None) -> Forms:
    """A finding on a card."""

    def html(rows: list[Line]) -> Markup:
        return card_html(finding_card(CountedFinding(finding)))

    return forms(finding, (include, exclude), lambda: finding_lines(finding), html)


def guard_forms(
    findings: Sequence[CountedFinding], *, is_running: bool, include: Kinds = None, exclude: Kinds = None
) -> Forms:
    """A guard: a card for each finding."""

    def html(rows: list[Line]) -> Markup:
        title = element("div", element("b", guard_title(findings, is_running=is_running)), class_="i-title")
        return joined(title, *[card_html(finding_card(counted)) for counted in findings])

    return forms(findings, (include, exclude), lambda: guard_lines(findings, is_running=is_running), html)


def run_forms(run: object, summary: Callable[[], RunSummary], include: Kinds = None, exclude: Kinds = None) -> Forms:
    """A recorded run: a table of its variables, each with its curve. `summary` reads it."""
    read = cache(summary)
    return forms(
        run, (include, exclude), lambda: run_text(_title(run), read()), lambda rows: run_html(_title(run), read())
    )


def series_forms(
    series: object, summary: Callable[[], SeriesSummary], include: Kinds = None, exclude: Kinds = None
) -> Forms:
    """A variable of a recorded run: a chart over the steps. `summary` reads it."""
    read = cache(summary)
    return forms(
        series,
        (include, exclude),
        lambda: series_text(_title(series), read()),
        lambda rows: series_html(_title(series), read()),
    )


def _title(subject: object) -> str:
    """An object in one line: what `repr` says between the brackets."""
    return safe(repr(subject).removeprefix("<").removesuffix(">"))
