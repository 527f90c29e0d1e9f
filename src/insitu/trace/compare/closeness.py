"""Whether two tensors, or two Python values, are the same, by all that is known of them.

From kept values this is what `torch.testing.assert_close` says, with NaN equal to NaN. From statistics it is what
that closeness implies for them: a difference beyond the bounds is certain, agreement only likely. Where neither was
kept, shape and dtype are all there is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from insitu.errors import ChoiceError
from insitu.trace.compare.relative import (
    NO_ERROR,
    RelativeError,
    relative_error_of_arrays,
    relative_error_of_numbers,
    relative_error_of_statistics,
)
from insitu.trace.dtype import DTYPES
from insitu.trace.event import NUMBERS, STATISTICS, Fields, Opaque, Statistic, Stats, TensorFacts
from insitu.trace.kept_values import has_all_values, has_numbers, is_array, is_number

Certainty = Literal["values", "statistics", "structure"]
# From the weakest to the strongest.
CERTAINTIES: tuple[Certainty, ...] = ("structure", "statistics", "values")

# Relative and absolute, as `torch.testing` has them; other dtypes, such as integers, must be equal.
TOLERANCES: Mapping[str, tuple[float, float]] = {row.short: (row.rtol, row.atol) for row in DTYPES if row.rtol}
_EXACT = (0.0, 0.0)
_TIGHTER = 10.0
_PYTHON_FLOAT = "f32"  # most come from a tensor of these


def weakest(*found: Certainty) -> Certainty:
    """The weakest of several; that of nothing is the strongest.

    >>> weakest("values", "structure"), weakest()
    ('structure', 'values')
    """
    for certainty in CERTAINTIES:
        if certainty in found:
            return certainty
    return "values"


class Closeness(NamedTuple):
    """What comparing gave: `same` is None where shape and dtype agree and nothing more is known.

    `delta` is the size of the difference and `measure` what it is the difference of: `max|Δ|`, `Δ mean`, `shape`.
    There is no measure if the two are exactly the same. `relative` is the measure in which all differences can be
    compared; None if it is not known.
    """

    same: bool | None
    certainty: Certainty
    delta: float | None = None
    measure: str = ""
    relative: RelativeError | None = None

    @property
    def drifts(self) -> bool:
        """Whether the two are the same within the tolerance, but not exactly."""
        return bool(self.same and self.measure)


@dataclass(slots=True, frozen=True)
class Tolerance:
    """How far apart values may be: by dtype, as in `torch.testing` or another table, or the same for all if given.

    >>> Tolerance().of("f32", "bf16"), Tolerance(0.0, 0.0).of("f32", "f32"), Tolerance().of("i64", "i64")
    ((0.016, 1e-05), (0.0, 0.0), (0.0, 0.0))
    """

    rtol: float | None = None
    atol: float | None = None
    table: Mapping[str, tuple[float, float]] = field(default_factory=lambda: TOLERANCES)

    def __post_init__(self) -> None:
        if self.rtol is None and self.atol is None:
            return
        if self.atol is None:
            raise ChoiceError(f"rtol={self.rtol!r} without atol: give both, or neither")
        if self.rtol is None:
            raise ChoiceError(f"atol={self.atol!r} without rtol: give both, or neither")
        _check("rtol", self.rtol)
        _check("atol", self.atol)

    def tenth(self) -> Tolerance:
        """A tenth of the tolerance: if statistics agree within it, the elements should agree within the whole."""
        table = {dtype: (rtol / _TIGHTER, atol / _TIGHTER) for dtype, (rtol, atol) in self.table.items()}
        if self.rtol is None or self.atol is None:
            return Tolerance(table=table)
        return Tolerance(self.rtol / _TIGHTER, self.atol / _TIGHTER, table)

    def of(self, a: str, b: str) -> tuple[float, float]:
        """The relative and the absolute tolerance for two dtypes: the looser ones."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        one = self.table.get(a, _EXACT)
        if a == b:
            return one
        other = self.table.get(b, _EXACT)
        return max(one[0], other[0]), max(one[1], other[1])


def _check(name: str, value: object) -> None:
    """Refuse a tolerance that is not zero or a positive number."""
    if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ChoiceError(f"{name}={value!r} is not a tolerance: give zero or a positive number, as in 1e-5")


def close(a: TensorFacts, b: TensorFacts, tolerance: Tolerance) -> Closeness:
    """Compare two tensors by the best that both sides have kept."""
    if a.shape != b.shape:
        return _close_reshaped(a, b, tolerance)
    return _close_contents(a, b, tolerance)


