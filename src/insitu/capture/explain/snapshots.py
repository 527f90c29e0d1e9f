"""Snapshots of the values that the names of a frame refer to.

Nothing is kept alive: tensors become the values that records hold, other objects weak references, large containers
words.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from insitu.capture.containers import items_of
from insitu.capture.contents import content_of, small_content_of
from insitu.capture.outline import outline
from insitu.capture.tape import Tape
from insitu.capture.tensors import GIVEN, Table, Value, is_same_layout, layout_of, make_fresh, with_mode_off
from insitu.capture.torch_internals import BUFFERS, MODULES, PARAMETERS, DisableTorchFunction
from insitu.capture.writes import Writes
from insitu.trace.event import Opaque, Word
from insitu.trace.explain.failure import UNKNOWN, ObjectSnapshot

MOST_ITEMS = 32  # of a container that is looked into
MOST_LEAVES = 200  # of all containers together
MOST_DEPTH = 2  # containers in each other
SCALARS = frozenset({int, float, bool, type(None)})
TENSORS = (Tensor, numpy.ndarray)
CONTAINERS = (list, tuple, dict, set)
ATOMS = (int, float, complex, str, type(None), torch.dtype, torch.device, numpy.generic)
REGISTRIES = (PARAMETERS, BUFFERS, MODULES)


class Unrecorded:
    """The owner of the values in a snapshot, which no probe has recorded."""

    def __init__(self) -> None:
        self.table: Table = {}
        self.tape, self.writes = Tape(), Writes()
        self.taking, self.paused, self.spent = False, True, 0.0


class ValueSnapshots:
    """Takes the snapshots of one scene. Tensors in the `table` are those that recorded calls have produced."""

    def __init__(self, table: Table) -> None:
        self.contents: dict[int, Any] = {}
        self._table = table
        self._unrecorded = Unrecorded()
        self._fresh = with_mode_off(make_fresh(self._unrecorded, None, content_of))
        self._room = MOST_LEAVES

    def take(self, item: Any) -> Any:
        """The snapshot of any value."""
        kind = type(item)
        if kind in SCALARS:
            return item
        try:
            return self._take(item, kind)
        except Exception:  # an object without weak references, or one of the user that raises when it is read
            return Opaque(kind.__name__)

    def _take(self, item: Any, kind: type) -> Any:
        if issubclass(kind, TENSORS):
            return self._tensor(item)
        if issubclass(kind, ModuleType):
            return Word(item.__name__)
        if issubclass(kind, CONTAINERS):
            return self._container(item, kind)
        if issubclass(kind, ATOMS):
            return outline(item, self._tensor)
        return self._object(item)

    def _container(self, item: Any, kind: type) -> Any:
        count = leaf_count(item, self._room)
        if count > self._room:
            return Word(f"{kind.__name__}, len {len(item)}")
        self._room -= count
        return outline(item, self._tensor)

    def _tensor(self, tensor: Any) -> Value:
        value = self._value(tensor)
        with DisableTorchFunction():
            self.contents[id(value)] = small_content_of(tensor)
        return value

    def _value(self, tensor: Any) -> Value:
        value: Any = self._table.get(id(tensor)) or self._unrecorded.table.get(id(tensor))
        if value is None or value() is not tensor:
            return self._fresh(tensor, GIVEN)
        with DisableTorchFunction():
            is_same = is_same_layout(value.layout, layout_of(tensor))
        return value if is_same else self._fresh(tensor, value.producer)  # it changed outside of recorded calls

    def _object(self, item: Any) -> ObjectSnapshot:
        module_type = type(item).__name__ if isinstance(item, nn.Module) else ""
        return ObjectSnapshot(module_type, self._attribute_reader(weakref.ref(item)))

    def _attribute_reader(self, ref: weakref.ref[Any]) -> Callable[[str], Any]:
        def attribute(name: str) -> Any:
            """The attribute, if the object itself stores it: no code of the user runs."""
            owner = ref()
            scope = getattr(owner, "__dict__", None)
            if not isinstance(scope, dict):
                return UNKNOWN
            registries = [scope.get(part, {}) for part in REGISTRIES] if isinstance(owner, nn.Module) else []
            found = next((each for each in (scope, *registries) if name in each), None)
            if found is not None:
                return self.take(found[name])
            return UNKNOWN

        return attribute


def leaf_count(item: Any, most: int, depth: int = 0) -> int:
    """The number of leaves in a container; `most + 1` if there are more, or the container is too deep or too long.

    >>> leaf_count([1, (2, 3)], 200), leaf_count([[[[1]]]], 200), leaf_count([[0] * 30] * 30, 200)
    (3, 201, 201)
    """
    items = items_of(item)
    if items is None:
        return 1
    if depth == MOST_DEPTH or len(items) > min(most, MOST_ITEMS):
        return most + 1
    count = 0
    for part in items:
        count += leaf_count(part, most - count, depth + 1)
        if count > most:
            return most + 1
    return count
