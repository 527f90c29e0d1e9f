"""Summarizes one series for a chart: the curves of its ranks, or its texts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from insitu.store.run.curves import curves
from insitu.store.run.sample import MOST_BYTES, sample
from insitu.trace.curve import Band
from insitu.trace.run import SeriesSummary

if TYPE_CHECKING:
    from insitu.store.run.series import Series

POINTS = 400  # steps of a series that is too large to be read at once
MOST_STRETCHES = 20
MOST_TEXT = 100  # characters


def series_summary(series: Series) -> SeriesSummary:
    """The curves of a series; if its values are not numbers, the stretches of steps with the same value."""
    chosen = sample(series, POINTS, MOST_BYTES)
    found = tuple(curves(chosen))
    if found:
        return SeriesSummary(found, is_sample=len(chosen) < len(series))
    stretches = list(islice(_stretches(chosen), MOST_STRETCHES + 1))
    is_sample = len(chosen) < len(series) or len(stretches) > MOST_STRETCHES
    return SeriesSummary(texts=tuple(stretches[:MOST_STRETCHES]), is_sample=is_sample)


def _stretches(series: Series) -> Iterator[Band]:
    """The steps that follow each other and have the same text."""
    rows = zip(series.steps.tolist(), series, strict=True)
    for text, same in groupby(((step, f"{value!r:.{MOST_TEXT}}") for step, value in rows), key=itemgetter(1)):
        steps = [step for step, _ in same]
        yield Band(steps[0], steps[-1], text)
