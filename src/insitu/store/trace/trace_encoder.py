"""Turns a trace into tables."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Generic, TypeVar

import numpy as np

from insitu.errors import StoreError
from insitu.store.json_writer import JsonWriter
from insitu.store.stored_type import Array
from insitu.store.trace.cycles import check_events
from insitu.store.trace.schema import (
    NOTHING,
    EventRow,
    ModuleRow,
    SiteRow,
    Tables,
    bytes_of,
    columns,
)
from insitu.trace.collector import pause_collector
from insitu.trace.counter import count_progress
from insitu.trace.event import (
    NUMBERS,
    STATISTICS,
    Call,
    Event,
    Mark,
    ModuleFacts,
    Nesting,
    Site,
    Stats,
    TensorFacts,
    Variable,
)
from insitu.trace.trace import Trace

T = TypeVar("T")

_statistics_of = attrgetter(*(row.name for row in STATISTICS))
_numbers_of = attrgetter(*(row.name for row in NUMBERS))


class _Interned(Generic[T]):
    """Objects by identity, numbered in the order in which they are added."""

    def __init__(self) -> None:
        self.items: list[T] = []
        self._numbers: dict[int, int] = {}

    def __contains__(self, item: T) -> bool:
        return id(item) in self._numbers

    def number(self, item: T) -> int:
        number = self._numbers.setdefault(id(item), len(self.items))
        if number == len(self.items):
            self.items.append(item)
        return number


class TraceEncoder:
    """Collects the objects that events refer to while the rows are made; later tables are written from them."""

    def __init__(self) -> None:
        self._strings: dict[str, int] = {}
        self._modules: _Interned[ModuleFacts] = _Interned()
        self._sites: _Interned[Site] = _Interned()
        self._tensors: _Interned[TensorFacts] = _Interned()
        self._stats: list[Stats] = []
        self._arrays: list[Array] = []
        self._refs: list[TensorFacts] = []
        self._json = JsonWriter(self._arrays).json
        self._json_with_tensors = JsonWriter(self._arrays, self._refs).json
        self._shapes: dict[tuple[int | str, ...], int] = {}

    def tables(self, events: list[Event], about: dict[str, Any]) -> Tables:
        """The tables of these events, with the facts about their trace."""
        tables: Tables = {}
        # Each table adds rows to the ones after it, so the order matters: the pool of strings is last.
        tables["about"] = columns("about", [(self._value(about),)])
        tables["rows"] = columns("rows", count_progress(map(self._row, events), len(events), "encoding"))
        # What the reader refuses is refused here, where the trace is still available; ids are stored as differences.
        check_events(np.cumsum(tables["rows"]["id"], dtype=np.int64), tables["rows"]["parent"].astype(np.int64))
        tables["refs"] = columns("refs", ((self._tensors.number(tensor),) for tensor in self._refs))
        tables["tensors"] = columns("tensors", map(self._tensor_row, self._tensors.items))
        tables["stats"] = columns("stats", map(_stats_row, self._stats))
        tables["histograms"] = columns("histograms", ((n,) for stats in self._stats for n in stats.histogram))
        tables["modules"] = columns("modules", map(self._module_row, self._modules.items))
        tables["sites"] = columns("sites", map(self._site_row, self._sites.items))
        tables["arrays"] = columns("arrays", map(self._array_row, self._arrays))
        tables["data"] = {"byte": bytes_of(array.tobytes() for array in self._arrays)}
        texts = [text.encode("utf-8", "surrogatepass") for text in self._strings]
        tables["strings"] = columns("strings", [(len(text),) for text in texts])
        tables["text"] = {"byte": bytes_of(texts)}
        return tables

    def _text(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _optional(self, number: Callable[[Any], int], item: object) -> int:
        if item is None:
            return NOTHING
        return number(item)

    def _value(self, value: Any) -> int:
        return self._text(self._json(value))

    def _value_with_tensors(self, value: Any) -> int:
        return self._text(self._json_with_tensors(value))

    def _row(self, event: Event) -> tuple[int, ...]:
        if event.parent == event.id:
            raise StoreError(f"event {event.id} of the trace is its own parent")
        distance = 0 if event.parent is None else event.id - event.parent
        if isinstance(event, Call):
            return self._call_row(event, distance)
        if isinstance(event, Mark):
            return self._mark_row(event, distance)
        return self._variable_row(event, distance)

    def _call_row(self, call: Call, distance: int) -> tuple[int, ...]:
        # A plain tuple in the order of EventRow: by name it takes 2 µs more, for each call of a trace.
        return (
            call.id,
            distance,
            self._text(call.kind),
            self._text(call.name),
            call.start,
            call.thread,
            call.step,
            call.rank,
            self._optional(self._modules.number, call.module),
            self._value_with_tensors(call.args),
            self._value_with_tensors(call.kwargs),
            self._value_with_tensors(call.result),
            self._optional(self._text, call.operator),
            self._optional(self._site, call.site),
            _number(call.duration),
            self._optional(self._text, call.raised),
            self._text(call.phase),
            self._optional(self._site, call.defined),
            NOTHING,  # changes
            self._optional(self._text, call.message),
            _number(call.forward),
            _number(call.flops),
            self._text(call.mode),
        )

    def _mark_row(self, mark: Mark, distance: int) -> EventRow:
        return EventRow(
            id=mark.id,
            parent=distance,
            kind=self._text(mark.kind),
            name=self._text(mark.text),
            start=mark.start,
            thread=mark.thread,
            step=mark.step,
            rank=mark.rank,
        )

    def _variable_row(self, variable: Variable, distance: int) -> EventRow:
        return EventRow(
            id=variable.id,
            parent=distance,
            kind=self._text("variable"),
            name=self._text(variable.name),
            start=variable.start,
            thread=variable.thread,
            step=variable.step,
            rank=variable.rank,
            result=self._value_with_tensors(variable.value),
            site=self._optional(self._site, variable.site),
            changes=self._text(" ".join(variable.changes)),
        )

    def _site(self, site: Site) -> int:
        if site not in self._sites:
            for place in site.chain():  # callers first, so that a caller comes before the sites it calls
                self._sites.number(place)
        return self._sites.number(site)

    def _site_row(self, site: Site) -> SiteRow:
        caller = site.caller
        return SiteRow(
            file=self._text(site.file),
            line=site.line,
            function=self._text(site.function),
            text=self._text(site.text),
            start=_number(site.start),
            end=_number(site.end),
            caller=0 if caller is None else self._sites.number(site) - self._sites.number(caller),
            nesting=self._optional(self._nesting, site.nesting),
        )

    def _nesting(self, nesting: Nesting) -> int:
        """The statement, its loops and arms, as lists."""
        loops = [[loop.line, loop.text] for loop in nesting.loops]
        arms = [[arm.condition, arm.branch, int(arm.is_optional)] for arm in nesting.arms]
        return self._value([nesting.statement, nesting.text, loops, arms, nesting.is_end])

    def _tensor_row(self, facts: TensorFacts) -> tuple[int, ...]:
        # A plain tuple in the order of TensorRow, because there are as many as calls.
        return (
            facts.id,
            self._sizes(facts.shape),
            self._text(facts.dtype),
            self._text(facts.device),
            int(facts.requires_grad),
            self._optional(self._sizes, facts.strides),
            self._text(facts.type),
            _number(facts.producer),
            self._optional(self._stats_number, facts.stats),
            self._optional(self._value, facts.kept),
            self._optional(self._tensors.number, facts.grad),  # which may add a row to this very table
        )

    def _sizes(self, sizes: tuple[int | str, ...]) -> int:
        number = self._shapes.get(sizes)
        if number is None:
            number = self._shapes[sizes] = self._value(tuple(sizes))
        return number

    def _stats_number(self, stats: Stats) -> int:
        self._stats.append(stats)
        return len(self._stats) - 1

    def _module_row(self, facts: ModuleFacts) -> ModuleRow:
        return ModuleRow(
            path=self._text(facts.path),
            type=self._text(facts.type),
            bases=self._value(tuple(facts.bases)),
            settings=self._value(facts.settings),
            parameters=facts.parameters,
            own_parameters=facts.own_parameters,
            trainable=facts.trainable,
            leaf=int(facts.leaf),
        )

    def _array_row(self, array: Array) -> tuple[int, ...]:
        return self._text(array.dtype.str), self._value(array.shape), array.nbytes


def _number(number: int | None) -> int:
    if number is None:
        return NOTHING
    return number


def _stats_row(stats: Stats) -> tuple[float, ...]:
    known = sum(1 << bit for bit, number in enumerate(_numbers_of(stats)) if number is not None)
    filled = (0 if number is None else number for number in _statistics_of(stats))
    return (*filled, known, len(stats.histogram))


def encode(trace: Trace, about: dict[str, Any] | None = None) -> Tables:
    """The trace as tables, with other facts about it if they are given; `decode` makes an equal trace of them."""
    with pause_collector():
        return TraceEncoder().tables(trace.events, trace.about if about is None else about)
