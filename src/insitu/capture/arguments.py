"""Arguments and results as they are noted: tensors by value, atoms as they are, strangers by their type only."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy
import torch
from torch import Tensor
from torch._C import DisableTorchFunction
from torch.nn import Parameter

from insitu.capture.tape import KWARGS
from insitu.capture.tensors import CPU, GIVEN, Current, ParameterValue, Table, Value, Values
from insitu.errors import came_by_signal
from insitu.trace.event import Fields, Opaque, Word

# What is kept as it is: small, immutable, and holding on to nothing.
ATOMS = frozenset(
    {
        *(int, float, bool, type(None), complex, type(...)),
        *(torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format),
    }
)
# To look a type up in a set can run code of its class.
ATOM_IDS = frozenset(map(id, ATOMS))
FUNCTIONS = (FunctionType, MethodType, BuiltinFunctionType)
MOST_ITEMS = 64
MOST_DEPTH = 8
MOST_CONTAINERS = 2_000  # in one argument: one that contains itself a few times has millions
MOST_SHARED = 10_000
MOST_TEXT = 200

Leaf = Callable[[Any], Any]
Noting = Callable[[list[Any], tuple[Any, ...], dict[str, Any] | None], None]


def make_known(current: Current) -> Callable[[Any], Any]:
    """The function that notes an argument: tensors by the values they have now."""

    def known(item: Any) -> Any:
        kind = type(item)
        if kind is Tensor or kind is Parameter:
            return current(item)
        if kind in ATOMS:
            return item
        if kind is list and INTS.issuperset(map(type, item)):  # sizes, which so many operators are given
            return shared_ints(item)
        return contained(item, current)

    return known


def make_noting(values: Values) -> Noting:
    """The function that adds the arguments of a call to its record: one call for all of them."""
    current = values.current
    known = make_known(current)

    def noting(record: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        append = record.append
        for item in args:
            kind = type(item)
            if kind is Tensor or kind is Parameter:
                append(current(item))
            else:
                append(item if kind in ATOMS else known(item))
        if kwargs:
            record[KWARGS] = 2 * len(kwargs)  # names and values in turn
            for name, item in kwargs.items():
                record += (name, known(item))

    return noting


def make_quick_noting(table: Table, values: Values) -> Noting:
    """The same for where nothing is kept of tensors but facts, and no function mode is on: facts are read in line.

    The facts of each tensor are compared with those that were noted last, as `has_same_facts` does.
    """
    get, known, fresh, renew, cpu = table.get, make_known(values.current), values.fresh, values.renew, CPU

    def noting(record: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> None:
        append = record.append
        for item in args:
            kind = type(item)
            if kind is Tensor or kind is Parameter:
                value: Any = get(id(item))
                if value is None or value() is not item:
                    append(fresh(item, GIVEN))
                    continue
                layout = value.layout
                try:
                    same = (
                        layout[1] is item.dtype
                        and value.requires_grad is item.requires_grad
                        and layout[0] == item.shape
                        and (item.is_cpu if layout[2] is cpu else layout[2] == item.device)
                        and (item.is_contiguous() if len(layout) == 3 else layout[3] == item.stride())
                        and type(value) is (Value if kind is Tensor else ParameterValue)
                    )
                except Exception:  # sparse tensors have no strides, strided nested ones no shape
                    same = False
                append(value if same else renew(value, item, None))
            else:
                append(item if kind in ATOMS else known(item))
        if kwargs:
            record[KWARGS] = 2 * len(kwargs)
            for name, item in kwargs.items():
                record += (name, known(item))

    return noting


def contained(item: Any, leaf: Leaf, depth: int = 0, met: list[int] | None = None) -> Any:
    """Anything, noted: containers with their items, each tensor by `leaf`, and of strangers only the type.

    `met` counts what was looked into so far.
    """
    kind = type(item)
    if id(kind) in ATOM_IDS:
        return item
    if kind is str:
        return item if len(item) <= MOST_TEXT else item[:MOST_TEXT] + "…"
    if issubclass(kind, Tensor):
        if kind is Tensor or kind is Parameter:
            return leaf(item)
        with DisableTorchFunction():  # the getters of a subclass are the user's code
            return leaf(item)
    met = met if met is not None else [0]
    met[0] += 1
    if depth == MOST_DEPTH or met[0] > MOST_CONTAINERS:
        return Opaque(kind.__name__)
    try:
        return looked_into(item, kind, leaf, depth + 1, met)
    except Exception as error:  # an object of the user that does not let itself be looked at
        if came_by_signal(error):
            raise
        return Opaque(kind.__name__)


def looked_into(item: Any, kind: type, leaf: Leaf, depth: int, met: list[int]) -> Any:
    """A container with its items noted, or what can be said of a stranger."""
    if issubclass(kind, (list, tuple)):
        return sequence(item, leaf, depth, met)
    if issubclass(kind, numpy.ndarray):
        return leaf(item)
    if kind is set or kind is frozenset:
        parts = sequence(list(item), leaf, depth, met)
        return Fields(kind.__name__, {str(index): part for index, part in enumerate(parts)})
    if issubclass(kind, dict):
        return mapping(item, leaf, depth, met)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind)]
        parts = {name: contained(getattr(item, name, None), leaf, depth, met) for name in names}
        return Fields(kind.__name__, parts)
    return stranger(item)


def sequence(item: list[Any] | tuple[Any, ...], leaf: Leaf, depth: int, met: list[int]) -> Any:
    """A list, tuple or named tuple; long ones are cut unless they hold tensors."""
    kind = type(item)
    names = getattr(kind, "_fields", None)
    item = as_builtin(item)
    if isinstance(names, tuple) and len(names) == len(item):
        items = {str(name): contained(part, leaf, depth, met) for name, part in zip(names, item, strict=True)}
        return Fields(kind.__name__, items)
    if type(item) is list and INTS.issuperset(map(type, item)):
        return shared_ints(item)
    cut = len(item) > MOST_ITEMS and not isinstance(item[0], Tensor)
    parts = [contained(part, leaf, depth, met) for part in (item[:MOST_ITEMS] if cut else item)]
    if cut:
        parts.append(Word(f"… {len(item) - MOST_ITEMS} more"))
    return parts if isinstance(item, list) else tuple(parts)


def as_builtin(item: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
    """A list or tuple as it is, one of a class of its own as a plain one: the methods of that are the user's code."""
    if type(item) is list or type(item) is tuple:
        return item
    return list(list.__iter__(item)) if isinstance(item, list) else tuple(tuple.__iter__(item))