def basis(a: TensorFacts, b: TensorFacts) -> Certainty:
    """What two tensors can be compared by: the best that both sides have kept."""
    if a.kept is not None and b.kept is not None:
        return "values"
    if a.stats is not None and b.stats is not None:
        return "statistics"
    return "structure"


NOTHING_DIFFERS = Closeness(None, "values")


def worst(found: Iterable[Closeness]) -> Closeness:
    """The largest difference, if there is one; else what they have in common."""
    every = list(found)
    if not every:
        return NOTHING_DIFFERS
    if len(every) == 1:
        return every[0]
    different = [one for one in every if one.same is False]
    if different:
        return max(different, key=_size)
    same = [one for one in every if one.same]
    if same:
        return _agreement(every, same)
    return every[0]


def _size(closeness: Closeness) -> tuple[float, float]:
    """The size of a difference, the relative one first; zero if it is not known."""
    relative = closeness.relative or NO_ERROR
    return (relative.size, closeness.delta or 0.0)


def _agreement(every: list[Closeness], same: list[Closeness]) -> Closeness:
    """What several results say together if none of them differs: no more than the weakest of them."""
    certainty = weakest(*[one.certainty for one in every])
    if certainty == "structure" and len(same) < len(every):
        return Closeness(None, "structure")
    largest = max(same, key=_size)
    return largest._replace(same=True, certainty=weakest(*[one.certainty for one in same]))


def _close_reshaped(a: TensorFacts, b: TensorFacts, tolerance: Tolerance) -> Closeness:
    """Compare tensors of different shapes: the same values are the same if only dimensions of size one differ."""
    if without_ones(a.shape) == without_ones(b.shape):
        found = _close_contents(_flat(a), _flat(b), tolerance)
        if found.same:
            return found
    return Closeness(False, "structure", measure="shape")


def without_ones(shape: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The sizes that are not one: what is left of a shape when it is broadcast.

    >>> without_ones((1, 6, 1, 8))
    (6, 8)
    """
    return tuple([size for size in shape if size != 1])


def _flat(facts: TensorFacts) -> TensorFacts:
    kept = facts.kept
    if getattr(kept, "shape", None) == facts.shape:
        kept = kept.reshape(-1)
    shape = (math.prod(size for size in facts.shape if isinstance(size, int)),)
    return TensorFacts(facts.id, shape, facts.dtype, facts.device, stats=facts.stats, kept=kept)


def _close_contents(a: TensorFacts, b: TensorFacts, tolerance: Tolerance) -> Closeness:
    found = _close_kept(a, b, tolerance)
    if found is not None:
        return found
    if a.stats is None or b.stats is None:
        return _UNKNOWN
    rtol, atol = tolerance.of(a.dtype, b.dtype)
    # Where each element has to be the same, all statistics have to be, too.
    exact = rtol == atol == 0.0 and a.dtype == b.dtype
    return close_stats(a.stats, b.stats, rtol, atol, exact=exact)


_SAME_STATISTICS = Closeness(True, "statistics", 0.0, relative=RelativeError(0.0, is_bound=True))
_UNKNOWN = Closeness(None, "structure")


def _close_kept(a: TensorFacts, b: TensorFacts, tolerance: Tolerance) -> Closeness | None:
    """Compare what was kept, all values or the results of the user's own function; None if there is nothing."""
    if a.kept is None or b.kept is None:
        return None
    rtol, atol = tolerance.of(a.dtype, b.dtype)
    found = close_plain(a.kept, b.kept, rtol, atol)
    if found is None:
        return None
    if has_all_values(a) and has_all_values(b):
        return found._replace(certainty="values")
    return found._replace(certainty="statistics")


def close_arrays(a: Any, b: Any, rtol: float, atol: float) -> Closeness:
    """Compare two arrays, element by element.

    >>> import numpy
    >>> close_arrays(numpy.array([1.0, numpy.nan]), numpy.array([1.5, numpy.nan]), 0.0, 0.1).delta
    0.5
    """
    if a.shape != b.shape:
        return Closeness(False, "values", measure="shape")
    if a.dtype == b.dtype and a.tobytes() == b.tobytes():
        return _SAME_VALUES
    if not (has_numbers(a) and has_numbers(b)):
        return Closeness(False, "values", measure="content")
    return _close_elements(a, b, rtol, atol)


_SAME_VALUES = Closeness(True, "values", 0.0, relative=NO_ERROR)


def _close_elements(a: Any, b: Any, rtol: float, atol: float) -> Closeness:
    import numpy as np

    kinds = {a.dtype.kind, b.dtype.kind}
    wide = np.complex128 if "c" in kinds else np.float64
    left, right = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        if kinds <= {"i", "u", "b"}:
            apart = _integer_differences(a, b)
            equal = apart == 0.0
        else:
            apart = np.abs(left - right)
            equal = (left == right) | (np.isnan(left) & np.isnan(right))
        near = equal | (np.isfinite(left) & np.isfinite(right) & (apart <= atol + rtol * np.abs(right)))
        apart = np.where(equal, 0.0, apart)
    delta = float(apart.max(initial=0.0))
    if delta == 0.0:
        return Closeness(bool(near.all()), "values", 0.0, relative=NO_ERROR)
    relative = relative_error_of_arrays(left, right, delta)
    return Closeness(bool(near.all()), "values", delta, "max|Δ|", relative)


def _integer_differences(a: Any, b: Any) -> Any:
    """How far integers are apart: large ones are rounded to the same float."""
    import numpy as np

    if np.result_type(a, b).kind == "f":  # no type has both signed and unsigned ones of 64 bits
        return np.abs(a.astype(object) - b.astype(object)).astype(np.float64)
    # Modulo 2^64 the difference is right even where it is larger than the type can hold.
    return (np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)).astype(np.float64)


