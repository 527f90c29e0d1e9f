"""One value of a variable as numbers: its range, mean, spread and norm, and how many elements are not finite."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import hypot, isfinite, nan, sqrt
from typing import Any

import numpy as np

from insitu.trace.curve import Numbers
from insitu.trace.dtype import dtype_named
from insitu.trace.event import Stats, TensorFacts, tensors
from insitu.trace.variable_curves import NormSource

NUMBER_NAMES = tuple(field.name for field in fields(Numbers))


@dataclass(frozen=True, slots=True)
class ValueSample:
    """The numbers of one value: a row of `Numbers`; how its norm is known, and whether it holds integers only.

    A number that is not known is NaN: the range of a value without a finite element has no ends.
    """

    low: float
    mean: float
    high: float
    std: float
    norm: float
    count: int
    nan: int
    inf: int
    zeros: int
    norm_source: NormSource = ""
    is_whole: bool = False

    def after(self, earlier: ValueSample) -> ValueSample:
        """This value and an earlier one of the same step: this one stays, and the range holds both."""
        return ValueSample(
            low=_least(self.low, earlier.low),
            mean=self.mean,
            high=-_least(-self.high, -earlier.high),
            std=self.std,
            norm=self.norm,
            count=self.count,
            nan=max(self.nan, earlier.nan),
            inf=max(self.inf, earlier.inf),
            zeros=self.zeros,
            norm_source=self.norm_source,
            is_whole=self.is_whole and earlier.is_whole,
        )


def _least(one: float, other: float) -> float:
    """The lesser of two numbers, either of which may be NaN."""
    return float(np.fmin(one, other))


def sample_of(value: Any) -> ValueSample | None:
    """The numbers of a value; None for a value without numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number_sample(value)
    found = list(filter(None, map(_tensor_sample, tensors(value))))
    if len(found) > 1:
        return _union(found)
    return next(iter(found), None)


def _number_sample(value: float) -> ValueSample | None:
    """A number; None for an integer that is too large for a float."""
    try:
        number = float(value)
    except OverflowError:
        return None
    if isfinite(number):
        return _finite_sample(number, is_whole=isinstance(value, int))
    return _nonfinite_sample(is_nan=number != number)


def _finite_sample(number: float, *, is_whole: bool) -> ValueSample:
    """A number: it is its own range, and it does not vary."""
    return ValueSample(
        low=number,
        mean=number,
        high=number,
        std=0.0,
        norm=abs(number),
        count=1,
        nan=0,
        inf=0,
        zeros=int(number == 0),
        is_whole=is_whole,
    )


def _nonfinite_sample(*, is_nan: bool) -> ValueSample:
    """A single NaN or Inf, of which only that is known."""
    return ValueSample(nan, nan, nan, nan, nan, count=0, nan=int(is_nan), inf=int(not is_nan), zeros=0)


def _tensor_sample(facts: TensorFacts) -> ValueSample | None:
    """A tensor by its statistics, else by the values that were kept; None if there are neither."""
    is_whole = dtype_named(facts.dtype).is_integer
    if facts.stats is not None:
        return _stats_sample(facts.stats, is_whole=is_whole)
    has_values = getattr(facts.kept, "dtype", None) is not None
    if not has_values:
        return None
    return _kept_sample(facts, is_whole=is_whole)


def _kept_sample(facts: TensorFacts, *, is_whole: bool) -> ValueSample | None:
    """A tensor by its values; None if they are not numbers."""
    try:
        numbers = Numbers.of_tensors(facts.kept[np.newaxis])
    except (TypeError, ValueError):
        return None
    row: dict[str, Any] = {name: getattr(numbers, name).item() for name in NUMBER_NAMES}
    source: NormSource = "values" if facts.shape else ""
    return ValueSample(**row, norm_source=source, is_whole=is_whole)


def _stats_sample(stats: Stats, *, is_whole: bool) -> ValueSample:
    """A tensor by its statistics; its norm follows from the mean and the standard deviation."""
    count = stats.count - stats.nan - stats.inf
    mean, std = _number(stats.mean), _number(stats.std)
    return ValueSample(
        low=_number(stats.min),
        mean=mean,
        high=_number(stats.max),
        std=std,
        norm=sqrt(max(count, 0)) * hypot(mean, std),
        count=count,
        nan=stats.nan,
        inf=stats.inf,
        zeros=stats.zeros,
        norm_source="statistics",
        is_whole=is_whole,
    )


def _number(statistic: float | None) -> float:
    """A statistic; NaN for one that is not known."""
    if statistic is None:
        return nan
    return statistic


def _union(every: list[ValueSample]) -> ValueSample:
    """Several tensors as one: the standard deviation of all elements is not known."""
    low = float(np.fmin.reduce([sample.low for sample in every]))
    high = float(np.fmax.reduce([sample.high for sample in every]))
    return ValueSample(
        low=low,
        mean=_mean([sample.mean for sample in every], low / 2 + high / 2),
        high=high,
        std=nan,
        norm=hypot(*_known([sample.norm for sample in every])),
        count=sum(sample.count for sample in every),
        nan=sum(sample.nan for sample in every),
        inf=sum(sample.inf for sample in every),
        zeros=sum(sample.zeros for sample in every),
        norm_source=every[0].norm_source,
        is_whole=all(sample.is_whole for sample in every),
    )


def _known(numbers: list[float]) -> list[float]:
    """The numbers without those that are NaN."""
    return [number for number in numbers if number == number]


def _mean(means: list[float], default: float) -> float:
    """The mean of the means that are known; shares, because the sum may be too large for a float."""
    known = [mean for mean in means if isfinite(mean)]
    if known:
        return sum(mean / len(known) for mean in known)
    return default
