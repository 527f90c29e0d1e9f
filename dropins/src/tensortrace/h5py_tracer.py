"""A callback that moves what was gathered into an HDF5 file, exactly as it was."""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor

from tensortrace.gathering import current_rank
from tensortrace.telling import tell

if TYPE_CHECKING:
    import h5py

CHUNK = 256 << 10  # bytes
SPARE = 16 << 20  # bytes left on the disk: HDF5 takes the process with it when a disk is full
ESCAPED = re.compile(r"[/%\x00-\x1f\x7f]|^\.+$")


@dataclass(frozen=True, slots=True)
class Place:
    """The datasets of one name: a row for each value, and beside them when, where and how large it was."""

    values: h5py.Dataset
    iterations: h5py.Dataset
    ranks: h5py.Dataset
    shapes: h5py.Dataset | None

    def takes(self, row: Any) -> bool:
        """Whether a row can be one of these."""
        return bool(self.values.dtype == row.dtype and self.values.ndim == row.ndim + 1)

    def append(self, rows: Sequence[Any]) -> None:
        """Add rows; all grow where one of them is larger."""
        count = self.values.shape[0]
        sizes = [max(found) for found in zip(self.values.shape[1:], *(row.shape for row in rows), strict=True)]
        self.values.resize((count + len(rows), *sizes))
        if all(list(row.shape) == sizes for row in rows):
            self.values[count:] = numpy.stack(rows)
        else:
            for index, row in enumerate(rows, count):
                self.values[(index, *(slice(size) for size in row.shape))] = row
        if self.shapes is not None:
            extend(self.shapes, [row.shape for row in rows])


def extend(dataset: h5py.Dataset, items: Sequence[Any]) -> None:
    """Add items to a dataset."""
    if items:
        dataset.resize(dataset.shape[0] + len(items), axis=0)
        dataset[-len(items) :] = items


