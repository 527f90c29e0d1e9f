"""Parses one line of the text of a trace, from left to right."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable
from typing import Any, TypeVar

from insitu.store.text.trace_text_writer import RESERVED, SHORT
from insitu.store.text.value_text import DEEPEST, expected_count
from insitu.trace.event import STATISTICS, Fields, Opaque, Stats, TensorFacts, Word

_STRING = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_TOKEN = re.compile(
    rf"""\s*(?:(?P<string>[abcw]?(?:{_STRING}))|(?P<tensor>%[\w.#]*)"""
    r"""|(?P<bare>-?[\w.]+(?:[+-]\d+)?(?::\d+)?)|(?P<sign>->|[()\[\]{}<>,=:]))"""
)
_NUMBER = re.compile(r"-?(?:\d|inf$|nan$|\.\d)")
_CALLED = re.compile(rf"(?P<name>{_STRING}|[\w.]+)(?: (?P<operator>{_STRING}|[^\s('\"]+))?(?=\()")
_CONSTANTS: dict[str, Any] = {"None": None, "True": True, "False": False}

T = TypeVar("T")
Tensor = Callable[[str, TensorFacts | None], TensorFacts]


class LineError(ValueError):
    """A line that cannot be read; the text says why."""


class LineParser:
    """The tokens of a line and the place up to which they were read.

    `tensor` is called with the name and the facts of each tensor; the facts are None if the line only names it.
    `called` is the name of a function and its operator, if the line begins with them.
    """

    def __init__(self, text: str, tensor: Tensor) -> None:
        self._tensor = tensor
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        self._depth = 0
        self.called: tuple[str, str | None] | None = None
        place, text = 0, text.rstrip()
        head = _CALLED.match(text)
        if head is not None and head["name"] not in RESERVED:
            self.called = _function_name(head["name"]), head["operator"] and _unquoted(head["operator"])
            place = head.end()
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise LineError(f"{text[place:].strip()[:20]!r} cannot be understood here")
            self._tokens.append((str(found.lastgroup), found[found.lastgroup or 0]))
            place = found.end()
        self._tokens += [("end", "")] * 2  # the second one for a look ahead

    def finish(self) -> None:
        """Raise if something is left."""
        if self._tokens[self._at][0] != "end":
            raise LineError(f"there is more than can be understood, from {self._rest()} on")

    def sees(self, *texts: str) -> bool:
        """Whether one of these signs or bare words is next."""
        kind, found = self._tokens[self._at]
        return found in texts and kind in ("sign", "bare")

    def takes(self, text: str) -> bool:
        """Whether this sign or bare word is next; then it is read."""
        if not self.sees(text):
            return False
        self._at += 1
        return True

    def expect(self, *texts: str) -> str:
        """Read one of these, which must be next."""
        if not self.sees(*texts):
            raise LineError(f"{' or '.join(map(repr, texts))} is missing before {self._rest()}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _rest(self) -> str:
        kind, found = self._tokens[self._at]
        if kind == "end":
            return "the end of the line"
        return repr(found[:40])

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._at]
        if token[0] == "end":
            raise LineError("it is cut short")
        self._at += 1
        return token

    def name(self) -> str:
        """A name, in quotes or not."""
        kind, text = self._next()
        if kind == "string" and text[0] in "'\"":
            return unquoted(text)
        if kind != "bare":
            raise LineError(f"{text!r} is not a name")
        return text

    def string(self) -> str | None:
        """A text in quotes, if there is one."""
        kind, text = self._tokens[self._at]
        if kind != "string" or text[0] not in "'\"":
            return None
        return self.name()

    def integer(self) -> int:
        """A whole number."""
        _, text = self._next()
        if not re.fullmatch(r"-?\d+", text):
            raise LineError(f"{text!r} is not a whole number")
        return int(text)

    def many(self, item: Callable[[], None], end: str) -> None:
        """Items with commas between them, up to a closing sign."""
        while not self.takes(end):
            item()
            if not self.sees(end):
                self.expect(",")

    def named(self, end: str) -> dict[str, Any]:
        """Values by name, up to a closing sign."""
        found: dict[str, Any] = {}

        def item() -> None:
            name = self.name()
            self.expect("=")
            found[name] = self.value()

        self.many(item, end)
        return found

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments between the brackets of a call."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}

        def item() -> None:
            if self._tokens[self._at + 1] == ("sign", "="):
                name = self.name()
                self.expect("=")
                kwargs[name] = self.value()
            else:
                args.append(self.value())

        self.expect("(")
        self.many(item, ")")
        return tuple(args), kwargs

    def value(self) -> Any:
        """A value of any kind."""
        return self._deeper(self._value)

    def _deeper(self, read: Callable[[], T]) -> T:
        self._depth += 1
        if self._depth > DEEPEST + 2:
            raise LineError(f"it is nested more than {DEEPEST} deep")
        found = read()
        self._depth -= 1
        return found

    def _value(self) -> Any:
        kind, text = self._next()
        return _VALUES[kind](self, text)

    def _tensor_value(self, text: str) -> TensorFacts:
        facts = self.facts() if self.takes(":") else None
        return self._tensor(text[1:], facts)

    def _bare(self, text: str) -> Any:
        if self.takes("("):
            return Fields(text, self.named(")"))
        return _atom(text)

    def _string(self, text: str) -> Any:
        if text[0] == "a":
            return _array(unquoted(text[1:]), self.value())
        if text[0] in _PREFIXES:
            return _PREFIXES[text[0]](text[1:])
        if self.takes("("):
            return Fields(unquoted(text), self.named(")"))
        return unquoted(text)

    def _container(self, sign: str) -> Any:
        read = _CONTAINERS.get(sign)
        if read is None:
            raise LineError(f"a value is missing before {sign!r}")
        return read(self)

    def _opaque(self) -> Opaque:
        name = self.name()
        self.expect(">")
        return Opaque(name)

    def _tuple(self) -> tuple[Any, ...]:
        return tuple(self._items(")"))

    def _list(self) -> list[Any]:
        return self._items("]")

    def _items(self, end: str) -> list[Any]:
        items: list[Any] = []
        self.many(lambda: items.append(self.value()), end)
        return items

    def _dict(self) -> dict[Any, Any]:
        found: dict[Any, Any] = {}

        def item() -> None:
            key = self.value()
            self.expect(":")
            found[key] = self.value()

        self.many(item, "}")
        return found

    def facts(self) -> TensorFacts:
        """The facts of a tensor, from its type to the closing brace."""
        kind, dtype = "Tensor", self.name()
        if not self.sees("["):
            kind, dtype = dtype, self.name()
        self.expect("[")
        shape: list[int | str] = []
        self.many(lambda: shape.append(_size(self.name())), "]")
        facts = TensorFacts(0, tuple(shape), dtype, "cpu", type=kind)
        if self.takes("{"):
            self._details(facts)
        return facts

    def _details(self, facts: TensorFacts) -> None:
        numbers: dict[str, Any] = {}

        def item() -> None:
            key = self.expect(*_DETAILS, *_STATISTICS)
            if key in _DETAILS:
                field, read = _DETAILS[key]
                setattr(facts, field, read(self))
            else:
                numbers[key] = _STATISTICS[key](self)

        self.many(item, "}")
        if numbers:
            facts.stats = Stats(**{"count": expected_count(facts.shape), **numbers})

    def _float(self) -> float:
        return float(self._next()[1])

    def _gradient(self) -> TensorFacts:
        return self._deeper(self.facts)


GIVEN = -1  # the producer of a tensor that no call of the trace made, as long as its line is read
# How a value is read, by the kind of its first token, by its first sign, and by the letter before its quotes.
_VALUES: dict[str, Callable[[LineParser, str], Any]] = {
    "string": LineParser._string,
    "tensor": LineParser._tensor_value,
    "bare": LineParser._bare,
    "sign": LineParser._container,
}
_CONTAINERS: dict[str, Callable[[LineParser], Any]] = {
    "<": LineParser._opaque,
    "{": LineParser._dict,
    "(": LineParser._tuple,
    "[": LineParser._list,
}
_PREFIXES: dict[str, Callable[[str], Any]] = {
    "w": lambda text: Word(unquoted(text)),
    "c": lambda text: complex(unquoted(text)),
    "b": lambda text: literal_eval("b" + text),
}
# The field of a tensor's facts that a word in braces sets, and how its value is read.
_DETAILS: dict[str, tuple[str, Callable[[LineParser], Any]]] = {
    "grad": ("requires_grad", lambda _: True),
    "given": ("producer", lambda _: GIVEN),
    "on": ("device", lambda line: str(line.value())),
    "kept": ("kept", LineParser.value),
    "gradient": ("grad", LineParser._gradient),
}
_NUMBERS: dict[str, Callable[[LineParser], Any]] = {"number": LineParser._float, "count": LineParser.integer}
_STATISTICS = {row.name: _NUMBERS[row.kind] for row in STATISTICS}


def _function_name(name: str) -> str:
    """The whole name of a function."""
    for short, whole in SHORT.items():
        if name.startswith(short):
            return whole + name[len(short) :]
    return _unquoted(name)


def _unquoted(name: str) -> str:
    """A name that may be in quotes."""
    if name[0] in "'\"":
        return unquoted(name)
    return name


def unquoted(text: str) -> str:
    """The text inside quotes."""
    if "\\" in text:
        return str(literal_eval(text))
    return text[1:-1]


def _array(kind: str, items: Any) -> Any:
    import numpy as np

    found = re.fullmatch(r"([<>|][biufc]\d{1,2})\[([\d, ]*)\]", kind)
    if found is None or type(items) is not list:
        raise LineError(f"{kind!r} is not an array of numbers, or its numbers do not follow")
    return np.array(items, dtype=found[1]).reshape([int(size) for size in found[2].split(",")])


def _size(text: str) -> int | str:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    return text


def _atom(text: str) -> Any:
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if not _NUMBER.match(text):
        return Word(text)
    if text.startswith(("0x", "-0x")):
        return int(text, 16)
    if text.lstrip("-").isdigit():
        return int(text)
    return float(text)
