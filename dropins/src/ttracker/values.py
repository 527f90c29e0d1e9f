"""Values as text, in the words of Tensor Tracker: tensors by shape and dtype, containers by length.

Values come as insitu notes them, or as they are, from hooks.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from insitu import Fields, Opaque, TensorFacts, Word

ATOMS = (int, float, complex, str, type(None), Word)
DICTS = ("OrderedDict", "defaultdict", "Counter")  # which are noted as named fields, but known as dicts
MOST_DEPTH = 8
MOST_ITEMS = 16
MOST_TEXT = 200
CUT = re.compile(r"… (\d+) more")
DTYPE = re.compile(r"(bf|f|c|u|i)(\d+)(.*)")
DTYPES = {"bf": "bfloat", "f": "float", "c": "complex", "u": "uint", "i": "int"}


def described(
    name: object, value: Any, line: int = 0, numbers: Callable[[Any], str] = lambda tensor: ""
) -> Iterator[str]:
    """The texts that say what a value is; for a tuple with tensors in it, one for each item.

    `numbers` gives what is added for a tensor.

    >>> image = TensorFacts(0, (3, 8), "u8", "cpu")
    >>> print(*described("batch", (image, [1, 2]), 7), sep=chr(10))
    [Tensor] batch.0@7 → shape=torch.Size([3, 8]) | dtype=torch.uint8
    [Var] batch.1@7 len(value): 2
    """
    parts = items_with_tensors(value)
    if parts is not None:
        for part, item in parts.items():
            yield from described(f"{name}.{part}", item, line, numbers)
        return
    shape, dtype = shape_and_dtype(value)
    if shape:
        yield f"[Tensor] {name}@{line} → {shape} | {dtype}{numbers(value)}"
    else:
        yield f"[Var] {name}@{line} {plain(value)}"


def results(value: Any) -> Iterator[str]:
    """The texts for what a function returns: a tensor by its shape, the items of a tuple or list each.

    >>> list(results(TensorFacts(0, (3, 8), "u8", "cpu"))), list(results(3))
    (['shape=torch.Size([3, 8])'], ['value: 3'])
    """
    parts = items_with_tensors(tuple(value) if isinstance(value, list) else value)
    if parts is None:
        yield shape_and_dtype(value)[0] or plain(value)
    else:
        for part, item in parts.items():
            yield from described(part, item)


def plain(value: Any) -> str:
    """A value other than a tensor: itself if it is small, else its length, or its class.

    >>> plain(113), plain("cat"), plain([0] * 4), plain(Opaque("Encoder"))
    ('value: 113', "value: 'cat'", 'len(value): 4', 'type(value): Encoder')
    """
    if isinstance(value, ATOMS):
        text = repr(value)
        return f"value: {text if len(text) <= MOST_TEXT + 3 else text[:MOST_TEXT] + '…'}"
    if isinstance(value, tuple) and len(value) <= MOST_ITEMS and all(isinstance(item, ATOMS) for item in value):
        return f"value: {value!r:.{MOST_TEXT}}"
    if isinstance(value, Fields):
        return f"len(value): {length_of(value.items)}"
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return f"len(value): {length_of(value)}"
    return f"type(value): {value.type if isinstance(value, Opaque) else type(value).__name__}"


def length_of(value: Any) -> int:
    """How many items there are: of a long container insitu notes the first ones, and how many more there were.

    >>> length_of([0, 1, Word("… 98 more")]), length_of({"a": 1, "…": Word("… 98 more")})
    (100, 99)
    """
    items = list(value.values() if isinstance(value, dict) else value)
    last = items[-1] if items else None
    cut = CUT.fullmatch(last) if isinstance(last, Word) else None
    if cut is None:
        return len(value)
    return len(value) - 1 + int(cut[1])


def shape_and_dtype(value: Any) -> tuple[str, str]:
    """Both as PyTorch or NumPy prints them; empty for anything but a tensor.

    >>> shape_and_dtype(TensorFacts(0, (73, 3), "f8e4m3fn", "cpu"))
    ('shape=torch.Size([73, 3])', 'dtype=torch.float8_e4m3fn')
    >>> shape_and_dtype(TensorFacts(0, (73,), "b8", "cpu", type="ndarray"))
    ('shape=(73,)', 'dtype=bool')
    """
    if isinstance(value, TensorFacts):
        dtype = full_dtype(value.dtype)
        if value.type == "ndarray":
            return f"shape={value.shape}", f"dtype={dtype}"
        return f"shape=torch.Size([{', '.join(map(str, value.shape))}])", f"dtype=torch.{dtype}"
    if isinstance(value, tensor_classes()):
        try:
            return f"shape={value.shape}", f"dtype={value.dtype}"
        except Exception:  # a nested tensor has no shape
            return f"shape={type(value).__name__}", f"dtype={value.dtype}"
    return "", ""


def full_dtype(short: str) -> str:
    """The name of a dtype from the short one that insitu has.

    >>> [full_dtype(short) for short in ("u8", "bf16", "c64", "b8", "qint8", "<U3")]
    ['uint8', 'bfloat16', 'complex64', 'bool', 'qint8', '<U3']
    """
    match = DTYPE.fullmatch(short)
    if short == "b8" or match is None:
        if short == "b8":
            return "bool"
        return short
    return f"{DTYPES[match[1]]}{match[2]}{'_' if match[3] else ''}{match[3]}"


def tensor_classes() -> tuple[Any, ...]:
    """The classes of tensors there are: nobody has a tensor who has not imported its library."""
    found = [("torch", "Tensor"), ("numpy", "ndarray")]
    return tuple(getattr(sys.modules[module], name) for module, name in found if hasattr(sys.modules.get(module), name))


def items_with_tensors(value: Any) -> dict[str, Any] | None:
    """The items of a tuple, a named one or a dataclass by their names, if there are tensors among them."""
    parts = items_of(value)
    if len(parts) <= MOST_ITEMS and any(holds_tensor(part) for part in parts.values()):
        return parts
    return None


def holds_tensor(value: Any, depth: int = 0) -> bool:
    """Whether something is a tensor, or a tuple with one in it."""
    if isinstance(value, (TensorFacts, *tensor_classes())):
        return True
    return depth < MOST_DEPTH and any(holds_tensor(part, depth + 1) for part in items_of(value).values())


def items_of(value: Any) -> dict[str, Any]:
    """The items of a tuple, a named one or a dataclass, by their names; of all else none."""
    if isinstance(value, Fields):
        if value.type not in DICTS:
            return value.items
        return {}
    if isinstance(value, tuple):
        return dict(zip(getattr(value, "_fields", map(str, range(len(value)))), value, strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, (type, TensorFacts, Opaque)):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return {}
