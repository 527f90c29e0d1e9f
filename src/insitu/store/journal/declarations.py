"""The variables and layouts of a journal: each is named once, and is a number from then on."""

from __future__ import annotations

import json
from math import prod
from typing import Any

from insitu.store.stored_type import stored_type

Record = list[Any]


def dumps(facts: Any) -> bytes:
    """The text of an index."""
    return json.dumps(facts, separators=(",", ":")).encode("ascii")


class Declarations:
    """Numbers the variables and layouts of the writer, and keeps what is still to be written of them.

    >>> declared = Declarations()
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
        self._facts: dict[str, dict[str, str]] = {}
        self._left_out: set[tuple[str, str]] = set()

    def declare(self, path: str, dtype: str, shape: tuple[int, ...]) -> tuple[int, int, int]:
        """The number of the variable, that of the layout, and the bytes of a value."""
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
        """Facts about a path, each as the JSON of its value."""
        if self._facts.get(path) != facts:
            self.records.append(["facts", path, facts])
            self._facts[path] = facts

    def leave_out(self, path: str, reason: str, step: int) -> None:
        """Values of a path are not recorded, from this step on; each reason is written once."""
        if (path, reason) not in self._left_out:
            self.records.append(["left out", path, reason, step])
            self._left_out.add((path, reason))

    def news(self) -> bytes:
        """What no step has said yet."""
        return dumps(self.records[self._told :]) if len(self.records) > self._told else b""

    def told(self) -> None:
        """The news are written."""
        self._told = len(self.records)
