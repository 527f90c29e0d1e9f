"""How two runs differ, as plain values for JSON."""

from __future__ import annotations

from math import isfinite
from typing import Any

from insitu.trace.diff import Cause, Compared, Diff, Difference
from insitu.trace.event import Call
from insitu.view.agreement import QUIET, tolerance_of
from insitu.view.headline import output


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
        "remarks": diff.remarks,
        "causes": [_cause_facts(cause) for cause in diff.causes],
        "differences": [_row_facts(row) for row in diff.differences if row.status not in QUIET],
    }


def _largest_facts(diff: Diff) -> dict[str, Any] | None:
    row = diff.largest
    if row is None:
        return None
    rtol, atol = tolerance_of(diff, row)
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
    size, is_bound = item.relative or (None, False)
    return {
        "relative": _plain_number(size),
        "relative_is_bound": is_bound,
        "delta": _plain_number(item.delta),
        "measure": item.measure,
        "certainty": item.certainty,
    }


def _plain_number(number: float | None) -> float | str | None:
    """A number as JSON has it; NaN and Inf are texts."""
    if number is None or isfinite(number):
        return number
    return str(number)


def _event_facts(event: Compared | None) -> dict[str, Any] | None:
    if event is None:
        return None
    site = event.site
    return {
        "id": event.id,
        "name": event.name,
        "path": event.path if isinstance(event, Call) else None,
        "output": output(event),
        "file": site.file if site is not None else None,
        "line": site.line if site is not None else None,
        "step": event.step,
        "rank": event.rank,
    }
