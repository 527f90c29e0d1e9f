"""The newest values of a variable, which the end of a journal has, as curves."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np

from insitu.store.journal.journal_tail import TailValue
from insitu.store.run.value_numbers import SeriesNumbers, SeriesTexts, python_values, statistic_column, tensor_values
from insitu.store.stored_type import JSON
from insitu.trace.curve import BandCurve, Numbers, curves_of
from insitu.trace.event import STATISTICS
from insitu.trace.variable_curves import VariableCurves


def curves_of_values(name: str, values: list[TailValue]) -> VariableCurves:
    """A variable that is numbers, tensors or texts."""
    found = _numbers_or_texts(values)
    if isinstance(found, SeriesTexts):
        return VariableCurves(name, "variable", bands=tuple(_bands(values, found.texts)))
    rows = found.rows
    steps, ranks, times = (column[rows] for column in _columns(values))
    curves = curves_of(steps, ranks, times, found.numbers, is_whole=found.is_whole)
    return VariableCurves(name, "variable", curves=tuple(curves))


def _numbers_or_texts(values: list[TailValue]) -> SeriesNumbers | SeriesTexts:
    """The values of one variable, whatever was recorded of it."""
    (_, dtype) = values[0].key
    held = [value.value for value in values]
    if dtype == JSON:
        return python_values(held)
    return tensor_values(held, dtype)


def _bands(values: list[TailValue], texts: list[str]) -> Iterable[BandCurve]:
    """The texts of each rank over its steps."""
    rows = sorted(zip(values, texts, strict=True), key=lambda row: (row[0].rank, row[0].step))
    for rank, group in groupby(rows, key=lambda row: row[0].rank):
        own = list(group)
        yield BandCurve.of_texts(rank, [value.step for value, _ in own], [text for _, text in own])


def curves_of_statistics(name: str, values: list[TailValue]) -> VariableCurves:
    """A tensor of which the statistics were recorded; a value that lacks one of them is left out."""
    by_moment: dict[tuple[int, int, int], dict[str, TailValue]] = {}
    for value in values:
        statistic = value.key[0].rpartition(".")[2]
        by_moment.setdefault((value.rank, value.step, value.call), {})[statistic] = value
    whole = [named for named in by_moment.values() if len(named) == len(STATISTICS)]
    columns = {row.name: statistic_column([named[row.name].value for named in whole]) for row in STATISTICS}
    steps, ranks, times = _columns([named["count"] for named in whole])
    numbers = Numbers.of_statistics({statistic: column.numbers for statistic, column in columns.items()})
    is_whole = columns["min"].is_whole and columns["max"].is_whole
    return VariableCurves(name, "variable", curves=tuple(curves_of(steps, ranks, times, numbers, is_whole=is_whole)))


def _columns(values: list[TailValue]) -> tuple[Any, Any, Any]:
    """The step, the rank and the time of each value."""
    steps = np.array([value.step for value in values], np.int64)
    ranks = np.array([value.rank for value in values], np.int64)
    return steps, ranks, np.array([value.time for value in values], np.float64)
