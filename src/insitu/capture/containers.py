"""The contents of a container or an object, found without running code of its class, and the walks through it.

A container is a dict, list, tuple, named tuple, set, deque or dataclass, or an object of a class derived from one of
them. The methods are always those of the builtin classes: the methods of a subclass are code of the user.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from torch import Tensor, nn

from insitu.capture.atoms import key_text
from insitu.capture.torch_internals import BUFFERS, MODULES, PARAMETERS, DisableTorchFunction
from insitu.capture.variables.follow.lookup import MISSING, attributes_of, in_class, members_of, mro_of
from insitu.trace.path import Segments, fits, is_wild

MOST_DEPTH = 8  # containers in each other, for every walk
MOST_CONTAINERS = 2_000  # that one walk enters: a list that contains itself a few times has millions
# `**` does not enter these: from there it would reach the whole program.
ENDLESS = (nn.Module, ModuleType, type, FunctionType)
REGISTRIES = (PARAMETERS, BUFFERS, MODULES)

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
    for base, list_children in CHILDREN:
        if issubclass(kind, base):
            return list_children(value)
    return attributes(value)


def sequence_items(value: Any) -> Iterator[tuple[str, Any]]:
    """The items of a list or tuple, by the names of their fields or by their indices."""
    items = items_of(value) or []
    names = field_names(type(value), len(items)) or map(str, range(len(items)))
    return zip(names, items, strict=True)


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
    if type(names) is tuple and len(names) == count:
        return tuple(map(str, names))
    return ()


def attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes in the dictionary and the slots of an object; of a module, parameters, buffers and submodules."""
    kind, own = type(value), attributes_of(value)
    if issubclass(kind, nn.Module):
        yield from module_attributes(own)
    else:
        yield from [(str(name), item) for name, item in own.items()]
    for name, slot in slots_of(kind):
        try:
            yield name, slot.__get__(value)
        except AttributeError:  # nothing was assigned yet
            continue


def module_attributes(own: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The attributes of a module; its registries are replaced by the registered objects."""
    yield from [(str(name), item) for name, item in own.items() if name not in REGISTRIES]
    for name in REGISTRIES:
        yield from list(dict.items(own.get(name, {})))


def slots_of(kind: type) -> Iterator[tuple[str, MemberDescriptorType]]:
    """The slots of a class and of its bases."""
    members = chain.from_iterable(members_of(base).items() for base in mro_of(kind))
    return ((name, member) for name, member in members if type(member) is MemberDescriptorType)


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
    mangled = [f"_{base.__name__.lstrip('_')}{name}" for base in mro_of(kind)]
    return (name, *mangled)


def gradient(tensor: Tensor) -> Any:
    """The gradient of a leaf tensor; MISSING while there is none."""
    with DisableTorchFunction():
        if not tensor.is_leaf:
            return MISSING
        grad = tensor.grad
    if grad is None:
        return MISSING
    return grad


CHILDREN: tuple[tuple[type, Callable[[Any], Iterator[tuple[str, Any]]]], ...] = (
    (dict, entries),
    (list, sequence_items),
    (tuple, sequence_items),
    (Tensor, lambda _: iter(())),
)


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
    yield from ((name, item, left) for name, item in children(value) if is_meant(name, item, segment))


def is_meant(name: str, item: Any, segment: str) -> bool:
    """Whether a segment with wildcards leads to a child."""
    if segment == "**":
        return not issubclass(type(item), ENDLESS)
    if segment == "*":
        return not name.startswith("_")
    return fits(segment, name)
