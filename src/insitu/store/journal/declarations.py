"""The names in a journal: each variable and each layout is declared once, and is a number from then on.

A layout is the dtype and the shape of a value. Declarations also carry facts about a path, and the reasons why values
of a path were not recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from insitu.store.json_reader import plain_value
from insitu.store.stored_type import checked_shape, stored_type

Record = list[Any]


def json_bytes(data: Any) -> bytes:
    """The text of an index."""
    return json.dumps(data, separators=(",", ":")).encode("ascii")


class Declarations:
    """Numbers the variables and layouts of the writer, and holds the records that are still to be written.

    >>> declarations = Declarations()
    >>> declarations.declare("forward.x", "bfloat16", (2, 3))
    (0, 0, 12)
    >>> declarations.unwritten()
    b'[["variable",0,"forward.x","bfloat16"],["layout",0,"bfloat16",[2,3]]]'
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.known: dict[tuple[str, str, tuple[int, ...]], tuple[int, int, int]] = {}
        self._variables: dict[tuple[str, str], int] = {}
        self._layouts: dict[tuple[str, tuple[int, ...]], int] = {}
        self._facts: dict[str, dict[str, str]] = {}
        self._omissions: set[tuple[str, str]] = set()
        self._written = 0

    def declare(self, path: str, dtype: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """The number of the variable, the number of the layout, and the bytes of a value."""
        # An interrupt may come anywhere: a record that is written twice does no harm, one that is not written does.
        size = stored_type(dtype).itemsize * prod(shape)
        variable = self._variables.get((path, dtype))
        if variable is None:
            variable = len(self._variables)
            self.records.append(["variable", variable, path, dtype])
            self._variables[path, dtype] = variable
        layout = self._layouts.get((dtype, shape))
        if layout is None:
            layout = len(self._layouts)
            self.records.append(["layout", layout, dtype, list(shape)])
            self._layouts[dtype, shape] = layout
        self.known[path, dtype, shape] = variable, layout, size
        return variable, layout, size

    def describe(self, path: str, facts: dict[str, str]) -> None:
        """Declare facts about a path, each as the JSON of its value."""
        if self._facts.get(path) != facts:
            self.records.append(["facts", path, facts])
            self._facts[path] = facts

    def omit(self, path: str, reason: str, step: int) -> None:
        """Declare that values of a path are not recorded from this step on; each reason is declared once."""
        if (path, reason) not in self._omissions:
            self.records.append(["omission", path, reason, step])
            self._omissions.add((path, reason))

    def unwritten(self) -> bytes:
        """The records that no step has written yet."""
        if len(self.records) > self._written:
            return json_bytes(self.records[self._written :])
        return b""

    def mark_written(self) -> None:
        """Note that all records are written."""
        self._written = len(self.records)


@dataclass(slots=True)
class DeclaredNames:
    """The declarations of a journal as the reader finds them, by the numbers of the writer.

    `omissions` has the first step for each path and reason.
    """

    variables: dict[int, tuple[str, str]] = field(default_factory=dict)  # path and dtype
    layouts: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)  # dtype and shape
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    omissions: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[int, tuple[int, ...]]:
        """The shape of each layout."""
        return {number: shape for number, (_, shape) in self.layouts.items()}

    def read(self, records: list[Any]) -> None:
        """Take declarations from a frame; an error if one of them does not make sense."""
        for kind, *fields in records:
            _READERS[kind](self, *fields)

    def _read_variable(self, number: Any, path: Any, dtype: Any) -> None:
        stored_type(checked_text(dtype))
        self.variables[int(number)] = checked_text(path), dtype

    def _read_layout(self, number: Any, dtype: Any, shape: Any) -> None:
        self.layouts[int(number)] = checked_text(dtype), checked_shape(shape, stored_type(dtype))

    def _read_facts(self, path: Any, facts: Any) -> None:
        values = {checked_text(name): plain_value(checked_text(fact)) for name, fact in facts.items()}
        self.facts.setdefault(checked_text(path), {}).update(values)

    def _read_omission(self, path: Any, reason: Any, step: Any) -> None:
        self.omissions.setdefault((checked_text(path), checked_text(reason)), int(step))


_READERS: dict[str, Callable[..., None]] = {
    "variable": DeclaredNames._read_variable,
    "layout": DeclaredNames._read_layout,
    "facts": DeclaredNames._read_facts,
    "omission": DeclaredNames._read_omission,
}


def checked_text(value: Any) -> str:
    """The value, if it is text; raises if the file is damaged or forged."""
    if type(value) is not str:
        raise TypeError(f"{value!r:.80} is not a text")
    return value
