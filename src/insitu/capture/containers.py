"""What is inside of a container or an object, found without running code of its class, and the walks through it.

A container is a dict, list, tuple, named tuple, set, deque or dataclass, or an object of a class derived from one of
them. The methods are always those of the builtin classes: what a subclass puts in their place is code of the user.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import numpy
from torch import Tensor, nn
from torch.nn import Parameter

from insitu.capture.atoms import ATOM_IDS, atom, key_text
from insitu.capture.torch_internals import BUFFERS, MODULES, PARAMETERS, DisableTorchFunction
from insitu.capture.variables.follow.lookup import MISSING, attributes_of, in_class, members_of, mro_of
from insitu.errors import came_by_signal
from insitu.trace.event import Fields, Opaque, Word
from insitu.trace.path import Segments, fits, is_wild

MOST_DEPTH = 8  # containers in each other, for every walk
MOST_CONTAINERS = 2_000  # that one walk enters: a list that contains itself a few times has millions
MOST_ITEMS = 64  # of a container without tensors that an outline shows
MOST_TEXT = 200
MOST_SHARED = 10_000
# `**` does not enter these: from there it would reach the whole program.
ENDLESS = (nn.Module, ModuleType, type, FunctionType)

Leaf = Callable[[Any], Any]
Visits = list[int]  # one number: how many containers a walk has entered

# ---- what an object contains


def items_of(value: Any) -> list[Any] | None:
    """The items of a container, without their names; None for any other object.

    >>> items_of({"a": 1, "b": 2}), items_of((3, 4)), items_of(5)
    ([1, 2], [3, 4], None)
    """
    kind = type(value)
    for base, iterate in ITERATORS:
        if issubclass(kind, base):
            return list(iterate(value))
    if dataclasses.is_dataclass(kind):
        return list(fields_of(value).values())
    return None


ITERATORS: tuple[tuple[type, Callable[[Any], Iterable[Any]]], ...] = (
    (list, list.__iter__),
    (tuple, tuple.__iter__),
    (dict, dict.values),
    (set, set.__iter__),
    (frozenset, frozenset.__iter__),
    (deque, deque.__iter__),
)


def children(value: Any) -> Iterator[tuple[str, Any]]:
    """All items and attributes of an object, by name. The items of a set have no names that stay the same."""
    kind = type(value)
    if issubclass(kind, dict):
        return entries(value)
    if issubclass(kind, (list, tuple)):
        items = items_of(value) or []
        return zip(field_names(kind, len(items)) or map(str, range(len(items))), items, strict=True)
    if issubclass(kind, Tensor):
        return iter(())
    return attributes(value)


def entries(value: dict[Any, Any], most: int | None = None) -> Iterator[tuple[str, Any]]:
    """The items of a dict, or the first of them, each with a name of its own."""
    names: set[str] = set()
    for key, item in list(islice(dict.items(value), most)):
        name = key_text(key)
        while name in names:  # 1 and "1" are two keys
            name += "'"
        names.add(name)
        yield name, item


def field_names(kind: type, count: int) -> tuple[str, ...]:
    """The names of the fields of a named tuple; none for other sequences."""
    names = in_class(kind, "_fields")
    is_named = type(names) is tuple and len(names) == count
    return tuple(map(str, names)) if is_named else ()


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes in the dictionary and the slots of an object; of a module, parameters, buffers and submodules."""
    kind, own = type(value), attributes_of(value)
    registries = (PARAMETERS, BUFFERS, MODULES) if issubclass(kind, nn.Module) else ()
    yield from [(str(name), item) for name, item in own.items() if name not in registries]
    for name in registries:
        yield from list(dict.items(own.get(name, {})))
    for name, slot in slots_of(kind):
        try:
            yield name, slot.__get__(value)
        except AttributeError:  # nothing was assigned yet
            continue


