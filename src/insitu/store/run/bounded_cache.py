"""Keeps what was asked for last, as long as it fits into a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, Protocol, TypeVar


class Sized(Protocol):
    """Something that knows how many bytes of memory it takes."""

    @property
    def size(self) -> int:
        """The bytes."""
        ...


Item = TypeVar("Item", bound=Sized)


class BoundedCache(Generic[Item]):
    """Items by a key. An item that does not fit any more is made again when it is asked for."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._items: dict[Hashable, Item] = {}
        self._size = 0
        self._lock = RLock()  # Dask reads in several threads

    def get(self, key: Hashable, make: Callable[[], Item]) -> Item:
        """The item of a key; `make` is called if it is not there."""
        with self._lock:
            found = self._items.pop(key, None)
            if found is None:
                found = make()
                self._size += found.size
            self._items[key] = found  # the last one again
            while self._size > self._most and len(self._items) > 1:
                self._size -= self._items.pop(next(iter(self._items))).size
            return found
