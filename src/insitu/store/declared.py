"""The variables and layouts of a journal: each is named once, and is a number from then on."""

from __future__ import annotations

import json
from math import prod
from typing import Any

from insitu.store.dtypes import kind_of

Record = list[Any]


def dumps(facts: Any) -> bytes:
    """The text of an index."""
    return json.dumps(facts, separators=(",", ":")).encode("ascii")


class Declared:
    """Numbers the variables and layouts of the writer, and keeps what is still to be written of them.

    >>> declared = Declared()
    >>> declared.declare("forward.x", "bfloat16", (2, 3))
    (0, 0, 12)
    >>> declared.news()
    b'[["variable",0,"forward.x","bfloat16"],["layout",0,"bfloat16",[2,3]]]'
    """

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.known: dict[tuple[str, str, tuple[int, ...]], tuple[int, int, int]] = {}
        self._variables: dict[tuple[str, str], int] = {}
        self._layouts: dict[tuple[str, tuple[int, ...]], int] = {}
        self._told = 0

    def declare(self, path: str, dtype: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """The number of the variable, that of the layout, and the bytes of a value."""
        size = kind_of(dtype).itemsize * prod(shape)
        variable = self._variables.get((path, dtype))
        if variable is None:
            variable = self._variables[path, dtype] = len(self._variables)
            self.records.append(["variable", variable, path, dtype])
        layout = self._layouts.get((dtype, shape))
        if layout is None:
            layout = self._layouts[dtype, shape] = len(self._layouts)
            self.records.append(["layout", layout, dtype, list(shape)])
        self.known[path, dtype, shape] = variable, layout, size
        return variable, layout, size

    def describe(self, path: str, facts: dict[str, str]) -> None:
        """Facts about a path, each as the JSON of its value."""
        self.records.append(["facts", path, facts])

    def news(self) -> bytes:
        """What no step has said yet."""
        return dumps(self.records[self._told :]) if len(self.records) > self._told else b""

    def told(self) -> None:
        """The news are written."""
        self._told = len(self.records)
