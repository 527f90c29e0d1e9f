"""A variable over the steps: a curve of its numbers, or bands of its texts, in as few points as a reader can see.

A curve has a point for each step. `Curve.reduced` makes fewer: it joins the steps of a range into one point, and keeps
the least and the largest number of the range. Ranges begin at multiples of their width, which is a power of two, so the
points of all variables, ranks and runs with this width are at the same steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MOST_TEXTS = 4  # that are named, of a band with several


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """The elements of some values, a row for each value; a number is a value with one element.

    `low`, `high`, `mean`, `std` and `norm` are those of the finite elements, and NaN where there are none. `norm` is
    the l2 norm: the root of the sum of squares. `count` is the number of finite elements, `nan`, `inf` and `zeros` are
    the numbers of the others.
    """

    low: Array
    mean: Array
    high: Array
    std: Array
    norm: Array
    count: Array
    nan: Array
    inf: Array
    zeros: Array

    @classmethod
    def of_numbers(cls, values: Array) -> Numbers:
        """Each value is one number.

        >>> numbers = Numbers.of_numbers(np.array([2.0, np.nan]))
        >>> numbers.mean.tolist(), numbers.nan.tolist()
        ([2.0, nan], [0, 1])
        """
        is_finite = np.isfinite(values)
        finite = np.where(is_finite, values, np.nan)
        return cls(
            low=finite,
            mean=finite,
            high=finite,
            std=np.where(is_finite, 0.0, np.nan),
            norm=abs(finite),
            count=is_finite.astype(np.int64),
            nan=np.isnan(values).astype(np.int64),
            inf=np.isinf(values).astype(np.int64),
            zeros=(values == 0).astype(np.int64),
        )

    @classmethod
    def of_statistics(cls, columns: dict[str, Array]) -> Numbers:
        """Each value is known by its statistics: `columns` has one for each of them, by name.

        The sum of squares follows from the others: the mean square is std² + mean².

        >>> named = {"count": 2, "min": 3.0, "max": 4.0, "mean": 3.5, "std": 0.5, "nan": 0, "inf": 0, "zeros": 0}
        >>> Numbers.of_statistics({name: np.array([number]) for name, number in named.items()}).norm.round(6).tolist()
        [5.0]
        """
        nan, inf = (_integers(columns[name]) for name in ("nan", "inf"))
        count = _integers(columns["count"]) - nan - inf
        mean, std = (columns[name].astype(np.float64) for name in ("mean", "std"))
        with np.errstate(all="ignore"):
            norm = np.sqrt(np.maximum(count, 0)) * np.hypot(std, mean)
        return cls(
            low=columns["min"].astype(np.float64),
            mean=mean,
            high=columns["max"].astype(np.float64),
            std=std,
            norm=norm,
            count=count,
            nan=nan,
            inf=inf,
            zeros=_integers(columns["zeros"]),
        )

    @classmethod
    def of_tensors(cls, values: Array) -> Numbers:
        """Each value is a tensor: an array (N, *shape). A complex number counts by its absolute value.

        Sums are made of shares, because a sum of large numbers or squares does not fit into a float.

        >>> Numbers.of_tensors(np.array([[3.0, -4.0, np.inf]])).norm.tolist()
        [5.0]
        """
        table = (abs(values) if values.dtype.kind == "c" else values).astype(np.float64).reshape(len(values), -1)
        if not table.size:
            return cls._of_nothing(len(table))
        is_finite = np.isfinite(table)
        count = is_finite.sum(axis=1)
        elements = np.where(is_finite, table, 0.0)
        number = np.maximum(count, 1)[:, np.newaxis]
        mean = (elements / number).sum(axis=1)
        largest = abs(elements).max(axis=1)
        scale = np.where(largest > 0, largest, 1.0)
        with np.errstate(all="ignore"):
            norm = scale * np.sqrt(((elements / scale[:, np.newaxis]) ** 2).sum(axis=1))
            apart = np.where(is_finite, table - mean[:, np.newaxis], 0.0) / scale[:, np.newaxis]
            std = scale * np.sqrt((apart**2 / number).sum(axis=1))

        def known(column: Array) -> Array:
            return np.where(count > 0, column, np.nan)

        return cls(
            low=known(np.where(is_finite, table, np.inf).min(axis=1)),
            mean=known(mean),
            high=known(np.where(is_finite, table, -np.inf).max(axis=1)),
            std=known(std),
            norm=known(norm),
            count=count,
            nan=np.isnan(table).sum(axis=1),
            inf=np.isinf(table).sum(axis=1),
            zeros=(table == 0).sum(axis=1),
        )

    @classmethod
    def _of_nothing(cls, rows: int) -> Numbers:
        """Values without an element."""
        unknown, none = np.full(rows, np.nan), np.zeros(rows, np.int64)
        return cls(unknown, unknown, unknown, unknown, unknown, none, none, none, none)

    @classmethod
    def stacked(cls, parts: Sequence[Numbers]) -> Numbers:
        """The rows of all parts, one part after the other."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def part(self, rows: Any) -> Numbers:
        """Some of the rows."""
        return Numbers(*(getattr(self, field.name)[rows] for field in fields(self)))

    def joined(self, starts: Array) -> Numbers:
        """Rows that follow each other as one row: the elements of all their values together.

        `starts` are the rows at which each group begins. A group has no mean if one of its values has no finite
        element, such as a loss that became NaN: the mean of the others would hide it.
        """
        if len(starts) == len(self.low):
            return self
        group = np.repeat(np.arange(len(starts)), np.diff([*starts, len(self.low)]))
        count = np.add.reduceat(self.count, starts)
        share = self.count / np.maximum(count, 1)[group]
        is_broken = (self.count == 0) & (self.nan + self.inf > 0)
        with np.errstate(all="ignore"):
            mean = np.add.reduceat(np.where(self.count > 0, self.mean * share, 0.0), starts)
            square = share * (self.std**2 + (self.mean - mean[group]) ** 2)
            std = np.sqrt(np.add.reduceat(np.where(self.count > 0, square, 0.0), starts))
            norm = np.hypot.reduceat(np.where(self.count > 0, self.norm, 0.0), starts)
        is_unknown = count == 0
        return Numbers(
            low=np.fmin.reduceat(self.low, starts),
            mean=np.where(is_unknown | np.logical_or.reduceat(is_broken, starts), np.nan, mean),
            high=np.fmax.reduceat(self.high, starts),
            std=np.where(is_unknown, np.nan, std),
            norm=np.where(is_unknown, np.nan, norm),
            count=count,
            nan=np.add.reduceat(self.nan, starts),
            inf=np.add.reduceat(self.inf, starts),
            zeros=np.add.reduceat(self.zeros, starts),
        )


