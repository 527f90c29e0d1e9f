"""Whether a value has changed: a print of it, taken at one moment, that keeps nothing alive and compares exactly.

Tensors and arrays are told apart by all their bytes, containers by their items, and strangers by which object they are:
no code of the user runs.
"""

from __future__ import annotations

import dataclasses
from array import array
from collections import deque
from collections.abc import Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from insitu.capture.contents import array_digest, digest, digest_of, parts_of
from insitu.capture.inside import attributes
from insitu.capture.keep import has_values, local, unnoticed
from insitu.capture.tensors import array_layout, layout_of, short_dtype
from insitu.trace.event import Change

# What a value was: its kind, what is said of it apart from its contents, and its contents.
Print = tuple[Any, Any, Any]

DEEPEST = 8
# How many items are looked at in all: beyond, a container is told apart by its length and these.
MOST_ITEMS = 100_000
LONG_TEXT = 200
# By id: to look a type up in a set could run code of its class.
PLAIN = {id(kind) for kind in (int, bool, type(None), type(...), bytes, range, torch.dtype, torch.device, torch.Size)}
TENSOR, ARRAY = "tensor", "array"
# Objects whose attributes are no news of the variable that holds them.
UNSEEN = (nn.Module, type, ModuleType, FunctionType, MethodType, BaseException)


def print_of(value: Any) -> Print:
    """The print of a value.

    >>> print_of(float("nan")) == print_of(float("nan")), print_of(0.0) == print_of(-0.0), print_of(1) == print_of(True)
    (True, False, False)
    """
    return _print(value, [MOST_ITEMS], 0)


def _print(value: Any, left: list[int], depth: int) -> Print:
    kind = type(value)
    left[0] -= 1
    if kind is float:
        return (float, None, "nan" if value != value else value.hex())
    if id(kind) in PLAIN:
        return (kind, None, value)
    if kind is slice:
        return (slice, None, tuple(_print(part, left, depth + 1) for part in (value.start, value.stop, value.step)))
    if kind is str:
        return (str, len(value), value if len(value) <= LONG_TEXT else digest(value.encode(errors="surrogatepass")))
    if kind is complex:
        return (complex, None, (_print(value.real, left, depth), _print(value.imag, left, depth)))
    if issubclass(kind, Tensor):
        return tensor_print(value)
    if issubclass(kind, numpy.ndarray):
        return array_print(value, left, depth)
    if issubclass(kind, numpy.generic):
        return (kind, None, numpy.generic.tobytes(value))
    if kind is bytearray:
        return (bytearray, len(value), digest(value))
    return _container(value, kind, left, depth) if depth < DEEPEST else (kind, None, id(value))


def _container(value: Any, kind: type, left: list[int], depth: int) -> Print:
    """The print of a container; the methods are those of the builtin classes, whatever a subclass makes of them."""
    deeper = depth + 1
    if issubclass(kind, (list, tuple)):
        base: Any = list if issubclass(kind, list) else tuple
        items = list(base.__iter__(value))
        return (kind, len(items), _alike(items, left) or _items(items, left, deeper))
    if kind is deque:
        return (kind, len(value), _items(value, left, deeper))
    if issubclass(kind, dict):
        keys = _items(dict.keys(value), left, deeper)
        return (kind, dict.__len__(value), (keys, _items(dict.values(value), left, deeper)))
    if kind is set or kind is frozenset:
        return (kind, len(value), frozenset(_items(value, left, deeper)))
    if dataclasses.is_dataclass(kind):
        inside = dict(attributes(value, kind))
        return (kind, None, (tuple(inside), _items(inside.values(), left, deeper), id(value)))
    if depth == 0 and not issubclass(kind, UNSEEN):
        inside = dict(attributes(value, kind))  # of the objects inside only which they are
        return (kind, None, (tuple(inside), _items(inside.values(), left, DEEPEST), id(value)))
    return (kind, None, id(value))


def _alike(items: list[Any], left: list[int]) -> Any:
    """All items at once, if they are all ints or all floats, of which there may be many; None otherwise."""
    kind = type(items[0]) if items else None
    if (kind is not int and kind is not float) or any(type(item) is not kind for item in items):
        return None
    left[0] -= len(items)
    return tuple(items) if kind is int else array("d", items).tobytes()


def _items(items: Iterable[Any], left: list[int], depth: int) -> tuple[Print, ...]:
    prints = []
    for item in list(items):
        if left[0] <= 0:
            break
        prints.append(_print(item, left, depth))
    return tuple(prints)


def tensor_print(tensor: Tensor) -> Print:
    """The print of a tensor; where there are no values to read, it is told apart by which object it is."""
    return unnoticed(lambda: _tensor_print(tensor))


def _tensor_print(tensor: Tensor) -> Print:
    layout = layout_of(tensor)
    facts = (type(tensor), tuple(layout[0] or ()), short_dtype(layout[1]), str(layout[2]))
    try:
        tensor = local(tensor)
        contents: Any = tuple(map(digest_of, parts_of(Tensor.detach(tensor)))) if has_values(tensor) else id(tensor)
    except Exception:  # a type that cannot be read
        contents = (id(tensor), 0 if tensor.is_inference() else tensor._version)
    return (TENSOR, facts, contents)


def array_print(item: Any, left: list[int], depth: int) -> Print:
    """The print of a NumPy array; the objects in one are items like those of a list."""
    shape, dtype, *_ = array_layout(item)
    facts = (type(item), shape, short_dtype(dtype), "cpu")
    if dtype.hasobject:
        flat = numpy.ndarray.view(item, numpy.ndarray).reshape(-1).tolist() if dtype.kind == "O" else []
        return (ARRAY, facts, _items(flat, left, depth + 1))
    return (ARRAY, facts, array_digest(item))


def differences(before: Print | None, now: Print) -> tuple[Change, ...]:
    """What is different now, in words; nothing when nothing is.

    >>> differences(print_of([1]), print_of([1, 2])), differences(None, print_of(1))
    (('length',), ('new',))
    """
    if before is None:
        return ("new",)
    if before == now:
        return ()
    if {before[0], now[0]} <= {TENSOR, ARRAY}:
        aspects: tuple[Change, ...] = ("type", "shape", "dtype", "device")
        found = tuple(word for word, one, other in zip(aspects, before[1], now[1], strict=True) if one != other)
        return found or ("values",)
    if before[0] is not now[0]:
        return ("type",)
    return ("length",) if before[1] != now[1] and now[0] is not str else ("values",)
