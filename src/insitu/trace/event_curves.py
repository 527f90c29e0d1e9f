"""Watched variables of a trace over its steps: numbers and tensors as curves, texts as bands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np

from insitu.trace.curve import Array, BandCurve, Curve, Numbers
from insitu.trace.event import TensorFacts, Variable
from insitu.trace.model_paths import ModelPaths
from insitu.trace.value_sample import NUMBER_NAMES, ValueSample, sample_of
from insitu.trace.variable_curves import NormSource, VariableCurves, joined_statistics

Unit = Literal["step", "change"]

_DTYPES: dict[str, type[np.generic]] = dict.fromkeys(("count", "nan", "inf", "zeros"), np.int64)


@dataclass(slots=True)
class _RankValues:
    """The values of one rank of a variable, by step or by the number of the change."""

    samples: dict[int, ValueSample] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    changes: int = 0

    def add(self, variable: Variable, unit: Unit) -> None:
        """Add a change; the last one of a step counts. A value that is neither a number nor a text has no point."""
        x = variable.step if unit == "step" else self.changes
        sample = sample_of(variable.value)
        if sample is not None:
            self._add_sample(x, sample)
        elif isinstance(variable.value, (str, bool, type(None))):
            self.texts[x] = str(variable.value)
        else:
            return
        self.changes += 1

    def _add_sample(self, x: int, sample: ValueSample) -> None:
        """Add the numbers of a value; its range holds the earlier values of the same step."""
        if x in self.samples:
            sample = sample.after(self.samples[x])
        self.samples[x] = sample


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
        """A variable: its own values or, if it has none, the variables that are its `statistics`."""
        if statistics is None:
            return _of_rows(name, self.rows[name], self.types[name], model)
        return _of_statistics(name, {key: self.rows[path] for key, path in statistics.items()}, model)


def _of_rows(name: str, by_rank: dict[int, _RankValues], kind: str, model: ModelPaths) -> VariableCurves:
    """A variable by its values: curves if it has numbers, else bands."""
    ranks = sorted(by_rank.items())
    curves = [_curve(rank, rows.samples) for rank, rows in ranks if rows.samples]
    if not curves:
        bands = [_bands(rank, rows.texts) for rank, rows in ranks if rows.texts]
        return VariableCurves(name, model.role(name), kind, bands=tuple(bands))
    norm = _norm_source(by_rank.values())
    return VariableCurves(name, model.role(name), kind, tuple(curves), norm=norm)


def _norm_source(ranks: Iterable[_RankValues]) -> NormSource:
    """How the norms of a variable are known: all are known in the way of the first."""
    samples = chain.from_iterable(rows.samples.values() for rows in ranks)
    return next(samples).norm_source


def _of_statistics(name: str, by_statistic: dict[str, dict[int, _RankValues]], model: ModelPaths) -> VariableCurves:
    """A tensor of which each statistic is a variable; a rank without one of them is left out."""
    ranks = set.intersection(*map(set, by_statistic.values()))
    curves = []
    for rank in sorted(ranks):
        samples = {key: rows[rank].samples for key, rows in by_statistic.items()}
        curves.append(_statistics_curve(rank, samples))
    return VariableCurves(name, model.role(name), "", tuple(curves), norm="statistics")


def _statistics_curve(rank: int, by_statistic: dict[str, dict[int, ValueSample]]) -> Curve:
    """The curve of one rank, at the steps that have all statistics."""
    common = set.intersection(*map(set, by_statistic.values()))
    steps = [step for step in by_statistic["count"] if step in common]
    columns = {key: np.array([samples[step].mean for step in steps]) for key, samples in by_statistic.items()}
    is_whole = all(by_statistic[key][step].is_whole for key in ("min", "max") for step in steps)
    no_times = np.zeros(len(steps))
    place = np.array(steps, np.int64)
    return Curve.of_points(rank, place, no_times, Numbers.of_statistics(columns), is_whole=is_whole)


def _curve(rank: int, samples: dict[int, ValueSample]) -> Curve:
    """The curve of one rank; a trace does not say at which times its steps ended."""
    steps = sorted(samples)
    ordered = [samples[step] for step in steps]
    columns = {name: _column(name, ordered) for name in NUMBER_NAMES}
    is_whole = all(sample.is_whole for sample in ordered)
    no_times = np.zeros(len(steps))
    return Curve.of_points(rank, np.array(steps, np.int64), no_times, Numbers(**columns), is_whole=is_whole)


def _column(name: str, samples: list[ValueSample]) -> Array:
    """One of the numbers of all samples; counts are integers."""
    return np.array([getattr(sample, name) for sample in samples], _DTYPES.get(name, np.float64))


def _bands(rank: int, texts: dict[int, str]) -> BandCurve:
    """The texts of one rank, over the steps."""
    steps = sorted(texts)
    return BandCurve.of_texts(rank, steps, [texts[step] for step in steps])


def _type_text(value: Any) -> str:
    """The type of a value, as far as it is shown."""
    if isinstance(value, TensorFacts):
        return repr(value)
    if isinstance(value, (int, float, str)):
        return type(value).__name__
    return ""