def _integers(column: Array) -> Array:
    """A column of counts; an unknown one is 0."""
    return np.nan_to_num(column.astype(np.float64)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One rank of a variable over the steps: a point for each step, or for each range of `width` steps.

    `steps` has the step of each point: of a range, its first. `weight` is the number of steps that a point was made
    from, `known` the number of those that have a mean. The point of a range has the least `low` and the largest `high`,
    `norm`, `nan`, `inf` and `zeros` of its steps, and the average of `mean` and `std`. `odd_steps` counts the steps
    with a NaN or an Inf, from `first_odd` on. `last_step` is the last step of the last point.
    """

    rank: int
    steps: Array
    times: Array
    numbers: Numbers
    weight: Array
    known: Array
    is_whole: bool = False  # all values are integers
    width: int = 1
    odd_steps: int = 0
    first_odd: int | None = None
    last_step: int = 0

    @classmethod
    def of_points(cls, rank: int, steps: Array, times: Array, numbers: Numbers, *, is_whole: bool = False) -> Curve:
        """A curve with a point for each step; the steps are in order, and each is there once."""
        odd = steps[numbers.nan + numbers.inf > 0]
        weight = np.ones(len(steps), np.int64)
        return cls(
            *(rank, steps, times, numbers, weight, (~np.isnan(numbers.mean)).astype(np.int64), is_whole),
            odd_steps=len(odd),
            first_odd=int(odd[0]) if len(odd) else None,
            last_step=int(steps[-1]) if len(steps) else 0,
        )

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def low(self) -> Array:
        """The least finite number of each point."""
        return self.numbers.low

    @property
    def mean(self) -> Array:
        """The mean of the finite numbers of each point."""
        return self.numbers.mean

    @property
    def high(self) -> Array:
        """The largest finite number of each point."""
        return self.numbers.high

    @property
    def odd(self) -> Array:
        """The steps of the points with a NaN or an Inf."""
        found: Array = self.steps[self.numbers.nan + self.numbers.inf > 0]
        return found

    @property
    def is_flat(self) -> bool:
        """Whether each point has one value, and so no range."""
        return np.array_equal(self.low, self.high, equal_nan=True)

    def reduced(self, most: int) -> Curve:
        """The curve with at most so many points.

        >>> curve = Curve.of_points(0, np.arange(8), np.zeros(8), Numbers.of_numbers(np.arange(8.0)))
        >>> few = curve.reduced(3)
        >>> few.steps.tolist(), few.low.tolist(), few.mean.tolist(), few.high.tolist(), few.width
        ([0, 4], [0.0, 4.0], [1.5, 5.5], [3.0, 7.0], 4)
        """
        width = self.width
        while _count_ranges(self.steps, width) > most:
            width *= 2
        return self.widened(width)

    def widened(self, width: int) -> Curve:
        """The curve with a point for each range of so many steps."""
        ids = self.steps // width
        starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))
        if len(starts) == len(self):
            return replace(self, width=width, steps=_first_steps(ids, width, self.steps))
        return replace(
            self,
            width=width,
            steps=_first_steps(ids[starts], width, self.steps),
            times=self.times[starts],
            numbers=self._reduced_numbers(starts),
            weight=np.add.reduceat(self.weight, starts),
            known=np.add.reduceat(self.known, starts),
        )

    def _reduced_numbers(self, starts: Array) -> Numbers:
        """The numbers of ranges of points; `starts` are the points at which each range begins."""
        numbers = self.numbers
        return Numbers(
            low=np.fmin.reduceat(numbers.low, starts),
            mean=_averages(numbers.mean, self.known, starts),
            high=np.fmax.reduceat(numbers.high, starts),
            std=_averages(numbers.std, self.known, starts),
            norm=np.fmax.reduceat(numbers.norm, starts),
            count=np.maximum.reduceat(numbers.count, starts),
            nan=np.maximum.reduceat(numbers.nan, starts),
            inf=np.maximum.reduceat(numbers.inf, starts),
            zeros=np.maximum.reduceat(numbers.zeros, starts),
        )

    def before(self, step: int) -> Curve:
        """The points before a step; of a curve with a point for each step."""
        here = self.steps < step
        numbers = self.numbers.part(here)
        return Curve.of_points(self.rank, self.steps[here], self.times[here], numbers, is_whole=self.is_whole)

    def common_points(self, other: Curve) -> int:
        """How many points from the first on are the same in both curves."""
        if self.width != other.width:
            return 0
        count = min(len(self), len(other))
        is_other = self.steps[:count] != other.steps[:count]
        for name in [field.name for field in fields(Numbers)]:
            mine, theirs = getattr(self.numbers, name)[:count], getattr(other.numbers, name)[:count]
            is_other |= (mine != theirs) & ((mine == mine) | (theirs == theirs))
        places = np.flatnonzero(is_other)
        return int(places[0]) if len(places) else count

    def extended(self, later: Curve, most: int) -> Curve:
        """This curve and a later part of it, with at most so many points."""
        width = max(self.width, later.width)
        before, after = self.widened(width), later.widened(width)
        both = replace(
            before,
            steps=np.concatenate([before.steps, after.steps]),
            times=np.concatenate([before.times, after.times]),
            numbers=Numbers.stacked([before.numbers, after.numbers]),
            weight=np.concatenate([before.weight, after.weight]),
            known=np.concatenate([before.known, after.known]),
            is_whole=before.is_whole and after.is_whole,
            odd_steps=before.odd_steps + after.odd_steps,
            first_odd=after.first_odd if before.first_odd is None else before.first_odd,
            last_step=after.last_step if len(after) else before.last_step,
        )
        return both.widened(width).reduced(most)


def curves_of(steps: Array, ranks: Array, times: Array, numbers: Numbers, *, is_whole: bool = False) -> list[Curve]:
    """The curves of values with the step and the rank of each; all values of a step and rank become one point.

    >>> zeros, ones = np.zeros(3), np.array([0, 0, 1])
    >>> one, two = curves_of(ones, ones[::-1], zeros, Numbers.of_numbers(np.array([1.0, 2.0, 5.0])))
    >>> (one.rank, one.steps.tolist(), one.mean.tolist()), two.mean.tolist()
    ((0, [0, 1], [2.0, 5.0]), [1.0])
    """
    order = np.lexsort((steps, ranks))
    steps, ranks = steps[order], ranks[order]
    is_first = np.ones(len(steps), bool)
    is_first[1:] = (steps[1:] != steps[:-1]) | (ranks[1:] != ranks[:-1])
    starts = np.flatnonzero(is_first)
    points = numbers.part(order).joined(starts)
    steps, ranks, times = steps[starts], ranks[starts], times[order][starts]
    found = []
    for first, last in pairwise([*np.flatnonzero(np.diff(ranks, prepend=ranks[:1] - 1)).tolist(), len(ranks)]):
        here = slice(first, last)
        curve = Curve.of_points(int(ranks[first]), steps[here], times[here], points.part(here), is_whole=is_whole)
        found.append(curve)
    return found


def _count_ranges(steps: Array, width: int) -> int:
    """How many ranges of this width have a step."""
    if not len(steps):
        return 0
    return 1 + int(np.count_nonzero(np.diff(steps // width)))


def _first_steps(ids: Array, width: int, steps: Array) -> Array:
    """The first step of each range; a curve that begins inside of a range begins where its first step is."""
    if not len(ids):
        return ids
    firsts = ids * width
    firsts[0] = max(firsts[0], steps[0])
    return firsts


def _averages(numbers: Array, weight: Array, starts: Array) -> Array:
    """The average of each group of numbers, without those that are unknown; NaN where all are."""
    is_known = ~np.isnan(numbers)
    weights = np.where(is_known, weight, 0)
    total = np.add.reduceat(weights, starts)
    share = weights / np.repeat(np.maximum(total, 1), np.diff([*starts, len(numbers)]))
    average = np.add.reduceat(np.where(is_known, numbers * share, 0.0), starts)
    return np.where(total > 0, average, np.nan)


@dataclass(frozen=True, slots=True)
class Band:
    """A text that a variable held from one step to another; or several texts, and how many."""

    first: int
    last: int
    text: str
    count: int = 1

    def goes_on_as(self, later: Band) -> bool:
        """Whether a later band has the same text, so that both are one."""
        return self.text == later.text and self.count == later.count == 1


@dataclass(frozen=True, slots=True)
class BandCurve:
    """One rank of a variable whose values are texts: a band for each time that the text changed.

    If `width` is more than 1, the texts that the variable had for less than so many steps may share a band.
    """

    rank: int
    bands: tuple[Band, ...]
    width: int = 1

    @classmethod
    def of_texts(cls, rank: int, steps: Sequence[int], texts: Sequence[str]) -> BandCurve:
        """The bands of texts, which are in the order of their steps; the last text of a step counts.

        >>> BandCurve.of_texts(0, [0, 1, 2], ["train", "train", "eval"]).bands
        (Band(first=0, last=1, text='train', count=1), Band(first=2, last=2, text='eval', count=1))
        """
        last_of_step = dict(zip(steps, texts, strict=True))
        found = []
        for text, run in groupby(last_of_step.items(), key=lambda item: item[1]):
            steps_of_run = [step for step, _ in run]
            found.append(Band(steps_of_run[0], steps_of_run[-1], text))
        return cls(rank, tuple(found))

    def before(self, step: int) -> BandCurve:
        """The bands before a step."""
        bands = [replace(band, last=min(band.last, step - 1)) for band in self.bands if band.first < step]
        return replace(self, bands=tuple(bands))

    def extended(self, later: BandCurve, most: int) -> BandCurve:
        """These bands and later ones; a text that stays is one band."""
        bands = list(self.bands)
        for band in later.bands:
            if bands and bands[-1].goes_on_as(band):
                bands[-1] = replace(bands[-1], last=band.last)
            else:
                bands.append(band)
        return replace(self, bands=tuple(bands)).reduced(most)

    def reduced(self, most: int) -> BandCurve:
        """The same with at most so many bands.

        >>> BandCurve.of_texts(0, range(4), "abab").reduced(2).bands
        (Band(first=0, last=1, text='a, b', count=2), Band(first=2, last=3, text='a, b', count=2))
        """
        width, bands = self.width, self.bands
        while len(bands) > most:
            width *= 2
            bands = tuple(_joined_bands(self.bands, width))
        return replace(self, bands=bands, width=width)


def _joined_bands(bands: Sequence[Band], width: int) -> Iterator[Band]:
    """The bands, of which those that begin and end in the same range of steps are one."""
    for _, group in groupby(bands, key=lambda band: (band.first // width, band.last // width)):
        inside = list(group)
        if len(inside) == 1:
            yield inside[0]
            continue
        texts = list(dict.fromkeys(band.text for band in inside))
        yield Band(inside[0].first, inside[-1].last, ", ".join(texts[:MOST_TEXTS]), len(texts))
