"""How two runs differ: first the verdict, then the calls side by side, with all that is the same folded."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from insitu.trace.diff import Cause, Compared, Diff, Difference
from insitu.trace.event import Call
from insitu.view.line import Column, Line, Span
from insitu.view.name import compact, module_type, spot
from insitu.view.ranges import outputs_cell
from insitu.view.terminal import Terminal, write_all
from insitu.view.value import held, result, safe, short

COLUMNS = (Column("output"), Column("difference", drop=3), Column("why", drop=2), Column("source", drop=1))
MOST_CAUSES = 5
MOST_ALIKE = 3  # rows of calls that only one side has, before they are counted
MOST_ROWS = 60
SIGNS: dict[str, Span] = {
    **{"same": ("=", "grey"), "follows": ("~", "yellow"), "structure": ("*", "cyan"), "argument": ("*", "cyan")},
    **{"only in a": ("-", "red"), "only in b": ("+", "green"), "raised": ("✗", "red"), "differs": ("✗", "red")},
}


def diff_lines(diff: Diff) -> Iterator[Line]:
    """The lines that tell how two runs differ."""
    yield from _verdict(diff)
    rows = list(_folded(diff))
    if rows and not diff.same:
        yield Line((("", ""),))
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


def diff_facts(diff: Diff) -> dict[str, Any]:
    """The same as plain values, for JSON."""
    return {
        "a": diff.labels[0],
        "b": diff.labels[1],
        "same": diff.same,
        "certainty": diff.certainty,
        "counts": diff.counts,
        "evidence": dict(diff.evidence),
        "notes": diff.notes,
        "causes": [_cause_facts(cause) for cause in diff.causes],
        "differences": [_row_facts(row) for row in diff.differences if row.status not in ("same", "follows")],
    }


def _cause_facts(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind,
        "why": cause.why,
        "a": _event_facts(cause.a),
        "b": _event_facts(cause.b),
        "calls_a": len(cause.calls_a),
        "calls_b": len(cause.calls_b),
        **_size_facts(cause),
        "unknown": list(cause.unknown),
        "followers": cause.followers,
        "seen_at": _event_facts(cause.seen_at),
    }


def _row_facts(row: Difference) -> dict[str, Any]:
    found = {"status": row.status, "what": row.what, "a": _event_facts(row.a), "b": _event_facts(row.b)}
    return {**found, **_size_facts(row), "cause": row.cause}


def _size_facts(item: Cause | Difference) -> dict[str, Any]:
    delta = item.delta if item.delta is None or abs(item.delta) < float("inf") else str(item.delta)
    return {"delta": delta, "measure": item.measure, "certainty": item.certainty}


def _event_facts(event: Compared | None) -> dict[str, Any] | None:
    if event is None:
        return None
    site = event.site
    return {
        "id": event.id,
        "name": event.name,
        "path": event.path if isinstance(event, Call) else None,
        "output": _output(event),
        "file": site.file if site is not None else None,
        "line": site.line if site is not None else None,
        "step": event.step,
        "rank": event.rank,
    }


def _verdict(diff: Diff) -> Iterator[Line]:
    """What a person wants to know first."""
    first = diff.first
    if first is None:
        yield Line(((agreement(diff), "green" if diff.same else "yellow"),))
        yield from _notes(diff)
        return
    yield Line((("✗ ", "red"), (f"{_parting(diff, first)}: {safe(first.why)}", "bold")))
    yield from _sides(diff, first)
    yield Line(((f"  {_size(first)}", ""),))
    for number, cause in enumerate(diff.causes[1:MOST_CAUSES], 2):
        yield Line(((f"  {number}. ", "red"), (f"{_parting(diff, cause, short=True)}: {safe(cause.why)}", "")))
    if len(diff.causes) > MOST_CAUSES:
        yield Line(((f"  … {len(diff.causes) - MOST_CAUSES:,} more causes", "grey"),))
    yield from _notes(diff)


def _notes(diff: Diff) -> Iterator[Line]:
    for row in diff.differences:
        if row.status == "raised" and (diff.first is None or row.a is not diff.first.a):
            yield Line((("  ! ", "red"), (f"after it, {_called(row.a)} {safe(row.what)}", "")))
    for note in diff.notes:
        yield Line((("  ! ", "yellow"), (safe(note), "")))


def agreement(diff: Diff) -> str:
    """How far two runs agree that part nowhere.

    >>> agreement(Diff())
    'nothing to compare: neither run has a call'
    """
    count = sum(diff.counts.values())
    if not count and not diff.notes:
        return "nothing to compare: neither run has a call"
    if not count:
        return "nothing to compare: no call is in both runs"
    calls = f"{count:,} call{'s' * (count != 1)}"
    known = {
        "values": "by their values",
        "statistics": "by statistics, so equal only as far as these tell",
        "structure": "some by shapes, dtypes and arguments only: no values were kept",
    }[diff.certainty]
    if diff.same:
        return f"the same: {calls}, compared {known}"
    return f"not the same, but no difference has an effect: {calls}, compared {known}"


def _parting(diff: Diff, cause: Cause, *, short: bool = False) -> str:
    """Where the runs part: the lines on both sides, the call, the module."""
    sites = [(site, label) for site, label in zip(cause.sites, diff.labels, strict=True) if site is not None]
    places = list(dict.fromkeys(spot(site) for site, _ in sites))
    event = cause.a if cause.a is not None else cause.b
    name = _called(event)
    where = f" in {safe(event.path)}" if isinstance(event, Call) and event.path and event.kind != "module" else ""
    step = f", step {event.step}" if event is not None and _has_steps(diff) else ""
    if len(places) == 2:
        at = f" at {places[0]} in {safe(diff.labels[0])}, {places[1]} in {safe(diff.labels[1])}"
    else:
        at = f" at {places[0]}" if places else ""
    return f"{'' if short else 'the runs part'}{at}{step}, {name}{where}".lstrip(" ,")


def _has_steps(diff: Diff) -> bool:
    ends = [row.a if row.a is not None else row.b for row in (diff.differences[0], diff.differences[-1])]
    return len({event.step for event in ends if event is not None}) > 1


def _instead(events: tuple[Compared, ...]) -> list[Span]:
    """Where a run goes on that lacks the calls of the other."""
    spans: list[Span] = [("no such call", "grey")]
    for event, sign in zip(events, (": ", " → "), strict=False):
        place = f"{spot(event.site)}  " if event.site is not None else ""
        spans += [(f"{sign}{place}", "grey"), (_called(event), "cyan")]
    return spans


def _sides(diff: Diff, cause: Cause) -> Iterator[Line]:
    """The cause on either side: place, call, output, values."""
    shown = ((cause.a, cause.calls_a), (cause.b, cause.calls_b))
    labels = list(map(safe, diff.labels))
    width = max(map(len, labels))
    for (event, calls), label in zip(shown, labels, strict=True):
        if event is None:
            yield Line(((f"  {label:{width}}  ", "grey"), *_instead(cause.instead)), (), ())
            continue
        more = f"  and {len(calls) - 1} more" if len(calls) > 1 else ""
        site = spot(event.site) if event.site is not None else ""
        spans: list[Span] = [(f"  {label:{width}}  ", "grey"), (f"{site}  " if site else "", "grey")]
        text = f"  {safe(event.site.text.strip())}" if event.site is not None and event.site.text else ""
        spans += [(_called(event), "cyan"), (more, "grey"), (f"  {_output(event)}", "blue")]
        yield Line((*spans, (f"  {_values(event)}", ""), (short(text, 60), "grey")), (), ())
        into = result(event.inputs) if isinstance(event, Call) and event.inputs else ""
        if into:
            yield Line(((f"  {'':{width}}  from {into}", "grey"),), (), ())


def _size(cause: Cause) -> str:
    known = {"values": "values", "statistics": "statistics", "structure": "structure: not all values were kept"}
    parts = [_delta(cause), _seen(cause), f"known from {known[cause.certainty]}"]
    if cause.followers:
        followers = _differ(cause.followers, "call")
        if cause.kind == "gradient":
            followers = f"the gradients of {cause.followers:,} more call{'s' * (cause.followers != 1)} differ"
        parts.append(f"{followers} because of it")
    return "; ".join(filter(None, parts))


def _seen(cause: Cause) -> str:
    """Where a difference shows, if not in the output of the cause."""
    if cause.seen_at is None:
        return ""
    place = f"{spot(cause.seen_at.site)}, " if cause.seen_at.site is not None else ""
    return f"seen at {place}{_called(cause.seen_at)}"


def _differ(count: int, what: str = "") -> str:
    if not what:
        return f"{count:,} differ{'s' * (count == 1)}"
    return f"{count:,} {what}{'s' * (count != 1)} after it differ{'s' * (count == 1)}"


def _folded(diff: Diff) -> Iterator[Line]:
    """The rows in the order of the run; those between two that tell something are one."""
    for quiet, group in groupby(diff.differences, key=lambda row: row.status in ("same", "follows")):
        rows = list(group)
        if quiet:
            yield _quiet(rows)
            continue
        for _, alike in groupby(rows, key=_likeness):
            yield from _alike(diff, list(alike))


def _likeness(row: Difference) -> tuple[Any, ...]:
    single = row.status in ("differs", "raised") or (row.status == "argument" and row.cause is not None)
    return (row.status, row.what, row.cause, id(row) if single else 0)


def _quiet(rows: list[Difference]) -> Line:
    """Calls that are the same, or differ because of what came before."""
    follow = sum(row.status == "follows" for row in rows)
    same = len(rows) - follow
    sign, ink = SIGNS["follows" if follow else "same"]
    texts = [f"{_differ(follow)} because of it" if follow else "", f"{same:,} the same" if same else ""]
    told = "  " + ", ".join(filter(None, texts))
    return Line(((f"  {sign}  ", ink), (_range(rows), "bold"), (told, ink)), (), COLUMNS)


def _range(rows: list[Difference]) -> str:
    """The modules that rows lie in: the first and the last."""
    places = [_module(row) for row in (rows[0], rows[-1])]
    return " … ".join(dict.fromkeys(filter(None, places))) or "calls"


def _module(row: Difference) -> str:
    event = row.a if row.a is not None else row.b
    return safe(event.path) if isinstance(event, Call) else safe(event.name) if event is not None else ""


def _alike(diff: Diff, rows: list[Difference]) -> Iterator[Line]:
    """Rows that say the same; of many the first ones."""
    most = MOST_ALIKE if len(rows) > MOST_ALIKE + 1 else len(rows)
    for row in rows[:most]:
        yield _row(diff, row)
    if len(rows) > most:
        sign, ink = SIGNS[rows[0].status]
        yield Line(((f"  {sign}  … {len(rows) - most:,} more {rows[0].status}", ink),), (), COLUMNS)


def _row(diff: Diff, row: Difference) -> Line:
    cause = diff.causes[row.cause] if row.cause is not None else None
    event = row.a if row.a is not None else row.b
    begins = cause is not None and (event is cause.a or event is cause.b)
    sign, ink = SIGNS["differs"] if begins and row.a is not None and row.b is not None else SIGNS[row.status]
    path = _module(row) if isinstance(event, Call) and event.kind != "module" else ""
    outputs = list(dict.fromkeys(_output(side) for side in (row.a, row.b) if side is not None))
    places = list(dict.fromkeys(spot(side.site) for side in (row.a, row.b) if side is not None and side.site))
    why = f"{short(cause.why, 80)}: the cause" if begins and cause is not None else row.what
    paired = row.a is not None and row.b is not None
    cells = (
        (" | ".join(filter(None, outputs)), "blue"),
        (_delta(row) or (_seen(cause) if begins and cause is not None else "") if begins or paired else "", ""),
        (safe(short(why, 100)), ink),
        (" | ".join(places), "grey"),
    )
    return Line(((f"  {sign}  ", ink), (f"{path}  " if path else "", "bold"), (_called(event), "")), cells, COLUMNS)


def _called(event: Compared | None) -> str:
    if not isinstance(event, Call):
        return safe(event.name) if event is not None else ""
    if event.kind == "module" and event.module is not None:
        return f"{safe(event.path)} {module_type(event.module)}".strip()
    return safe(event.name) if event.kind == "aten" else compact(event)


def _output(event: Compared) -> str:
    if isinstance(event, Call):
        return f"raised {safe(event.raised)}" if event.raised is not None else result(event.result)
    return held(event.value)


def _values(event: Compared) -> str:
    cell = outputs_cell([event]) if isinstance(event, Call) else None
    return cell[0] if cell is not None else ""


def _delta(item: Cause | Difference) -> str:
    if not item.measure or item.delta == 0:
        return ""
    return item.measure if item.delta is None else f"{item.measure} {item.delta:.3g}"


def show_diff(diff: Diff, *, color: bool | None = None, width: int | None = None) -> None:
    """Print a diff to the terminal."""
    write_all(diff_lines(diff), None, color, width)