class H5PYSaverCallback:
    """Appends values to a dataset for each name, beside it `<name>_iterations`, `<name>_ranks` and `<name>_shapes`.

    Use it as the last of `post_gather_callbacks`: the values are in the file then, and no longer in the tracer.
    Without `float_dtype` and `int_dtype` numbers keep the dtype they have; bfloat16 and float8 become float32, which
    holds them exactly. Values of another dtype or number of dimensions than the first go to `<name>@<dtype>`.
    `<name>_shapes` has the true shape of each value: rows of a dataset are as large as the largest.
    """

    def __init__(
        self,
        dataset_file: str | os.PathLike[str],
        iteration_dtype: Any = numpy.int64,
        float_dtype: Any = None,
        int_dtype: Any = None,
        compression: str | None = None,
        compression_opts: int | None = None,
        shuffle: bool = False,
        existing_ok: bool = True,
    ) -> None:
        self.dataset_file = Path(dataset_file)
        self.iteration_dtype, self.float_dtype, self.int_dtype = iteration_dtype, float_dtype, int_dtype
        self.compression, self.compression_opts, self.shuffle = compression, compression_opts, shuffle
        self.datasets: dict[str, h5py.Dataset] = {}
        # Opened with the first value: only the process that gets values may have it open.
        self.h5_file: h5py.File | None = None
        self._places: dict[str, Place] = {}
        self._is_told = False
        self._is_first = current_rank() == 0
        if self._is_first:
            if self.dataset_file.exists() and not existing_ok:
                raise ValueError(f"{self.dataset_file} exists already: remove it, or give existing_ok=True")
            self.dataset_file.unlink(missing_ok=True)
            self.dataset_file.parent.mkdir(parents=True, exist_ok=True)

    def __call__(self, name: str, values: list[Any], iterations: list[Any], ranks: list[Any] | None = None) -> None:
        """Append values of a name to the file, and empty the lists."""
        if not values:
            return
        ranks = ranks if ranks is not None else [0] * len(iterations)
        rows = [self._array(name, value) for value in values]
        self._check_space(sum(row.nbytes for row, _ in rows))
        # Values that were stacked have several iterations each: those belong to the first of them.
        is_each = len(iterations) == len(ranks) == len(rows)
        places = [self._place(name, row, dtype) for row, dtype in rows]
        for place in {id(place): place for place in places}.values():
            mine = [index for index, other in enumerate(places) if other is place]
            beside = mine if is_each else range(len(iterations)) if place is places[0] else ()
            place.append([rows[index][0] for index in mine])
            extend(place.iterations, [iterations[index] for index in beside])
            extend(place.ranks, [ranks[index] for index in beside])
        self.file.flush()
        for each in (values, iterations, ranks):
            each.clear()

    @property
    def file(self) -> h5py.File:
        """The open file."""
        if self.h5_file is None:
            import h5py

            self.h5_file = h5py.File(self.dataset_file, "w")
        return self.h5_file

    def close(self) -> None:
        """Close the file; it exists even if nothing was saved."""
        if self.h5_file is not None or (self._is_first and current_rank() == 0 and not self.dataset_file.exists()):
            self.file.close()

    def __enter__(self) -> H5PYSaverCallback:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _array(self, name: str, value: Any) -> tuple[Any, str]:
        """A value as an array that HDF5 can hold, and the name of the dtype that it had."""
        dtype = str(value.dtype) if isinstance(value, (Tensor, numpy.ndarray, numpy.generic)) else type(value).__name__
        array = as_array(value)
        if array.dtype.kind == "f" and self.float_dtype is not None:
            array = array.astype(self.float_dtype)
        elif array.dtype.kind in "iu" and self.int_dtype is not None:
            array = self._as_int(name, array)
        return array, dtype.removeprefix("torch.")

    def _as_int(self, name: str, array: Any) -> Any:
        small = array.astype(self.int_dtype)
        if numpy.array_equal(small, array):
            return small
        if not self._is_told:
            self._is_told = True
            tell(f"{name!r} does not fit in {numpy.dtype(self.int_dtype)} and is saved as {array.dtype}")
        return array

    def _place(self, name: str, row: Any, dtype: str) -> Place:
        """The datasets for a row, made if there are none; the first of a name have the name itself."""
        first = self._places.get(name)
        path = name
        if first is not None and not first.takes(row):
            kind = str(row.dtype) if row.dtype.kind != "O" else "str"
            path = f"{name}@{kind}" if first.values.ndim == row.ndim + 1 else f"{name}@{kind}@{row.ndim}d"
        if path not in self._places:
            self._places[path] = self._create(path, row, dtype)
        return self._places[path]

    def _create(self, path: str, row: Any, dtype: str) -> Place:
        values = self._new(path, row.shape, row.dtype)
        values.attrs["name"] = text(path)
        values.attrs["torch_dtype"] = dtype
        whole = numpy.dtype(numpy.int64)
        place = Place(
            values,
            self._new(f"{path}_iterations", (), numpy.dtype(self.iteration_dtype)),
            self._new(f"{path}_ranks", (), whole),
            self._new(f"{path}_shapes", (row.ndim,), whole) if row.ndim else None,
        )
        self.datasets[path] = values
        for beside in ("iterations", "ranks", "shapes"):
            if (dataset := getattr(place, beside)) is not None:
                self.datasets.setdefault(f"{path}_{beside}", dataset)
        return place

    def _new(self, path: str, shape: tuple[int, ...], dtype: Any) -> h5py.Dataset:
        stored = ESCAPED.sub(lambda found: "".join(f"%{ord(letter):02X}" for letter in found[0]), text(path))
        while stored in self.file:  # a variable may be called as the iterations of another one are
            stored += "_"
        return self.file.create_dataset(
            stored,
            shape=(0, *shape),
            maxshape=(None,) * (len(shape) + 1),
            dtype=dtype,
            chunks=chunks(shape, dtype.itemsize),
            compression=self.compression,
            compression_opts=self.compression_opts,
            shuffle=self.shuffle,
        )

    def _check_space(self, needed: int) -> None:
        free = shutil.disk_usage(self.dataset_file.parent).free
        if free < needed + SPARE:
            raise OSError(errno.ENOSPC, f"{free >> 20} MiB are left, {needed >> 20} MiB more are to be saved")


def as_array(value: Any) -> Any:
    """A value as a NumPy array that HDF5 can hold; what no array can hold, as text.

    >>> as_array(torch.tensor([1.5], dtype=torch.bfloat16)), as_array(2**40 + 1), as_array(True).dtype
    (array([1.5], dtype=float32), array(1099511627777), dtype('bool'))
    """
    if isinstance(value, Tensor):
        tensor = value.detach().cpu().resolve_conj().resolve_neg()
        if tensor.is_floating_point() and tensor.dtype not in (torch.float16, torch.float32, torch.float64):
            tensor = tensor.float()
        return (tensor.to(torch.complex64) if tensor.dtype is torch.complex32 else tensor).numpy()
    if not isinstance(value, str):
        try:
            array = numpy.asarray(value)
        except Exception:
            array = numpy.asarray(None)
        if array.dtype.kind in "biufc" and (array.ndim == 0 or isinstance(value, numpy.ndarray)):
            return array
    import h5py

    return numpy.asarray(text(value if isinstance(value, str) else repr(value)), dtype=h5py.string_dtype())


def text(value: str) -> str:
    """A text as HDF5 can hold it: it has no lone surrogates, and ends one at its first NUL."""
    return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def chunks(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The shape of the pieces in which HDF5 keeps rows: about 256 KiB, whole rows if they are small.

    >>> chunks((4, 8), 4), chunks((1024, 1024), 4)
    ((2048, 4, 8), (1, 64, 1024))
    """
    sizes = [max(1, length) for length in shape]
    for index in range(len(sizes)):
        while sizes[index] > 1 and numpy.prod(sizes, dtype=object) * size > CHUNK:
            sizes[index] = (sizes[index] + 1) // 2
    row = int(numpy.prod(sizes, dtype=object)) * size
    return (max(1, CHUNK // row), *sizes)
