"""The table of statistics, against the fields of `Stats`; every consumer has all rows."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from insitu.store.text.trace_text_reader import from_text
from insitu.store.text.trace_text_writer import to_text
from insitu.store.trace.schema import SCHEMA
from insitu.trace.compare.closeness import Tolerance, close
from insitu.trace.event import COUNTS, STATISTICS, Call, Statistic, Stats, TensorFacts
from insitu.trace.trace import COLUMNS, Trace
from insitu.view.ranges import union

# Each statistic is known, and has another value.
EXAMPLE = Stats(
    **{
        row.name: number + 1.0 if row.kind == "number" else len(STATISTICS) - number
        for number, row in enumerate(STATISTICS)
    }
)


def facts(stats: Stats) -> TensorFacts:
    return TensorFacts(0, (8,), "f32", "cpu", producer=0, stats=stats)


def traced(stats: Stats) -> Trace:
    return Trace([Call(0, None, "function", "torch.relu", result=facts(stats))])


def changed(row: Statistic) -> Stats:
    return replace(EXAMPLE, **{row.name: getattr(EXAMPLE, row.name) + 1})


def test_every_field_but_the_histogram_has_a_row() -> None:
    assert [row.name for row in STATISTICS] == [field.name for field in fields(Stats) if field.name != "histogram"]


def test_statistics_are_given_by_name() -> None:
    with pytest.raises(TypeError):
        Stats(*(8, 0.0, 1.0))  # type: ignore[misc]


@pytest.mark.parametrize("row", STATISTICS, ids=lambda row: row.name)
def test_numbers_can_be_unknown_and_counts_are_zero(row: Statistic) -> None:
    assert getattr(Stats(), row.name) == (None if row.kind == "number" else 0)


@pytest.mark.parametrize("row", STATISTICS, ids=lambda row: row.name)
def test_files_have_every_statistic(row: Statistic) -> None:
    assert row.name in SCHEMA["stats"]
    (back,) = from_text(to_text(traced(changed(row)))).calls[0].outputs
    assert back.stats is not None and getattr(back.stats, row.name) == getattr(changed(row), row.name)


@pytest.mark.parametrize("row", [row for row in STATISTICS if row.is_column], ids=lambda row: row.name)
def test_tables_have_a_column_for_each_statistic(row: Statistic) -> None:
    assert row.name in COLUMNS


@pytest.mark.parametrize("row", STATISTICS, ids=lambda row: row.name)
def test_a_difference_in_any_statistic_is_seen(row: Statistic) -> None:
    found = close(facts(EXAMPLE), facts(changed(row)), Tolerance())
    if row.bound == "detail":
        assert found.same and found.measure == "histogram"
    else:
        assert found.same is False and found.measure == f"Δ {row.label}"


@pytest.mark.parametrize("row", COUNTS, ids=lambda row: row.name)
def test_counts_of_calls_that_are_alike_are_added(row: Statistic) -> None:
    both = union([EXAMPLE, EXAMPLE])
    assert both is not None and getattr(both, row.name) == 2 * getattr(EXAMPLE, row.name) > 0
