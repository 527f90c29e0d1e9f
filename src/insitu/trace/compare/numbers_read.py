"""Numbers that Python reads out of tensors, as by `item` and `tolist`, and that differ: what they cause is not seen."""

from __future__ import annotations

from typing import Any

from insitu.trace.compare.blame import joined
from insitu.trace.compare.units import NONE, Numbers

MOST_ITEMS = 10_000  # of a list


class ReadNumbers:
    """The pairs of numbers that two runs have read, and the causes because of which they differ."""

    def __init__(self) -> None:
        self._roots: dict[tuple[Any, Any], Numbers] = {}
        self.roots: Numbers = NONE

    def note(self, a: Any, b: Any, roots: Numbers) -> None:
        """Note what a pair of calls has returned, and why it differs.

        >>> read = ReadNumbers()
        >>> read.note([3, 4], [3, 5], frozenset((7,)))
        >>> read.roots_of(4, 5), read.roots_of(3, 5)
        (frozenset({7}), frozenset())
        """
        self.roots = joined(self.roots, roots)
        if isinstance(a, list) and isinstance(b, list):
            for left, right in zip(a[:MOST_ITEMS], b[:MOST_ITEMS], strict=False):
                self.note(left, right, roots)
        else:
            self._roots[(_key(a), _key(b))] = roots

    def roots_of(self, a: Any, b: Any) -> Numbers:
        """The causes because of which an argument is another one, if it is a number that was read."""
        return self._roots.get((_key(a), _key(b)), NONE) if self._roots else NONE


def _key(item: Any) -> Any:
    return item if isinstance(item, (int, float, str, bool, complex)) else id(item)
