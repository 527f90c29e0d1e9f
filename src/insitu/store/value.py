"""Nested arguments and results as JSON, with the tensors taken out.

A call of the same function with other tensors has the same text, so a trace of many layers has few texts:
`(x, w, None)` is `{"tuple": [{"tensor": 0}, {"tensor": 0}, null]}`, and the tensors are listed apart, in order.
What JSON knows is itself: null, booleans, strings, lists, integers and floats that every reader of JSON tells
apart. All else is an object with one key, its tag:

tensor  the next tensor of the list             word    a `Word`
tuple   items                                   opaque  an `Opaque`: the type
dict    pairs of key and value                  fields  a `Fields`: the type, and pairs of name and value
float   one that is integral or not finite      repr    another object: its type and its shortened repr
int     one beyond 53 bits, in hexadecimal      array   a row of the table of arrays
complex two floats                              scalar  a NumPy scalar: a row of the table of arrays
bytes   in base64
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

import numpy as np

from insitu.errors import StoreError
from insitu.trace.event import Fields, Opaque, TensorFacts, Word

Array = np.ndarray[Any, Any]
Build = Callable[[Iterator[TensorFacts]], Any]

_DEEPEST = 64
_LONGEST_REPR = 200
_EXACT_INT = 2**53
_ARRAY_KINDS = "biufcSUmM"


@dataclass(frozen=True, slots=True)
class Repr:
    """What is left of an object that could not be saved: its type, and its repr, shortened.

    >>> Repr("Path", "PosixPath('a')")
    PosixPath('a')
    """

    type: str
    text: str

    def __repr__(self) -> str:
        return self.text


class _TooDeep(Exception):
    pass


class Writer:
    """Writes values as text; the arrays and tensors met on the way are added to the lists given.

    Without a list for tensors, a tensor is an object like any other.

    >>> Writer([], []).json((1, 1.0, Word("cpu"), TensorFacts(7, (2, 3), "f32", "cpu")))
    '{"tuple":[1,{"float":"1.0"},{"word":"cpu"},{"tensor":0}]}'
    """

    def __init__(self, arrays: list[Array], tensors: list[TensorFacts] | None = None) -> None:
        self._arrays = arrays
        self._tensors = tensors
        self._depth = 0

    def json(self, value: Any) -> str:
        """The value as text; one that is nested too deep, as what holds itself is, becomes its repr."""
        tensors, arrays = len(self._tensors or ()), len(self._arrays)
        try:
            return self._write(value)
        except _TooDeep:
            self._depth = 0
            del self._arrays[arrays:]
            if self._tensors is not None:
                del self._tensors[tensors:]
            return _described(value)

    def _write(self, value: Any) -> str:
        write = _WRITERS.get(type(value))
        return write(self, value) if write is not None else self._other(value)

    def _tensor(self, value: TensorFacts) -> str:
        if self._tensors is None:
            return _described(value)
        self._tensors.append(value)
        return '{"tensor":0}'

    def _items(self, values: Iterable[Any]) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _TooDeep
        items = [self._write(value) for value in values]
        self._depth -= 1
        return f"[{','.join(items)}]"

    def _tuple(self, value: tuple[Any, ...]) -> str:
        return f'{{"tuple":{self._items(value)}}}'

    def _dict(self, value: dict[Any, Any]) -> str:
        return f'{{"dict":{self._items(map(list, value.items()))}}}'

    def _fields(self, value: Fields) -> str:
        return f'{{"fields":[{_quoted(value.type)},{self._items(map(list, value.items.items()))}]}}'

    def _other(self, value: Any) -> str:
        array = type(value) is np.ndarray
        if (array or isinstance(value, np.generic)) and _storable(value.dtype):
            self._arrays.append(np.asarray(value))
            return f'{{"{"array" if array else "scalar"}":{len(self._arrays) - 1}}}'
        return _described(value)


def _integer(value: int) -> str:
    return str(value) if -_EXACT_INT <= value <= _EXACT_INT else f'{{"int":"{value:#x}"}}'


def _float(value: float) -> str:
    # JavaScript reads 1.0 as 1 and JSON has no NaN, so those that are integral or not finite are written as text.
    return f'{{"float":"{value!r}"}}' if value.is_integer() or value - value != 0 else repr(value)


_WRITERS: dict[type, Callable[[Writer, Any], str]] = {
    TensorFacts: Writer._tensor,
    type(None): lambda _, value: "null",
    bool: lambda _, value: "true" if value else "false",
    int: lambda _, value: _integer(value),
    float: lambda _, value: _float(value),
    str: lambda _, value: _quoted(value),
    list: Writer._items,
    tuple: Writer._tuple,
    dict: Writer._dict,
    Fields: Writer._fields,
    Word: lambda _, value: f'{{"word":{_quoted(value)}}}',
    Opaque: lambda _, value: f'{{"opaque":{_quoted(value.type)}}}',
    Repr: lambda _, value: f'{{"repr":[{_quoted(value.type)},{_quoted(value.text)}]}}',
    complex: lambda _, value: f'{{"complex":[{_float(value.real)},{_float(value.imag)}]}}',
    bytes: lambda _, value: f'{{"bytes":"{b64encode(value).decode("ascii")}"}}',
}


def _storable(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in _ARRAY_KINDS and dtype.itemsize > 0 and np.dtype(dtype.str) == dtype


def _described(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # the repr of a stranger's object may do anything
        text = f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    short = text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 1] + "…"
    return f'{{"repr":[{_quoted(type(value).__name__)},{_quoted(short)}]}}'


@dataclass(frozen=True, slots=True)
class Template:
    """A text, read once: `build` makes the value anew from the tensors that belong into it."""

    build: Build
    size: int


def from_json(text: str, arrays: list[Array]) -> Template:
    """The template of a text; a StoreError when it is not one that a `Writer` makes.

    >>> from_json('{"tuple":[1,{"float":"nan"}]}', []).build(iter(()))
    (1, nan)
    """
    reader = _Reader(arrays)
    try:
        return Template(reader.read(json.loads(text, parse_constant=_refuse), 0), reader.size)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise StoreError(f"the argument {text[:80]!r} cannot be read: {error!r}") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


class _Reader:
    """Compiles the plain form of one value into a function that builds it."""

    def __init__(self, arrays: list[Array]) -> None:
        self.arrays = arrays
        self.size = 0

    def read(self, plain: Any, depth: int) -> Build:
        self.size += 1
        if depth > _DEEPEST:
            raise ValueError(f"nested deeper than {_DEEPEST}")
        if type(plain) is list:
            items = [self.read(item, depth + 1) for item in plain]
            return lambda tensors: [item(tensors) for item in items]
        if type(plain) is not dict:
            return lambda tensors: plain
        ((tag, content),) = plain.items()
        if tag == "tensor":
            return next
        if tag in ("tuple", "dict", "fields"):
            return self._container(tag, content, depth)
        return self._constant(tag, content)

    def _container(self, tag: str, content: Any, depth: int) -> Build:
        if tag == "tuple":
            items = [self.read(item, depth + 1) for item in content]
            return lambda tensors: tuple([item(tensors) for item in items])
        if tag == "dict":
            pairs = [(self.read(key, depth + 1), self.read(item, depth + 1)) for key, item in content]
            return lambda tensors: {key(tensors): item(tensors) for key, item in pairs}
        type_name, named = content
        fields = [(_text(name), self.read(item, depth + 1)) for name, item in named]
        _text(type_name)
        return lambda tensors: Fields(type_name, {name: item(tensors) for name, item in fields})

    def _constant(self, tag: str, content: Any) -> Build:
        if tag == "array":
            array = self.arrays[_index(content)]
            self.size += array.size
            return lambda tensors: array.copy()
        value = self.arrays[_index(content)][()] if tag == "scalar" else _CONSTANTS[tag](content)
        return lambda tensors: value


def _number(plain: Any) -> float:
    return float(plain["float"]) if type(plain) is dict else float(plain)


def _text(plain: Any) -> str:
    if type(plain) is not str:
        raise TypeError(f"{plain!r} is not a text")
    return plain


def _index(plain: Any) -> int:
    if type(plain) is not int or plain < 0:
        raise IndexError(f"{plain!r} is not an index")
    return plain


_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "word": lambda content: Word(_text(content)),
    "opaque": lambda content: Opaque(_text(content)),
    "float": lambda content: float(_text(content)),
    "int": lambda content: int(_text(content), 16),
    "complex": lambda content: complex(_number(content[0]), _number(content[1])),
    "bytes": lambda content: b64decode(_text(content), validate=True),
    "repr": lambda content: Repr(_text(content[0]), _text(content[1])),
}


def storable(dtype: str) -> np.dtype[Any]:
    """The NumPy type of this name; a StoreError if arrays of it are not ones that are saved."""
    try:
        found = np.dtype(dtype if len(dtype) < 32 else "O")
    except (TypeError, ValueError):
        found = np.dtype("O")
    if not _storable(found):
        raise StoreError(f"arrays of type {dtype[:40]!r} are not read")
    return found