def slots_of(kind: type) -> Iterator[tuple[str, MemberDescriptorType]]:
    """The slots of a class and of its bases."""
    for base in mro_of(kind):
        for name, member in members_of(base).items():
            if type(member) is MemberDescriptorType:
                yield name, member


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass with their values; a field that was never assigned has its default, if it has one."""
    own = dict(attributes(value))
    fields = dataclasses.fields(type(value))
    found = {field.name: own.get(field.name, field.default) for field in fields}
    return {name: item for name, item in found.items() if item is not dataclasses.MISSING}


def child(value: Any, name: str) -> Any:
    """The item or attribute of an object that a name means; MISSING if there is none."""
    kind = type(value)
    if issubclass(kind, dict) and dict.__contains__(value, name):
        return dict.__getitem__(value, name)
    if issubclass(kind, (list, tuple)) and name.lstrip("-").isdigit():
        return item_at(value, int(name))
    if issubclass(kind, Tensor) and name == "grad":
        return gradient(value)
    names = spellings(name, kind)
    return next((item for found, item in children(value) if found in names), MISSING)


def item_at(value: Any, index: int) -> Any:
    """The item of a list or tuple at an index; MISSING beyond its end."""
    item: Callable[..., Any] = list.__getitem__ if issubclass(type(value), list) else tuple.__getitem__
    try:
        return item(value, index)
    except IndexError:
        return MISSING


def spellings(name: str, kind: type) -> tuple[str, ...]:
    """The names that an object may have for an attribute: `__x` is stored with the name of its class in front."""
    if not name.startswith("__") or name.endswith("__"):
        return (name,)
    return (name, *(f"_{base.__name__.lstrip('_')}{name}" for base in mro_of(kind)))


def gradient(tensor: Tensor) -> Any:
    """The gradient of a leaf tensor; MISSING while there is none."""
    with DisableTorchFunction():
        grad = tensor.grad if tensor.is_leaf else None
    return MISSING if grad is None else grad


# ---- walks


def leaves(value: Any) -> Iterator[Any]:
    """Everything in nested containers that is not a container, in order; any other object is its own leaf.

    >>> list(leaves([1, {"a": (2, 3)}])), list(leaves("text"))
    ([1, 2, 3], ['text'])
    """
    waiting, entered = [(value, 0)], 0
    while waiting:
        item, depth = waiting.pop()
        items = items_of(item)
        if items is None:
            yield item
        elif depth < MOST_DEPTH and entered < MOST_CONTAINERS:
            entered += 1
            waiting += [(each, depth + 1) for each in reversed(items)]


def tensors_in(value: Any) -> list[Tensor]:
    """Every tensor in nested containers, in the order in which records hold them."""
    return [leaf for leaf in leaves(value) if issubclass(type(leaf), Tensor)]


def select(path: str, value: Any, rest: Segments, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """What the rest of a pattern names inside of a value, each with its path.

    >>> list(select("d", {"a": {"b": 1}, "c": {"b": 2}}, ("*", "b")))
    [('d.a.b', 1), ('d.c.b', 2)]
    """
    if not rest:
        yield path, value
        return
    if rest[0] == "**":
        yield from select(path, value, rest[1:], depth)
    if depth == MOST_DEPTH:
        return
    for name, item, left in steps_into(value, rest):
        yield from select(f"{path}.{name}", item, left, depth + 1)


def steps_into(value: Any, rest: Segments) -> Iterator[tuple[str, Any, Segments]]:
    """The children of a value that a pattern leads to: the name, the child, and what is left of the pattern there."""
    segment, deeper = rest[0], rest[1:]
    if not is_wild(segment):
        item = child(value, segment)
        if item is not MISSING:
            yield segment, item, deeper
        return
    left = rest if segment == "**" else deeper
    for name, item in children(value):
        if is_meant(name, item, segment):
            yield name, item, left


def is_meant(name: str, item: Any, segment: str) -> bool:
    """Whether a segment with wildcards leads to a child."""
    if segment == "**":
        return not issubclass(type(item), ENDLESS)
    if segment == "*":
        return not name.startswith("_")
    return fits(segment, name)


# ---- the outline of a container, for records
#
# Every record gets its arguments and its result by this walk, so it does not go through `children`: plain lists and
# tuples are read as they are, and a list of sizes, of which most operators get one, is shared by all records.


def outline(item: Any, leaf: Leaf, depth: int = 0, visits: Visits | None = None) -> Any:
    """Any object as a record holds it: containers with their items, `leaf(tensor)` for tensors and arrays, atoms."""
    kind = type(item)
    if id(kind) in ATOM_IDS:
        return item
    if kind is str:
        return item if len(item) <= MOST_TEXT else item[:MOST_TEXT] + "…"
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
        return shown if kind is dict else Fields(kind.__name__, shown)
    if issubclass(kind, (set, frozenset)):
        shown = sequence_outline(items_of(item) or [], list, leaf, depth, visits)
        return Fields(kind.__name__, {str(index): part for index, part in enumerate(shown)})
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
    is_cut = len(item) > MOST_ITEMS and not tensors_in(item[:MOST_ITEMS])
    parts = [outline(part, leaf, depth, visits) for part in (item[:MOST_ITEMS] if is_cut else item)]
    if is_cut:
        parts.append(more(len(item)))
    return parts if kind is list else tuple(parts)


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
    is_cut = count > MOST_ITEMS and not tensors_in(items)
    if count > MOST_ITEMS and not is_cut:
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
