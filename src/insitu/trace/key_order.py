"""Keys in an order that grows: a new key goes behind any other one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator


class KeyOrder:
    """A linked list of keys; None, which is not a key, is before the first.

    >>> order = KeyOrder()
    >>> for key, before in (("a", None), ("c", "a"), ("b", "a")):
    ...     order.insert(key, before)
    >>> list(order), order.last
    (['a', 'b', 'c'], 'c')
    """

    def __init__(self) -> None:
        self._next: dict[Hashable, Hashable] = {None: None}
        self.last: Hashable = None

    def insert(self, key: Hashable, before: Hashable) -> None:
        """Insert a key behind the one `before` it."""
        self._next[key] = self._next[before]
        self._next[before] = key
        if before == self.last:
            self.last = key

    def __iter__(self) -> Iterator[Hashable]:
        key = self._next[None]
        while key is not None:
            yield key
            key = self._next[key]
