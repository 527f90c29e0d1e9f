"""Tables back into a trace. The columns were checked against the schema; what they mean together is checked here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import prod
from typing import Any, get_args

import numpy as np

from insitu.errors import StoreError
from insitu.store.json_reader import Template, from_json
from insitu.store.json_writer import DEEPEST
from insitu.store.stored_type import Array, storable
from insitu.store.trace.cycles import check_depth, check_events
from insitu.store.trace.schema import Column, Tables, pieces_of, unpacked
from insitu.trace.collector import collector_paused
from insitu.trace.event import (
    NUMBERS,
    STATISTICS,
    Call,
    Change,
    Event,
    Kind,
    Mark,
    ModuleFacts,
    Phase,
    Site,
    Stats,
    TensorFacts,
    Variable,
)
from insitu.trace.trace import Trace

_CALLS = get_args(Kind)
_MARKS = ("step", "note", "trouble")
_CHANGES = frozenset(get_args(Change))
_PHASES = get_args(Phase)

# A small file may repeat a large argument in every event, so what all values hold together is limited.
_LARGEST = 2**27
_PART = 2**16
_VALUES = {
    "about": ("value",),
    "rows": ("args", "kwargs", "result"),
    "tensors": ("shape", "strides", "kept"),
    "modules": ("bases", "settings"),
}


class Decoder:
    """Reads each table once, from those that refer to nothing up to the events."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        pieces = pieces_of(tables["text"]["byte"], tables["strings"]["length"], "string")
        self.strings = [piece.decode("utf-8", "surrogatepass") for piece in pieces]
        self.template = cache(self._template)
        self.sizes = cache(self._sizes)
        self.refs: Iterator[TensorFacts] = iter(())
        self.arrays: list[Array] = []
        self._check_size({"arrays": ("shape",)})
        self.arrays = self._arrays()
        self._check_size(_VALUES)
        self.sites = self._sites()
        self.modules = [self._module(*row) for row in self._rows("modules")]
        self.stats = self._stats()
        self.tensors = [self._tensor(*row) for row in self._rows("tensors")]
        check_depth(self.tables["tensors"]["grad"], DEEPEST, "gradients")
        for facts, grad in zip(self.tensors, self.tables["tensors"]["grad"].tolist(), strict=True):
            facts.grad = None if grad < 0 else self.tensors[grad]

    def trace(self) -> Trace:
        """The events, with the facts about the run."""
        about = [self.value(number) for (number,) in self._rows("about")]
        if len(about) != 1 or type(about[0]) is not dict:
            raise StoreError(f"the facts about the trace are {len(about)} values, not one dict")
        _check_texts(about[0], "the facts about the trace")
        check_events(self.tables["rows"]["id"], self.tables["rows"]["parent"])
        self.refs = map(self.tensors.__getitem__, _numbers(self.tables["refs"]["tensor"]))
        events = [self._event(*row) for row in self._rows("rows")]
        if next(self.refs, None) is not None:
            raise StoreError("there are more tensors than the events have places for")
        return Trace(events, about=about[0])

    def value(self, number: int) -> Any:
        """A nested value, made anew from its text; the tensors in it are the next ones of `refs`."""
        return self.template(number).build(self.refs)

    def _check_size(self, columns: dict[str, tuple[str, ...]]) -> None:
        size = 0
        for table, names in columns.items():
            for name in names:
                numbers, counts = np.unique(self.tables[table][name], return_counts=True)
                used = zip(numbers.tolist(), counts.tolist(), strict=True)
                size += sum(self.template(number).size * count for number, count in used if number >= 0)
        if size > _LARGEST:
            raise StoreError(f"its arguments hold {size} values, and at most {_LARGEST} are read")

    def _template(self, number: int) -> Template:
        return from_json(self.strings[number], self.arrays)

    def _sizes(self, number: int) -> tuple[int | str, ...]:
        """A shape or strides; tuples of the same text are one."""
        sizes = _tuple(self.value(number))
        if any(type(size) is not int and type(size) is not str for size in sizes):
            raise StoreError(f"{sizes!r:.80} is not a shape")
        return sizes

    def _named(self, number: int, what: str) -> dict[str, Any]:
        """Values by name."""
        named = _dict(self.value(number))
        _check_texts(named, what)
        return named

    def _rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        return zip(*(column.tolist() for column in self.tables[table].values()), strict=True)

    def _text(self, number: int) -> str | None:
        return None if number < 0 else self.strings[number]

    def _arrays(self) -> list[Array]:
        pieces = pieces_of(self.tables["data"]["byte"], self.tables["arrays"]["length"], "array")
        return [self._array(piece, *row) for piece, row in zip(pieces, self._rows("arrays"), strict=True)]

    def _array(self, piece: bytes, dtype: int, shape: int, length: int) -> Array:
        kind, sizes = _dtype(self.strings[dtype]), self.value(shape)
        if _product(sizes) * kind.itemsize != length:
            raise StoreError(f"an array of {kind} and shape {sizes} has {length} bytes")
        return np.ndarray(sizes, dtype=kind, buffer=piece)

    def _sites(self) -> list[Site]:
        sites: list[Site] = []
        for file, line, function, text, start, end, distance in self._rows("sites"):
            if not 0 <= distance <= len(sites):
                raise StoreError(f"site {len(sites)} is called from {distance} places before it")
            caller = sites[-distance] if distance else None
            names = (self.strings[file], line, self.strings[function], self.strings[text])
            sites.append(Site(*names, _known(start), _known(end), caller))
        return sites

    def _module(
        self, path: int, type_: int, bases: int, settings: int, parameters: int, own: int, trainable: int, leaf: int
    ) -> ModuleFacts:
        names = (self.strings[path], self.strings[type_], _tuple(self.value(bases)))
        _check_texts(names[-1], "bases")
        return ModuleFacts(*names, self._named(settings, "settings"), parameters, own, trainable, bool(leaf))

    def _stats(self) -> list[Stats]:
        counts, found, taken = self.tables["histograms"]["count"].tolist(), [], 0
        for *numbers, known, bins in self._rows("stats"):
            named = {row.name: number for row, number in zip(STATISTICS, numbers, strict=True)}
            named |= {row.name: None for bit, row in enumerate(NUMBERS) if not known >> bit & 1}
            histogram = tuple(counts[taken : taken + bins])
            found.append(Stats(**named, histogram=histogram))
            taken += bins
            if len(histogram) != bins:
                raise StoreError(f"a histogram has {bins} bins, and {len(counts)} are there in all")
        return found

    def _tensor(self, number: int, shape: int, dtype: int, device: int, grad: int, *rest: int) -> TensorFacts:
        strides, type_, producer, stats, kept, _ = rest
        return TensorFacts(
            *(number, self.sizes(shape), self.strings[dtype], self.strings[device], bool(grad)),
            *(None if strides < 0 else self.sizes(strides), self.strings[type_], _known(producer)),
            *(None if stats < 0 else self.stats[stats], None if kept < 0 else self.value(kept)),
        )

    def _event(self, number: int, distance: int, kind: int, name: int, *rest: int) -> Event:
        parent = number - distance if distance else None
        word: Any = self.strings[kind]
        if word in _CALLS:
            return self._call(number, parent, word, self.strings[name], *rest)
        if word in _MARKS:
            return Mark(number, parent, word, self.strings[name], rest[6], *rest[10:13])
        if word == "variable":
            return self._variable(number, parent, self.strings[name], *rest)
        raise StoreError(f"an event of the kind {word[:40]!r} is not known here")

    def _call(self, number: int, parent: int | None, kind: Any, name: str, *rest: int) -> Call:
        module, args, kwargs, result, operator, site, start, duration, raised, phase, *late = rest
        thread, step, rank, defined, _, message, forward, flops = late
        direction: Any = self._text(phase)
        if direction not in _PHASES or min(args, kwargs, result) < 0:
            raise StoreError(f"call {number} lacks its arguments, its result or its phase")
        return Call(
            *(number, parent, kind, name, None if module < 0 else self.modules[module]),
            *(_tuple(self.value(args)), self._named(kwargs, "arguments"), self.value(result), self._text(operator)),
            *(None if site < 0 else self.sites[site], start, _known(duration), self._text(raised)),
            *(direction, thread, step, rank),
            *(None if defined < 0 else self.sites[defined], self._text(message), _known(forward), _known(flops)),
        )

    def _variable(self, number: int, parent: int | None, name: str, *rest: int) -> Variable:
        _, _, _, value, _, site, start, _, _, _, thread, step, rank, _, changes, *_ = rest
        if min(value, changes) < 0:
            raise StoreError(f"variable {number} lacks its value or its changes")
        words: Any = tuple(self.strings[changes].split())
        if not _CHANGES.issuperset(words):
            raise StoreError(f"variable {number} has changes that are not known here: {self.strings[changes][:40]!r}")
        place = None if site < 0 else self.sites[site]
        return Variable(number, parent, name, self.value(value), words, place, start, thread, step, rank)


def _numbers(column: Array) -> Iterator[int]:
    """The numbers of a column, a part at a time: as objects, all of them would take five times the room."""
    for start in range(0, len(column), _PART):
        yield from column[start : start + _PART].tolist()


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _tuple(value: Any) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise StoreError(f"{value!r:.80} stands where a tuple belongs")
    return value


def _dict(value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise StoreError(f"{value!r:.80} stands where a dict belongs")
    return value


def _check_texts(names: Iterable[Any], what: str) -> None:
    for name in names:
        if not isinstance(name, str):
            raise StoreError(f"{what} have the name {name!r:.80}, which is no text")


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
        with collector_paused():
            return Decoder(unpacked(tables)).trace()
    except StoreError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, StopIteration, OverflowError) as error:
        raise StoreError(f"its tables contradict each other: {error!r}") from None
