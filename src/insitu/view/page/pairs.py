"""What comparing two runs found, as rows of a page: pairs of calls, and the causes among them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, get_args

from insitu.trace.diff import Cause, Compared, Diff, Difference, Status
from insitu.trace.event import Call, TensorFacts, tensors
from insitu.trace.kept_values import has_all_values, is_array
from insitu.view.agreement import agreement, results_text
from insitu.view.effect import distance_text, effect_text
from insitu.view.page.packing import PackedColumns
from insitu.view.page.row_columns import RowColumns
from insitu.view.page.rows import PageRow, places, row_facts
from insitu.view.page.tables import Tables
from insitu.view.relation_text import relation_text
from insitu.view.value import safe, short

STATUSES: tuple[str, ...] = get_args(Status)
MOST_TEXT = 400
MOST_OUTPUTS = 4  # of a call, whose differences are drawn

_Numbers = dict[int, int]  # the number of the row of an event, by the `id()` of the event; 0 for none


def fill(diff: Diff, tables: Tables, rows: RowColumns, columns: PackedColumns) -> dict[str, Any]:
    """Add the calls of both sides as rows, and the pairs of them; return the facts about the whole diff."""
    numbers: _Numbers = {id(None): 0}
    every = diff.differences
    tables.pictures.first = _differing_outputs(every)
    _side([row.a for row in every], tables, rows, numbers)
    second = len(rows)
    _side([row.b for row in every], tables, rows, numbers)
    _pairs(every, tables, columns, numbers)
    return {
        "second": second,
        "agreement": _agreement(diff),
        "labels": [short(safe(label), 60) for label in diff.labels],
        "remarks": [safe(remark) for remark in diff.remarks],
        "statuses": STATUSES,
        "evidence": {str(kind): count for kind, count in diff.evidence.items()},
        "causes": [_cause(diff, cause, numbers) for cause in diff.causes],
    }


def _pairs(every: list[Difference], tables: Tables, columns: PackedColumns, numbers: _Numbers) -> None:
    """Add a column for each fact about the pairs."""
    facts = [_pair_facts(row, tables, numbers) for row in every]
    for place, (name, delta) in enumerate(_PAIR_COLUMNS):
        columns.integers(name, [fact[place] for fact in facts], delta=delta)
    columns.floats("pair.delta", [row.delta for row in every])
    columns.floats("pair.relative", [None if row.relative is None else row.relative.size for row in every])
    for number, row in enumerate(every, 1):
        _add_differences(row, number, tables)


def _differing_outputs(every: list[Difference]) -> set[int]:
    """The ids of the outputs of calls that are not the same: their pictures come first."""
    events = [event for row in every if row.status != "same" for event in row.events]
    return {id(facts) for event in events for facts in _outputs(event)}


def _outputs(event: Compared) -> tuple[TensorFacts, ...]:
    """The tensors that a call returns, or that a variable holds."""
    if isinstance(event, Call):
        return event.outputs
    return tuple(tensors(event.value))


def _add_differences(row: Difference, number: int, tables: Tables) -> None:
    """Add pictures of the differences between the outputs of a pair, where the values of both were kept."""
    if row.a is None or row.b is None or row.status == "same":
        return
    outputs = zip(_outputs(row.a), _outputs(row.b), strict=False)
    for place, (a, b) in enumerate(islice(outputs, MOST_OUTPUTS)):
        have_arrays = _has_array(a) and _has_array(b)
        if have_arrays and a.shape == b.shape:
            tables.pictures.add_difference(number, place, a.kept, b.kept)


def _has_array(facts: TensorFacts) -> bool:
    """Whether all values of a tensor were kept, as an array."""
    return is_array(facts.kept) and has_all_values(facts)


# The columns of a pair, and whether a column is packed as differences.
_PAIR_COLUMNS = (
    ("pair.status", False),
    ("pair.a", True),
    ("pair.b", True),
    ("pair.what", False),
    ("pair.measure", False),
    ("pair.is_bound", False),
    ("pair.certainty", False),
    ("pair.cause", False),
    ("pair.because", True),
)


def _pair_facts(row: Difference, tables: Tables, numbers: _Numbers) -> tuple[int, ...]:
    """The numbers of a pair, in the order of `_PAIR_COLUMNS`."""
    return (
        STATUSES.index(row.status),
        numbers[id(row.a)],
        numbers[id(row.b)],
        tables.text(short(safe(row.what), MOST_TEXT)),
        tables.text(safe(row.measure)),
        int(row.relative is not None and row.relative.is_bound),
        tables.text(row.certainty),
        0 if row.cause is None else row.cause + 1,
        0 if row.because is None else row.because + 1,
    )


def _side(events: list[Compared | None], tables: Tables, rows: RowColumns, numbers: _Numbers) -> None:
    """Add the calls of one run, each once, and remember the numbers of their rows."""
    distinct = list({id(event): event for event in events if event is not None}.values())
    side = [PageRow(event, 0) for event in distinct]
    tables.begin(places(side, len(rows)))
    facts = row_facts(distinct)
    for row in side:
        numbers[id(row.event)] = len(rows) + 1
        rows.add(row, facts)


def _agreement(diff: Diff) -> str:
    """How far the runs agree; nothing if what comes out of them does not."""
    if not diff.causes:
        return agreement(diff)
    if diff.agrees:
        return results_text(diff)
    return ""


def _cause(diff: Diff, cause: Cause, numbers: _Numbers) -> list[Any]:
    """A cause as `pairs.js` reads it, with the rows of its calls and what the text says below it."""
    ends = [numbers.get(id(event), 0) for event in (cause.a, cause.b)]
    again = [numbers.get(id(a), 0) or numbers.get(id(b), 0) for a, b in cause.again]
    why = short(safe(cause.why), MOST_TEXT)
    notes = [short(safe(note), MOST_TEXT) for note in _notes(diff, cause)]
    return [cause.kind, why, cause.followers, cause.certainty, *ends, cause.effect, again, notes]


def _notes(diff: Diff, cause: Cause) -> Iterator[str]:
    """What the tensors at a cause are, what it does to the result, and how far both runs are from the reference."""
    yield from map(relation_text, cause.relations)
    effect = effect_text(diff, cause)
    if effect:
        yield effect
    if cause.distance is not None:
        yield distance_text(cause.distance, "here")
    is_first = cause is diff.first
    if is_first and diff.distance is not None:
        yield distance_text(diff.distance, "in the result")
