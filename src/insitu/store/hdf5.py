"""HDF5, as traces and runs share it: reading files from strangers, types, names, attributes and format versions.

A file from a stranger may hold hard links to plain data and nothing else, so that reading it opens no other file and
does not fill the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64_hexdigest

from insitu.errors import MissingError, StoreError
from insitu.store.format_version import check_version
from insitu.store.stored_type import Array, StoredType
from insitu.trace.dtype import Dtype, dtype_named

try:
    import h5py
    from h5py import h5d, h5s, h5t, h5z, string_dtype
except ImportError:
    raise MissingError("reading and writing .h5 files needs h5py: pip install h5py") from None

TRACE_FORMAT, RUN_FORMAT = "insitu trace", "insitu run"
BLOSC2 = 32026
# What each compression can do at best: a dataset that declares more was made to fill the memory.
_RATIOS = {h5z.FILTER_SHUFFLE: 1, h5z.FILTER_DEFLATE: 1100, h5z.FILTER_LZF: 300, BLOSC2: 20_000}
_ERRORS = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError)
_LARGEST_CHUNK = 2**26
# Sign, exponent and mantissa of floats that HDF5 can describe; e4m3fn and the like have no infinity, so it cannot.
_LONGEST = 200
_EMPTY = "%"
_CLASSES = {h5t.INTEGER, h5t.FLOAT, h5t.ENUM}


@contextmanager
def reading(failure: str = "it is not an HDF5 file, or a damaged one") -> Iterator[None]:
    """Turn errors of the library, which has no common class for them, into a StoreError that begins with `failure`."""
    try:
        yield
    except FileNotFoundError:
        raise StoreError("the file does not exist") from None
    except StoreError:
        raise
    except _ERRORS as error:
        raise StoreError(f"{failure}: {error}") from None


def open_file(path: Path) -> h5py.File:
    """The file, opened for reading."""
    with reading():
        return h5py.File(path, "r")


def holds_run(path: Path) -> bool:
    """Whether the attributes of a file say that it holds a run."""
    with open_file(path) as file, reading():
        return bool(attribute(file, "format") == RUN_FORMAT.encode())


def check_format_version(file: h5py.File, form: str, known: int) -> None:
    """Raise if a file has another format version than the one that is known here; this comes before all else."""
    version = attribute(file, "format_version")
    check_version(form, int(version) if isinstance(version, np.integer) else version, known)


def attribute(file: h5py.File, name: str) -> Any:
    """An attribute that is a number or a text of fixed length; None for any other."""
    found = file.attrs.get_id(name) if name in file.attrs else None
    # Text of variable length is in a separate heap, and the library never returns from one that is damaged.
    if found is None or found.shape != () or found.dtype.kind not in "Siu":
        return None
    return file.attrs[name]


def child(group: h5py.Group, name: str, kind: type) -> Any:
    """A group or dataset, if it is in this file."""
    where = f"{(group.name or '').rstrip('/')}/{name}"
    if name not in group.keys():  # noqa: SIM118 - `in group` would follow the link
        raise StoreError(f"{where} is missing")
    if not isinstance(group.get(name, getlink=True), h5py.HardLink):
        raise StoreError(f"{where} is a link to another place, and those are not followed")
    found = group[name]
    if not isinstance(found, kind):
        raise StoreError(f"{where} is not a {kind.__name__.lower()}")
    return found


def plain_dataset(group: h5py.Group, name: str, shape: tuple[int, ...], itemsize: int, size: int) -> h5py.Dataset:
    """A dataset of plain values of this shape and itemsize; an error if it cannot be in a file of `size` bytes."""
    found = child(group, name, h5py.Dataset)
    check_own_data(found)
    if found.shape != shape or found.id.get_type().get_size() != itemsize:
        raise StoreError(f"{found.name} is {found.shape} of {found.dtype}, and should be {shape} of {itemsize} bytes")
    if not _is_plain(found.id.get_type()):
        raise StoreError(f"{found.name} holds values that are not plain: {found.dtype}")
    _check_size(found, size)
    return found


def check_own_data(dataset: h5py.Dataset) -> None:
    """Raise if a dataset takes its data from other files."""
    if dataset.is_virtual or dataset.id.get_create_plist().get_external_count():
        raise StoreError(f"{dataset.name} takes its data from other files, and those are not opened")


def filters_of(dataset: h5py.Dataset) -> list[int]:
    """The numbers of the filters that a dataset goes through."""
    options = dataset.id.get_create_plist()
    return [options.get_filter(number)[0] for number in range(options.get_nfilters())]


def _is_plain(h5type: Any) -> bool:
    kind = h5type.get_class()
    if kind == h5t.COMPOUND:
        return _is_complex(h5type)
    if kind == h5t.STRING:
        return not h5type.is_variable_str()
    return kind in _CLASSES


def _is_complex(h5type: Any) -> bool:
    members = [h5type.get_member_type(number).get_class() for number in range(h5type.get_nmembers())]
    return members == [h5t.FLOAT, h5t.FLOAT]


def _check_size(dataset: h5py.Dataset, size: int) -> None:
    filters = filters_of(dataset)
    if unknown := set(filters) - _RATIOS.keys():
        raise StoreError(f"{dataset.name} is compressed with an unknown filter ({min(unknown)})")
    ratio = max([_RATIOS[number] for number in filters], default=1)
    # The size in the file, not that of h5py: for a float of 8 bits it takes the next larger one of NumPy.
    itemsize, stored = dataset.id.get_type().get_size(), dataset.id.get_storage_size()
    declared = itemsize * prod(dataset.shape)
    if declared > ratio * stored or stored > size:
        raise StoreError(f"{dataset.name} declares {declared} bytes and stores {stored}, in a file of {size}")
    _check_place(dataset, stored, size)
    if dataset.chunks and itemsize * prod(dataset.chunks) > _LARGEST_CHUNK:
        raise StoreError(f"{dataset.name} has chunks of {dataset.chunks}, which is too large")
    if BLOSC2 in filters:
        need_blosc2()


def _check_place(dataset: h5py.Dataset, stored: int, size: int) -> None:
    is_contiguous = dataset.id.get_create_plist().get_layout() == h5d.CONTIGUOUS
    if is_contiguous and stored and dataset.id.get_offset() + stored > size:
        raise StoreError(f"{dataset.name} ends after the end of the file: the file is cut short")


def need_blosc2() -> Any:
    """The package with the filter."""
    try:
        import hdf5plugin
    except ImportError:
        raise MissingError("compression 'blosc2' needs hdf5plugin: pip install hdf5plugin") from None
    return hdf5plugin


def read_rows(dataset: h5py.Dataset, start: int, stop: int, out: Array) -> None:
    """Read rows as the bytes that are stored, without conversion."""
    with reading(f"{dataset.name} cannot be read"):
        if not out.size:
            return
        space = dataset.id.get_space()
        space.select_hyperslab((start, *(0 for _ in dataset.shape[1:])), (stop - start, *dataset.shape[1:]))
        dataset.id.read(h5s.create_simple((stop - start, *dataset.shape[1:])), space, out, dataset.id.get_type())


def text_attribute(value: object) -> np.bytes_:
    """A text for a reader with plain h5py; attributes take neither NUL nor 64 KiB."""
    return np.bytes_(str(value).replace("\0", " ").encode("utf-8", "backslashreplace")[:1000])


def h5type_of(kind: StoredType) -> Any:
    """The type of a dataset with values of this kind."""
    row = dtype_named(kind.name)
    if row.storage == "ml_dtypes" and row.has_infinity:
        return _float(row)
    return numpy_type(kind.bits)


def numpy_type(dtype: np.dtype[Any]) -> Any:
    """The type of a dataset that h5py reads as this type of NumPy."""
    return h5t.py_create(dtype, logical=True)


def text_type(width: int) -> Any:
    """The type of texts of at most so many bytes."""
    return h5t.py_create(string_dtype("utf-8", max(width, 1)), logical=True)


def _float(row: Dtype) -> Any:
    """The type of a float that HDF5 does not know by name: as IEEE has them, with fewer bits."""
    made = h5t.IEEE_F32LE.copy()
    made.set_fields(row.exponent + row.mantissa, row.mantissa, row.exponent, 0, row.mantissa)
    made.set_precision(8 * row.size)
    made.set_size(row.size)
    made.set_ebias(2 ** (row.exponent - 1) - 1)
    return made


def escaped(path: str) -> str:
    """The path as the name of a group: what HDF5 would take for something else is written in percent.

    >>> escaped("forward.x"), escaped("a/b%"), escaped(""), escaped("."), escaped("tab\\t")
    ('forward.x', 'a%2Fb%25', '%', '%2E', 'tab%09')
    """
    if path == ".":
        return "%2E"
    name = "".join([c if c.isprintable() and c not in "/%" else _percent(c) for c in path]) or _EMPTY
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 40]}%~{xxh3_64_hexdigest(name.encode())}"


def _percent(character: str) -> str:
    return "".join([f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass")])
