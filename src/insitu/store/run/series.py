"""One variable over the steps of a run: its values with the step, rank, call and time of each, read when asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import islice, pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from insitu.errors import ChoiceError, NotRecordedError
from insitu.store.json_reader import plain_values
from insitu.store.run import conversion
from insitu.store.run.conversion import packed
from insitu.store.stored_type import JSON, Array, StoredType

if TYPE_CHECKING:
    from insitu.store.run.run_home import RunHome


@dataclass(frozen=True, slots=True)
class SeriesColumns:
    """A row for each time a variable was seen; `index` has the slot of each: which of the stored values it had."""

    steps: Array
    ranks: Array
    attempts: Array
    calls: Array
    times: Array
    index: Array

    def part(self, rows: Array) -> SeriesColumns:
        """Some of the rows, in this order."""
        return SeriesColumns(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def size(self) -> int:
        """The bytes of memory that the columns take."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))

    def in_order(self) -> SeriesColumns:
        """The same rows ordered by step, then by rank and attempt."""
        return self.part(np.lexsort((self.attempts, self.ranks, self.steps)))


class VariableSource(Protocol):
    """A variable in a file or in journals; `shape` is None if its values differ in shape."""

    name: str
    path: str
    type: StoredType
    shape: tuple[int, ...] | None
    facts: dict[str, Any]
    home: RunHome | None

    def columns(self) -> SeriesColumns:
        """When and where the variable was seen."""
        ...

    def shapes(self, slots: Array) -> list[tuple[int, ...]]:
        """The shapes of stored values."""
        ...

    def digests(self, slots: Array) -> Array:
        """The digests of stored values: equal digests are equal bytes."""
        ...

    def pieces(self, slots: Array) -> Iterator[Any]:
        """The bytes of stored values, which are checked."""
        ...


_TEXTS_AT_ONCE = 4096

Part = tuple[VariableSource, Array]  # a variable, and the rows of it that belong to the series


