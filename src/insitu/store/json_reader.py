"""Reads nested values from JSON: each text is read once, and a value is built from it for each call."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from insitu.errors import StoreError
from insitu.store.json_writer import DEEPEST, Repr
from insitu.store.stored_type import Array
from insitu.trace.event import Fields, Opaque, TensorFacts, Word

Build = Callable[[Iterator[TensorFacts]], Any]

_NESTED = (b"{", b"[", b'"')  # the first byte of a text that is not a number, a bool or None
_NUMBERS = frozenset({int, float, bool, type(None)})
_SOME_TENSOR = TensorFacts(0, (), "f32", "cpu")


@dataclass(frozen=True, slots=True)
class Template:
    """A text that was read: `build` makes a new value with the next tensors of an iterator in it."""

    build: Build
    size: int
    tensors: int = 0


def plain_value(text: str | bytes) -> Any:
    """The value of a text without tensors and arrays; raises a StoreError if the text is damaged.

    >>> plain_value(b'{"tuple":[1,"a"]}')
    (1, 'a')
    """
    try:
        decoded = text if isinstance(text, str) else text.decode()
        template = from_json(decoded, [])
    except UnicodeDecodeError as error:
        raise StoreError(f"the value {text[:80]!r} is not text in UTF-8: {error.reason}") from None
    if template.tensors:
        raise StoreError(f"the value {text[:80]!r} holds tensors, which belong to traces")
    return template.build(iter(()))


def plain_values(texts: Iterable[bytes]) -> list[Any]:
    """The values of many texts. Numbers are read all at once: each by itself takes ten times as long.

    >>> plain_values([b"1", b'"a"', b"0.5"])
    [1, 'a', 0.5]
    """
    every = list(texts)
    numbers = _numbers([text for text in every if text[:1] not in _NESTED])
    if numbers is None:
        return list(map(plain_value, every))
    if len(numbers) == len(every):  # as most often
        return numbers
    following = iter(numbers)
    return [plain_value(text) if text[:1] in _NESTED else next(following) for text in every]


def _numbers(texts: list[bytes]) -> list[Any] | None:
    """The numbers that these texts are; None if one of them is something else."""
    try:
        found = json.loads(b"[%b]" % b",".join(texts), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    # One text with two numbers and another with none would be as many as the texts, but an empty text does not parse.
    if len(found) == len(texts) and _NUMBERS.issuperset(map(type, found)):
        return list(found)
    return None


def from_json(text: str, arrays: list[Array]) -> Template:
    """The template of a text; raises a StoreError if no `JsonWriter` writes such a text.

    >>> from_json('{"tuple":[1,{"float":"nan"}]}', []).build(iter(()))
    (1, nan)
    """
    reader = _TemplateReader(arrays)
    try:
        build = reader.read(json.loads(text, parse_constant=_refuse), 0)
        return Template(build, reader.size, reader.tensors)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError) as error:
        raise StoreError(f"the argument {text[:80]!r} cannot be read: {error!r}") from None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _TemplateReader:
    """Compiles the plain form of one value into a function that builds it."""

    def __init__(self, arrays: list[Array]) -> None:
        self.arrays = arrays
        self.size = 0
        self.tensors = 0

    def read(self, plain: Any, depth: int) -> Build:
        self.size += 1
        if depth > DEEPEST:
            raise ValueError(f"nested deeper than {DEEPEST}")
        if type(plain) is list:
            items = [self.read(item, depth + 1) for item in plain]
            return lambda tensors: [item(tensors) for item in items]
        if type(plain) is not dict:
            return lambda tensors: plain
        ((tag, content),) = plain.items()
        if tag == "tensor":
            self.tensors += 1
            return next
        read_container = _CONTAINERS.get(tag)
        if read_container is not None:
            return read_container(self, content, depth + 1)
        return self._constant(tag, content)

    def _tuple(self, content: Any, depth: int) -> Build:
        items = [self.read(item, depth) for item in content]
        return lambda tensors: tuple([item(tensors) for item in items])

    def _dict(self, content: Any, depth: int) -> Build:
        pairs = [(self._key(key, depth), self.read(item, depth)) for key, item in content]
        return lambda tensors: {key(tensors): item(tensors) for key, item in pairs}

    def _fields(self, content: Any, depth: int) -> Build:
        type_name, named = content
        fields = [(_text(name), self.read(item, depth)) for name, item in named]
        _text(type_name)
        return lambda tensors: Fields(type_name, {name: item(tensors) for name, item in fields})

    def _key(self, plain: Any, depth: int) -> Build:
        key = self.read(plain, depth)
        hash(key(repeat(_SOME_TENSOR)))  # raises here for a list as a key, and not when the value is built
        return key

    def _constant(self, tag: str, content: Any) -> Build:
        if tag == "array":
            array = self.arrays[_index(content)]
            self.size += array.size
            return lambda tensors: array.copy()
        if tag == "scalar":
            scalar = self.arrays[_index(content)][()]
            return lambda tensors: scalar
        value = _CONSTANTS[tag](content)
        return lambda tensors: value


def _number(plain: Any) -> float:
    if type(plain) is dict:
        return float(plain["float"])
    return float(plain)


def _text(plain: Any) -> str:
    if type(plain) is not str:
        raise TypeError(f"{plain!r} is not a text")
    return plain


def _index(plain: Any) -> int:
    if type(plain) is not int or plain < 0:
        raise IndexError(f"{plain!r} is not an index")
    return plain


_CONTAINERS: dict[str, Callable[[_TemplateReader, Any, int], Build]] = {
    "tuple": _TemplateReader._tuple,
    "dict": _TemplateReader._dict,
    "fields": _TemplateReader._fields,
}
_CONSTANTS: dict[str, Callable[[Any], Any]] = {
    "word": lambda content: Word(_text(content)),
    "opaque": lambda content: Opaque(_text(content)),
    "float": lambda content: float(_text(content)),
    "int": lambda content: int(_text(content), 16),
    "complex": lambda content: complex(_number(content[0]), _number(content[1])),
    "bytes": lambda content: b64decode(_text(content), validate=True),
    "repr": lambda content: Repr(_text(content[0]), _text(content[1])),
}
