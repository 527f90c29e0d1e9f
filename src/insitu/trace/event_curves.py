"""Watched variables of a trace over its steps: numbers and tensors as curves, texts as bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import hypot, inf, isfinite, nan, sqrt
from typing import Any, Literal

import numpy as np

from insitu.trace.curve import BandCurve, Curve, Numbers
from insitu.trace.event import Stats, TensorFacts, Variable, tensors
from insitu.trace.model_paths import ModelPaths
from insitu.trace.variable_curves import NormSource, VariableCurves, joined_statistics

Unit = Literal["step", "change"]

_FIELDS = tuple(field.name for field in fields(Numbers))
_COUNTS = ("count", "nan", "inf", "zeros")


@dataclass(frozen=True, slots=True)
class ValueSample:
    """The numbers of one value: a row of `Numbers`; how its norm is known, and whether it holds integers only."""

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
    """The lesser of two numbers, either of which may be unknown."""
    if one != one:
        return other
    if other != other:
        return one
    return min(one, other)


@dataclass(slots=True)
class _RankValues:
    """The values of one rank of a variable, by step or by the number of the change."""

    samples: dict[int, ValueSample] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    changes: int = 0

    def add(self, variable: Variable, unit: Unit) -> None:
        """Add a change; the last one of a step counts."""
        found = sample_of(variable.value)
        x = variable.step if unit == "step" else self.changes
        if found is not None:
            earlier = self.samples.get(x)
            self.samples[x] = found if earlier is None else found.after(earlier)
        elif isinstance(variable.value, (str, bool, type(None))):
            self.texts[x] = str(variable.value)
        else:
            return
        self.changes += 1


def unit_of(variables: Sequence[Variable]) -> Unit:
    """What the points of a trace are: its steps or, in a trace of a single step, each change of a variable."""
    if len({variable.step for variable in variables}) > 1:
        return "step"
    return "change"


def event_curves(
    variables: Sequence[Variable], unit: Unit = "step", model: ModelPaths | None = None
) -> list[VariableCurves]:
    """The variables that are numbers, tensors with statistics or values, or texts; each name is one variable.

    Variables that are the statistics of one tensor are that tensor, as in a run.

    >>> one, two = (Variable(number, None, "loss", 2.5 - number, ("values",), step=number) for number in (0, 1))
    >>> loss, = event_curves([one, two])
    >>> loss.curves[0].steps.tolist(), loss.curves[0].mean.tolist()
    ([0, 1], [2.5, 1.5])
    """
    found = _NamedValues()
    for variable in variables:
        if "deleted" not in variable.changes:
            found.add(variable, unit)
    return found.curves(model or ModelPaths())


@dataclass(slots=True)
class _NamedValues:
    """The values of all variables, by name and rank."""

    rows: dict[str, dict[int, _RankValues]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)

    def add(self, variable: Variable, unit: Unit) -> None:
        """Add a change of a variable."""
        by_rank = self.rows.setdefault(variable.name, {})
        by_rank.setdefault(variable.rank, _RankValues()).add(variable, unit)
        self.types.setdefault(variable.name, _type_text(variable.value))

    def curves(self, model: ModelPaths) -> list[VariableCurves]:
        """The variables that have points."""
        joined = joined_statistics(list(self.rows))
        owners = {path: base for base, named in joined.items() for path in named.values()}
        names = model.sorted(list(dict.fromkeys(owners.get(name, name) for name in self.rows)))
        found = [self._variable(name, joined.get(name), model) for name in names]
        return [variable for variable in found if variable.curves or variable.bands]

    def _variable(self, name: str, statistics: dict[str, str] | None, model: ModelPaths) -> VariableCurves:
        if statistics is None:
            return _of_rows(name, self.rows[name], self.types[name], model)
        return _of_statistics(name, {key: self.rows[path] for key, path in statistics.items()}, model)


def _of_rows(name: str, by_rank: dict[int, _RankValues], kind: str, model: ModelPaths) -> VariableCurves:
    curves = [_curve(rank, rows.samples) for rank, rows in sorted(by_rank.items()) if rows.samples]
    if not curves:
        bands = [_bands(rank, rows.texts) for rank, rows in sorted(by_rank.items()) if rows.texts]
        return VariableCurves(name, model.role(name), kind, bands=tuple(bands))
    norm: NormSource = next(iter(next(iter(by_rank.values())).samples.values())).norm_source
    return VariableCurves(name, model.role(name), kind, tuple(curves), norm=norm)


def _of_statistics(name: str, by_statistic: dict[str, dict[int, _RankValues]], model: ModelPaths) -> VariableCurves:
    """A tensor of which each statistic is a variable."""
    curves = []
    for rank in sorted(by_statistic["count"]):
        every = {key: rows[rank].samples for key, rows in by_statistic.items() if rank in rows}
        if len(every) < len(by_statistic):
            continue
        steps = [step for step in every["count"] if all(step in samples for samples in every.values())]
        columns = {key: np.array([samples[step].mean for step in steps]) for key, samples in every.items()}
        is_whole = all(every[key][step].is_whole for key in ("min", "max") for step in steps)
        place, times = np.array(steps, np.int64), np.zeros(len(steps))
        curves.append(Curve.of_points(rank, place, times, Numbers.of_statistics(columns), is_whole=is_whole))
    return VariableCurves(name, model.role(name), "", tuple(curves), norm="statistics")


def _curve(rank: int, samples: dict[int, ValueSample]) -> Curve:
    steps = sorted(samples)
    columns = {name: np.array([getattr(samples[step], name) for step in steps], _dtype(name)) for name in _FIELDS}
    is_whole = all(sample.is_whole for sample in samples.values())
    place = np.array(steps, np.int64)
    return Curve.of_points(rank, place, np.zeros(len(steps)), Numbers(**columns), is_whole=is_whole)


def _dtype(name: str) -> type[np.generic]:
    if name in _COUNTS:
        return np.int64
    return np.float64


def _bands(rank: int, texts: dict[int, str]) -> BandCurve:
    steps = sorted(texts)
    return BandCurve.of_texts(rank, steps, [texts[step] for step in steps])


def _type_text(value: Any) -> str:
    """The type of a value, as far as it is shown."""
    if isinstance(value, TensorFacts):
        return repr(value)
    if isinstance(value, (int, float, str)):
        return type(value).__name__
    return ""


# ---- one value


def sample_of(value: Any) -> ValueSample | None:
    """The numbers of a value; None for a value without numbers."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _number_sample(value)
    found = [sample for facts in tensors(value) if (sample := _tensor_sample(facts)) is not None]
    if not found:
        return None
    if len(found) == 1:
        return found[0]
    return _union(found)


