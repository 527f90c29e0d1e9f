"""What is inside of an object, found without running any code of its class: items, attributes, slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from types import FunctionType, MemberDescriptorType, ModuleType
from typing import Any

from torch import Tensor, nn
from torch._C import DisableTorchFunction

from insitu.capture.arguments import key_text
from insitu.capture.variables.follow.callees import attributes_of
from insitu.errors import PatternError
from insitu.trace.path import compiled

MISSING = object()
DEEPEST = 8
MOST = 1000  # what one pattern may name inside of one object
WILD = frozenset("*?")
# What `**` does not go into: from there it would reach the whole program.
WITHOUT_END = (nn.Module, ModuleType, type, FunctionType)

_mro_of = type.__dict__["__mro__"].__get__
_members_of = type.__dict__["__dict__"].__get__


class Patterns:
    """Which variables are followed: patterns such as `video`, `self.cache.*`, `*`, and what they name."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        self._parsed = [tuple(pattern.split(".")) for pattern in patterns]
        self._known: dict[str, tuple[tuple[str, ...], ...]] = {}

    def wanted(self, name: str) -> bool:
        """Whether a variable of this name is followed, or something inside of it."""
        return bool(self._inside(name))

    def is_plain(self, name: str) -> bool:
        """Whether the variable itself is followed and nothing inside of it."""
        return self._inside(name) == ((),)

    def leaves(self, name: str, value: Any) -> dict[str, Any]:
        """What is followed of a variable, by path."""
        if self.is_plain(name):
            return {name: value}
        found: dict[str, Any] = {}
        for rest in self._inside(name):
            for path, item in descend(name, value, rest, 0):
                if len(found) >= MOST:
                    return found
                found.setdefault(path, item)
        return found

    def _inside(self, name: str) -> tuple[tuple[str, ...], ...]:
        """What follows after the name in each pattern that begins with it."""
        if name not in self._known:
            rests = [rest for first, *more in self._parsed for rest in _rests(first, tuple(more), name)]
            self._known[name] = tuple(dict.fromkeys(rests))
        return self._known[name]


def _rests(first: str, more: tuple[str, ...], name: str) -> list[tuple[str, ...]]:
    if not name:
        return []
    if first == "**":
        return [("**", *more)]
    # Of everything, the names that begin with an underscore are those that nobody means.
    wild = not WILD.isdisjoint(first)
    unmeant = wild and (name in ("self", "cls") or (name.startswith("_") and first[:1] != "_"))
    return [more] if fnmatchcase(name, first) and not unmeant else []


@lru_cache(maxsize=1024)
def patterns_of(patterns: tuple[str, ...]) -> Patterns:
    """Patterns that were checked before; the same object for the same ones."""
    return Patterns(patterns)


def checked(patterns: tuple[Any, ...]) -> tuple[str, ...]:
    """The patterns, each of them one that a variable can match."""
    for pattern in patterns:
        if not isinstance(pattern, str) or not pattern:
            raise PatternError(f"{pattern!r:.80} is no variable: write its name, or a pattern such as 'state.*'")
        compiled(pattern)
        first = pattern.partition(".")[0]
        if WILD.isdisjoint(first) and not first.isidentifier():
            raise PatternError(f"{pattern!r} is no variable: {first!r} is no name in Python")
    return tuple(dict.fromkeys(patterns))


def descend(path: str, value: Any, rest: tuple[str, ...], depth: int) -> Iterator[tuple[str, Any]]:
    if not rest:
        yield path, value
        return
    segment, deeper = rest[0], rest[1:]
    if depth == DEEPEST:
        return
    if segment == "**":
        yield from descend(path, value, deeper, depth)
        for name, item in children(value):
            if not issubclass(type(item), WITHOUT_END):
                yield from descend(f"{path}.{name}", item, rest, depth + 1)
    elif WILD.isdisjoint(segment):
        item = child(value, segment)
        if item is not MISSING:
            yield from descend(f"{path}.{segment}", item, deeper, depth + 1)
    else:
        for name, item in children(value):
            if fnmatchcase(name, segment) and (segment != "*" or not name.startswith("_")):
                yield from descend(f"{path}.{name}", item, deeper, depth + 1)


def child(value: Any, name: str) -> Any:
    """One item or attribute by its name; MISSING when there is none."""
    kind = type(value)
    if issubclass(kind, dict) and dict.__contains__(value, name):
        return dict.__getitem__(value, name)
    if issubclass(kind, (list, tuple)) and name.lstrip("-").isdigit():
        items: Callable[..., Any] = list.__getitem__ if issubclass(kind, list) else tuple.__getitem__
        try:
            return items(value, int(name))
        except IndexError:
            return MISSING
    if issubclass(kind, Tensor) and name == "grad":
        return gradient(value)
    return next((item for found, item in children(value) if found in spellings(name, kind)), MISSING)


def spellings(name: str, kind: type) -> tuple[str, ...]:
    """How an attribute may be spelled in its object: one that begins with two underscores belongs to a class."""
    if not name.startswith("__") or name.endswith("__"):
        return (name,)
    return (name, *(f"_{base.__name__.lstrip('_')}{name}" for base in _mro_of(kind)))


def children(value: Any) -> Iterator[tuple[str, Any]]:
    """All items and attributes, by name."""
    kind = type(value)
    if issubclass(kind, dict):
        yield from ((key_text(key), item) for key, item in list(dict.items(value)))
    elif issubclass(kind, (list, tuple)):
        names = getattr(kind, "_fields", None) if issubclass(kind, tuple) else None
        items = list((list if issubclass(kind, list) else tuple).__iter__(value))
        fitting = isinstance(names, tuple) and len(names) == len(items)
        yield from zip(map(str, names if fitting and names else range(len(items))), items, strict=True)
    elif not issubclass(kind, Tensor):
        yield from attributes(value, kind)


def attributes(value: Any, kind: type) -> Iterator[tuple[str, Any]]:
    """What an object has in its dictionary and its slots; of a module also parameters, buffers and submodules."""
    own = attributes_of(value)
    inner = ("_parameters", "_buffers", "_modules") if issubclass(kind, nn.Module) else ()
    yield from [(str(name), item) for name, item in own.items() if name not in inner]
    for name in inner:
        yield from list(dict.items(own.get(name, {})))
    for base in _mro_of(kind):
        for name, member in _members_of(base).items():
            if type(member) is MemberDescriptorType:
                try:
                    yield name, member.__get__(value)
                except AttributeError:
                    continue


def gradient(tensor: Tensor) -> Any:
    """The gradient of a leaf tensor, MISSING while there is none."""
    with DisableTorchFunction():
        grad = tensor.grad if tensor.is_leaf else None
    return MISSING if grad is None else grad
