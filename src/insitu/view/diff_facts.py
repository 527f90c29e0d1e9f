"""How two runs differ, as plain values for JSON."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from typing import Any

from insitu.trace.compare.distance import Distance
from insitu.trace.compare.relative import RelativeError
from insitu.trace.diff import Cause, Compared, Diff, Difference, RankJoin, ResultEffect
from insitu.trace.event import Call
from insitu.view.agreement import QUIET, tolerance_of
from insitu.view.headline import output
from insitu.view.relation_text import relation_text


def diff_facts(diff: Diff) -> dict[str, Any]:
    """The same as plain values, for JSON."""
    return {
        "a": diff.labels[0],
        "b": diff.labels[1],
        "same": diff.same,
        "close": diff.close,
        "passes": diff.passes,
        "agrees": diff.agrees,
        "largest": _largest_facts(diff),
        "certainty": diff.certainty,
        "counts": diff.counts,
        "evidence": dict(diff.evidence),
        "remarks": diff.remarks,
        "ranks": _rank_facts(diff.ranks),
        "distance": _distance_facts(diff.distance),
        "causes": [_cause_facts(cause) for cause in diff.causes],
        "differences": [_row_facts(row) for row in diff.differences if row.status not in QUIET],
    }


def _rank_facts(ranks: RankJoin | None) -> dict[str, Any] | None:
    if ranks is None:
        return None
    return asdict(ranks)


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
        "relations": [relation_text(relation) for relation in cause.relations],
        "result": _result_facts(cause.result),
        "distance": _distance_facts(cause.distance),
    }


def _result_facts(result: ResultEffect | None) -> dict[str, Any] | None:
    if result is None:
        return None
    facts = {"a": _event_facts(result.a), "b": _event_facts(result.b), "share": result.share}
    return {**facts, **_error_facts(result.relative)}


def _distance_facts(distance: Distance | None) -> dict[str, Any] | None:
    if distance is None:
        return None
    return {"a": _error_facts(distance.a), "b": _error_facts(distance.b), "wrong": distance.wrong}


def _error_facts(error: RelativeError | None) -> dict[str, Any]:
    size, is_bound = error or (None, False)
    return {"relative": _plain_number(size), "relative_is_bound": is_bound}


def _row_facts(row: Difference) -> dict[str, Any]:
    found = {"status": row.status, "what": row.what, "a": _event_facts(row.a), "b": _event_facts(row.b)}
    return {**found, **_size_facts(row), "cause": row.cause, "because": row.because}


def _size_facts(item: Cause | Difference) -> dict[str, Any]:
    return {
        **_error_facts(item.relative),
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