def _number_sample(value: float) -> ValueSample | None:
    """A number; None for an integer that is too large for a float."""
    try:
        number = float(value)
    except OverflowError:
        return None
    is_whole = isinstance(value, int)
    if isfinite(number):
        return ValueSample(number, number, number, 0.0, abs(number), 1, 0, 0, int(number == 0), is_whole=is_whole)
    is_nan = number != number
    return ValueSample(nan, nan, nan, nan, nan, 0, int(is_nan), int(not is_nan), 0, is_whole=is_whole)


def _tensor_sample(facts: TensorFacts) -> ValueSample | None:
    if facts.stats is not None:
        return _stats_sample(facts.stats, is_whole=_is_whole(facts))
    if getattr(facts.kept, "dtype", None) is None:
        return None
    try:
        numbers = Numbers.of_tensors(facts.kept[np.newaxis])
    except (TypeError, ValueError):
        return None
    row: dict[str, Any] = {name: getattr(numbers, name).item() for name in _FIELDS}
    source: NormSource = "values" if facts.shape else ""
    return ValueSample(**row, norm_source=source, is_whole=_is_whole(facts))


def _is_whole(facts: TensorFacts) -> bool:
    from insitu.trace.dtype import dtype_named

    return dtype_named(facts.dtype).is_integer


def _stats_sample(stats: Stats, *, is_whole: bool) -> ValueSample:
    """A tensor by its statistics."""
    low, mean, high, std = (nan if part is None else part for part in (stats.min, stats.mean, stats.max, stats.std))
    count = stats.count - stats.nan - stats.inf
    norm = sqrt(max(count, 0)) * hypot(mean, std)
    counts = (count, stats.nan, stats.inf, stats.zeros)
    return ValueSample(low, mean, high, std, norm, *counts, norm_source="statistics", is_whole=is_whole)


def _union(every: list[ValueSample]) -> ValueSample:
    """Several tensors as one."""
    low, high = inf, -inf
    for sample in every:
        low, high = min(low, _known(sample.low, inf)), max(high, _known(sample.high, -inf))
    if low > high:
        low = high = nan
    return ValueSample(
        low=low,
        mean=_mean([sample.mean for sample in every], low / 2 + high / 2),
        high=high,
        std=nan,
        norm=hypot(*(_known(sample.norm, 0.0) for sample in every)),
        count=sum(sample.count for sample in every),
        nan=sum(sample.nan for sample in every),
        inf=sum(sample.inf for sample in every),
        zeros=sum(sample.zeros for sample in every),
        norm_source=every[0].norm_source,
        is_whole=all(sample.is_whole for sample in every),
    )


def _known(number: float, default: float) -> float:
    if number != number:
        return default
    return number


def _mean(means: list[float], default: float) -> float:
    """The mean of the means that are known; shares, because the sum may be too large for a float."""
    known = [mean for mean in means if isfinite(mean)]
    if known:
        return sum(mean / len(known) for mean in known)
    return default
