"""The values of a series as numbers, with the range, mean, norm and counts of each; or as texts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.store.stored_type import JSON, Array
from insitu.trace.curve import Numbers
from insitu.trace.dtype import dtype_named

if TYPE_CHECKING:
    from insitu.store.run.series import Series

_CHUNK = 2**22  # bytes of tensors that are reduced at once
_LONGEST_TEXT = 200
_NUMBER_TYPES = frozenset({int, float, complex, type(None)})
_NUMBER_KINDS = "biufcV"  # of dtypes; V is one of ml_dtypes


@dataclass(frozen=True, slots=True, eq=False)
class SeriesNumbers:
    """The values of a series that are numbers or tensors: the row of each and what is known of it.

    None is not a number. `is_tensor` says that the values have elements.
    """

    rows: Array
    numbers: Numbers
    type: str
    is_whole: bool
    is_tensor: bool


@dataclass(frozen=True, slots=True)
class SeriesTexts:
    """The values of a series that are not numbers, each as a short text."""

    texts: list[str]
    type: str


@dataclass(frozen=True, slots=True, eq=False)
class StatisticColumn:
    """One statistic of a tensor, a row for each value of the tensor."""

    numbers: Array
    is_whole: bool


def values_of(series: Series) -> SeriesNumbers | SeriesTexts:
    """The values as numbers or, if one of them is a text, a flag or something else, as texts. All are read once."""
    if series.dtype == JSON:
        return python_values(list(series))
    is_flag = series.dtype == "bool" and series.shape == ()
    found = None if is_flag else _tensor_numbers(series)
    return found or _texts(series, type_text(series))


def python_values(values: list[Any]) -> SeriesNumbers | SeriesTexts:
    """Python values as numbers or, if one of them is not a number, as texts."""
    return _python_numbers(values) or _texts(values, _python_type(values))


def tensor_values(values: list[Array], dtype: str) -> SeriesNumbers | SeriesTexts:
    """Tensors of one dtype as numbers or, if they are flags, as texts."""
    is_scalar = all(value.shape == () for value in values)
    is_flag = dtype == "bool" and is_scalar
    found = [_array_numbers(value[np.newaxis]) for value in values]
    known = [numbers for numbers in found if numbers is not None]
    if is_flag or len(known) < len(found):
        return _texts(values, dtype_named(dtype).short)
    return SeriesNumbers(
        rows=np.arange(len(values)),
        numbers=Numbers.stacked(known),
        type=dtype_named(dtype).short,
        is_whole=dtype_named(dtype).is_integer,
        is_tensor=not is_scalar,
    )


def statistic_of(series: Series) -> StatisticColumn:
    """The numbers of one statistic."""
    return statistic_column(list(series))


def statistic_column(values: list[Any]) -> StatisticColumn:
    """The numbers of one statistic; NaN for None, the statistic of a tensor without a finite element."""
    numbers = np.array([nan if value is None else value for value in values], np.float64)
    return StatisticColumn(numbers, is_whole=set(map(type, values)) <= {int})


def type_text(series: Series) -> str:
    """The dtype and the shape of tensors."""
    short = dtype_named(series.dtype).short
    if series.shape is None:
        return f"{short}[…]"
    return f"{short}[{', '.join(map(str, series.shape))}]"


def _texts(values: Iterable[Any], kind: str) -> SeriesTexts:
    """Values as short texts; `kind` is the text of their type."""
    return SeriesTexts(list(map(short_text, values)), kind)


def short_text(value: Any) -> str:
    """A value in a few characters.

    >>> short_text("train"), short_text((1, None))
    ('train', '(1, None)')
    """
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    is_number_of_numpy = isinstance(value, (np.generic, np.ndarray)) and value.ndim == 0
    if is_number_of_numpy:
        value = value.item()
    return repr(value)[:_LONGEST_TEXT]


# ---- Python values


def _python_numbers(values: list[Any]) -> SeriesNumbers | None:
    """Python numbers, without those that are None; None if there are none, or if one is something else."""
    types = set(map(type, values))
    if not types <= _NUMBER_TYPES or types == {type(None)}:
        return None
    rows = np.flatnonzero([value is not None for value in values])
    known = [value for value in values if value is not None]
    if complex in types:
        known = list(map(abs, known))
    try:
        numbers = np.array(known, np.float64)
    except OverflowError:  # an integer that is too large for a float
        return None
    is_whole = types <= {int, type(None)}
    return SeriesNumbers(rows, Numbers.of_numbers(numbers), _python_type(values), is_whole, is_tensor=False)


def _python_type(values: Iterable[Any]) -> str:
    """The type of Python values; empty if they have several."""
    names = {kind.__name__ for kind in set(map(type, values))} - {"NoneType"}
    if len(names) == 1:
        return names.pop()
    return ""


# ---- tensors


def _tensor_numbers(series: Series) -> SeriesNumbers | None:
    """Tensors as numbers, read in chunks; None if there are none, or if one does not hold numbers."""
    found = [_array_numbers(values) for values in _chunks(series)]
    known = [numbers for numbers in found if numbers is not None]
    if not known or len(known) < len(found):
        return None
    return SeriesNumbers(
        rows=np.arange(len(series)),
        numbers=Numbers.stacked(known),
        type=type_text(series),
        is_whole=dtype_named(series.dtype).is_integer,
        is_tensor=series.shape != (),
    )


def _chunks(series: Series) -> Iterable[Array]:
    """The tensors of a series, some at a time as an array (N, *shape); one at a time if their shapes differ."""
    if series.shape is None:
        return (np.asarray(value)[np.newaxis] for value in series)
    return series._arrays(_CHUNK)


def _array_numbers(values: Array) -> Numbers | None:
    """The numbers of tensors of one shape; None if they are not numbers. A complex one counts by its absolute value."""
    if values.dtype.kind not in _NUMBER_KINDS:
        return None
    try:
        return Numbers.of_tensors(values)
    except (TypeError, ValueError):
        return None
