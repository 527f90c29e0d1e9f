"""Columns of numbers as text that a page can carry: deltas, byte planes, gzip, base64; `data.js` is the way back."""

from __future__ import annotations

import base64
import gzip
import json
import sys
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from operator import sub
from typing import Any

from insitu.view.number import number_or_nan

_LARGEST = 2**53  # of the integers that a browser counts exactly
# The smallest type of integers is the first one that holds both ends.
_INTEGERS = (
    ("B", 0, 2**8),
    ("b", -(2**7), 2**7),
    ("H", 0, 2**16),
    ("h", -(2**15), 2**15),
    ("I", 0, 2**32),
    ("i", -(2**31), 2**31),
)
_BATCH = 2**14  # rows that are kept as Python numbers
_EXACT = 2**24  # of the integers that four bytes hold exactly
_SINGLE = (1e-37, 3.4e38)  # what fits into four bytes without loss of digits


@dataclass(frozen=True)
class FloatForm:
    """How floats are packed: the codes of the array and of its bits, and which bits of a number stay."""

    code: str
    bits_code: str
    mask: int
    half: int  # of the last bit that stays
    exponent: int

    def rounded(self, bits: int) -> int:
        """The bits of a number without the last digits; the largest numbers stay finite."""
        rounded = (bits + self.half) & self.mask
        if rounded & self.exponent != self.exponent:
            return rounded
        rounded = bits & self.mask
        if bits & self.exponent == self.exponent:  # NaN or Inf: the last bit keeps a NaN from becoming Inf
            rounded |= bits & 1
        return rounded


SINGLE = FloatForm("f", "I", 0xFFFF_FFE0, 0x10, 0x7F80_0000)
DOUBLE = FloatForm("d", "Q", 0xFFFF_FFFF_0000_0000, 0x8000_0000, 0x7FF0_0000_0000_0000)


class PackedColumns:
    """Collects columns under their names.

    >>> columns = PackedColumns()
    >>> columns.integers("id", [7, 8, 9], delta=True)
    >>> columns.floats("mean", [0.5, None])
    >>> columns.packed({"title": "run"})[:4]
    'H4sI'
    """

    def __init__(self) -> None:
        self._described: list[tuple[str, str, int, int]] = []
        self._pieces: list[bytes] = []

    def integers(self, name: str, values: Sequence[int], *, delta: bool = False) -> None:
        """A column of integers in as few bytes as they need; with `delta` as differences from the number before."""
        stored = values
        if delta:
            stored = list(map(sub, values, chain((0,), values)))
        low, high = min(stored, default=0), max(stored, default=0)
        self._add(name, _fitting(stored, low, high), int(delta))

    def floats(self, name: str, values: Sequence[float | None]) -> None:
        """A column of numbers; integers are exact, of others more than five digits are kept; None becomes NaN."""
        numbers = list(map(number_or_nan, values))
        form = SINGLE
        if not all(map(_fits_single, numbers)):
            form = DOUBLE
        exact = array(form.code, numbers)
        bits = array(form.bits_code, exact.tobytes())
        for place, number in enumerate(exact):
            if not number.is_integer():
                bits[place] = form.rounded(bits[place])
        self._add(name, array(form.code, bits.tobytes()), 0)

    def bytes(self, name: str, values: bytes) -> None:
        """A column of bytes as they are."""
        self._add(name, array("B", values), 0)

    def packed(self, header: dict[str, Any]) -> str:
        """The columns and a header of plain data, as base64."""
        text = json.dumps({**header, "columns": self._described}, allow_nan=False, separators=(",", ":"))
        start = text.encode("ascii")
        whole = b"".join([len(start).to_bytes(4, "little"), start, *self._pieces])
        return base64.b64encode(gzip.compress(whole, 7, mtime=0)).decode("ascii")

    def _add(self, name: str, values: array[Any], delta: int) -> None:
        if sys.byteorder == "big":
            values.byteswap()
        data, width = values.tobytes(), values.itemsize
        self._described.append((name, values.typecode, delta, len(values)))
        self._pieces += [data[place::width] for place in range(width)]


class RowBuffer:
    """Rows of integers, kept as columns: as Python numbers, all rows would take four times the memory.

    >>> rows = RowBuffer(2)
    >>> rows.append((1, 2)), rows.append((3, 4))
    (None, None)
    >>> len(rows), rows.columns()[0].tolist()
    (2, [1, 3])
    """

    def __init__(self, width: int) -> None:
        self._columns = [array("q") for _ in range(width)]
        self._waiting: list[Sequence[int]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, row: Sequence[int]) -> None:
        """Add a row."""
        self._count += 1
        self._waiting.append(row)
        if len(self._waiting) == _BATCH:
            self._move()

    def columns(self) -> list[array[int]]:
        """The columns of all rows."""
        self._move()
        return self._columns

    def _move(self) -> None:
        for column, values in zip(self._columns, zip(*self._waiting, strict=True), strict=False):
            length = len(column)
            try:
                column.extend(values)
            except OverflowError:
                del column[length:]
                column.extend(map(_bounded, values))
        self._waiting.clear()


def _bounded(value: int) -> int:
    """The integer, or the nearest one that a browser counts exactly."""
    return max(-_LARGEST, min(value, _LARGEST))


def _fits_single(value: float) -> bool:
    """Whether a number fits into four bytes: without loss of digits or, for an integer, exactly."""
    if not value or not isfinite(value):
        return True
    size = abs(value)
    if not _SINGLE[0] < size < _SINGLE[1]:
        return False
    return size < _EXACT or not float(value).is_integer()


def _fitting(values: Iterable[int], low: int, high: int) -> array[Any]:
    for kind, least, most in _INTEGERS:
        if least <= low and high < most:
            return array(kind, values)
    return array("d", map(_bounded, values))
