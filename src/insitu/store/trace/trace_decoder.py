"""Turns tables back into a trace. The schema has checked each column; how they fit together is checked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from math import prod
from typing import Any, TypeVar, get_args

import numpy as np

from insitu.errors import StoreError
from insitu.store.json_reader import Template, from_json
from insitu.store.json_writer import DEEPEST
from insitu.store.stored_type import Array, storable
from insitu.store.trace.cycles import check_depth, check_events
from insitu.store.trace.schema import (
    NOTHING,
    Column,
    EventRow,
    ModuleRow,
    SiteRow,
    Tables,
    TensorRow,
    pieces_of,
    unpacked,
)
from insitu.trace.collector import pause_collector
from insitu.trace.event import (
    NUMBERS,
    STATISTICS,
    Arm,
    Call,
    Change,
    Event,
    Kind,
    Loop,
    Mark,
    MarkKind,
    Mode,
    ModuleFacts,
    Nesting,
    Phase,
    Site,
    Stats,
    TensorFacts,
    Variable,
)
from insitu.trace.trace import Trace

T = TypeVar("T")

_CALLS = frozenset(get_args(Kind))
_MARKS = frozenset(get_args(MarkKind))
_CHANGES = frozenset(get_args(Change))
_PHASES = frozenset(get_args(Phase))
_MODES = frozenset(get_args(Mode))

# A small file may repeat a large argument in every event, so the size of all values together is limited.
_LARGEST = 2**27
_PART = 2**16
_VALUES = {
    "about": ("value",),
    "rows": ("args", "kwargs", "result"),
    "tensors": ("shape", "strides", "kept"),
    "modules": ("bases", "settings"),
    "sites": ("nesting",),
}


class TraceDecoder:
    """Reads each table once, from those that refer to nothing up to the events."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        pieces = pieces_of(tables["text"]["byte"], tables["strings"]["length"], "string")
        self._strings = [piece.decode("utf-8", "surrogatepass") for piece in pieces]
        self._template = cache(self._read_template)
        self._sizes = cache(self._read_sizes)
        self._nesting = cache(self._read_nesting)
        self._refs: Iterator[TensorFacts] = iter(())
        self._arrays: list[Array] = []
        self._check_size({"arrays": ("shape",)})
        self._arrays = self._read_arrays()
        self._check_size(_VALUES)
        self._sites = self._read_sites()
        self._modules = [self._module(ModuleRow._make(row)) for row in self._rows("modules")]
        self._stats = self._read_stats()
        self._tensors = [self._tensor(TensorRow._make(row)) for row in self._rows("tensors")]
        gradients = tables["tensors"]["grad"]
        check_depth(gradients, DEEPEST, "gradients")
        for facts, grad in zip(self._tensors, gradients.tolist(), strict=True):
            facts.grad = _item(self._tensors, grad)

    def trace(self) -> Trace:
        """The events, with the facts about the trace."""
        about = [self._value(number) for (number,) in self._rows("about")]
        if len(about) != 1 or type(about[0]) is not dict:
            raise StoreError(f"the facts about the trace are {len(about)} values, not one dict")
        _check_texts(about[0], "the facts about the trace")
        check_events(self._tables["rows"]["id"], self._tables["rows"]["parent"])
        self._refs = map(self._tensors.__getitem__, _numbers(self._tables["refs"]["tensor"]))
        events = [self._event(EventRow._make(row)) for row in self._rows("rows")]
        if next(self._refs, None) is not None:
            raise StoreError("there are more tensors than the events have places for")
        return Trace(events, about=about[0])

    def _value(self, number: int) -> Any:
        """A nested value, built from its text; the tensors in it are the next ones of `refs`."""
        return self._template(number).build(self._refs)

    def _check_size(self, columns: dict[str, tuple[str, ...]]) -> None:
        size = sum(self._size_of(self._tables[table][name]) for table, names in columns.items() for name in names)
        if size > _LARGEST:
            raise StoreError(f"its arguments hold {size} values, and at most {_LARGEST} are read")

    def _size_of(self, column: Column) -> int:
        """How many values the texts of a column hold together."""
        numbers, counts = np.unique(column[column >= 0], return_counts=True)
        used = zip(numbers.tolist(), counts.tolist(), strict=True)
        return sum(self._template(number).size * count for number, count in used)

    def _read_template(self, number: int) -> Template:
        return from_json(self._strings[number], self._arrays)

    def _read_sizes(self, number: int) -> tuple[int | str, ...]:
        """A shape or strides; tuples of the same text are one object."""
        sizes = _tuple(self._value(number))
        if any(type(size) is not int and type(size) is not str for size in sizes):
            raise StoreError(f"{sizes!r:.80} is not a shape")
        return sizes

    def _named_values(self, number: int, what: str) -> dict[str, Any]:
        named = _dict(self._value(number))
        if named:  # mostly there are none
            _check_texts(named, what)
        return named

    def _rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        return zip(*(column.tolist() for column in self._tables[table].values()), strict=True)

    def _text(self, number: int) -> str | None:
        return _item(self._strings, number)

    def _read_arrays(self) -> list[Array]:
        pieces = pieces_of(self._tables["data"]["byte"], self._tables["arrays"]["length"], "array")
        return [self._array(piece, *row) for piece, row in zip(pieces, self._rows("arrays"), strict=True)]

    def _array(self, piece: bytes, dtype: int, shape: int, length: int) -> Array:
        kind, sizes = _dtype(self._strings[dtype]), self._value(shape)
        if _product(sizes) * kind.itemsize != length:
            raise StoreError(f"an array of {kind} and shape {sizes} has {length} bytes")
        return np.ndarray(sizes, dtype=kind, buffer=piece)

    def _read_sites(self) -> list[Site]:
        sites: list[Site] = []
        for row in map(SiteRow._make, self._rows("sites")):
            if not 0 <= row.caller <= len(sites):
                raise StoreError(f"site {len(sites)} is called from {row.caller} places before it")
            sites.append(
                Site(
                    file=self._strings[row.file],
                    line=row.line,
                    function=self._strings[row.function],
                    text=self._strings[row.text],
                    start=_known(row.start),
                    end=_known(row.end),
                    caller=sites[-row.caller] if row.caller else None,
                    nesting=self._nesting(row.nesting),
                )
            )
        return sites

    def _read_nesting(self, number: int) -> Nesting | None:
        if number == NOTHING:
            return None
        return _nesting(self._value(number))

    def _module(self, row: ModuleRow) -> ModuleFacts:
        bases = _tuple(self._value(row.bases))
        _check_texts(bases, "bases")
        return ModuleFacts(
            path=self._strings[row.path],
            type=self._strings[row.type],
            bases=bases,
            settings=self._named_values(row.settings, "settings"),
            parameters=row.parameters,
            own_parameters=row.own_parameters,
            trainable=row.trainable,
            leaf=bool(row.leaf),
        )

    def _read_stats(self) -> list[Stats]:
        bins, found, end = self._tables["histograms"]["count"].tolist(), [], 0
        for *numbers, known, count in self._rows("stats"):
            begin, end = end, end + count
            if not begin <= end <= len(bins):
                raise StoreError(f"a histogram has {count} bins, and {len(bins)} are there in all")
            named = {row.name: number for row, number in zip(STATISTICS, numbers, strict=True)}
            named |= {row.name: None for bit, row in enumerate(NUMBERS) if not known >> bit & 1}
            found.append(Stats(**named, histogram=tuple(bins[begin:end])))
        return found

    def _tensor(self, row: TensorRow) -> TensorFacts:
        return TensorFacts(
            id=row.id,
            shape=self._sizes(row.shape),
            dtype=self._strings[row.dtype],
            device=self._strings[row.device],
            requires_grad=bool(row.requires_grad),
            strides=None if row.strides < 0 else self._sizes(row.strides),
            type=self._strings[row.type],
            producer=_known(row.producer),
            stats=_item(self._stats, row.stats),
            kept=None if row.kept < 0 else self._value(row.kept),
        )

    def _event(self, row: EventRow) -> Event:
        parent = row.id - row.parent if row.parent else None
        word: Any = self._strings[row.kind]
        if word in _CALLS:
            return self._call(row, parent, word)
        if word in _MARKS:
            return Mark(row.id, parent, word, self._strings[row.name], row.start, row.thread, row.step, row.rank)
        if word == "variable":
            return self._variable(row, parent)
        raise StoreError(f"an event of the unknown kind {word[:40]!r}")

    def _call(self, row: EventRow, parent: int | None, kind: Any) -> Call:
        phase: Any = self._text(row.phase)
        mode: Any = self._text(row.mode) if row.mode != NOTHING else "eager"  # as a file without modes may say
        if phase not in _PHASES or min(row.args, row.kwargs, row.result) < 0:
            raise StoreError(f"call {row.id} lacks its arguments, its result or its phase")
        if mode not in _MODES:
            raise StoreError(f"call {row.id} lacks its mode")
        # By position, in the order of the fields: by name it takes half a microsecond more, for each call of a trace.
        return Call(
            row.id,
            parent,
            kind,
            self._strings[row.name],
            _item(self._modules, row.module),
            _tuple(self._value(row.args)),
            self._named_values(row.kwargs, "arguments"),
            self._value(row.result),
            self._text(row.operator),
            _item(self._sites, row.site),
            row.start,
            _known(row.duration),
            self._text(row.raised),
            phase,
            row.thread,
            row.step,
            row.rank,
            _item(self._sites, row.defined),
            self._text(row.message),
            _known(row.forward),
            _known(row.flops),
            mode,
        )

    def _variable(self, row: EventRow, parent: int | None) -> Variable:
        if min(row.result, row.changes) < 0:
            raise StoreError(f"variable {row.id} lacks its value or its changes")
        changes: Any = tuple(self._strings[row.changes].split())
        if not _CHANGES.issuperset(changes):
            raise StoreError(f"variable {row.id} has unknown changes: {self._strings[row.changes][:40]!r}")
        return Variable(
            id=row.id,
            parent=parent,
            name=self._strings[row.name],
            value=self._value(row.result),
            changes=changes,
            site=_item(self._sites, row.site),
            start=row.start,
            thread=row.thread,
            step=row.step,
            rank=row.rank,
        )