def close_stats(a: Stats, b: Stats, rtol: float, atol: float, *, exact: bool = False) -> Closeness:
    """Compare statistics: they may differ by no more than elements that are close allow.

    >>> one = Stats(count=4, min=0.0, max=1.0, mean=0.5, std=0.5, zeros=2)
    >>> other = Stats(count=4, min=0.0, max=1.0, mean=0.75, std=0.4, zeros=1)
    >>> found = close_stats(one, other, 1e-6, 1e-5)
    >>> found.same, found.delta, found.measure, found.relative
    (False, 0.25, 'Δ mean', RelativeError(size=0.25, is_bound=True))
    """
    if a == b:
        return _SAME_STATISTICS
    if _counts(a) != _counts(b):
        return _other_count(a, b)
    worst = _worst_number(a, b, rtol, atol)
    relative = relative_error_of_statistics(a, b)
    if worst.excess > 1:
        return Closeness(False, "statistics", worst.apart, f"Δ {worst.label}", relative)
    details_agree = _details(a) == _details(b)
    if exact and not details_agree and _have_histograms(a, b):
        return Closeness(False, "statistics", measure="histogram")
    if worst.apart:
        return Closeness(True, "statistics", worst.apart, f"Δ {worst.label}", relative)
    if details_agree:
        return _SAME_STATISTICS
    return Closeness(True, "statistics", measure="histogram")


def _have_histograms(a: Stats, b: Stats) -> bool:
    return bool(a.histogram) and bool(b.histogram)


_COUNT_ROWS = [row for row in STATISTICS if row.bound == "count"]
# Averages come first: they are named where the excess of both is the same.
_NUMBER_ROWS = sorted(NUMBERS, key=lambda row: row.bound != "average")
_counts = attrgetter(*[row.name for row in _COUNT_ROWS])
_numbers = attrgetter(*[row.name for row in _NUMBER_ROWS])
# What must be equal only where the elements must be.
_details = attrgetter("histogram", *[row.name for row in STATISTICS if row.bound == "detail"])


def _other_count(a: Stats, b: Stats) -> Closeness:
    """The first count that differs."""
    for row, left, right in zip(_COUNT_ROWS, _counts(a), _counts(b), strict=True):
        if left != right:
            relative = relative_error_of_statistics(a, b)
            return Closeness(False, "statistics", float(abs(left - right)), f"Δ {row.label}", relative)
    return _SAME_STATISTICS


class _NumberDifference(NamedTuple):
    """How many times its bound a statistic differs by, the difference, and its label."""

    excess: float
    apart: float
    label: str


def _worst_number(a: Stats, b: Stats, rtol: float, atol: float) -> _NumberDifference:
    """The statistic that differs by most, compared with its bound."""
    extreme, average = _bounds(b, rtol, atol)
    worst, label = (0.0, 0.0), "mean"
    for row, left, right in zip(_NUMBER_ROWS, _numbers(a), _numbers(b), strict=True):
        if left == right:
            continue
        apart = _difference(row, left, right)
        bound = average if row.bound == "average" else extreme
        size = (_excess(apart, bound), apart)
        if size > worst:
            worst, label = size, row.label
    return _NumberDifference(*worst, label)


def _excess(apart: float, bound: float) -> float:
    """How many times its bound a difference is."""
    if apart == 0.0:
        return 0.0
    if apart == math.inf or not 0.0 < bound < math.inf:
        return math.inf
    return apart / bound


def _bounds(stats: Stats, rtol: float, atol: float) -> tuple[float, float]:
    """How far extremes and averages can move while the elements stay within the tolerance."""
    most = max(abs(stats.min or 0.0), abs(stats.max or 0.0))
    usual = _root_mean_square(stats)
    if usual is None or not math.isfinite(usual):
        usual = most
    average = atol + rtol * usual
    if average:  # rounding in another order moves averages, too, and is not a difference of elements
        average += 1e-7 * usual
    return atol + rtol * most, average


