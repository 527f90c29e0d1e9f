"""From tape to events: names, sites, tensor facts, made when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from itertools import count
from typing import Any

import torch

from insitu.capture.calls import FunctionCallee, OperatorCallee, PythonCallee
from insitu.capture.flops import flops
from insitu.capture.forwards import Forwards
from insitu.capture.names import ModuleCallee
from insitu.capture.segment import THREAD_STRIDE, Ids, Segment, adding, numbering
from insitu.capture.sites import Base, Sites
from insitu.capture.step_counter import StepCounter
from insitu.capture.tape import (
    BACKWARD,
    NODE_COUNT,
    OUTERMOST,
    PHASES,
    RUNNING,
    MarkEntry,
    Raised,
    Record,
    Tape,
    VariableEntry,
    node_range,
)
from insitu.capture.tensors import EARLIER, Layout, ParameterValue, RichValue, Value, short_dtype
from insitu.capture.variables.last_values import LastValues
from insitu.trace.collector import collector_paused
from insitu.trace.counting import counted
from insitu.trace.event import (
    Call,
    Change,
    Event,
    Fields,
    Mark,
    ModuleFacts,
    Site,
    Stats,
    TensorFacts,
    Variable,
    Word,
)

SIMPLE = frozenset({int, float, bool, type(None), Word})
VALUES = frozenset({Value, ParameterValue, RichValue})
MOST_TEXT = 200


class Decoder:
    """Turns the records of one session into events, one by one or all at once.

    What it remembers of earlier records is kept by id, so that they may be on a tape no longer.
    """

    def __init__(self, base: Base, *, origin: float, rank: int) -> None:
        self.sites = Sites()
        self.outside = self.sites.chain(base.above, None)
        self.origin, self.rank = origin, rank
        self.steps = StepCounter()
        self.is_live = False
        self.places: dict[int, Place] = {}
        self.last = LastValues()
        # What has changed in records that were looked at before their turn, by their ids.
        self.early: dict[int, tuple[Change, ...]] = {}
        self._forwards: dict[int, Forwards] = {}
        self._numbers: dict[int, int] | None = None
        self._tensor_numbers = count()
        self._decoded: list[Value] = []
        self._layouts: dict[int, tuple[Layout, tuple[Any, ...]]] = {}

    def copy(self) -> Decoder:
        """A decoder that goes on from here, and leaves this one as it is."""
        same = copy(self)
        same.steps, same._tensor_numbers = copy(self.steps), copy(self._tensor_numbers)
        same.places, same.last, same.early = dict(self.places), self.last.copy(), dict(self.early)
        same._layouts = {}
        same._forwards = {thread: forwards.copy() for thread, forwards in self._forwards.items()}
        same._decoded = []
        return same

    def tape(self, tape: Tape, ids: Ids) -> TapeDecoder:
        """The decoder of one tape, whose records have these ids."""
        return TapeDecoder(self, tape, ids)

    def forwards(self, thread: int) -> Forwards:
        """The calls of a thread that made autograd nodes."""
        return self._forwards.setdefault(thread, Forwards())

    def number(self, id: int) -> int:
        """The number that a record gets as an event; -1 for one that began after the numbering."""
        return id if self._numbers is None else self._numbers.get(id, -1)

    @collector_paused()
    def all(self, segments: list[Segment], *, renumber: bool = True) -> list[Event]:
        """Every event of all segments, in the order they began, with numbers from 0 on, or with the ids they have."""
        tapes = [self.tape(segment.tape, segment.ids) for segment in segments]
        found = [(record, tape) for segment, tape in zip(segments, tapes, strict=True) for record in segment.records()]
        is_one_thread = len({segment.tape.thread for segment in segments}) == 1
        if not is_one_thread or not all(segment.ids.is_even for segment in segments):
            found.sort(key=lambda item: (item[0][0], item[1].identity(item[0][1])))
        if renumber:
            self._renumber(found, tapes)
        every = (
            tape.event(at) if parent is None else tape.change(time, at, parent)
            for (time, at, parent), tape in counted(found, len(found), "reading the trace")
        )
        return [event for event in every if event is not None]

    def _renumber(self, found: list[tuple[Record, TapeDecoder]], tapes: list[TapeDecoder]) -> None:
        """Number these records from 0 on."""
        self._numbers = {tape.identity(at): number for number, ((_, at, _), tape) in enumerate(found)}
        for tape in tapes:
            tape.number = numbering(self._numbers, tape.identity)

    def take(self, segment: Segment) -> list[Event]:
        """The events of the next segment, with the ids they have, and remember of them what later ones need."""
        tape = self.tape(segment.tape, segment.ids)
        for _, at, parent in segment.earlier_records():
            tape.remember(at, parent)
        events = self.all([segment], renumber=False)
        tape.forget(segment.begin)
        return events

    def pass_over(self, segment: Segment) -> int:
        """The number of events in the next segment, which nobody will see; remember of them what later ones need."""
        tape, passed = self.tape(segment.tape, segment.ids), 0
        for _, at, parent in segment.tape.records(segment.end, seams=segment.ids.seams):
            is_event = tape.remember(at, parent)
            passed += is_event and at >= segment.begin
        tape.forget(segment.begin)
        return passed

    def release(self) -> None:
        """Forget the facts of all values: the next decoding, with more on the tapes, may number differently."""
        for value in self._decoded:
            value.facts = None
        self._decoded.clear()

    def forget(self) -> None:
        """Drop what is only needed to decode the same tape again."""
        self._layouts.clear()

    def facts(self, value: Value, number: Callable[[int], int]) -> TensorFacts:
        """The facts of a tensor; the same object whenever it is asked for again."""
        if value.facts is None:
            shape, dtype, device, strides = self._layout(value.layout)
            producer = self._producer(value.producer, number)
            facts = TensorFacts(next(self._tensor_numbers), shape, dtype, device, bool(value.requires_grad), strides)
            facts.producer = producer if producer >= 0 else None
            value.facts = facts
            if type(value) is not Value:
                self._enrich(facts, value, number)
            if not self.is_live:
                self._decoded.append(value)
        return value.facts

    def _producer(self, at: int, number: Callable[[int], int]) -> int:
        """The number of the call that made a value; -1 if there is none."""
        if at >= 0:
            return number(at)
        return self.number(EARLIER - at) if at <= EARLIER else -1

    def _enrich(self, facts: TensorFacts, value: Value, number: Callable[[int], int]) -> None:
        """Add the class of the tensor, what was kept of it, and its gradient."""
        if not isinstance(value, RichValue):
            facts.type = "Parameter"
            return
        facts.type = value.kind.__name__
        if isinstance(value.stat, Stats):
            facts.stats = value.stat
        else:
            facts.kept = value.stat
        if value.grad is not None:
            facts.grad = self.facts(value.grad, number)

    def _layout(self, layout: Layout) -> tuple[Any, ...]:
        """Shape, short dtype, device and strides as plain data; strides are None for a contiguous tensor."""
        known = self._layouts.get(id(layout))
        if known is None:
            shape, dtype, device, *strides = layout
            plain = (sizes(shape or ()), short_dtype(dtype), str(device), sizes(strides[0]) if strides else None)
            known = self._layouts[id(layout)] = (layout, plain)
        return known[1]


def sizes(items: Iterable[Any]) -> tuple[int | str, ...]:
    """Sizes or strides as ints, symbolic ones as text."""
    return tuple([item if type(item) is int else str(item) for item in items])


# Where a call was made, the module that it is or that was running, and the step.
Place = tuple[Site | None, ModuleFacts | None, int]


class TapeDecoder:
    """Turns the records of one tape into events.

    With `connects`, operators of a backward pass name the call whose gradient they compute: all records are decoded
    in their order. To read single records it is switched off.
    """

    def __init__(self, decoder: Decoder, tape: Tape, ids: Ids, *, connects: bool = True) -> None:
        self.decoder, self.tape, self.ids = decoder, tape, ids
        self.connects = connects and tape.level == "aten"
        self.identity: Callable[[int], int] = adding(ids.cleared) if ids.is_even else ids
        self.number = self.identity if decoder.is_live else lambda at: decoder.number(self.identity(at))
        self.forwards = decoder.forwards(tape.thread)

    def remember(self, at: int, parent: int | None) -> bool:
        """Remember what later records need of this one, before its turn to be decoded; whether it is an event."""
        if parent is not None:
            id, early = self.identity(at), self.decoder.early
            if id not in early:
                early[id] = self._changes(*self.tape.change(at), parent)
            return bool(early[id])
        is_around_others = self.tape.is_running(at)
        may_begin_step = self.tape.parent(at) == OUTERMOST or type(self.tape.callee(at)) is MarkEntry
        if is_around_others or may_begin_step:
            self.place(at)
        return True

    def forget(self, begin: int) -> None:
        """The tape is cleared from an offset on."""
        first, decoder = self.identity(begin), self.decoder
        gone = range(first, (self.tape.thread + 1) * THREAD_STRIDE)
        decoder.places = {id: place for id, place in decoder.places.items() if id not in gone}
        decoder.last.forget(gone)
        decoder.early = {id: changes for id, changes in decoder.early.items() if id not in gone}

    def change(self, time: float, at: int, parent: int) -> Variable | None:
        """The change of a variable at an offset; None if it is none, because the number is the same."""
        entry, item = self.tape.change(at)
        known = self.decoder.early.get(self.identity(at)) if self.decoder.early else None
        changes = self._changes(entry, item, parent) if known is None else known
        return self.variable(entry, item, changes, self.number(at), parent, time) if changes else None

    def _changes(self, entry: VariableEntry, item: Any, parent: int) -> tuple[Change, ...]:
        around = parent if parent == OUTERMOST else self.identity(parent)
        return self.decoder.last.changes(around, entry, item)

    def variable(
        self, entry: VariableEntry, item: Any, changes: tuple[Change, ...], number: int, parent: int, time: float
    ) -> Variable:
        """The event of a change."""
        site, _, step = self.place(parent) if parent != OUTERMOST else (self.decoder.outside, None, 0)
        point, decoder = entry.point, self.decoder
        return Variable(
            number,
            None if parent == OUTERMOST else self.number(parent),
            entry.name,
            self.plain(item),
            changes,
            decoder.sites.line(point.file, point.line, point.function, site),
            round((time - decoder.origin) * 1e9) if time else 0,
            self.tape.thread,
            step,
            decoder.rank,
        )

    def event(self, at: int) -> Event:
        """The event of the record at an offset."""
        decoder, tape = self.decoder, self.tape
        callee, result, parent, start, end, phase, nodes = tape.head(at)
        site, module, step = self.place(at)
        parent_id = None if parent == OUTERMOST else self.number(parent)
        began = round((start - decoder.origin) * 1e9)
        kind, number = type(callee), self.number(at)
        if kind is MarkEntry:
            return Mark(number, parent_id, callee.mark, callee.text, began, self.tape.thread, step, decoder.rank)
        args, kwargs = self._arguments(callee, at)
        failed, running = result if type(result) is Raised else None, result is RUNNING
        origin = self.forwards.find(nodes) if phase == BACKWARD and kind is OperatorCallee else None
        if self.connects and kind is FunctionCallee and nodes >= NODE_COUNT:
            self.forwards.add(node_range(nodes), number, module)
        call = Call(
            number,
            parent_id,
            callee.kind,
            callee.facts.type if kind is ModuleCallee else callee.name,
            origin.module if origin is not None else module,
            args,
            kwargs,
            None if running or failed else self.plain(result),
            decoder.sites.operator(tape.frames(at)) if kind is FunctionCallee else None,
            site,
            began,
            None if running else round((end - start) * 1e9),
            failed.type if failed else None,
            PHASES[phase],
            self.tape.thread,
            step,
            decoder.rank,
            decoder.sites.definition(callee.code) if kind is PythonCallee and callee.code is not None else None,
            failed.message if failed else None,
            origin.id if origin is not None else None,
        )
        call.flops = flops(call)
        return call

    def _arguments(self, callee: Any, at: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, less those that torch's Python functions only hand on at their defaults."""
        plain = self.plain
        args = tuple([plain(item) for item in self.tape.args(at)])
        flat = self.tape.flat_kwargs(at)
        if not flat and type(callee) is not PythonCallee:
            return args, {}
        kwargs = {flat[index]: plain(flat[index + 1]) for index in range(0, len(flat), 2)}
        if type(callee) is PythonCallee:
            return (), callee.named(args, kwargs)
        if isinstance(callee, FunctionCallee) and callee.defaults:
            kwargs = {name: item for name, item in kwargs.items() if not is_default(callee.defaults, name, item)}
        return args, kwargs

    def place(self, at: int) -> Place:
        """The place of a record; that of its parents is found first, also when they are not complete yet."""
        places, identity, waiting = self.decoder.places, self.identity, []
        id = identity(at)
        place = places.get(id)
        while place is None:
            waiting.append((at, id))
            at = self.tape.parent(at)
            if at == OUTERMOST:
                break
            id = identity(at)
            place = places.get(id)
        for at, id in reversed(waiting):
            place = places[id] = self._place(at, place)
        assert place is not None
        return place

    def _place(self, at: int, outer: Place | None) -> Place:
        callee = self.tape.callee(at)
        site, module, step = outer or (self.decoder.outside, None, None)
        if self.tape.has_own_frames(at):
            site = self.decoder.sites.chain(self.tape.frames(at), site)
        step = self.decoder.steps.of(callee, step, self.tape.start(at))
        return site, callee.facts if isinstance(callee, ModuleCallee) else module, step

    def plain(self, item: Any) -> Any:
        """What was noted of an argument or a result, as plain data."""
        kind = type(item)
        if kind in VALUES:
            return item.facts or self.decoder.facts(item, self.number)
        if kind in SIMPLE:
            return item
        if kind is str:
            return item if len(item) <= MOST_TEXT else item[:MOST_TEXT] + "…"
        if kind is list:
            return [self.plain(part) for part in item]
        if kind is tuple or kind is torch.Size:
            return tuple([self.plain(part) for part in item])
        if kind is dict:
            return {name: self.plain(part) for name, part in item.items()}
        if kind is Fields:
            return Fields(item.type, {name: self.plain(part) for name, part in item.items.items()})
        return self._rest(item)

    @staticmethod
    def _rest(item: Any) -> Any:
        if item is ...:
            return Word("...")
        torch_words = (torch.dtype, torch.device, torch.layout, torch.memory_format)
        return Word(item) if isinstance(item, torch_words) else item


def is_default(defaults: dict[str, Any], name: str, item: Any) -> bool:
    """Whether a keyword argument was handed on at its default, or is torch's own business (`_stacklevel`)."""
    return name in defaults and (
        name.startswith("_") or (type(item) is type(defaults[name]) and item == defaults[name])
    )
