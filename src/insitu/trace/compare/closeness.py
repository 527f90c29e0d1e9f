"""Whether two tensors, or two Python values, are the same, by all that is known of them.

From kept values this is what `torch.testing.assert_close` says, with NaN equal to NaN. From statistics it is what
that closeness implies for them: a difference beyond the bounds is certain, agreement only likely. Where neither was
kept, shape and dtype are all there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from insitu.errors import ChoiceError
from insitu.trace.dtype import DTYPES
from insitu.trace.event import NUMBERS, STATISTICS, Fields, Opaque, Statistic, Stats, TensorFacts

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
    There is no measure if the two are exactly the same.
    """

    same: bool | None
    certainty: Certainty
    delta: float | None = None
    measure: str = ""

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
        if (self.rtol is None) != (self.atol is None):
            given, other = ("rtol", "atol") if self.atol is None else ("atol", "rtol")
            raise ChoiceError(f"{given}={getattr(self, given)!r} without {other}: give both, or neither")
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and 0 <= value < math.inf):
                raise ChoiceError(f"{name}={value!r} is not a tolerance: give zero or a positive number, as in 1e-5")

    def tightened(self) -> Tolerance:
        """A tenth of it: what statistics have to agree within if the elements should agree within the whole."""
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
    if len(every) == 1:
        return every[0]
    different = [one for one in every if one.same is False]
    if different:
        return max(different, key=lambda one: one.delta or 0.0)
    known = [one for one in every if one.same]
    if not known:
        if every:
            return every[0]
        return NOTHING_DIFFERS
    if len(known) < len(every) and any(one.certainty == "structure" for one in every):
        return Closeness(None, "structure")
    largest = max(known, key=lambda one: one.delta or 0.0)
    return Closeness(True, weakest(*(one.certainty for one in known)), largest.delta, largest.measure)


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
    if a.kept is not None and b.kept is not None:
        found = _close_kept(a, b, tolerance)
        if found is not None:
            return found
    if a.stats is not None and b.stats is not None:
        rtol, atol = tolerance.of(a.dtype, b.dtype)
        # Where each element has to be the same, all statistics have to be, too.
        return close_stats(a.stats, b.stats, rtol, atol, exact=a.dtype == b.dtype and rtol == atol == 0.0)
    return _UNKNOWN


_SAME_STATISTICS, _UNKNOWN = Closeness(True, "statistics", 0.0), Closeness(None, "structure")


def _close_kept(a: TensorFacts, b: TensorFacts, tolerance: Tolerance) -> Closeness | None:
    """Compare what was kept: all values, or the results of the user's own function."""
    rtol, atol = tolerance.of(a.dtype, b.dtype)
    if hasattr(a.kept, "dtype") and hasattr(b.kept, "dtype"):
        whole = a.kept.shape == a.shape and b.kept.shape == b.shape
        return close_arrays(a.kept, b.kept, rtol, atol, "values" if whole else "statistics")
    whole = a.shape == () and _is_number(a.kept) and _is_number(b.kept)
    found = close_plain(a.kept, b.kept, rtol, atol)
    if found is None:
        return None
    return Closeness(found.same, "values" if whole else "statistics", found.delta, found.measure)


def close_arrays(a: Any, b: Any, rtol: float, atol: float, certainty: Certainty = "values") -> Closeness | None:
    """Compare two arrays, element by element; None for those that are not numbers.

    >>> import numpy
    >>> close_arrays(numpy.array([1.0, numpy.nan]), numpy.array([1.5, numpy.nan]), 0.0, 0.1).delta
    0.5
    """
    import numpy as np

    if a.shape != b.shape:
        return Closeness(False, certainty, measure="shape")
    if a.dtype == b.dtype and a.tobytes() == b.tobytes():
        return Closeness(True, certainty, 0.0)
    if any(array.dtype.kind in "OSUmM" or array.dtype.names for array in (a, b)):
        return Closeness(False, certainty, measure="content")
    wide = np.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else np.float64
    left, right = a.astype(wide), b.astype(wide)
    with np.errstate(all="ignore"):
        whole = a.dtype.kind in "iub" and b.dtype.kind in "iub"
        apart = _integers_apart(a, b) if whole else np.abs(left - right)
        equal = apart == 0.0 if whole else (left == right) | (np.isnan(left) & np.isnan(right))
        near = equal | (np.isfinite(left) & np.isfinite(right) & (apart <= atol + rtol * np.abs(right)))
        apart = np.where(equal, 0.0, apart)
    delta = float(apart.max()) if apart.size else 0.0
    return Closeness(bool(near.all()), certainty, delta, "max|Δ|" if delta else "")


