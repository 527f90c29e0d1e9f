"""Writes nested arguments and results as JSON; their tensors go to a list.

A call of the same function with other tensors has the same text, so a trace of many layers has few texts:
`(x, w, None)` is `{"tuple": [{"tensor": 0}, {"tensor": 0}, null]}`, and the tensors are in the list, in order.
null, booleans, strings and lists are written as JSON, and so are the integers and floats that every reader of JSON
keeps apart. Any other value is an object with one key, its tag:

tensor  the next tensor of the list             word    a `Word`
tuple   items                                   opaque  an `Opaque`: the type
dict    pairs of key and value                  fields  a `Fields`: the type, and pairs of name and value
float   one that is integral or not finite      repr    another object: its type and its shortened repr
int     one beyond 53 bits, in hexadecimal      array   a row of the table of arrays
complex two floats                              scalar  a NumPy scalar: a row of the table of arrays
bytes   in base64
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

import numpy as np

from insitu.store.stored_type import Array, storable
from insitu.trace.event import Fields, Opaque, TensorFacts, Word

DEEPEST, _CUT = 64, 8
_LONGEST_REPR = 200
_EXACT_INT = 2**53


@dataclass(frozen=True, slots=True)
class Repr:
    """Replaces an object that cannot be saved: its type, and its repr, shortened.

    >>> Repr("Path", "PosixPath('a')")
    PosixPath('a')
    """

    type: str
    text: str

    def __repr__(self) -> str:
        return self.text


class _TooDeep(Exception):
    pass


class JsonWriter:
    """Writes values as text, and adds the arrays and tensors in them to the given lists.

    Without a list for tensors, a tensor is written as its repr.

    >>> JsonWriter([], []).json((1, 1.0, Word("cpu"), TensorFacts(7, (2, 3), "f32", "cpu")))
    '{"tuple":[1,{"float":"1.0"},{"word":"cpu"},{"tensor":0}]}'
    """

    def __init__(self, arrays: list[Array], tensors: list[TensorFacts] | None = None) -> None:
        self._arrays = arrays
        self._tensors = tensors
        self._depth = 0
        self._limit = DEEPEST

    def json(self, value: Any) -> str:
        """The value as text; if it is nested too deep or contains itself, inner values are written as their repr."""
        tensors, arrays = len(self._tensors or ()), len(self._arrays)
        try:
            return self._write(value)
        except _TooDeep:
            del self._arrays[arrays:]
            if self._tensors is not None:
                del self._tensors[tensors:]
            return self._write_cut(value)

    def _write_cut(self, value: Any) -> str:
        # A container that contains itself twice doubles at each depth, so the second attempt stops at a small depth.
        self._depth, self._limit = 0, _CUT
        try:
            return self._write(value)
        finally:
            self._limit = DEEPEST

    def _write(self, value: Any) -> str:
        if self._depth > self._limit:
            if self._limit == DEEPEST:
                raise _TooDeep
            return _described(value)
        scalar = SCALARS.get(type(value))
        if scalar is not None:
            return scalar(value)
        write = _WRITERS.get(type(value))
        if write is not None:
            return write(self, value)
        return self._other(value)

    def _tensor(self, value: TensorFacts) -> str:
        if self._tensors is None:
            return _described(value)
        self._tensors.append(value)
        return '{"tensor":0}'

    def _items(self, values: Iterable[Any]) -> str:
        self._depth += 1
        items = [self._write(value) for value in values]
        self._depth -= 1
        return f"[{','.join(items)}]"

    def _pairs(self, pairs: dict[Any, Any]) -> str:
        self._depth += 1
        items = [f"[{self._write(key)},{self._write(value)}]" for key, value in pairs.items()]
        self._depth -= 1
        return f"[{','.join(items)}]"

    def _tuple(self, value: tuple[Any, ...]) -> str:
        return f'{{"tuple":{self._items(value)}}}'

    def _dict(self, value: dict[Any, Any]) -> str:
        return f'{{"dict":{self._pairs(value)}}}'

    def _fields(self, value: Fields) -> str:
        return f'{{"fields":[{_quoted(value.type)},{self._pairs(value.items)}]}}'

    def _other(self, value: Any) -> str:
        if type(value) is np.ndarray and storable(value.dtype):
            return self._numpy("array", value)
        if isinstance(value, np.generic) and storable(value.dtype):
            return self._numpy("scalar", value)
        if isinstance(value, str):
            return _quoted(str(value))
        return _described(value)

    def _numpy(self, tag: str, value: Any) -> str:
        self._arrays.append(np.asarray(value))
        return f'{{"{tag}":{len(self._arrays) - 1}}}'


def _integer(value: int) -> str:
    if -_EXACT_INT <= value <= _EXACT_INT:
        return str(value)
    return f'{{"int":"{value:#x}"}}'


def _float(value: float) -> str:
    # JavaScript reads 1.0 as 1 and JSON has no NaN, so those that are integral or not finite are written as text.
    if value.is_integer() or value - value != 0:
        return f'{{"float":"{value!r}"}}'
    return repr(value)


# How the values that contain no others are written.
SCALARS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: _integer,
    float: _float,
    str: _quoted,
    complex: lambda value: f'{{"complex":[{_float(value.real)},{_float(value.imag)}]}}',
    bytes: lambda value: f'{{"bytes":"{b64encode(value).decode("ascii")}"}}',
    Word: lambda value: f'{{"word":{_quoted(value)}}}',
    Opaque: lambda value: f'{{"opaque":{_quoted(value.type)}}}',
    Repr: lambda value: f'{{"repr":[{_quoted(value.type)},{_quoted(value.text)}]}}',
}
_WRITERS: dict[type, Callable[[JsonWriter, Any], str]] = {
    TensorFacts: JsonWriter._tensor,
    list: JsonWriter._items,
    tuple: JsonWriter._tuple,
    dict: JsonWriter._dict,
    Fields: JsonWriter._fields,
}


def _described(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # the repr of any class may raise anything
        text = f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    short = text if len(text) <= _LONGEST_REPR else text[: _LONGEST_REPR - 1] + "…"
    return f'{{"repr":[{_quoted(type(value).__name__)},{_quoted(short)}]}}'
