"""A trace into tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import numpy as np

from insitu.errors import StoreError
from insitu.store.json_writer import JsonWriter
from insitu.store.stored_type import Array
from insitu.store.trace.cycles import check_events
from insitu.store.trace.schema import Tables, bytes_of, columns
from insitu.trace.collector import collector_paused
from insitu.trace.counting import counted
from insitu.trace.event import NUMBERS, STATISTICS, Call, Event, Mark, ModuleFacts, Site, Stats, TensorFacts, Variable
from insitu.trace.trace import Trace

T = TypeVar("T")


class _Seen(Generic[T]):
    """Objects by identity, numbered in the order they were met."""

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


class Encoder:
    """Collects what the events refer to while the rows are made; the tables are written from the top down."""

    def __init__(self) -> None:
        self.strings: dict[str, int] = {}
        self.modules: _Seen[ModuleFacts] = _Seen()
        self.sites: _Seen[Site] = _Seen()
        self.tensors: _Seen[TensorFacts] = _Seen()
        self.stats: list[Stats] = []
        self.arrays: list[Array] = []
        self.refs: list[TensorFacts] = []
        self.write = JsonWriter(self.arrays).json
        self.write_traced = JsonWriter(self.arrays, self.refs).json
        self.shapes: dict[tuple[int | str, ...], int] = {}

    def tables(self, events: list[Event], about: dict[str, Any]) -> Tables:
        tables: Tables = {}
        # Each table adds rows to the ones after it, so the order matters: the pool of strings is last.
        tables["about"] = columns("about", [(self.value(about),)])
        tables["rows"] = columns("rows", counted(map(self.row, events), len(events), "encoding"))
        # What the reader refuses is refused here, where the trace is still at hand; ids are stored as differences.
        check_events(np.cumsum(tables["rows"]["id"], dtype=np.int64), tables["rows"]["parent"].astype(np.int64))
        tables["refs"] = columns("refs", ((self.tensors.number(tensor),) for tensor in self.refs))
        tables["tensors"] = columns("tensors", map(self.tensor, self.tensors.items))
        tables["stats"] = columns("stats", map(_stats_row, self.stats))
        tables["histograms"] = columns("histograms", ((n,) for stats in self.stats for n in stats.histogram))
        tables["modules"] = columns("modules", map(self.module, self.modules.items))
        tables["sites"] = columns("sites", map(self.place, self.sites.items))
        tables["arrays"] = columns("arrays", map(self.array, self.arrays))
        tables["data"] = {"byte": bytes_of(array.tobytes() for array in self.arrays)}
        texts = [text.encode("utf-8", "surrogatepass") for text in self.strings]
        tables["strings"] = columns("strings", [(len(text),) for text in texts])
        tables["text"] = {"byte": bytes_of(texts)}
        return tables

    def text(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def maybe(self, number: Callable[[Any], int], item: object) -> int:
        return -1 if item is None else number(item)

    def value(self, value: Any) -> int:
        return self.text(self.write(value))

    def traced(self, value: Any) -> int:
        return self.text(self.write_traced(value))

    def row(self, event: Event) -> tuple[int, ...]:
        if event.parent == event.id:
            raise StoreError(f"event {event.id} of the trace is its own parent")
        distance = 0 if event.parent is None else event.id - event.parent
        if isinstance(event, Mark):
            return (
                *(event.id, distance, self.text(event.kind), self.text(event.text), -1, -1, -1, -1, -1),
                *(-1, event.start, -1, -1, -1, event.thread, event.step, event.rank, -1, -1, -1, -1, -1),
            )
        if isinstance(event, Variable):
            return self.variable(event, distance)
        return self.call(event, distance)

    def call(self, call: Call, distance: int) -> tuple[int, ...]:
        return (
            *(call.id, distance, self.text(call.kind), self.text(call.name)),
            *(self.maybe(self.modules.number, call.module), self.traced(call.args), self.traced(call.kwargs)),
            *(self.traced(call.result), self.maybe(self.text, call.operator), self.maybe(self.site, call.site)),
            *(call.start, _known(call.duration), self.maybe(self.text, call.raised), self.text(call.phase)),
            *(call.thread, call.step, call.rank, self.maybe(self.site, call.defined), -1),
            *(self.maybe(self.text, call.message), _known(call.forward), _known(call.flops)),
        )

    def variable(self, variable: Variable, distance: int) -> tuple[int, ...]:
        return (
            *(variable.id, distance, self.text("variable"), self.text(variable.name), -1, -1, -1),
            *(self.traced(variable.value), -1, self.maybe(self.site, variable.site), variable.start, -1, -1, -1),
            *(variable.thread, variable.step, variable.rank, -1, self.text(" ".join(variable.changes)), -1, -1, -1),
        )

    def site(self, site: Site) -> int:
        if site not in self.sites:
            for place in site.chain():  # callers first, so that a caller stands before whom it calls
                self.sites.number(place)
        return self.sites.number(site)

    def place(self, site: Site) -> tuple[int, ...]:
        caller = site.caller
        return (
            *(self.text(site.file), site.line, self.text(site.function), self.text(site.text)),
            *(_known(site.start), _known(site.end)),
            0 if caller is None else self.sites.number(site) - self.sites.number(caller),
        )

    def tensor(self, facts: TensorFacts) -> tuple[int, ...]:
        return (
            *(facts.id, self.sizes(facts.shape), self.text(facts.dtype), self.text(facts.device)),
            *(int(facts.requires_grad), self.maybe(self.sizes, facts.strides), self.text(facts.type)),
            *(_known(facts.producer), self.maybe(self.stat, facts.stats), self.maybe(self.value, facts.kept)),
            self.maybe(self.tensors.number, facts.grad),  # which may add a row to this very table
        )

    def sizes(self, sizes: tuple[int | str, ...]) -> int:
        number = self.shapes.get(sizes)
        if number is None:
            number = self.shapes[sizes] = self.value(tuple(sizes))
        return number

    def stat(self, stats: Stats) -> int:
        self.stats.append(stats)
        return len(self.stats) - 1

    def module(self, facts: ModuleFacts) -> tuple[int, ...]:
        return (
            *(self.text(facts.path), self.text(facts.type), self.value(tuple(facts.bases)), self.value(facts.settings)),
            *(facts.parameters, facts.own_parameters, facts.trainable, int(facts.leaf)),
        )

    def array(self, array: Array) -> tuple[int, ...]:
        return self.text(array.dtype.str), self.value(array.shape), array.nbytes


def _known(number: int | None) -> int:
    return -1 if number is None else number


def _stats_row(stats: Stats) -> tuple[float, ...]:
    numbers = (getattr(stats, row.name) for row in STATISTICS)
    known = sum(1 << bit for bit, row in enumerate(NUMBERS) if getattr(stats, row.name) is not None)
    return (*(0 if number is None else number for number in numbers), known, len(stats.histogram))


def encode(trace: Trace, about: dict[str, Any] | None = None) -> Tables:
    """The trace as tables, with other facts about it if there are any; `decode` makes an equal trace of them."""
    with collector_paused():
        return Encoder().tables(trace.events, trace.about if about is None else about)
