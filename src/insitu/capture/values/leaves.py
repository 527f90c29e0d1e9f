"""The values in a container, each with its path, and the parts that are left out because of a limit."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import numpy
from torch import Tensor, nn

from insitu.capture.containers import MOST_DEPTH, children, select
from insitu.trace.path import Segments

SMALL = (int, float, bool, str, type(None), complex)
MOST_LEAVES = 1000
MOST_PARTS = 10_000  # that are visited to find the leaves

TOO_MANY = f"it holds more than {MOST_LEAVES:,} values, or {MOST_PARTS:,} parts, and only the first are recorded"
TOO_DEEP = f"containers more than {MOST_DEPTH} levels deep are not recorded"


def parts(path: str, value: Any, rests: Collection[Segments]) -> dict[str, Any]:
    """Select parts of a value by the rests of patterns; a part inside of another selected one is not listed again.

    >>> parts("d", {"a": {"b": 1}, "c": 2}, {("a",), ("a", "b"), ("c",)}) == {"d.a": {"b": 1}, "d.c": 2}
    True
    """
    if () in rests:
        return {path: value}
    found: dict[str, Any] = {}
    for rest in rests:
        found.update(islice(select(path, value, rest), MOST_LEAVES + 1))
    return {each: item for each, item in found.items() if found.keys().isdisjoint(above(each))}


def above(path: str) -> Iterator[str]:
    """The paths of the containers around the value at a path."""
    while path := path.rpartition(".")[0]:
        yield path


class Leaves:
    """The tensors, arrays and small values in a container, each with its path; other objects are left out.

    `cut` has the paths of the parts that a limit leaves out, each with the reason.
    """

    def __init__(self, path: str, value: Any) -> None:
        self._path, self._value = path, value
        self._count = self._visits = 0
        self.cut: dict[str, str] = {}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self._below(self._path, self._value, 0)

    def _below(self, path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if is_leaf(value):
            self._count += 1
            if self._is_within():
                yield path, value
        elif depth < MOST_DEPTH and not is_code(value):
            yield from self._children(path, value, depth)
        elif isinstance(value, (dict, list, tuple)) and value:
            self.cut[path] = TOO_DEEP

    def _children(self, path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        for name, item in children(value):
            self._visits += 1  # a container that contains itself has more parts than can be visited
            if not self._is_within():
                return
            yield from self._below(f"{path}.{name}", item, depth + 1)

    def _is_within(self) -> bool:
        if self._count > MOST_LEAVES or self._visits > MOST_PARTS:
            self.cut[self._path] = TOO_MANY
            return False
        return True


def is_leaf(value: Any) -> bool:
    """Whether a value is recorded as one value."""
    return type(value) in SMALL or isinstance(value, (Tensor, numpy.ndarray, numpy.generic))


def is_code(value: Any) -> bool:
    """Whether a value is a module, a class or another callable: their attributes are not values of the variable."""
    return isinstance(value, (nn.Module, type)) or callable(value)
