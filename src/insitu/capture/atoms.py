"""Values that are neither tensors nor containers, as a record holds them: small, and keeping nothing alive."""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy
import torch

from insitu.capture.group_facts import COLLECTIVE_DESCRIPTIONS
from insitu.trace.event import Opaque, Word

# A record holds values of these types as they are.
ATOMS = frozenset(
    {
        *(int, float, bool, type(None), complex, type(...)),
        *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format),
    }
)
# A lookup of a type in a set can run code of its metaclass, a lookup of its id cannot.
ATOM_IDS = frozenset(map(id, ATOMS))
# Kinds of numbers that numpy scalars convert to Python objects: not dates, not records, not objects.
PLAIN_KINDS = "biufcSU"


def atom(item: Any) -> Any:
    """Return what a record holds of a value: a plain number or string, a short text, or the name of its type.

    >>> atom(slice(1, None)), atom(numpy.float32(0.5)), atom(len)
    (1:, 0.5, len)
    """
    kind = type(item)
    for base, describe in DESCRIPTIONS:
        if issubclass(kind, base):
            return describe(item)
    return Opaque(kind.__name__)


def slice_text(item: slice) -> Word:
    """A slice as it is written between brackets."""
    bounds = [item.start, item.stop]
    if item.step is not None:
        bounds.append(item.step)
    return Word(":".join(map(bound_text, bounds)))


def bound_text(bound: Any) -> str:
    """One bound of a slice."""
    if bound is None:
        return ""
    if type(bound) in ATOMS:
        return str(bound)
    return f"<{type(bound).__name__}>"


def scalar(item: Any) -> Any:
    """A NumPy scalar as the Python object it equals."""
    if item.dtype.kind in PLAIN_KINDS:
        return item.item()
    return Opaque(type(item).__name__)


def class_name(item: type) -> Any:
    """The name of a class; of one with a metaclass, only the name of the metaclass: its attributes may be code."""
    if type(item) is type:
        return Word(item.__qualname__)
    return Opaque(type(item).__name__)


def key_text(key: Any) -> str:
    """The key of a dict as text."""
    if is_plain_key(key):
        return str(key)
    if type(key) is tuple and all(map(is_plain_key, key)):
        return repr(key)
    return f"<{type(key).__name__}>"


def is_plain_key(key: Any) -> bool:
    """Whether the text of a key is made by Python or torch, and not by a class of the user."""
    return type(key) is str or type(key) in ATOMS


# The first type that fits decides. Subclasses of numbers and strings become plain ones by the methods of the builtins.
DESCRIPTIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (slice, slice_text),
    ((torch.SymInt, torch.SymFloat, torch.SymBool), lambda item: Word(str(item))),
    (enum.Enum, lambda item: Word(f"{type(item).__name__}.{item._name_}")),
    (numpy.generic, scalar),
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (complex, lambda item: complex(item.real, item.imag)),
    ((FunctionType, MethodType, BuiltinFunctionType), lambda item: Word(getattr(item, "__qualname__", "function"))),
    (type, class_name),
    *COLLECTIVE_DESCRIPTIONS,
)
