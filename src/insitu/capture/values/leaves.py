"""The values in a container, each with its path; what is beyond the limits is named."""

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
MOST_PARTS = 10_000  # that are looked at to find them

TOO_MANY = f"it holds more than {MOST_LEAVES:,} values, or {MOST_PARTS:,} parts, and only the first are recorded"
TOO_DEEP = f"containers more than {MOST_DEPTH} levels deep are not recorded"


def parts(path: str, value: Any, rests: Collection[Segments]) -> dict[str, Any]:
    """What the rests of patterns name in a value, by path; what is in another one of these comes with that one.

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
    """The paths of what holds the value at a path."""
    while path := path.rpartition(".")[0]:
        yield path


class Leaves:
    """The tensors, arrays and small values in a container, each with its path; other objects are passed over.

    `cut` has what was left out because of a limit: the path, and the reason.
    """

    def __init__(self, path: str, value: Any) -> None:
        self._path, self._value = path, value
        self._count = self._met = 0
        self.cut: dict[str, str] = {}

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from self._below(self._path, self._value, 0)

    def _below(self, path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        if isinstance(value, (Tensor, numpy.ndarray, numpy.generic)) or type(value) in SMALL:
            self._count += 1
            if self._is_within():
                yield path, value
        elif isinstance(value, (nn.Module, type)) or callable(value):
            return
        elif depth < MOST_DEPTH:
            yield from self._children(path, value, depth)
        elif isinstance(value, (dict, list, tuple)) and value:
            self.cut[path] = TOO_DEEP

    def _children(self, path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
        for name, item in children(value):
            self._met += 1  # what contains itself has more parts than anybody can look at
            if not self._is_within():
                return
            yield from self._below(f"{path}.{name}", item, depth + 1)

    def _is_within(self) -> bool:
        if self._count > MOST_LEAVES or self._met > MOST_PARTS:
            self.cut[self._path] = TOO_MANY
            return False
        return True
