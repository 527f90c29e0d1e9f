"""What comparing two runs found, as rows of a page: pairs of calls, and the causes among them."""

from __future__ import annotations

from typing import Any, get_args

from insitu.trace.diff import Cause, Compared, Diff, Status
from insitu.view.agreement import agreement, results_text
from insitu.view.page.packing import PackedColumns
from insitu.view.page.row_columns import RowColumns
from insitu.view.page.rows import PageRow, places, row_facts
from insitu.view.page.tables import Tables
from insitu.view.value import safe, short

STATUSES: tuple[str, ...] = get_args(Status)
MOST_TEXT = 400

_Numbers = dict[int, int]


def fill(diff: Diff, tables: Tables, rows: RowColumns, columns: PackedColumns) -> dict[str, Any]:
    """Add the calls of both sides as rows, and the pairs of them; return the facts about the whole diff."""
    numbers: _Numbers = {}
    every = diff.differences
    _side([row.a for row in every if row.a is not None], tables, rows, numbers)
    second = len(rows)
    _side([row.b for row in every if row.b is not None], tables, rows, numbers)
    columns.integers("pair.status", [STATUSES.index(row.status) for row in every])
    columns.integers("pair.a", [_number(row.a, numbers) for row in every], delta=True)
    columns.integers("pair.b", [_number(row.b, numbers) for row in every], delta=True)
    columns.integers("pair.what", [tables.text(short(safe(row.what), MOST_TEXT)) for row in every])
    columns.integers("pair.measure", [tables.text(safe(row.measure)) for row in every])
    columns.integers("pair.certainty", [tables.text(row.certainty) for row in every])
    columns.integers("pair.cause", [row.cause + 1 if row.cause is not None else 0 for row in every])
    columns.floats("pair.delta", [row.delta for row in every])
    return {
        "second": second,
        "agreement": _agreement(diff),
        "labels": [short(safe(label), 60) for label in diff.labels],
        "remarks": [safe(remark) for remark in diff.remarks],
        "statuses": STATUSES,
        "evidence": {str(kind): count for kind, count in diff.evidence.items()},
        "causes": [_cause(cause, numbers) for cause in diff.causes],
    }


def _side(events: list[Compared], tables: Tables, rows: RowColumns, numbers: _Numbers) -> None:
    distinct = list({id(event): event for event in events}.values())
    side = [PageRow(event, 0) for event in distinct]
    tables.begin(places(side, len(rows)))
    facts = row_facts(distinct)
    for row in side:
        numbers[id(row.event)] = len(rows) + 1
        rows.add(row, facts)


def _number(event: Compared | None, numbers: _Numbers) -> int:
    if event is not None:
        return numbers[id(event)]
    return 0


def _agreement(diff: Diff) -> str:
    """How far the runs agree; nothing if what comes out of them does not."""
    if not diff.causes:
        return agreement(diff)
    if diff.agrees:
        return results_text(diff)
    return ""


def _cause(cause: Cause, numbers: _Numbers) -> list[Any]:
    ends = [numbers.get(id(event), 0) if event is not None else 0 for event in (cause.a, cause.b)]
    again = [numbers.get(id(a if a is not None else b), 0) for a, b in cause.again]
    why = short(safe(cause.why), MOST_TEXT)
    return [cause.kind, why, cause.followers, cause.certainty, *ends, cause.effect, again]