def _numbers(column: Array) -> Iterator[int]:
    """The numbers of a column, in batches: as objects, all of them would take five times the memory."""
    for start in range(0, len(column), _PART):
        yield from column[start : start + _PART].tolist()


def _known(number: int) -> int | None:
    if number < 0:
        return None
    return number


def _nesting(value: Any) -> Nesting:
    """The nesting that was written as lists."""
    try:
        statement, text, loops, arms, is_end = value
        lines = tuple(Loop(*loop) for loop in loops)
        branches = tuple(Arm(condition, branch, bool(is_optional)) for condition, branch, is_optional in arms)
        found = Nesting(statement, text, lines, branches, is_end is True)
    except (TypeError, ValueError):
        raise StoreError(f"{value!r:.80} is not the nesting of a site") from None
    numbers = [statement, *(loop.line for loop in lines), *chain.from_iterable(arms)]
    texts = [text, *(loop.text for loop in lines)]
    if {*map(type, numbers)} != {int} or {*map(type, texts)} != {str}:
        raise StoreError(f"{value!r:.80} is not the nesting of a site")
    return found


def _item(items: list[T], number: int) -> T | None:
    """The item with a number; None for a number that is not there."""
    if number < 0:
        return None
    return items[number]


def _tuple(value: Any) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise StoreError(f"{value!r:.80} is not a tuple")
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise StoreError(f"{value!r:.80} is not a dict")
    return value


def _check_texts(names: Iterable[Any], what: str) -> None:
    for name in names:
        if not isinstance(name, str):
            raise StoreError(f"{what} have the name {name!r:.80}, which is not text")


def _product(sizes: Any) -> int:
    if any(type(size) is not int or size < 0 for size in _tuple(sizes)):
        raise StoreError(f"{sizes!r:.80} is not a shape")
    return prod(sizes)


def _dtype(name: str) -> np.dtype[Any]:
    try:
        found = np.dtype(name if len(name) < 32 else "O")
    except (TypeError, ValueError):
        found = np.dtype("O")
    if not storable(found):
        raise StoreError(f"arrays of the type {name[:40]!r} are not read")
    return found


def decode(tables: Mapping[str, Mapping[str, Column]]) -> Trace:
    """The trace that these tables hold; a StoreError when they break a rule.

    >>> from insitu.store.trace.trace_encoder import encode
    >>> from insitu.trace.event import Mark
    >>> decode(encode(Trace([Mark(0, None, "note", "hello")]))).marks[0].text
    'hello'
    """
    try:
        with pause_collector():
            return TraceDecoder(unpacked(tables)).trace()
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, StopIteration, OverflowError) as error:
        raise StoreError(f"its tables contradict each other: {error!r}") from None
