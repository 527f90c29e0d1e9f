"""An explanation as plain data, for the file of a trace, and back.

A dataclass becomes a dict of its fields, a tuple stays a tuple. A tensor among the values on the source line keeps what
a text shows of it: dtype, shape and type.
"""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from insitu.trace.event import Fields, TensorFacts
from insitu.trace.explain.explanation import Explanation, Underline

TENSOR = "TensorFacts"


class _WrongData(Exception):
    """The data are not those of an explanation."""


def plain_explanation(explanation: Explanation) -> dict[str, Any]:
    """An explanation as plain data.

    >>> plain_explanation(Explanation("KeyError", "'bias'"))["error"]
    'KeyError'
    """
    data: dict[str, Any] = _plain(explanation)
    return data


def explanation_of(data: Any) -> Explanation | None:
    """The inverse of `plain_explanation`; None for any other data, which a file may hold.

    >>> explanation_of(plain_explanation(Explanation("KeyError", "'bias'"))).message
    "'bias'"
    """
    try:
        found: Explanation = _built(data, Explanation)
    except _WrongData:
        return None
    return found


def _plain(item: Any) -> Any:
    """A part of an explanation as plain data; `_built` is the way back."""
    if isinstance(item, TensorFacts):
        return Fields(TENSOR, {"shape": item.shape, "dtype": item.dtype, "type": item.type})
    if isinstance(item, Underline):
        return {**_plain_fields(item), "value": _plain_value(item.value)}
    if is_dataclass(item):
        return _plain_fields(item)
    if isinstance(item, Enum):
        return item.value
    if isinstance(item, tuple):
        return tuple(map(_plain, item))
    return item


def _plain_fields(item: Any) -> dict[str, Any]:
    """The fields of a dataclass, without the value of an underline, which the program made."""
    return {field.name: _plain(getattr(item, field.name)) for field in fields(item) if field.name != "value"}


def _plain_value(value: Any) -> Any:
    """A value of the program: tensors in it become plain, everything else stays."""
    if isinstance(value, TensorFacts):
        return _plain(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_plain_value, value))
    if isinstance(value, dict):
        return {name: _plain_value(part) for name, part in value.items()}
    if isinstance(value, Fields):
        return Fields(value.type, _plain_value(value.items))
    return value


def _built(data: Any, kind: Any) -> Any:
    """An object of a type from its plain data."""
    if kind is Any:
        return _value(data)
    if get_origin(kind) is UnionType:
        return _built_choice(data, get_args(kind))
    if get_origin(kind) is tuple:
        return _built_tuple(data, get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(data, kind)
    if kind is TensorFacts and isinstance(data, Fields):
        return _tensor(data.items)
    if is_dataclass(kind):
        return _built_fields(data, kind)
    if type(data) is not kind:
        raise _WrongData
    return data


def _built_choice(data: Any, kinds: tuple[Any, ...]) -> Any:
    """An object of the first of several types that fits."""
    for kind in kinds:
        try:
            return _built(data, kind)
        except _WrongData:
            continue
    raise _WrongData


def _built_tuple(data: Any, kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    """A tuple of these types; with `...` at the end, any number of the first."""
    if not isinstance(data, (list, tuple)):
        raise _WrongData
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(data)
    if len(kinds) != len(data):
        raise _WrongData
    return tuple(map(_built, data, kinds))


def _member(data: Any, kind: type[Enum]) -> Enum:
    """The member of an enumeration with this value."""
    try:
        return kind(data)
    except ValueError:
        raise _WrongData from None


def _built_fields(data: Any, kind: Any) -> Any:
    """A dataclass from the dict of its fields. A field that an older insitu did not know gets its default."""
    hints = _hints(kind)
    if not isinstance(data, dict) or not _required(kind) <= data.keys() <= hints.keys():
        raise _WrongData
    return kind(**{name: _built(value, hints[name]) for name, value in data.items()})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _required(kind: Any) -> frozenset[str]:
    """The names of the fields that have no default."""
    return frozenset(each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING)


def _value(data: Any) -> Any:
    """A value of the program, with its tensors."""
    if isinstance(data, Fields):
        return _tensor(data.items) if data.type == TENSOR else Fields(data.type, _value(data.items))
    if isinstance(data, (list, tuple)):
        return type(data)(map(_value, data))
    if isinstance(data, dict):
        return {name: _value(part) for name, part in data.items()}
    return data


def _tensor(items: dict[str, Any]) -> TensorFacts:
    """A tensor by what a text shows of it."""
    shape = _built_tuple(items.get("shape"), (int | str, ...))
    return TensorFacts(0, shape, _built(items.get("dtype"), str), "", type=_built(items.get("type"), str))
