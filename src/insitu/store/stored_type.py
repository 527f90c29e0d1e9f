"""The types of values, by the names torch gives them: their bytes in a file, and what NumPy makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from insitu.errors import MissingError, StoreError
from insitu.trace.dtype import dtype_named

Array = np.ndarray[Any, Any]

JSON = "json"  # small Python values, as text
NUMPY = "numpy:"  # before a type that torch does not know: `numpy:<M8[ns]`

_ARRAY_KINDS = "biufcSUmM"
_MOST_DIMENSIONS = 64
_MOST_BYTES = 2**48  # of one value


@dataclass(frozen=True, slots=True)
class StoredType:
    """A type: its name, its bytes as a NumPy type, and the way from those to the values.

    `inner` is the length of a last dimension that is added, where one value is stored as several bytes.
    """

    name: str
    bits: np.dtype[Any]
    decode: Callable[[Array], Array]
    inner: tuple[int, ...] = ()

    @property
    def itemsize(self) -> int:
        """The bytes of one value."""
        return self.bits.itemsize * (self.inner[0] if self.inner else 1)


@cache
def stored_type(name: str) -> StoredType:
    """The type of this name, as torch spells it without `torch.`.

    >>> stored_type("bfloat16").itemsize, stored_type("numpy:<M8[ns]").itemsize
    (2, 8)
    """
    if name.startswith(NUMPY):
        return _numpy(name)
    if name == JSON:
        return _plain(name, np.dtype("u1"))
    row = dtype_named(name)
    if row.storage == "no":
        raise StoreError(f"values of the type {name[:40]!r} cannot be stored: give their bytes as uint8")
    if row.storage == "ml_dtypes":
        return StoredType(name, np.dtype(row.bits), lambda raw: raw.view(_ml_type(name)))
    if row.storage == "halves":
        return StoredType(name, np.dtype(row.bits), _complex)
    return _plain(name, np.dtype(row.bits))


def _plain(name: str, bits: np.dtype[Any]) -> StoredType:
    return StoredType(name, bits, lambda raw: raw)


def _numpy(name: str) -> StoredType:
    text = name.removeprefix(NUMPY)
    try:
        dtype = np.dtype(text if len(text) < 32 else "O")
    except (TypeError, ValueError):
        dtype = np.dtype("O")
    if not storable(dtype):
        raise StoreError(f"arrays of the type {text[:40]!r} cannot be stored")
    return StoredType(name, np.dtype("u1"), lambda raw: raw.view(dtype)[..., 0], (dtype.itemsize,))


def _complex(raw: Array) -> Array:
    # NumPy has no complex numbers of two halves; those of two floats hold every one of them.
    halves = raw.reshape(-1).view(np.float16).astype(np.float32)
    return halves.view(np.complex64).reshape(raw.shape)


def _ml_type(name: str) -> Any:
    try:
        return getattr(import_module("ml_dtypes"), name)
    except (ImportError, AttributeError):
        raise MissingError(
            f"NumPy has no {name}: pip install ml_dtypes gives it one; without it, .raw gives the bits of the values"
            " and .to_torch() a tensor"
        ) from None


def checked_shape(sizes: Any, kind: StoredType) -> tuple[int, ...]:
    """The shape, if a value can have it; a file from a stranger may declare anything."""
    total = kind.itemsize
    for size in sizes:
        if type(size) is not int or size < 0:
            raise ValueError(f"{sizes!r:.80} is not a shape")
        total *= max(size, 1)
    if total > _MOST_BYTES or len(sizes) > _MOST_DIMENSIONS:
        raise ValueError(f"no value has the shape {sizes!r:.80}")
    return tuple(sizes)


def storable(dtype: np.dtype[Any]) -> bool:
    """Whether arrays of this type can be written as bytes and be the same when read."""
    return dtype.kind in _ARRAY_KINDS and dtype.itemsize > 0 and np.dtype(dtype.str) == dtype
