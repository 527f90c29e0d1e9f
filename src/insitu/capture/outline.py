"""The outline of an object: how a record holds its arguments and its result, with containers and their items.

Every record gets its arguments and its result by this walk, so its functions are dense and do not go through
`containers.children`: plain lists and tuples are read as they are, and a list of sizes, of which most operators get
one, is shared by all records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
from torch import Tensor
from torch.nn import Parameter

from insitu.capture.atoms import ATOM_IDS, atom
from insitu.capture.containers import (
    MOST_CONTAINERS,
    MOST_DEPTH,
    entries,
    field_names,
    fields_of,
    items_of,
    tensors_in,
)
from insitu.capture.torch_internals import DisableTorchFunction
from insitu.errors import came_by_signal
from insitu.trace.event import Fields, Opaque, Word

MOST_ITEMS = 64  # of a container without tensors that an outline shows
MOST_TEXT = 200
MOST_SHARED = 10_000

Leaf = Callable[[Any], Any]
Visits = list[int]  # one number: how many containers a walk has entered


def outline(item: Any, leaf: Leaf, depth: int = 0, visits: Visits | None = None) -> Any:
    """Any object as a record holds it: containers with their items, `leaf(tensor)` for tensors and arrays, atoms."""
    kind = type(item)
    if id(kind) in ATOM_IDS:
        return item
    if kind is str:
        if len(item) <= MOST_TEXT:
            return item
        return item[:MOST_TEXT] + "…"
    if kind is Tensor or kind is Parameter:
        return leaf(item)
    if issubclass(kind, Tensor):
        with DisableTorchFunction():  # the getters of a subclass are code of the user
            return leaf(item)
    visits = [0] if visits is None else visits
    visits[0] += 1
    if depth == MOST_DEPTH or visits[0] > MOST_CONTAINERS:
        return Opaque(kind.__name__)
    try:
        return container_outline(item, kind, leaf, depth + 1, visits)
    except Exception as error:  # an object of the user that raises when it is read
        if came_by_signal(error):
            raise
        return Opaque(kind.__name__)


def container_outline(item: Any, kind: type, leaf: Leaf, depth: int, visits: Visits) -> Any:
    """The outline of a container; any other object is an atom."""
    if issubclass(kind, (list, tuple)):
        return sequence_outline(item, kind, leaf, depth, visits)
    if issubclass(kind, numpy.ndarray):
        return leaf(item)
    if issubclass(kind, dict):
        shown = mapping_outline(item, leaf, depth, visits)
        if kind is dict:
            return shown
        return Fields(kind.__name__, shown)
    if issubclass(kind, (set, frozenset)):
        shown = sequence_outline(items_of(item) or [], list, leaf, depth, visits)
        return Fields(kind.__name__, dict(zip(map(str, range(len(shown))), shown, strict=True)))
    if dataclasses.is_dataclass(kind):
        return named_outline(kind, fields_of(item), leaf, depth, visits)
    return atom(item)


def named_outline(kind: type, items: dict[str, Any], leaf: Leaf, depth: int, visits: Visits) -> Fields:
    """The outline of an object with fields."""
    return Fields(kind.__name__, {name: outline(part, leaf, depth, visits) for name, part in items.items()})


def sequence_outline(item: Any, kind: type, leaf: Leaf, depth: int, visits: Visits) -> Any:
    """The outline of a list or tuple; of a long one without tensors, its first items."""
    if kind is not list and kind is not tuple:
        return subclass_outline(item, kind, leaf, depth, visits)
    if kind is list and INTS.issuperset(map(type, item)):
        return shared_ints(item)
    count = len(item)
    is_cut = count > MOST_ITEMS and not tensors_in(item[:MOST_ITEMS])
    if is_cut:
        item = item[:MOST_ITEMS]
    parts = [outline(part, leaf, depth, visits) for part in item]
    if is_cut:
        parts.append(more(count))
    if kind is list:
        return parts
    return tuple(parts)


def subclass_outline(item: Any, kind: type, leaf: Leaf, depth: int, visits: Visits) -> Any:
    """The outline of a named tuple, or of another list or tuple of a class of its own."""
    items = items_of(item) or []
    names = field_names(kind, len(items))
    if names:
        return named_outline(kind, dict(zip(names, items, strict=True)), leaf, depth, visits)
    if issubclass(kind, list):
        return sequence_outline(items, list, leaf, depth, visits)
    return sequence_outline(tuple(items), tuple, leaf, depth, visits)


def mapping_outline(item: dict[Any, Any], leaf: Leaf, depth: int, visits: Visits) -> dict[str, Any]:
    """The outline of a dict; of a long one without tensors, its first items."""
    count, items = dict.__len__(item), dict(entries(item, MOST_ITEMS))
    is_long = count > MOST_ITEMS
    is_cut = is_long and not tensors_in(items)
    if is_long and not is_cut:
        items = dict(entries(item))
    shown = {name: outline(part, leaf, depth, visits) for name, part in items.items()}
    if is_cut:
        shown["…"] = more(count)
    return shown


def more(count: int) -> Word:
    """What the outline says in place of the items that it leaves out."""
    return Word(f"… {count - MOST_ITEMS} more")


INTS = frozenset({int})
_shared: dict[tuple[int, ...], list[int]] = {}


def shared_ints(item: list[int]) -> list[Any]:
    """A list of ints, such as sizes: one object for all equal lists."""
    if len(item) > MOST_ITEMS:
        return [*item[:MOST_ITEMS], more(len(item))]
    key = tuple(item)
    found = _shared.get(key)
    if found is None:
        if len(_shared) > MOST_SHARED:
            _shared.clear()
        found = _shared[key] = list(key)
    return found
