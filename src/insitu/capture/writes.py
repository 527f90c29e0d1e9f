"""Which calls have changed the memory that tensors share: who last wrote to a tensor through a view of it."""

from __future__ import annotations

from collections import deque
from itertools import takewhile
from typing import Any, NamedTuple

import numpy
from numpy.lib.stride_tricks import as_strided
from torch import Tensor

from insitu.capture.tensor_memory import extent, is_plain_class
from insitu.capture.torch_internals import storage_identity

MOST_WRITES = 16  # for each storage: who wrote earlier is not known
LONGEST = 1 << 20  # elements that are compared one by one
UNKNOWN = -1


class Area(NamedTuple):
    """The elements of a storage that a tensor covers."""

    begin: int
    end: int
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Any) -> Area:
        """The area of a tensor."""
        begin = tensor.storage_offset()
        end = begin + extent(tensor) if tensor.numel() else begin
        return cls(begin, end, tensor.element_size(), tuple(tensor.shape), tensor.stride())

    def meets(self, other: Area) -> bool | None:
        """Whether two areas have an element in common; None if that is not known.

        >>> even, odd = Area(0, 7, 4, (4,), (2,)), Area(1, 8, 4, (4,), (2,))
        >>> even.meets(odd), even.meets(Area(2, 4, 4, (2,), (1,))), even.meets(Area(8, 9, 4, (1,), (1,)))
        (False, True, False)
        """
        begin, end = min(self.begin, other.begin), max(self.end, other.end)
        if self.itemsize != other.itemsize or end - begin > LONGEST:
            return None
        if self.end <= other.begin or other.end <= self.begin:
            return False
        marks = numpy.zeros(end - begin, dtype=bool)
        self._elements(marks, begin)[...] = True
        return bool(other._elements(marks, begin).any())

    def _elements(self, marks: Any, begin: int) -> Any:
        """The marks of all elements that are in this area, where the first mark is that of the element `begin`."""
        return as_strided(marks[self.begin - begin :], self.shape, self.strides)


def has_own_storage(tensor: Any) -> bool:
    """Whether a tensor can be asked for its storage: a subclass that dispatches in Python would make calls of that."""
    return isinstance(tensor, Tensor) and is_plain_class(tensor)


class Writes:
    """The calls that have changed tensors in place, by the storages of these."""

    def __init__(self) -> None:
        self._writes: dict[int, deque[tuple[int, Area]]] = {}

    def add(self, tensor: Any, at: int) -> None:
        """The call at an offset has changed a tensor."""
        if not has_own_storage(tensor):
            return
        try:
            storage, area = storage_identity(tensor.untyped_storage()), Area.of(tensor)
        except (RuntimeError, NotImplementedError, AttributeError):  # it has no storage, or is an array
            return
        self._writes.setdefault(storage, deque(maxlen=MOST_WRITES)).append((at, area))

    def last(self, tensor: Any, since: int) -> int:
        """The last call from an offset on that has changed any element of a tensor; UNKNOWN if nobody knows."""
        if not has_own_storage(tensor):
            return UNKNOWN
        try:
            writes = self._writes.get(storage_identity(tensor.untyped_storage()))
            area = Area.of(tensor) if writes else None
        except (RuntimeError, NotImplementedError, AttributeError):
            return UNKNOWN
        if writes is None or area is None:
            return UNKNOWN
        recent = takewhile(lambda write: write[0] >= since, reversed(writes))
        for at, written in recent:
            meets = written.meets(area)
            if meets:
                return at
            if meets is None:  # nobody knows
                break
        return UNKNOWN

    def clear(self) -> None:
        """Forget all: offsets mean nothing any more."""
        self._writes.clear()
