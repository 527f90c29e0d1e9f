"""The saved form of a trace: tables of columns of numbers, and the rules that make them one trace.

Every text is an index into one pool of strings, every nested argument is a text of that pool (see `value`), so that
a trace is nothing but columns of integers, a few of floats and two of bytes. The same tables go into an HDF5 file
and into a page.

- An optional index or number is -1 where there is none.
- `rows.parent` and `sites.caller` are distances back (own number minus the other's), 0 for none.
- A column marked `delta` holds differences to the row before: consecutive ids and times become small numbers.
- A column marked `later` came after the first files of this version: a file without it holds -1 there.
- `rows` are the events in order; `result` of a variable is its value, `changes` are words with blanks between. The
  tensors in the arguments and results of all rows, in order, are `refs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from insitu.errors import StoreError
from insitu.trace.event import STATISTICS

Column = NDArray[Any]
Tables = dict[str, dict[str, Column]]

_PART = 2**14  # rows


@dataclass(frozen=True, slots=True)
class Rule:
    """What a column may hold: any number, or an index into the table `to`."""

    kind: str = "i"
    to: str | None = None
    optional: bool = False
    delta: bool = False
    later: bool = False


_INT, _FLOAT, _BYTE = Rule(), Rule(kind="f"), Rule(kind="u")
_MAYBE = Rule(optional=True)
_DELTA = Rule(delta=True)
_TEXT, _MAYBE_TEXT = Rule(to="strings"), Rule(to="strings", optional=True)


def _maybe(to: str) -> Rule:
    return Rule(to=to, optional=True)


SCHEMA: dict[str, dict[str, Rule]] = {
    "about": {"value": _TEXT},
    "rows": {
        **{"id": _DELTA, "parent": _INT, "kind": _TEXT, "name": _TEXT, "module": _maybe("modules")},
        **{"args": _MAYBE_TEXT, "kwargs": _MAYBE_TEXT, "result": _MAYBE_TEXT, "operator": _MAYBE_TEXT},
        **{"site": _maybe("sites"), "start": _DELTA, "duration": _MAYBE, "raised": _MAYBE_TEXT},
        **{"phase": _MAYBE_TEXT, "thread": _INT, "step": _INT, "rank": _INT},
        "defined": Rule(to="sites", optional=True, later=True),
        "changes": Rule(to="strings", optional=True, later=True),
        "message": Rule(to="strings", optional=True, later=True),
        **dict.fromkeys(("forward", "flops"), Rule(optional=True, later=True)),
    },
    "refs": {"tensor": Rule(to="tensors", delta=True)},
    "tensors": {
        **{"id": _DELTA, "shape": _TEXT, "dtype": _TEXT, "device": _TEXT, "requires_grad": _INT},
        **{"strides": _MAYBE_TEXT, "type": _TEXT, "producer": _MAYBE, "stats": _maybe("stats"), "kept": _MAYBE_TEXT},
        "grad": Rule(to="tensors", optional=True, later=True),
    },
    "stats": {
        **{row.name: _FLOAT if row.kind == "number" else _INT for row in STATISTICS},
        **{"known": _INT, "bins": _INT},
    },
    "histograms": {"count": _INT},
    "modules": {
        **{"path": _TEXT, "type": _TEXT, "bases": _TEXT, "settings": _TEXT},
        **{"parameters": _INT, "own_parameters": _INT, "trainable": _INT, "leaf": _INT},
    },
    "sites": {
        **{"file": _TEXT, "line": _INT, "function": _TEXT, "text": _TEXT},
        **{"start": _MAYBE, "end": _MAYBE, "caller": _INT},
    },
    "arrays": {"dtype": _TEXT, "shape": _TEXT, "length": _INT},
    "data": {"byte": _BYTE},
    "strings": {"length": _INT},
    "text": {"byte": _BYTE},
}


def columns(table: str, rows: Iterable[tuple[Any, ...]]) -> dict[str, Column]:
    """The rows of a table as its columns, packed: differences taken where the schema says so, integers narrow.

    Rows are taken a part at a time: as numbers of Python, all of them would take ten times the room.
    """
    rules, waiting = SCHEMA[table], iter(rows)
    found = {name: _Packing(table, name, rule) for name, rule in rules.items()}
    while part := list(islice(waiting, _PART)):
        for packing, values in zip(found.values(), zip(*part, strict=True), strict=True):
            packing.add(values)
    return {name: packing.column() for name, packing in found.items()}


class _Packing:
    """A column in the making."""

    def __init__(self, table: str, name: str, rule: Rule) -> None:
        self._where, self._rule = f"{table}.{name}", rule
        self._last = np.int64(0)
        self._parts: list[Column] = [np.zeros(0, np.float64 if rule.kind == "f" else np.int8)]

    def add(self, values: tuple[Any, ...]) -> None:
        """The next values."""
        self._parts.append(np.array(values, dtype=np.float64) if self._rule.kind == "f" else self._packed(values))

    def _packed(self, values: tuple[Any, ...]) -> Column:
        try:
            column = np.array(values, dtype=np.int64)
        except OverflowError:
            raise StoreError(f"a number in {self._where} of the trace does not fit into 64 bits") from None
        if self._rule.optional and column.min() < -1:
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
    """Tables from anywhere, checked against the schema, as plain 64-bit columns; what breaks a rule is a StoreError."""
    whole = {table: _whole(table, tables.get(table, {}), rules) for table, rules in SCHEMA.items()}
    for table, rules in SCHEMA.items():
        for name, rule in rules.items():
            _check_range(f"{table}.{name}", whole[table][name], rule, whole)
    return whole


def _whole(table: str, given: Mapping[str, Column], rules: Mapping[str, Rule]) -> dict[str, Column]:
    found = {**_absent(given, rules), **given}
    for name, rule in rules.items():
        if name not in found:
            raise StoreError(f"the column {table}.{name} is missing")
        if found[name].ndim != 1 or found[name].dtype.kind != rule.kind:
            raise StoreError(f"the column {table}.{name} is {found[name].dtype} in {found[name].ndim} dimensions")
    lengths = {name: len(found[name]) for name in rules}
    if len(set(lengths.values())) > 1:
        raise StoreError(f"the columns of {table} have unequal lengths: {lengths}")
    return {name: _plain(found[name], rule) for name, rule in rules.items()}


def _absent(given: Mapping[str, Column], rules: Mapping[str, Rule]) -> dict[str, Column]:
    """The columns that a file of before does not have."""
    missing = [name for name, rule in rules.items() if rule.later and name not in given]
    return {name: np.full(len(next(iter(given.values()), ())), -1, dtype=np.int8) for name in missing}


def _plain(column: Column, rule: Rule) -> Column:
    if rule.kind == "u":
        return column.astype(np.uint8)
    if rule.kind == "f":
        return column.astype(np.float64)
    return np.cumsum(column, dtype=np.int64) if rule.delta else column.astype(np.int64)


def _check_range(name: str, column: Column, rule: Rule, tables: Tables) -> None:
    if not column.size or (rule.to is None and not rule.optional):
        return
    low, high = int(column.min()), int(column.max())
    end = rows_of(tables, rule.to) if rule.to is not None else high + 1
    if low < (-1 if rule.optional else 0) or high >= end:
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
