"""How two runs differ: first the verdict, then the calls side by side, with all that is the same folded."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from insitu.trace.diff import Cause, Compared, Diff, Difference, largest
from insitu.trace.event import Call, tensors
from insitu.view.line import Column, Line, Span
from insitu.view.name import compact, function_name, module_type, spot
from insitu.view.terminal import Terminal, write_all
from insitu.view.tree import union_of
from insitu.view.value import held, result, safe, short, spread

COLUMNS = (Column("output"), Column("difference", drop=3), Column("why", drop=2), Column("source", drop=1))
MOST_CAUSES = 5
MOST_ALIKE = 3  # rows of calls that only one side has, before they are counted
MOST_ROWS = 60
MOST_PLACES = 3  # of a cause that occurs again, before they are counted
QUIET = ("same", "close", "follows")
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
    """The lines that tell how two runs differ."""
    yield from _verdict(diff)
    rows = list(_folded(diff)) if not diff.close else []
    if rows:
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
        "close": diff.close,
        "agrees": diff.agrees,
        "largest": _largest_facts(diff),
        "certainty": diff.certainty,
        "counts": diff.counts,
        "evidence": dict(diff.evidence),
        "notes": diff.notes,
        "causes": [_cause_facts(cause) for cause in diff.causes],
        "differences": [_row_facts(row) for row in diff.differences if row.status not in QUIET],
    }


def _largest_facts(diff: Diff) -> dict[str, Any] | None:
    row = diff.largest
    if row is None:
        return None
    rtol, atol = _tolerance(diff, row)
    return {"rtol": rtol, "atol": atol, **_size_facts(row), "a": _event_facts(row.a), "b": _event_facts(row.b)}


def _cause_facts(cause: Cause) -> dict[str, Any]:
    return {
        "kind": cause.kind,
        "why": cause.why,
        "effect": cause.effect,
        "times": cause.times,
        "again": [{"a": _event_facts(a), "b": _event_facts(b)} for a, b in cause.again],
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
        yield Line(((agreement(diff), "green" if diff.close else "yellow"),))
        yield from _notes(diff)
        return
    lead = "first difference" if first.effect != "lost" else f"{_results(diff)}; first difference on the way"
    yield Line((("✗ ", "red"), (f"{lead}: {_headline(diff, first)}", "bold")))
    yield from _sides(diff, first)
    yield Line(((f"  {_size(first)}", ""),))
    for number, cause in enumerate(diff.causes[1:MOST_CAUSES], 2):
        lost = " (its effect is lost on the way)" if cause.effect == "lost" != first.effect else ""
        yield Line(((f"  {number}. ", "red"), (f"{_headline(diff, cause)}{lost}", "")))
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
    """How far two runs agree between which no difference has an effect.

    >>> agreement(Diff())
    'nothing to compare: neither run has a call'
    """
    count = sum(diff.counts.values())
    if not count and not diff.notes:
        return "nothing to compare: neither run has a call"
    if not count:
        return "nothing to compare: no call is in both runs"
    known = {
        "values": "compared by their values",
        "statistics": "compared by statistics, so equal only as far as these show",
        "structure": "some compared by shapes, dtypes and arguments only: no values were kept",
    }[diff.certainty]
    if set(diff.counts) <= {"same"}:
        return f"the same: {_counted(diff)}, {known}"
    if set(diff.counts) <= {"same", "close"}:
        return f"{_within(diff)}, {known}"
    differently = sum(amount for status, amount in diff.counts.items() if status not in QUIET)
    verb = "call is" if differently == 1 else "calls are"
    return f"{_results(diff)}; {differently:,} {verb} made differently on the way: {_counted(diff)}, {known}"


def _within(diff: Diff) -> str:
    """That two runs are equal within the tolerance, and how close they come to it."""
    row = diff.largest
    assert row is not None
    rtol, atol = _tolerance(diff, row)
    return (
        f"equal within rtol {rtol:g}, atol {atol:g}: {_counted(diff)}, {diff.counts['close']:,} of them not exactly "
        f"the same (largest difference {_delta(row)}: {_where(diff, row)})"
    )


def _results(diff: Diff) -> str:
    """That the results agree, and how far."""
    row = largest([row for row in diff.results if row.measure and row.status in ("close", "structure", "argument")])
    if row is None:
        return "the results are the same"
    return f"the results agree (largest difference {_delta(row)})"


def _tolerance(diff: Diff, row: Difference) -> tuple[float, float]:
    """The tolerance by which the values of a row were compared."""
    held = [event.result if isinstance(event, Call) else event.value for event in (row.a, row.b) if event is not None]
    dtypes = [facts.dtype for item in held for facts in tensors(item) if facts.dtype in diff.tolerance.table]
    return diff.tolerance.of(*(dtypes[0], dtypes[-1]) if dtypes else ("f32", "f32"))  # a Python number as f32


def _where(diff: Diff, row: Difference) -> str:
    """The call or variable of a row, and its place."""
    event = row.a if row.a is not None else row.b
    assert event is not None
    step = [f"step {event.step}"] if _has_steps(diff) else []
    place = [spot(event.site)] if event.site is not None and isinstance(event, Call) else []
    return ", ".join([_named(event), *place, *step])


def _counted(diff: Diff) -> str:
    """How much was compared: calls, or values of variables."""
    count = sum(diff.counts.values())
    events = [row.a if row.a is not None else row.b for row in diff.differences]
    if any(isinstance(event, Call) for event in events):
        return f"{count:,} call{'s' * (count != 1)}"
    names = {event.name for event in events if event is not None}
    return f"{count:,} value{'s' * (count != 1)} of {len(names):,} variable{'s' * (len(names) != 1)}"


def _headline(diff: Diff, cause: Cause) -> str:
    """A cause in one line: the module and the call, the lines on both sides, how often, and why."""
    event = cause.a if cause.a is not None else cause.b
    assert event is not None
    sites = [(site, label) for site, label in zip(cause.sites, diff.labels, strict=True) if site is not None]
    places = list(dict.fromkeys(spot(site) for site, _ in sites))
    if len(places) == 2:
        places = [f"{place} in {safe(label)}" for place, (_, label) in zip(places, sites, strict=True)]
    if _has_steps(diff):
        places.append(f"step {event.step}")
    at = f" ({', '.join(places)})" if places else ""
    times = f" × {cause.times:,}" if cause.times > 1 else ""
    return f"{_named(event)}{at}{times}: {safe(cause.why)}"


def _named(event: Compared) -> str:
    """A call by its module and its name, without arguments."""
    if not isinstance(event, Call) or event.kind == "module":
        return _called(event)
    name = compact(event) if event.operator is not None else function_name(event.name)
    return f"{safe(event.path)} {name}".lstrip()


def _again(cause: Cause) -> str:
    """Where else the same is the cause."""
    places = [_place_of(a if a is not None else b) for a, b in cause.again]
    distinct = list(dict.fromkeys(filter(None, places)))
    if not distinct:
        return ""
    if len(distinct) <= MOST_PLACES:
        return ", ".join(distinct)
    return f"{distinct[0]} … {distinct[-1]}"


def _place_of(event: Compared | None) -> str:
    if event is None:
        return ""
    return safe(event.path) if isinstance(event, Call) else f"step {event.step}"


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
        spans += [(_called(event), "cyan"), (more, "grey"), (f"  {_output(event)}", "blue")]
        yield Line((*spans, (f"  {_values(event)}", ""), (short(text, 60), "grey")), (), ())
        into = result(event.inputs) if isinstance(event, Call) and event.inputs else ""
        if into:
            yield Line(((f"  {'':{width}}  from {into}", "grey"),), (), ())


def _label(side: str, label: str) -> str:
    """How a run is called in front of its line: its letter, which sentences use, and its file."""
    return side if label == side else f"{side} {label}"


def _size(cause: Cause) -> str:
    known = {"values": "values", "statistics": "statistics", "structure": "structure, not from values"}
    again = _again(cause)
    parts = [_delta(cause), _seen(cause), f"known from {known[cause.certainty]}", f"also in {again}" if again else ""]
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
    told = "  " + ", ".join(filter(None, texts))
    return Line(((f"  {sign}  ", ink), (_range(rows), "bold"), (told, ink)), (), COLUMNS)


def _range(rows: list[Difference]) -> str:
    """The modules that rows lie in: the first and the last."""
    places = [_module(row) for row in (rows[0], rows[-1])]
    return " … ".join(dict.fromkeys(filter(None, places))) or "calls"


def _module(row: Difference) -> str:
    event = row.a if row.a is not None else row.b
    return safe(event.path) if isinstance(event, Call) else safe(event.name) if event is not None else ""


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
    cause = diff.causes[row.cause] if row.cause is not None else None
    event = row.a if row.a is not None else row.b
    begins = cause is not None and id(event) in heads
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
    stats = union_of([event]) if isinstance(event, Call) else None
    return spread(stats) if stats is not None else ""


def _delta(item: Cause | Difference) -> str:
    if not item.measure or item.delta == 0:
        return ""
    return item.measure if item.delta is None else f"{item.measure} {item.delta:.3g}"


def show_diff(diff: Diff, *, color: bool | None = None, width: int | None = None) -> None:
    """Print a diff to the terminal."""
    write_all(diff_lines(diff), None, color, width)