INTS = frozenset({int})
_shared: dict[tuple[int, ...], list[int]] = {}


def shared_ints(item: list[int]) -> list[Any]:
    """A list of ints, such as the sizes that so many operators are given: one object for all equal ones."""
    if len(item) > MOST_ITEMS:
        return [*item[:MOST_ITEMS], Word(f"… {len(item) - MOST_ITEMS} more")]
    key = tuple(item)
    found = _shared.get(key)
    if found is None:
        if len(_shared) > MOST_SHARED:
            _shared.clear()
        found = _shared[key] = list(key)
    return found


def mapping(item: dict[Any, Any], leaf: Leaf, depth: int, met: list[int]) -> Any:
    """A dict as a dict, a subclass of it (`ModelOutput`) as named fields; cut if it is long and holds no tensors."""
    noted: dict[str, Any] = {}
    holds = False

    def noticed(found: Any) -> Any:
        nonlocal holds
        holds = holds or issubclass(type(found), Tensor)
        return leaf(found)

    note = noticed if dict.__len__(item) > MOST_ITEMS else leaf
    for key, value in dict.items(item):
        if len(noted) == MOST_ITEMS and not holds:
            noted["…"] = Word(f"… {dict.__len__(item) - MOST_ITEMS} more")
            break
        name = key_text(key)
        while name in noted:
            name += "'"
        noted[name] = contained(value, note, depth, met)
    return noted if type(item) is dict else Fields(type(item).__name__, noted)


def key_text(key: Any) -> str:
    """The key of a dict as text."""
    if type(key) is str or type(key) in ATOMS:
        return str(key)
    if type(key) is tuple and all(type(part) is str or type(part) in ATOMS for part in key):
        return repr(key)
    return f"<{type(key).__name__}>"


def stranger(item: Any) -> Any:
    """What is neither tensor nor container: slices and names by their text, the rest by its type."""
    kind = type(item)
    if kind is slice:
        return Word(":".join("" if part is None else _bound(part) for part in _parts(item)))
    if issubclass(kind, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return Word(str(item))
    if issubclass(kind, enum.Enum):
        return Word(f"{kind.__name__}.{item._name_}")
    if issubclass(kind, (numpy.generic, *ATOM_BASES)):
        return plain_number(item)
    if issubclass(kind, FUNCTIONS):
        return Word(getattr(item, "__qualname__", "function"))
    return Word(item.__qualname__) if kind is type else Opaque(kind.__name__)


ATOM_BASES = (int, float, str, complex)


def plain_number(item: Any) -> Any:
    """A number or string of a class of its own, as the plain one it is."""
    if isinstance(item, numpy.generic):
        return item.item() if item.dtype.kind in "biufcSU" else Opaque(type(item).__name__)
    if isinstance(item, int):
        return int.__int__(item)
    if isinstance(item, float):
        return float.__float__(item)
    return str.__str__(item) if isinstance(item, str) else complex(item.real, item.imag)


def _parts(item: slice) -> list[Any]:
    return [item.start, item.stop] if item.step is None else [item.start, item.stop, item.step]


def _bound(part: Any) -> str:
    return str(part) if type(part) in ATOMS else f"<{type(part).__name__}>"
