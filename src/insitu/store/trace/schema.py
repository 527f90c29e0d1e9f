"""The saved form of a trace: tables of columns of numbers, and the rules that make them one trace.

Every text is an index into one pool of strings, every nested argument is a text of that pool (see `json_writer`), so
that a trace is nothing but columns of integers, a few of floats and two of bytes.

- An optional index or number is -1 where there is none.
- `rows.parent` and `sites.caller` are distances back (own number minus the other's), 0 for none.
- A column marked `delta` holds differences to the row before: consecutive ids and times become small numbers.
- `rows` are the events in order; `result` of a variable is its value, `changes` are words with blanks between. The
  tensors in the arguments and results of all rows, in order, are `refs`.
- The columns of `stats` are the rows of `STATISTICS`; `known` has a bit for each number that is not None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from insitu.errors import StoreError
from insitu.trace.event import STATISTICS

Column = NDArray[Any]
Tables = dict[str, dict[str, Column]]

NOTHING = -1  # an optional index or number that is not there
_PART = 2**14  # rows


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """What a column may hold: any number, or an index into the table `to`.

    A column that was `added` after the first files of this version is not in those: there is nothing in each row.
    """

    kind: str = "i"
    to: str | None = None
    optional: bool = False
    delta: bool = False
    added: bool = False


_INT, _FLOAT, _BYTE = ColumnRule(), ColumnRule(kind="f"), ColumnRule(kind="u")
_MAYBE = ColumnRule(optional=True)
_DELTA = ColumnRule(delta=True)
_TEXT, _MAYBE_TEXT = ColumnRule(to="strings"), ColumnRule(to="strings", optional=True)
_ADDED_TEXT = ColumnRule(to="strings", optional=True, added=True)


def _maybe(to: str) -> ColumnRule:
    return ColumnRule(to=to, optional=True)


SCHEMA: dict[str, dict[str, ColumnRule]] = {
    "about": {"value": _TEXT},
    "rows": {
        "id": _DELTA,
        "parent": _INT,
        "kind": _TEXT,
        "name": _TEXT,
        "start": _DELTA,
        "thread": _INT,
        "step": _INT,
        "rank": _INT,
        "module": _maybe("modules"),
        "args": _MAYBE_TEXT,
        "kwargs": _MAYBE_TEXT,
        "result": _MAYBE_TEXT,
        "operator": _MAYBE_TEXT,
        "site": _maybe("sites"),
        "duration": _MAYBE,
        "raised": _MAYBE_TEXT,
        "phase": _MAYBE_TEXT,
        "defined": _maybe("sites"),
        "changes": _MAYBE_TEXT,
        "message": _MAYBE_TEXT,
        "forward": _MAYBE,
        "flops": _MAYBE,
        "mode": _ADDED_TEXT,
    },
    "refs": {"tensor": ColumnRule(to="tensors", delta=True)},
    "tensors": {
        "id": _DELTA,
        "shape": _TEXT,
        "dtype": _TEXT,
        "device": _TEXT,
        "requires_grad": _INT,
        "strides": _MAYBE_TEXT,
        "type": _TEXT,
        "producer": _MAYBE,
        "stats": _maybe("stats"),
        "kept": _MAYBE_TEXT,
        "grad": _maybe("tensors"),
    },
    "stats": {
        **{row.name: _FLOAT if row.kind == "number" else _INT for row in STATISTICS},
        "known": _INT,
        "bins": _INT,
    },
    "histograms": {"count": _INT},
    "modules": {
        "path": _TEXT,
        "type": _TEXT,
        "bases": _TEXT,
        "settings": _TEXT,
        "parameters": _INT,
        "own_parameters": _INT,
        "trainable": _INT,
        "leaf": _INT,
    },
    "sites": {
        "file": _TEXT,
        "line": _INT,
        "function": _TEXT,
        "text": _TEXT,
        "start": _MAYBE,
        "end": _MAYBE,
        "caller": _INT,
        "nesting": _ADDED_TEXT,
    },
    "arrays": {"dtype": _TEXT, "shape": _TEXT, "length": _INT},
    "data": {"byte": _BYTE},
    "strings": {"length": _INT},
    "text": {"byte": _BYTE},
}


class EventRow(NamedTuple):
    """A row of the table `rows`, in the order of its columns."""

    id: int
    parent: int
    kind: int
    name: int
    start: int
    thread: int
    step: int
    rank: int
    module: int = NOTHING
    args: int = NOTHING
    kwargs: int = NOTHING
    result: int = NOTHING
    operator: int = NOTHING
    site: int = NOTHING
    duration: int = NOTHING
    raised: int = NOTHING
    phase: int = NOTHING
    defined: int = NOTHING
    changes: int = NOTHING
    message: int = NOTHING
    forward: int = NOTHING
    flops: int = NOTHING
    mode: int = NOTHING


class TensorRow(NamedTuple):
    """A row of the table `tensors`, in the order of its columns."""

    id: int
    shape: int
    dtype: int
    device: int
    requires_grad: int
    strides: int
    type: int
    producer: int
    stats: int
    kept: int
    grad: int


class ModuleRow(NamedTuple):
    """A row of the table `modules`, in the order of its columns."""

    path: int
    type: int
    bases: int
    settings: int
    parameters: int
    own_parameters: int
    trainable: int
    leaf: int


class SiteRow(NamedTuple):
    """A row of the table `sites`, in the order of its columns."""

    file: int
    line: int
    function: int
    text: int
    start: int
    end: int
    caller: int
    nesting: int


def columns(table: str, rows: Iterable[tuple[Any, ...]]) -> dict[str, Column]:
    """The rows of a table as its columns, packed: differences taken where the schema says so, integers narrow.

    Rows are taken in batches: as Python numbers, all of them would take ten times the memory.
    """
    rules, waiting = SCHEMA[table], iter(rows)
    packers = {name: _ColumnPacker(table, name, rule) for name, rule in rules.items()}
    while part := list(islice(waiting, _PART)):
        for packer, values in zip(packers.values(), zip(*part, strict=True), strict=True):
            packer.add(values)
    return {name: packer.column() for name, packer in packers.items()}


class _ColumnPacker:
    """Packs the values of one column piece by piece."""

    def __init__(self, table: str, name: str, rule: ColumnRule) -> None:
        self._where, self._rule = f"{table}.{name}", rule
        self._last = np.int64(0)
        self._parts: list[Column] = [np.zeros(0, np.float64 if rule.kind == "f" else np.int8)]

    def add(self, values: tuple[Any, ...]) -> None:
        """Take the next values."""
        if self._rule.kind == "f":
            self._parts.append(np.array(values, dtype=np.float64))
        else:
            self._parts.append(self._packed(values))

    def _packed(self, values: tuple[Any, ...]) -> Column:
        try:
            column = np.array(values, dtype=np.int64)
        except OverflowError:
            raise StoreError(f"a number in {self._where} of the trace does not fit into 64 bits") from None
        if self._rule.optional and column.min() < NOTHING:
            raise StoreError(f"{self._where} of the trace holds {column.min()}: only numbers from 0 can be saved")
        if not self._rule.delta:
            return narrow(column)
        before, self._last = self._last, column[-1]
        return narrow(np.diff(column, prepend=before))

    def column(self) -> Column:
        """All values, in the smallest type that holds them."""
        return np.concatenate(self._parts)


def narrow(column: NDArray[np.int64]) -> Column:
    """The same integers in the smallest signed type that holds them.

    >>> narrow(np.array([1, -128])).dtype
    dtype('int8')
    """
    if not column.size:
        return column.astype(np.int8)
    low, high = column.min(), column.max()
    for kind in (np.int8, np.int16, np.int32):
        if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
            return column.astype(kind)
    return column


def unpacked(tables: Mapping[str, Mapping[str, Column]]) -> Tables:
    """Tables from anywhere as plain 64-bit columns; a StoreError if they break a rule of the schema."""
    whole = {table: _whole(table, tables.get(table, {}), rules) for table, rules in SCHEMA.items()}
    for table, rules in SCHEMA.items():
        for name, rule in rules.items():
            _check_range(f"{table}.{name}", whole[table][name], rule, whole)
    return whole


def _whole(table: str, given: Mapping[str, Column], rules: Mapping[str, ColumnRule]) -> dict[str, Column]:
    for name, rule in rules.items():
        if name not in given:
            raise StoreError(f"the column {table}.{name} is missing")
        column = given[name]
        if column.ndim != 1 or column.dtype.kind != rule.kind:
            raise StoreError(f"the column {table}.{name} is {column.dtype} in {column.ndim} dimensions")
    lengths = {name: len(given[name]) for name in rules}
    if len(set(lengths.values())) > 1:
        raise StoreError(f"the columns of {table} have unequal lengths: {lengths}")
    return {name: _plain(given[name], rule) for name, rule in rules.items()}


def _plain(column: Column, rule: ColumnRule) -> Column:
    if rule.kind == "u":
        return column.astype(np.uint8)
    if rule.kind == "f":
        return column.astype(np.float64)
    if rule.delta:
        return np.cumsum(column, dtype=np.int64)
    return column.astype(np.int64)


def _check_range(name: str, column: Column, rule: ColumnRule, tables: Tables) -> None:
    is_free = rule.to is None and not rule.optional
    if is_free or not column.size:
        return
    low, high = int(column.min()), int(column.max())
    lowest = NOTHING if rule.optional else 0
    end = high + 1 if rule.to is None else rows_of(tables, rule.to)
    if low < lowest or high >= end:
        raise StoreError(f"{name} is out of range: it runs from {low} to {high}, and {rule.to or 'it'} has {end} rows")


def rows_of(tables: Tables, table: str) -> int:
    """How many rows a table has."""
    return len(next(iter(tables[table].values())))


def bytes_of(pieces: Iterable[bytes]) -> Column:
    """The pieces one after the other, as a column."""
    return np.frombuffer(b"".join(pieces), dtype=np.uint8)


def pieces_of(column: Column, lengths: Column, what: str) -> list[bytes]:
    """A column of bytes cut into pieces of these lengths."""
    if len(lengths) and int(lengths.min()) < 0:
        raise StoreError(f"a {what} has the length {lengths.min()}")
    ends = np.cumsum(lengths).tolist()
    if (ends[-1] if ends else 0) != len(column):
        raise StoreError(f"the {what}s need {ends[-1] if ends else 0} bytes, and {len(column)} are there")
    whole = column.tobytes()
    return [whole[start:end] for start, end in zip([0, *ends], ends, strict=False)]
