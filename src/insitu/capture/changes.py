"""Whether a value has changed: a print of it, taken at one moment, that keeps nothing alive and compares exactly.

Tensors and arrays are compared by all their bytes, containers by their items, and other objects by identity: no code
of the user runs.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections.abc import Callable, Iterable
from itertools import compress
from operator import ne
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from insitu.capture.containers import MOST_DEPTH, attributes, items_of
from insitu.capture.contents import array_digest, digest, digest_of, parts_of
from insitu.capture.isolation import run_isolated
from insitu.capture.tensor_memory import has_values, local_part
from insitu.capture.tensors import array_layout, layout_of, short_dtype
from insitu.capture.torch_internals import version_counter
from insitu.trace.event import Change

# The kind of a value, its facts or length, and its contents.
Print = tuple[Any, Any, Any]

# Items that are looked at in all: a container with more is compared by its length and these.
MOST_ITEMS = 100_000
LONG_TEXT = 200
# By id: a lookup of a type in a set could run code of its metaclass.
PLAIN = {id(kind) for kind in (int, bool, type(None), type(...), bytes, range, torch.dtype, torch.device, torch.Size)}
TENSOR, ARRAY = "tensor", "array"
# Objects whose attributes do not belong to the variable that holds them: they are compared by identity.
IDENTITIES = (nn.Module, type, ModuleType, FunctionType, MethodType, BaseException)


def print_of(value: Any) -> Print:
    """The print of a value.

    >>> print_of(float("nan")) == print_of(float("nan")), print_of(0.0) == print_of(-0.0), print_of(1) == print_of(True)
    (True, False, False)
    """
    return PrintMaker().print(value, 0)


class PrintMaker:
    """Takes the print of one value, and counts the items it has looked at."""

    def __init__(self) -> None:
        self._left = MOST_ITEMS

    def print(self, value: Any, depth: int) -> Print:
        """The print of a value that is so many containers deep."""
        kind = type(value)
        self._left -= 1
        if id(kind) in PLAIN:
            return (kind, None, value)
        for base, print_one in ATOM_PRINTS:
            if kind is base:
                return print_one(value)
        if issubclass(kind, Tensor):
            return tensor_print(value)
        if issubclass(kind, numpy.ndarray):
            return self._array(value, depth)
        if issubclass(kind, numpy.generic):
            return (kind, None, numpy.generic.tobytes(value))
        if depth < MOST_DEPTH:
            return self._container(value, kind, depth)
        return identity(value)

    def _container(self, value: Any, kind: type, depth: int) -> Print:
        """The print of a container, or of an object with attributes."""
        if issubclass(kind, dict):
            keys = self._items(dict.keys(value), depth + 1)
            return (kind, dict.__len__(value), (keys, self._items(dict.values(value), depth + 1)))
        if dataclasses.is_dataclass(kind):
            return self._attributes(value, depth + 1)
        items = items_of(value)
        if items is not None:
            return (kind, len(items), self._sequence(items, kind, depth + 1))
        if depth == 0 and not issubclass(kind, IDENTITIES):
            return self._attributes(value, MOST_DEPTH)  # the objects inside are compared by identity
        return identity(value)

    def _sequence(self, items: list[Any], kind: type, depth: int) -> Any:
        """The prints of the items of a list, tuple, deque or set; a set has no order."""
        if issubclass(kind, (set, frozenset)):
            return frozenset(self._items(items, depth))
        numbers = numbers_print(items)
        if numbers is None:
            return self._items(items, depth)
        self._left -= len(items)
        return numbers

    def _attributes(self, value: Any, depth: int) -> Print:
        own = dict(attributes(value))
        return (type(value), None, (tuple(own), self._items(own.values(), depth), id(value)))

    def _items(self, items: Iterable[Any], depth: int) -> tuple[Print, ...]:
        prints = []
        for item in list(items):
            if self._left <= 0:
                break
            prints.append(self.print(item, depth))
        return tuple(prints)

    def _array(self, item: Any, depth: int) -> Print:
        """The print of a NumPy array; the objects in an array are items like those of a list."""
        shape, dtype, *_ = array_layout(item)
        facts = (type(item), shape, short_dtype(dtype), "cpu")
        if not dtype.hasobject:
            return (ARRAY, facts, array_digest(item))
        flat = numpy.ndarray.view(item, numpy.ndarray).reshape(-1).tolist() if dtype.kind == "O" else []
        return (ARRAY, facts, self._items(flat, depth + 1))


def identity(value: Any) -> Print:
    """The print of an object that is compared by identity."""
    return (type(value), None, id(value))


def numbers_print(items: list[Any]) -> Any:
    """One print for all items, if these are all ints or all floats, of which there may be many; None otherwise."""
    kinds = set(map(id, map(type, items)))
    if kinds == {id(int)}:
        return tuple(items)
    if kinds == {id(float)}:
        return array("d", items).tobytes()
    return None


def text_print(value: str) -> Print:
    """The print of a text; a long one becomes a digest."""
    contents = value if len(value) <= LONG_TEXT else digest(value.encode(errors="surrogatepass"))
    return (str, len(value), contents)


def number_text(value: float) -> str:
    """A float as text that compares exactly: NaN equals NaN, and 0.0 is not -0.0."""
    if value != value:
        return "nan"
    return value.hex()


def slice_print(value: slice) -> Print:
    """The print of a slice."""
    return (slice, None, tuple(map(print_of, (value.start, value.stop, value.step))))


ATOM_PRINTS: tuple[tuple[type, Callable[[Any], Print]], ...] = (
    (float, lambda value: (float, None, number_text(value))),
    (str, text_print),
    (complex, lambda value: (complex, None, (number_text(value.real), number_text(value.imag)))),
    (slice, slice_print),
    (bytearray, lambda value: (bytearray, len(value), digest(value))),
)


def tensor_print(tensor: Tensor) -> Print:
    """The print of a tensor; one without values to read is compared by identity."""
    return run_isolated(lambda: _tensor_print(tensor))


def _tensor_print(tensor: Tensor) -> Print:
    layout = layout_of(tensor)
    facts = (type(tensor), tuple(layout[0] or ()), short_dtype(layout[1]), str(layout[2]))
    try:
        tensor = local_part(tensor)
        contents: Any = tuple(map(digest_of, parts_of(Tensor.detach(tensor)))) if has_values(tensor) else id(tensor)
    except Exception:  # a type that cannot be read
        contents = (id(tensor), 0 if tensor.is_inference() else version_counter(tensor))
    return (TENSOR, facts, contents)


ASPECTS: tuple[Change, ...] = ("type", "shape", "dtype", "device")


def differences(before: Print | None, now: Print) -> tuple[Change, ...]:
    """What has changed, in words; nothing if the prints are equal.

    >>> differences(print_of([1]), print_of([1, 2])), differences(None, print_of(1))
    (('length',), ('new',))
    """
    if before is None:
        return ("new",)
    if before == now:
        return ()
    (old_kind, old_facts, _), (kind, facts, _) = before, now
    if {old_kind, kind} <= {TENSOR, ARRAY}:
        are_other = map(ne, old_facts, facts)
        return tuple(compress(ASPECTS, are_other)) or ("values",)
    if old_kind is not kind:
        return ("type",)
    has_other_length = kind is not str and old_facts != facts
    if has_other_length:
        return ("length",)
    return ("values",)
