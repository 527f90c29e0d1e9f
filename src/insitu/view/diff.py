"""How two runs differ: first the verdict, then the calls side by side, with all that is the same folded."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from insitu.trace.diff import Cause, Compared, Diff, Difference
from insitu.trace.event import Call
from insitu.view.agreement import QUIET, agreement, results_text
from insitu.view.headline import again, called, called_in, delta_text, headline, output, seen
from insitu.view.line import Column, Line, Span
from insitu.view.name import spot
from insitu.view.ranges import outputs_cell
from insitu.view.terminal import Terminal, write_all
from insitu.view.value import result, safe, short

COLUMNS = (Column("output"), Column("difference", drop=3), Column("why", drop=2), Column("source", drop=1))
MOST_CAUSES = 5
MOST_ALIKE = 3  # rows of calls that only one side has, before they are counted
MOST_ROWS = 60
SIGNS: dict[str, Span] = {
    **{
        "same": ("=", "grey"),
        "close": ("≈", "grey"),
        "follows": ("~", "yellow"),
        "structure": ("*", "cyan"),
        "argument": ("*", "cyan"),
    },
    **{"only in a": ("-", "red"), "only in b": ("+", "green"), "raised": ("✗", "red"), "differs": ("✗", "red")},
}


def diff_lines(diff: Diff) -> Iterator[Line]:
    """The verdict on two runs and, below it, the calls side by side."""
    yield from verdict_lines(diff)
    for number, line in enumerate(pair_lines(diff)):
        if number == 0:
            yield Line((("", ""),))
        yield line


def pair_lines(diff: Diff) -> Iterator[Line]:
    """The calls side by side, with all that is the same folded; none if the runs agree."""
    rows = list(_folded(diff)) if not diff.close else []
    yield from rows[:MOST_ROWS]
    if len(rows) > MOST_ROWS:
        yield Line(((f"… {len(rows) - MOST_ROWS:,} more lines: diff.differences has a row for each call", "grey"),))


def render_diff(diff: Diff, *, color: bool = False, width: int | None = None) -> str:
    """A diff as text.

    >>> print(render_diff(Diff()))
    nothing to compare: neither run has a call
    """
    file = io.StringIO()
    Terminal(file, color, width).write(diff_lines(diff))
    return file.getvalue().removesuffix("\n")


def verdict_lines(diff: Diff) -> Iterator[Line]:
    """What a person wants to know first."""
    first = diff.first
    if first is None:
        yield Line(((agreement(diff), "green" if diff.close else "yellow"),))
        yield from _remarks(diff)
        return
    lead = "first difference" if first.effect != "lost" else f"{results_text(diff)}; first difference on the way"
    yield Line((("✗ ", "red"), (f"{lead}: {headline(diff, first)}", "bold")))
    yield from _sides(diff, first)
    yield Line(((f"  {_size(diff, first)}", ""),))
    for number, cause in enumerate(diff.causes[1:MOST_CAUSES], 2):
        lost = " (its effect is lost on the way)" if cause.effect == "lost" != first.effect else ""
        yield Line(((f"  {number}. ", "red"), (f"{headline(diff, cause)}{lost}", "")))
    if len(diff.causes) > MOST_CAUSES:
        yield Line(((f"  … {len(diff.causes) - MOST_CAUSES:,} more causes", "grey"),))
    yield from _remarks(diff)


def _remarks(diff: Diff) -> Iterator[Line]:
    for row in diff.differences:
        if row.status == "raised" and (diff.first is None or row.a is not diff.first.a):
            yield Line((("  ! ", "red"), (f"after it, {called(row.a)} {safe(row.what)}", "")))
    for remark in diff.remarks:
        yield Line((("  ! ", "yellow"), (safe(remark), "")))


def _instead(events: tuple[Compared, ...]) -> list[Span]:
    """Where a run goes on that lacks the calls of the other."""
    spans: list[Span] = [("no such call", "grey")]
    for event, sign in zip(events, (": ", " → "), strict=False):
        place = f"{spot(event.site)}  " if event.site is not None else ""
        spans += [(f"{sign}{place}", "grey"), (called(event), "cyan")]
    return spans


def _sides(diff: Diff, cause: Cause) -> Iterator[Line]:
    """The cause on either side: place, call, output, values."""
    shown = ((cause.a, cause.calls_a), (cause.b, cause.calls_b))
    labels = [_label(side, safe(label)) for side, label in zip("ab", diff.labels, strict=True)]
    width = max(map(len, labels))
    for (event, calls), label in zip(shown, labels, strict=True):
        if event is None:
            yield Line(((f"  {label:{width}}  ", "grey"), *_instead(cause.instead)), (), ())
            continue
        more = f"  and {len(calls) - 1} more" if len(calls) > 1 else ""
        site = spot(event.site) if event.site is not None else ""
        spans: list[Span] = [(f"  {label:{width}}  ", "grey"), (f"{site}  " if site else "", "grey")]
        text = f"  {safe(event.site.text.strip())}" if event.site is not None and event.site.text else ""
        spans += [(called(event), "cyan"), (more, "grey"), (f"  {output(event)}", "blue")]
        yield Line((*spans, (f"  {_values(event)}", ""), (short(text, 60), "grey")), (), ())
        into = result(event.inputs) if isinstance(event, Call) and event.inputs else ""
        if into:
            yield Line(((f"  {'':{width}}  from {into}", "grey"),), (), ())


def _label(side: str, label: str) -> str:
    """How a run is called in front of its line: its letter, which sentences use, and its file."""
    if label == side:
        return side
    return f"{side} {label}"


def _size(diff: Diff, cause: Cause) -> str:
    known = {"values": "values", "statistics": "statistics", "structure": "structure, not from values"}
    parts = [delta_text(cause), seen(cause), f"known from {known[cause.certainty]}", again(diff, cause)]
    if cause.followers:
        followers = _differ(cause.followers, "call")
        if cause.kind == "gradient" and cause.measure:
            followers = f"the gradients of {cause.followers:,} more call{'s' * (cause.followers != 1)} differ"
        parts.append(f"{followers} because of it")
    return "; ".join(filter(None, parts))


def _differ(count: int, what: str = "") -> str:
    if not what:
        return f"{count:,} differ{'s' * (count == 1)}"
    return f"{count:,} {what}{'s' * (count != 1)} after it differ{'s' * (count == 1)}"


def _folded(diff: Diff) -> Iterator[Line]:
    """The rows in the order of the run; those between two that tell something are one."""
    places = [pair for cause in diff.causes for pair in ((cause.a, cause.b), *cause.again)]
    heads = frozenset(id(event) for pair in places for event in pair if event is not None)
    for quiet, group in groupby(diff.differences, key=lambda row: row.status in QUIET):
        rows = list(group)
        if quiet:
            yield _quiet(rows)
            continue
        for _, alike in groupby(rows, key=_likeness):
            yield from _alike(diff, list(alike), heads)


def _likeness(row: Difference) -> tuple[Any, ...]:
    single = row.status in ("differs", "raised") or (row.status == "argument" and row.cause is not None)
    return (row.status, row.what, row.cause, id(row) if single else 0)


def _quiet(rows: list[Difference]) -> Line:
    """Calls that are the same, or within the tolerance, or differ because of what came before."""
    counts = Counter(row.status for row in rows)
    follow, near, same = counts["follows"], counts["close"], counts["same"]
    sign, ink = SIGNS["follows" if follow else "close" if near else "same"]
    texts = [
        f"{_differ(follow)} because of it" if follow else "",
        f"{near:,} equal within the tolerance" if near else "",
        f"{same:,} the same" if same else "",
    ]
    counted = "  " + ", ".join(filter(None, texts))
    return Line(((f"  {sign}  ", ink), (_range(rows), "bold"), (counted, ink)), (), COLUMNS)


def _range(rows: list[Difference]) -> str:
    """The modules that rows lie in: the first and the last."""
    places = [_module(row) for row in (rows[0], rows[-1])]
    return " … ".join(dict.fromkeys(filter(None, places))) or "calls"


def _module(row: Difference) -> str:
    return called_in(row.events[0])


def _alike(diff: Diff, rows: list[Difference], heads: frozenset[int]) -> Iterator[Line]:
    """Rows that say the same; of many the first ones."""
    most = MOST_ALIKE if len(rows) > MOST_ALIKE + 1 else len(rows)
    for row in rows[:most]:
        yield _row(diff, row, heads)
    if len(rows) > most:
        sign, ink = SIGNS[rows[0].status]
        yield Line(((f"  {sign}  … {len(rows) - most:,} more {rows[0].status}", ink),), (), COLUMNS)


def _row(diff: Diff, row: Difference, heads: frozenset[int]) -> Line:
    """A call beside that of the other run; `heads` are the ids of the calls where causes begin."""
    event = row.events[0]
    cause = _cause_that_begins(diff, row, heads)
    is_pair = len(row.events) == 2
    sign, ink = SIGNS["differs" if cause is not None and is_pair else row.status]
    path = _module(row) if isinstance(event, Call) and event.kind != "module" else ""
    why = row.what if cause is None else f"{short(cause.why, 80)}: the cause"
    sites = [side.site for side in row.events if side.site is not None]
    cells = (
        (_distinct(map(output, row.events)), "blue"),
        (_size_cell(row, cause) if is_pair or cause is not None else "", ""),
        (safe(short(why, 100)), ink),
        (_distinct(map(spot, sites)), "grey"),
    )
    return Line(((f"  {sign}  ", ink), (f"{path}  " if path else "", "bold"), (called(event), "")), cells, COLUMNS)


def _cause_that_begins(diff: Diff, row: Difference, heads: frozenset[int]) -> Cause | None:
    """The cause that begins at a row."""
    if row.cause is None or id(row.events[0]) not in heads:
        return None
    return diff.causes[row.cause]


def _size_cell(row: Difference, cause: Cause | None) -> str:
    """How large a difference is, or where it shows."""
    return delta_text(row) or (seen(cause) if cause is not None else "")


def _distinct(texts: Iterable[str]) -> str:
    """Texts of both runs; one if they are the same."""
    return " | ".join(dict.fromkeys(filter(None, texts)))


def _values(event: Compared) -> str:
    cell = outputs_cell([event]) if isinstance(event, Call) else None
    if cell is not None:
        return cell[0]
    return ""


def show_diff(diff: Diff, *, color: bool | None = None, width: int | None = None) -> None:
    """Print a diff to the terminal."""
    write_all(diff_lines(diff), None, color, width)