class Series:
    """The values of a variable. Nothing is read until it is asked for.

    `series[10:20]` are the steps from 10 to 19, `series.rank(1)` those of a rank; both are series again. A run that was
    restarted may have a step several times, once in each attempt: all are there, ordered by step, rank and attempt;
    `series.latest()` has each step once, as the last attempt recorded it.
    """

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts

    @classmethod
    def whole(cls, variable: VariableSource) -> Series:
        """All rows of a variable."""
        return cls([(variable, np.arange(len(variable.columns().steps)))])

    @property
    def name(self) -> str:
        """The path; with `@dtype` after it where the path had values of several types."""
        return self._parts[0][0].name

    @property
    def dtype(self) -> str:
        """The type as torch spells it: "bfloat16"; "json" for Python values."""
        return self._type.name

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of each value; None where they differ (and for Python values)."""
        shapes = {variable.shape for variable, _ in self._parts}
        if len(shapes) == 1:
            return shapes.pop()
        return None

    @property
    def facts(self) -> dict[str, Any]:
        """What else is known: the source, the scale of a quantized tensor, the offset of a local part."""
        return self._parts[0][0].facts

    @property
    def source(self) -> str | None:
        """The file and line it comes from."""
        found = self.facts.get("source")
        if isinstance(found, str):
            return found
        return None

    @property
    def steps(self) -> Array:
        """The step of each value."""
        return self._column("steps")

    @property
    def ranks(self) -> Array:
        """The rank of each value."""
        return self._column("ranks")

    @property
    def attempts(self) -> Array:
        """The attempt of each value: 0 for the first start of the job, one more for each restart."""
        return self._column("attempts")

    @property
    def calls(self) -> Array:
        """Which value of its step and rank each one is: 0 for the first."""
        return self._column("calls")

    @property
    def times(self) -> Array:
        """When the step of each value was recorded, in seconds since 1970."""
        return self._column("times")

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of each value; a Python value has none: ()."""
        if self.dtype == JSON:
            return [()] * len(self)
        found = [variable.shapes(variable.columns().index[rows]) for variable, rows in self._parts]
        return [shape for shapes in found for shape in shapes]

    @property
    def digests(self) -> Array:
        """The checksum of each value: values of one type and shape with equal checksums are equal."""
        found = [variable.digests(variable.columns().index[rows]) for variable, rows in self._parts]
        return np.concatenate(found)

    @cached_property
    def values(self) -> Any:
        """An array (N, *shape) if all values have one shape, else a list of N arrays.

        Python numbers of one type are an array (N,), in which None is NaN; other Python values are a list.
        """
        if self.dtype == JSON:
            return packed(plain_values(map(bytes, self._pieces())))
        raw = self.raw
        if isinstance(raw, list):
            return [self._type.decode(value) for value in raw]
        return self._type.decode(raw)

    @property
    def raw(self) -> Any:
        """The same as `values`, in the bits that are stored: of types that NumPy lacks, unsigned integers."""
        self._need_arrays("raw")
        if self.dtype == JSON:
            return self.values
        if self.shape is not None:
            return self._array(bytearray().join(self._pieces()), (len(self), *self.shape))
        found = zip(self._pieces(), self.shapes, strict=True)
        return [self._array(bytearray(piece), shape) for piece, shape in found]

    def _arrays(self, most: int) -> Iterator[Array]:
        """The tensors in arrays (N, *shape) of about so many bytes, for a run may be larger than the memory."""
        if self.shape is None:
            raise ChoiceError(f"{self.name!r} has values of several shapes, which are not one array: iterate over it")
        size = max(self._type.itemsize * prod(self.shape), 1)
        count = max(most // size, 1)
        for variable, rows in self._parts:
            for start in range(0, len(rows), count):
                yield Series([(variable, rows[start : start + count])]).values

    def padded(self, fill: Any = 0) -> tuple[Array, Array]:
        """Values of several shapes as one array, with `fill` after each, and their true shapes: (N, dimensions).

        A mean over the padding is wrong: use the lengths.
        """
        self._need_arrays("padded()")
        values, shapes = list(self.values), self.shapes
        if len({len(shape) for shape in shapes}) > 1:
            raise ChoiceError(f"{self.name!r} has values of several dimensions, which no padding makes one array")
        if not values:
            return np.full(0, fill), np.empty((0, 0), np.int64)
        lengths = np.array(shapes, np.int64).reshape(len(values), len(shapes[0]))
        size = (len(values), *lengths.max(axis=0).tolist())
        padded = np.full(size, _filling(fill, values[0].dtype, self._array_dtype))
        for number, value in enumerate(values):
            place: Any = (number, *map(slice, value.shape))
            padded[place] = value
        return padded, lengths

    def at(self, step: int, *, rank: int | None = None, attempt: int | None = None, call: int | None = None) -> Any:
        """The one value of a step; where there are several, `rank`, `attempt` or `call` say which."""
        choices = {"step": step, "rank": rank, "attempt": attempt, "call": call}
        given = {name: value for name, value in choices.items() if value is not None}
        wanted = np.ones(len(self), bool)
        for name, value in given.items():
            wanted &= self._column(f"{name}s") == value
        rows = np.flatnonzero(wanted)
        if len(rows) == 1:
            return next(iter(self.where(wanted)))
        asked = ", ".join(f"{name} {value}" for name, value in given.items())
        if not len(rows):
            raise NotRecordedError(f"{self.name!r} has no value at {asked}{self._near(step)}")
        which = "attempt=…, rank=… or call=…" if len(np.unique(self.attempts[rows])) > 1 else "rank=… or call=…"
        raise ChoiceError(f"{self.name!r} has {len(rows)} values at {asked}: say {which}")

    def rank(self, rank: int) -> Series:
        """The values of one rank."""
        self._check_known("rank", rank)
        return self.where(self.ranks == rank)

    def attempt(self, attempt: int) -> Series:
        """The values of one attempt."""
        self._check_known("attempt", attempt)
        return self.where(self.attempts == attempt)

    def _check_known(self, name: str, number: int) -> None:
        """Raise if the variables of the series have no value of this rank or attempt."""
        numbers = [getattr(variable.columns(), f"{name}s") for variable, _ in self._parts]
        known = np.unique(np.concatenate(numbers)).tolist()
        if number in known:
            return
        there = f"there is {name}" if len(known) == 1 else f"there are {name}s"
        listed = ", ".join(map(str, known))
        raise NotRecordedError(f"{self.name!r} has no value of {name} {number}; {there} {listed}")

    def latest(self) -> Series:
        """Each step as the last attempt that recorded it did, without those that an earlier attempt has of it."""
        return self.where(self._is_latest())

    def _is_latest(self) -> Array:
        """Whether each value is of the last attempt that recorded its step."""
        attempts = self.attempts
        if not len(attempts):
            return np.ones(0, bool)
        _, number = np.unique(self.steps, return_inverse=True)
        last = np.full(number.max() + 1, -1, attempts.dtype)
        np.maximum.at(last, number, attempts)
        found: Array = attempts == last[number]
        return found

    def where(self, wanted: Array) -> Series:
        """The values for which an array of booleans, one for each, is true."""
        ends = np.cumsum([len(rows) for _, rows in self._parts])[:-1]
        chosen = zip(self._parts, np.split(np.asarray(wanted, bool), ends), strict=True)
        return Series([(variable, rows[here]) for (variable, rows), here in chosen])

    def take(self, rows: Array) -> Series:
        """The values with these numbers, in rising order."""
        ends = np.cumsum([0, *(len(own) for _, own in self._parts)])
        bounds = np.searchsorted(rows, ends)
        chosen = zip(self._parts, ends.tolist(), pairwise(bounds.tolist()), strict=False)
        return Series([(variable, own[rows[first:last] - begin]) for (variable, own), begin, (first, last) in chosen])

    def __getitem__(self, steps: slice | int) -> Any:
        if isinstance(steps, slice) and all(map(_is_bound, (steps.start, steps.stop, steps.step))):
            return self._slice(steps)
        if isinstance(steps, (int, np.integer)):
            return self.at(steps)
        raise ChoiceError(
            f"{steps!r:.80} is not a step: series[10] is the value of step 10, series[10:20] of ten steps"
        )

    def _slice(self, steps: slice) -> Series:
        if steps.step is not None and steps.step < 1:
            raise ChoiceError(f"a slice of steps goes forward, not by {steps.step}")
        found = self.steps
        first = steps.start
        if first is None:
            first = found.min() if len(found) else 0
        wanted = found >= first
        if steps.stop is not None:
            wanted &= found < steps.stop
        if steps.step is not None:
            wanted &= (found - first) % steps.step == 0
        return self.where(wanted)

    def concat(self, *others: Series) -> Series:
        """This series and then the others, as of a run that was continued in another file."""
        for other in others:
            if other.dtype != self.dtype:
                raise ChoiceError(f"{self.name!r} is {self.dtype} and {other.name!r} is {other.dtype}: convert one")
        return Series([*self._parts, *(part for other in others for part in other._parts)])

    def to_pandas(self) -> Any:
        """A DataFrame with the columns step, rank, attempt, call, time and value; needs pandas."""
        return conversion.to_pandas(self)

    def to_dask(self) -> Any:
        """The values as a lazy Dask array (N, *shape), in the order of `steps` and `ranks`; needs `insitu[dask]`."""
        from insitu.store.run.lazy_array import to_dask

        return to_dask(self)

    def to_xarray(self) -> Any:
        """The values as a lazy DataArray with the dimensions step and rank; needs `insitu[xarray]`.

        Each step is as the last attempt recorded it. A step that a rank lacks is NaN there.
        """
        from insitu.store.run.labelled_data import series_to_xarray

        return series_to_xarray(self)

    def to_torch(self) -> Any:
        """The values as a tensor, or a list of tensors where the shapes differ; needs torch."""
        self._need_arrays("to_torch()")
        return conversion.to_torch(self.raw, self._array_dtype)

    def __len__(self) -> int:
        return sum(len(rows) for _, rows in self._parts)

    def __iter__(self) -> Iterator[Any]:
        """The values, one at a time, for a run may be larger than the memory; Python values as they were."""
        if self.dtype == JSON:
            pieces = map(bytes, self._pieces())
            while texts := list(islice(pieces, _TEXTS_AT_ONCE)):
                yield from plain_values(texts)
            return
        for variable, rows in self._parts:
            for number in range(len(rows)):
                yield Series([(variable, rows[number : number + 1])]).values[0]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.store.run.series_summary import series_summary  # only a notebook needs these
        from insitu.view.notebook import series_forms

        return series_forms(self, lambda: series_summary(self), include, exclude)

    def __repr__(self) -> str:
        text = f"<Series {self.name!r}: {len(self)} × {self._kind_text()}"
        if len(self):
            text += f", steps {self.steps.min()}–{self.steps.max()}"
        for name in ("ranks", "attempts"):
            count = len(np.unique(self._column(name)))
            if count > 1:
                text += f", {count} {name}"
        return f"{text}>"

    def _kind_text(self) -> str:
        if self.dtype == JSON:
            return "Python values"
        if self.shape is None:
            return f"{self.dtype}[…]"
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def _type(self) -> StoredType:
        return self._parts[0][0].type

    @property
    def _array_dtype(self) -> str:
        if self.dtype == JSON:
            return str(self.values.dtype)
        return self.dtype

    def _need_arrays(self, verb: str) -> None:
        if self.dtype == JSON and not isinstance(self.values, np.ndarray):
            raise ChoiceError(f"{self.name!r} holds Python values, and {verb} is for tensors and numbers: take .values")

    def _column(self, name: str) -> Array:
        return np.concatenate([getattr(variable.columns(), name)[rows] for variable, rows in self._parts])

    def _pieces(self) -> Iterator[Any]:
        """The bytes of each row; a stored value that several rows have is read once."""
        for variable, rows in self._parts:
            slots, inverse = np.unique(variable.columns().index[rows], return_inverse=True)
            if len(slots) == len(rows) and (inverse == np.arange(len(rows))).all():
                yield from variable.pieces(slots)
            else:
                read = list(variable.pieces(slots))
                yield from [read[number] for number in inverse.tolist()]

    def _array(self, data: bytearray, shape: tuple[int, ...]) -> Array:
        return np.frombuffer(data, self._type.bits).reshape((*shape, *self._type.inner))

    def _near(self, step: int) -> str:
        steps = np.unique(self.steps)
        near = steps[np.argsort(abs(steps - step), kind="stable")[:2]].tolist()
        if near:
            return f"; the nearest are {' and '.join(map(str, sorted(near)))}"
        return ""


def _is_bound(bound: Any) -> bool:
    return bound is None or isinstance(bound, (int, np.integer))


def _filling(fill: Any, dtype: np.dtype[Any], name: str) -> Any:
    """The value that fills the padding, as the dtype holds it."""
    try:
        with np.errstate(all="ignore"):
            filling = np.asarray(fill).astype(dtype)
    except (ValueError, TypeError, OverflowError):
        filling = None
    if not _is_exact(filling, fill):
        raise ChoiceError(f"fill={fill!r} is not a value of the type {name}")
    return filling


def _is_exact(filling: Array | None, fill: Any) -> bool:
    """Whether an array is one number, and the same as `fill`; a float may be rounded."""
    if filling is None or filling.ndim:
        return False
    return filling.dtype.kind not in "biu" or bool(filling == fill)