def _integers_apart(a: Any, b: Any) -> Any:
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
    >>> close_stats(one, other, 1e-6, 1e-5)
    Closeness(same=False, certainty='statistics', delta=0.25, measure='Δ mean')
    """
    if a == b:
        return _SAME_STATISTICS
    for row in STATISTICS:
        apart = _count_difference(row, a, b)
        if apart:
            return Closeness(False, "statistics", apart, f"Δ {row.label}")
    excess, apart, name = _worst_number(a, b, rtol, atol)
    if excess > 1:
        return Closeness(False, "statistics", apart, f"Δ {name}")
    counted = _details(a) == _details(b)
    if exact and not counted and a.histogram and b.histogram:
        return Closeness(False, "statistics", measure="histogram")
    if apart:
        return Closeness(True, "statistics", apart, f"Δ {name}")
    if counted:
        return _SAME_STATISTICS
    return Closeness(True, "statistics", measure="histogram")


def _count_difference(row: Statistic, a: Stats, b: Stats) -> float:
    if row.bound == "count":
        return float(abs(getattr(a, row.name) - getattr(b, row.name)))
    return 0.0


def _details(stats: Stats) -> tuple[Any, ...]:
    """What must be equal only where the elements must be."""
    return (stats.histogram, *(getattr(stats, row.name) for row in STATISTICS if row.bound == "detail"))


def _worst_number(a: Stats, b: Stats, rtol: float, atol: float) -> tuple[float, float, str]:
    """How many times its bound the worst statistic differs by, the difference, and its label."""
    bounds = _bounds(b, rtol, atol)
    found = (0.0, 0.0, "mean")
    for row in _BY_WEIGHT:
        apart = _difference(row, getattr(a, row.name), getattr(b, row.name))
        if not apart:
            continue
        bound = bounds[row.bound]
        has_excess = apart < math.inf and 0.0 < bound < math.inf
        excess = apart / bound if has_excess else math.inf
        if (excess, apart) > found[:2]:
            found = (excess, apart, row.label)
    return found


def _bounds(stats: Stats, rtol: float, atol: float) -> dict[str, float]:
    """How far numbers can move while the elements stay within the tolerance."""
    most = max(abs(stats.min or 0.0), abs(stats.max or 0.0))
    # The root mean square is a norm: it bounds what mean and deviation can move by, and is smaller than the largest.
    usual = math.hypot(stats.mean, stats.std) if stats.mean is not None and stats.std is not None else most
    usual = usual if math.isfinite(usual) else most
    inner = atol + rtol * usual
    # Rounding in another order moves averages, too, and is not a difference of elements.
    return {"extreme": atol + rtol * most, "average": inner + (1e-7 * usual if inner else 0.0)}


def _difference(row: Statistic, left: float | None, right: float | None) -> float:
    """How far two numbers are apart: infinitely far where only one is known, or is NaN."""
    if left == right or (left != left and right != right):
        return 0.0
    if left is None or right is None:
        if row.depends_on_order:
            return 0.0
        return math.inf
    apart = abs(left - right)
    if apart != apart:
        return math.inf
    return apart


# Averages are named first where the excess of both is the same.
_BY_WEIGHT = sorted(NUMBERS, key=lambda row: row.bound != "average")


def close_plain(a: Any, b: Any, rtol: float | None = None, atol: float | None = None) -> Closeness | None:
    """Compare Python values, containers too; None where nothing can be said. Tensors in them are not looked at.

    >>> close_plain(1.0, 1.5).delta, close_plain([1, "a"], (1, "a")).same, close_plain(Opaque("Lock"), Opaque("Lock"))
    (0.5, True, None)
    """
    if rtol is None or atol is None:
        rtol, atol = TOLERANCES[_PYTHON_FLOAT]
    if isinstance(a, TensorFacts) or isinstance(b, TensorFacts):
        return None
    if _is_number(a) and _is_number(b):
        return _close_numbers(a, b, rtol, atol)
    if hasattr(a, "dtype") and hasattr(b, "dtype"):
        return close_arrays(a, b, rtol, atol)
    items = _items(a, b)
    if items is not None:
        return _together([close_plain(left, right, rtol, atol) for left, right in items])
    if isinstance(a, Opaque) and isinstance(b, Opaque):
        if a.type == b.type:
            return None
        return Closeness(False, "structure", measure="type")
    if not {type(a).__module__, type(b).__module__} <= {"builtins", "insitu.trace.event"}:
        if type(a) is type(b):
            return None
        return Closeness(False, "structure", measure="type")
    if a == b:
        return Closeness(True, "values")
    return Closeness(False, "values", measure="content")


def _is_number(item: Any) -> bool:
    return isinstance(item, (int, float, complex)) and not isinstance(item, bool)


def _close_numbers(a: Any, b: Any, rtol: float, atol: float) -> Closeness:
    if a == b or (a != a and b != b):
        return Closeness(True, "values", 0.0)
    if isinstance(a, int) and isinstance(b, int):
        return Closeness(False, "values", _float(abs(a - b)), "|Δ|")
    try:
        apart = abs(a - b)
        near = math.isfinite(apart) and apart <= atol + rtol * abs(b)
    except OverflowError:  # one is an integer that no float can hold
        return Closeness(False, "values", math.inf, "|Δ|")
    return Closeness(near, "values", float(apart), "|Δ|")


def _float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def _items(a: Any, b: Any) -> list[tuple[Any, Any]] | None:
    """The items of two containers of one structure; what one lacks is paired with a word that equals nothing."""
    if isinstance(a, Fields) and isinstance(b, Fields):
        a, b = a.items, b.items
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            return [(len(a), len(b))]
        return list(zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            return [(list(a), list(b))]
        return [(item, b[name]) for name, item in a.items()]
    return None


def _together(found: list[Closeness | None]) -> Closeness | None:
    known = [one for one in found if one is not None]
    if not known:
        if found:
            return None
        return Closeness(True, "values")
    different = [one for one in known if one.same is False]
    return max(different or known, key=lambda one: one.delta or 0.0)
