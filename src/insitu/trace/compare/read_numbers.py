"""Numbers that Python reads out of tensors, by `item` or `tolist`, and that differ: no tensor shows what they cause."""

from __future__ import annotations

from typing import Any

from insitu.trace.compare.ledger import NONE, Numbers, union

MOST_ITEMS = 10_000  # of a list


class ReadNumbers:
    """The pairs of numbers that two runs have read, and the causes because of which they differ."""

    def __init__(self) -> None:
        self._causes: dict[tuple[Any, Any], Numbers] = {}
        self.causes: Numbers = NONE

    def add(self, a: Any, b: Any, causes: Numbers) -> None:
        """Remember what a pair of calls has returned, and why it differs.

        >>> read = ReadNumbers()
        >>> read.add([3, 4], [3, 5], frozenset((7,)))
        >>> read.causes_of(4, 5), read.causes_of(3, 5)
        (frozenset({7}), frozenset())
        """
        self.causes = union(self.causes, causes)
        if isinstance(a, list) and isinstance(b, list):
            for left, right in zip(a[:MOST_ITEMS], b[:MOST_ITEMS], strict=False):
                self.add(left, right, causes)
        else:
            self._causes[(_key(a), _key(b))] = causes

    def causes_of(self, a: Any, b: Any) -> Numbers:
        """The causes because of which an argument is another one, if it is a number that was read."""
        if self._causes:
            return self._causes.get((_key(a), _key(b)), NONE)
        return NONE


def _key(item: Any) -> Any:
    if isinstance(item, (int, float, str, bool, complex)):
        return item
    return id(item)
