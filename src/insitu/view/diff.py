"""How two runs differ: first the verdict, then the calls side by side, with all that is the same folded."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

from insitu.trace.diff import Cause, Compared, Diff, Difference, Status
from insitu.trace.event import Call
from insitu.view.agreement import QUIET, agreement, results_text
from insitu.view.effect import chain_text, distance_text, effect_text
from insitu.view.group_lines import group_lines
from insitu.view.headline import again, called, called_in, headline, output, seen, size_cell, size_text
from insitu.view.line import Column, Line, Span
from insitu.view.name import spot
from insitu.view.ranges import values_cell
from insitu.view.rank_text import join_text
from insitu.view.relation_text import relation_text
from insitu.view.terminal import Terminal, write_all
from insitu.view.value import result, safe, short

COLUMNS = (
    Column("output", narrow=24),
    Column("difference", drop=3),
    Column("why", drop=2),
    Column("source", drop=1),
)
MOST_CAUSES = 5
MOST_ALIKE = 3  # rows of calls that only one side has, before they are counted
MOST_ROWS = 60
SIGNS: dict[str, Span] = {
    "same": ("=", "grey"),
    "close": ("≈", "grey"),
    "follows": ("~", "yellow"),
    "structure": ("*", "cyan"),
    "argument": ("*", "cyan"),
    "only in a": ("-", "red"),
    "only in b": ("+", "green"),
    "raised": ("✗", "red"),
    "differs": ("✗", "red"),
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
    if diff.close:
        return
    rows = list(_folded(diff))
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
        yield from group_lines(diff)
        yield from _remarks(diff)
        return
    lead = "first difference"
    if not _is_earliest(diff, first):
        lead = "largest difference"
    if first.effect == "lost":
        lead = f"{results_text(diff)}; first difference on the way"
    yield Line((("✗ ", "red"), (f"{lead}: {headline(diff, first)}", "bold")))
    yield from _sides(diff, first)
    yield from _relations(first)
    yield Line(((f"  {_size(diff, first)}", ""),))
    yield from _effect(diff, first)
    yield from _other_causes(diff, first)
    yield from group_lines(diff)
    yield from _remarks(diff)


def _is_earliest(diff: Diff, first: Cause) -> bool:
    """Whether the cause that introduces the largest error is the first one in the run too."""
    places = [_place_in_run(cause) for cause in diff.causes if cause.effect == first.effect]
    return _place_in_run(first) == min(places)


def _place_in_run(cause: Cause) -> int:
    event = cause.a if cause.a is not None else (cause.instead or (cause.b,))[-1]
    assert event is not None
    return event.id


def _other_causes(diff: Diff, first: Cause) -> Iterator[Line]:
    """The causes after the first one; of many the first ones."""
    for number, cause in enumerate(diff.causes[1:MOST_CAUSES], 2):
        text = headline(diff, cause)
        if cause.effect == "lost" != first.effect:
            text += " (its effect is lost on the way)"
        yield Line(((f"  {number}. ", "red"), (text, "")))
        yield from _relations(cause)
        yield from _effect(diff, cause)
    if len(diff.causes) > MOST_CAUSES:
        yield Line(((f"  … {len(diff.causes) - MOST_CAUSES:,} more causes", "grey"),))


def _effect(diff: Diff, cause: Cause) -> Iterator[Line]:
    """What a cause does to the result, and how far both runs are from the reference."""
    for text in filter(None, (effect_text(diff, cause), chain_text(diff, cause))):
        yield Line(((f"  {text}", ""),), (), ())
    if cause.distance is not None:
        yield Line((("  ", ""), (distance_text(cause.distance, "here"), "bold")))
    is_first = cause is diff.first
    if is_first and diff.distance is not None:
        yield Line((("  ", ""), (distance_text(diff.distance, "in the result"), "bold")))


def _relations(cause: Cause) -> Iterator[Line]:
    """What the tensors of b are, if they are tensors of a in another order or place."""
    for relation in cause.relations:
        yield Line((("  → ", "cyan"), (relation_text(relation), "")))


def _remarks(diff: Diff) -> Iterator[Line]:
    """How ranks were joined, the exceptions after the first cause, and what only one run has."""
    if diff.ranks is not None:
        yield Line(((f"  {join_text(diff.ranks)}", "grey"),))
    first = None if diff.first is None else diff.first.a
    for row in diff.differences:
        is_first = first is not None and row.a is first
        if row.status == "raised" and not is_first:
            yield Line((("  ! ", "red"), (f"after it, {called(row.a)} {safe(row.what)}", "")))
    for remark in diff.remarks:
        yield Line((("  ! ", "yellow"), (safe(remark), "")))


def _instead(events: tuple[Compared, ...]) -> list[Span]:
    """Where a run goes on that lacks the calls of the other."""
    spans: list[Span] = [("no such call", "grey")]
    for event, sign in zip(events, (": ", " → "), strict=False):
        spans += [(f"{sign}{_place(event)}", "grey"), (called(event), "cyan")]
    return spans


def _place(event: Compared) -> str:
    """The line of an event, in front of its name."""
    if event.site is None:
        return ""
    return f"{spot(event.site)}  "


def _sides(diff: Diff, cause: Cause) -> Iterator[Line]:
    """The cause on either side: place, call, output, values."""
    labels = [_label(side, safe(label)) for side, label in zip("ab", diff.labels, strict=True)]
    width = max(map(len, labels))
    sides = zip(labels, (cause.a, cause.b), (cause.calls_a, cause.calls_b), strict=True)
    for label, event, calls in sides:
        lead = (f"  {label:{width}}  ", "grey")
        if event is None:
            yield Line((lead, *_instead(cause.instead)), (), ())
            continue
        yield Line((lead, *_side_spans(event, len(calls))), (), ())
        if isinstance(event, Call) and event.inputs:
            yield Line(((f"  {'':{width}}  from {result(event.inputs)}", "grey"),), (), ())


def _side_spans(event: Compared, count: int) -> list[Span]:
    """Where a cause begins in one run; `count` is of how many calls it consists there."""
    spans: list[Span] = [(_place(event), "grey"), (called(event), "cyan")]
    if count > 1:
        spans.append((f"  and {count - 1} more", "grey"))
    spans += [(f"  {output(event)}", "blue"), (f"  {_values(event)}", "")]
    if event.site is not None and event.site.text:
        spans.append((short(f"  {safe(event.site.text.strip())}", 60), "grey"))
    return spans


def _label(side: str, label: str) -> str:
    """How a run is called in front of its line: its letter, which sentences use, and its file."""
    if label == side:
        return side
    return f"{side} {label}"


_KNOWN_FROM = {"values": "values", "statistics": "statistics", "structure": "structure, not from values"}


def _size(diff: Diff, cause: Cause) -> str:
    """How large a difference is, how that is known, where else it occurs, and how much follows from it."""
    known = f"known from {_KNOWN_FROM[cause.certainty]}"
    texts = [size_text(cause) or _unknown_size(cause), seen(cause), known, again(diff, cause), _followers(cause)]
    return "; ".join(filter(None, texts))


def _unknown_size(cause: Cause) -> str:
    """That nothing is known of how large a difference is: no tensor of the other run belongs to it for sure."""
    is_of_calls = cause.kind == "calls" and cause.effect != "unknown"
    if not is_of_calls or cause.seen_at is not None:
        return ""
    return "its size is not known"


def _followers(cause: Cause) -> str:
    """How many calls differ because of a cause."""
    count = cause.followers
    if not count:
        return ""
    if cause.kind == "gradient" and cause.measure:
        return f"the gradients of {count:,} more call{'s' * (count != 1)} differ because of it"
    return f"{count:,} call{'s' * (count != 1)} after it differ{'s' * (count == 1)} because of it"


def _folded(diff: Diff) -> Iterator[Line]:
    """The rows in the order of the run; those between two that tell something are one."""
    heads = _heads(diff)
    for is_quiet, group in groupby(diff.differences, key=lambda row: row.status in QUIET):
        if is_quiet:
            yield _quiet(list(group))
            continue
        for _, alike in groupby(group, key=_likeness):
            yield from _alike(diff, list(alike), heads)


def _heads(diff: Diff) -> frozenset[int]:
    """The ids of the calls where causes begin."""
    return frozenset([id(event) for cause in diff.causes for event in cause.heads])


def _likeness(row: Difference) -> tuple[Any, ...]:
    """What rows have in common that are shown as one; a cause has a row of its own."""
    is_cause = row.status in ("differs", "raised")
    if row.status == "argument":
        is_cause = row.cause is not None
    return (row.status, row.what, row.cause, id(row) if is_cause else 0)


def _quiet(rows: list[Difference]) -> Line:
    """Calls that are the same, or within the tolerance, or differ because of what came before."""
    counts = Counter([row.status for row in rows])
    present = [status for status in _QUIET_TEXTS if counts[status]]
    sign, ink = SIGNS[present[0]]
    texts = [_QUIET_TEXTS[status](counts[status]) for status in present]
    return Line(((f"  {sign}  ", ink), (_range(rows), "bold"), (f"  {', '.join(texts)}", ink)), (), COLUMNS)


# The texts of quiet rows: the first status that occurs gives the sign.
_QUIET_TEXTS: dict[Status, Callable[[int], str]] = {
    "follows": lambda count: f"{count:,} differ{'s' * (count == 1)} because of it",
    "close": lambda count: f"{count:,} equal within the tolerance",
    "same": lambda count: f"{count:,} the same",
}


def _range(rows: list[Difference]) -> str:
    """The modules of rows: the first and the last."""
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
    status: Status = row.status
    why = row.what
    if cause is not None:
        why = f"{short(cause.why, 80)}: the cause"
        if len(row.events) == 2:
            status = "differs"
    sign, ink = SIGNS[status]
    sites = [side.site for side in row.events if side.site is not None]
    cells = (
        (_distinct(map(output, row.events)), "blue"),
        (_size_cell(row, cause), ""),
        (safe(short(why, 100)), ink),
        (_distinct(map(spot, sites)), "grey"),
    )
    return Line(((f"  {sign}  ", ink), (_module_lead(event), "bold"), (called(event), "")), cells, COLUMNS)


def _module_lead(event: Compared) -> str:
    """The module of a call, in front of its name; a module is named by its own path."""
    if not isinstance(event, Call) or event.kind == "module":
        return ""
    path = called_in(event)
    if not path:
        return ""
    return f"{path}  "


def _cause_that_begins(diff: Diff, row: Difference, heads: frozenset[int]) -> Cause | None:
    """The cause that begins at a row."""
    if row.cause is None or id(row.events[0]) not in heads:
        return None
    return diff.causes[row.cause]


def _size_cell(row: Difference, cause: Cause | None) -> str:
    """How large a difference is, or where it shows; nothing for calls that only one run makes."""
    if cause is not None:
        return size_cell(row) or seen(cause)
    if len(row.events) == 2:
        return size_cell(row)
    return ""


def _distinct(texts: Iterable[str]) -> str:
    """Texts of both runs; one if they are the same."""
    return " | ".join(dict.fromkeys(filter(None, texts)))


def _values(event: Compared) -> str:
    if not isinstance(event, Call):
        return ""
    cell = values_cell([event.outputs])
    if cell is None:
        return ""
    return cell[0]


def show_diff(diff: Diff, *, color: bool | None = None, width: int | None = None) -> None:
    """Print a diff to the terminal."""
    write_all(diff_lines(diff), None, color, width)