def _root_mean_square(stats: Stats) -> float | None:
    """A norm that bounds what mean and deviation can move by, and that is smaller than the largest element."""
    if stats.mean is None or stats.std is None:
        return None
    return math.hypot(stats.mean, stats.std)


def _difference(row: Statistic, left: float | None, right: float | None) -> float:
    """How far two numbers are apart: infinitely far where only one is known, or is NaN."""
    if left is None or right is None:
        if row.depends_on_order:
            return 0.0
        return math.inf
    if left != left and right != right:
        return 0.0
    apart = abs(left - right)
    if apart != apart:
        return math.inf
    return apart


def close_plain(a: Any, b: Any, rtol: float | None = None, atol: float | None = None) -> Closeness | None:
    """Compare Python values, containers too; None where nothing can be said. Tensors in them are not looked at.

    >>> close_plain(1.0, 1.5).delta, close_plain([1, "a"], (1, "a")).same, close_plain(Opaque("Lock"), Opaque("Lock"))
    (0.5, True, None)
    """
    if rtol is None or atol is None:
        rtol, atol = TOLERANCES[_PYTHON_FLOAT]
    for is_kind, compare in _KINDS:
        if is_kind(a) and is_kind(b):
            return compare(a, b, rtol, atol)
    return _close_others(a, b)


def _close_others(a: Any, b: Any) -> Closeness | None:
    """Compare values that are neither numbers, arrays nor containers of one kind."""
    if isinstance(a, TensorFacts) or isinstance(b, TensorFacts):
        return None
    if isinstance(a, Opaque) and isinstance(b, Opaque):
        return _close_types(a.type, b.type)
    modules = {type(a).__module__, type(b).__module__}
    if not modules <= {"builtins", "insitu.trace.event"}:
        return _close_types(type(a), type(b))
    if a == b:
        return Closeness(True, "values")
    return Closeness(False, "values", measure="content")


def _close_types(a: object, b: object) -> Closeness | None:
    """Compare values of which only the types are known."""
    if a == b:
        return None
    return Closeness(False, "structure", measure="type")


def _close_numbers(a: Any, b: Any, rtol: float, atol: float) -> Closeness:
    if a == b:
        return _SAME_VALUES
    if a != a and b != b:
        return _SAME_VALUES
    if isinstance(a, int) and isinstance(b, int):
        apart = _float(abs(a - b))
        return Closeness(False, "values", apart, "|Δ|", relative_error_of_numbers(a, b, apart))
    try:
        apart = abs(a - b)
        near = math.isfinite(apart) and apart <= atol + rtol * abs(b)
    except OverflowError:  # one is an integer that no float can hold
        return Closeness(False, "values", math.inf, "|Δ|")
    return Closeness(near, "values", float(apart), "|Δ|", relative_error_of_numbers(a, b, float(apart)))


def _float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _close_sequences(a: Any, b: Any, rtol: float, atol: float) -> Closeness | None:
    if len(a) != len(b):
        return _close_numbers(len(a), len(b), rtol, atol)
    return _together([close_plain(left, right, rtol, atol) for left, right in zip(a, b, strict=True)])


def _close_dicts(a: Any, b: Any, rtol: float, atol: float) -> Closeness | None:
    if a.keys() != b.keys():
        return _close_sequences(list(a), list(b), rtol, atol)
    return _together([close_plain(item, b[name], rtol, atol) for name, item in a.items()])


def _close_fields(a: Any, b: Any, rtol: float, atol: float) -> Closeness | None:
    return close_plain(a.items, b.items, rtol, atol)


def _together(found: list[Closeness | None]) -> Closeness | None:
    """The largest difference of several items; None if nothing can be said of any of them."""
    if not found:
        return Closeness(True, "values")
    known = [one for one in found if one is not None]
    if not known:
        return None
    different = [one for one in known if one.same is False]
    return max(different or known, key=_size)


def _is_sequence(item: Any) -> bool:
    return isinstance(item, (list, tuple))


def _is_dict(item: Any) -> bool:
    return isinstance(item, dict)


def _has_fields(item: Any) -> bool:
    return isinstance(item, Fields)


# How values are compared if both are of one kind.
_KINDS: tuple[tuple[Callable[[Any], bool], Callable[[Any, Any, float, float], Closeness | None]], ...] = (
    (is_number, _close_numbers),
    (_is_sequence, _close_sequences),
    (is_array, close_arrays),
    (_has_fields, _close_fields),
    (_is_dict, _close_dicts),
)
