"""From tape to events: names, sites, tensor facts, made when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

import torch

from insitu.capture.calls import FunctionNote, OperatorNote, PythonNote
from insitu.capture.flops import flops
from insitu.capture.forwards import Forwards
from insitu.capture.names import ModuleNote
from insitu.capture.probe import Probe
from insitu.capture.sites import Base, Sites
from insitu.capture.tape import (
    ARGS,
    BACKWARD,
    ENTERED,
    FIXED,
    FRAMES,
    INHERITED,
    KWARGS,
    LEFT,
    NODE_COUNT,
    NOTE,
    OUTERMOST,
    PARENT,
    PHASES,
    RUNNING,
    SHORT,
    START,
    MarkNote,
    Raised,
    Tape,
    VariableNote,
)
from insitu.capture.tensors import Layout, ParameterValue, RichValue, Value, short_dtype
from insitu.follow.watched import is_same_atom
from insitu.trace.collector import collector_paused
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


# When it began, its offset and, for the change of a variable, the call it lies in.
Record = tuple[float, int, int | None]
CONTAINING = (PythonNote, ModuleNote)
ABSENT, OTHER = object(), object()


def records(tape: Tape, end: int | None = None) -> Iterator[Record]:
    """Every record of a tape. A change has no time of its own: it gets that of what came before."""
    at, end, time = 0, len(tape) if end is None else end, 0.0
    running: list[int] = []  # as far as it is known, which matters only where variables are followed
    while at + SHORT <= end:
        note = tape[at]
        if type(note) is VariableNote:
            yield time, at, running[-1] if running else OUTERMOST
            at += SHORT
            continue
        if note is LEFT or note is ENTERED:
            if note is ENTERED:
                running.append(tape[at + 1])
            elif tape[at + 1] in running:
                del running[running.index(tape[at + 1]) :]
            at += SHORT
            continue
        following = end_of(tape, at)
        if following > end:  # another thread is writing it
            return
        time = tape[at + START]
        yield time, at, None
        if isinstance(note, CONTAINING):
            around = tape[at + PARENT]
            while around != OUTERMOST and not isinstance(tape[around], CONTAINING):
                around = tape[around + PARENT]
            while running and running[-1] != around:
                running.pop()
            running.append(at)
        at = following


def end_of(tape: Tape, at: int) -> int:
    """Where the record of a call ends."""
    return int(at + FIXED + tape[at + ARGS] + tape[at + KWARGS] + max(tape[at + FRAMES], 0))


class Steps:
    """Counts the steps: each outermost call of the subject is one, until a mark has said where they begin."""

    def __init__(self) -> None:
        self.current = 0
        self._said = self._begun = self._called = False

    def of(self, note: Any, inherited: int | None) -> int:
        """The step of a record; `inherited` is that of its parent, None for an outermost one."""
        if isinstance(note, MarkNote) and note.mark == "step":
            self.current += self._begun or self._said
            self._said = True
        elif inherited is None and not self._said and isinstance(note, ModuleNote) and note.subject:
            self.current += self._called
            self._called = True
        self._begun = True
        return self.current if inherited is None or self._said else inherited


class Decoder:
    """Turns the records of one session into events, one by one or all at once."""

    def __init__(self, base: Base, *, origin: float, rank: int) -> None:
        self.sites = Sites()
        self.outside = self.sites.chain(base.above, None)
        self.origin, self.rank = origin, rank
        self.steps = Steps()
        self.is_live = False
        self._tensor_numbers = count()
        self._decoded: list[Value] = []
        self._layouts: dict[int, tuple[Layout, tuple[Any, ...]]] = {}

    def tape(self, probe: Probe, number: Callable[[int], int]) -> TapeDecoder:
        """The decoder of one tape, which numbers its records so."""
        return TapeDecoder(self, probe, number)

    @collector_paused()
    def all(self, probes: list[Probe]) -> list[Event]:
        """Every event of all tapes, in the order they began, with ids from 0 on."""
        found = [(record, index) for index, probe in enumerate(probes) for record in records(probe.tape, probe.end)]
        if len(probes) > 1:
            found.sort(key=lambda item: item[0][0])
        numbers: list[dict[int, int]] = [{} for _ in probes]
        for number, ((_, at, _), index) in enumerate(found):
            numbers[index][at] = number
        tapes = [self.tape(probe, _numbering(numbers[index])) for index, probe in enumerate(probes)]
        every = (
            tapes[index].event(at) if parent is None else tapes[index].change(time, at, parent)
            for (time, at, parent), index in found
        )
        events = [event for event in every if event is not None]
        self.release()
        return events

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
            producer = number(value.producer) if value.producer >= 0 else -1
            facts = TensorFacts(next(self._tensor_numbers), shape, dtype, device, bool(value.requires_grad), strides)
            facts.producer = producer if producer >= 0 else None
            value.facts = facts
            if type(value) is not Value:
                self._enrich(facts, value, number)
            if not self.is_live:
                self._decoded.append(value)
        return value.facts

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
    """Turns the records of one tape into events."""

    def __init__(self, decoder: Decoder, probe: Probe, number: Callable[[int], int]) -> None:
        self.decoder, self.probe, self.number = decoder, probe, number
        self.forwards = Forwards()
        self._places: dict[int, Place] = {}
        # What each variable of each watched call was, as far as it is found out here: a number, or OTHER.
        self._last: dict[tuple[int, str, str], Any] = {}

    def forget(self, begin: int) -> None:
        """The tape was cleared from an offset on."""
        self._places = {at: place for at, place in self._places.items() if at < begin}
        self._last.clear()

    def change(self, time: float, at: int, parent: int) -> Variable | None:
        """The change of a variable at an offset; None if it is none, because the number is the same."""
        note, item = self.probe.tape[at : at + SHORT]
        changes = self._changes(note, item, parent)
        return self.variable(note, item, changes, self.number(at), parent, time) if changes else None

    def _changes(self, note: VariableNote, item: Any, parent: int) -> tuple[Change, ...]:
        key = (parent, note.point.function, note.name)
        before = self._last.get(key, ABSENT)
        if note.changes is not None:
            self._last[key] = ABSENT if note.changes == ("deleted",) else OTHER
            was_number = before is not ABSENT and before is not OTHER
            return ("type",) if was_number and note.changes not in ((), ("deleted",)) else note.changes
        self._last[key] = item
        if note.point.moment == "given":
            return ()
        if before is ABSENT:
            return ("new",)
        if type(before) is not type(item):
            return ("type",)
        return () if is_same_atom(item, before) else ("values",)

    def variable(
        self, note: VariableNote, item: Any, changes: tuple[Change, ...], number: int, parent: int, time: float
    ) -> Variable:
        """The event of a change."""
        site, _, step = self.place(parent) if parent != OUTERMOST else (self.decoder.outside, None, 0)
        point, decoder = note.point, self.decoder
        return Variable(
            number,
            None if parent == OUTERMOST else self.number(parent),
            note.name,
            self.plain(item),
            changes,
            decoder.sites.line(point.file, point.line, point.function, site),
            round((time - decoder.origin) * 1e9) if time else 0,
            self.probe.thread,
            step,
            decoder.rank,
        )

    def event(self, at: int) -> Event:
        """The event of the record at an offset."""
        decoder, tape = self.decoder, self.probe.tape
        note, result, parent, start, end, phase, nodes, *_ = tape[at : at + FIXED]
        site, module, step = self.place(at)
        parent_id = None if parent == OUTERMOST else self.number(parent)
        began = round((start - decoder.origin) * 1e9)
        kind, number = type(note), self.number(at)
        if kind is MarkNote:
            return Mark(number, parent_id, note.mark, note.text, began, self.probe.thread, step, decoder.rank)
        args, kwargs = self._arguments(note, at)
        failed, running = result if type(result) is Raised else None, result is RUNNING
        origin = self.forwards.find(nodes) if phase == BACKWARD and kind is OperatorNote else None
        if nodes >= NODE_COUNT and kind is FunctionNote and self.probe.level == "aten":
            self.forwards.add(nodes, number, module)
        call = Call(
            number,
            parent_id,
            note.kind,
            note.facts.type if kind is ModuleNote else note.name,
            origin.module if origin is not None else module,
            args,
            kwargs,
            None if running or failed else self.plain(result),
            decoder.sites.operator(self._pairs(at)) if kind is FunctionNote else None,
            site,
            began,
            None if running else round((end - start) * 1e9),
            failed.type if failed else None,
            PHASES[phase],
            self.probe.thread,
            step,
            decoder.rank,
            decoder.sites.definition(note.code) if kind is PythonNote and note.code is not None else None,
            failed.message if failed else None,
            origin.id if origin is not None else None,
        )
        call.flops = flops(call)
        return call

    def _arguments(self, note: Any, at: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, less those that torch's Python functions only hand on at their defaults."""
        tape, plain = self.probe.tape, self.plain
        first = at + FIXED
        last = first + tape[at + ARGS]
        args = tuple([plain(item) for item in tape[first:last]])
        if not tape[at + KWARGS] and type(note) is not PythonNote:
            return args, {}
        flat = tape[last : last + tape[at + KWARGS]]
        kwargs = {flat[index]: plain(flat[index + 1]) for index in range(0, len(flat), 2)}
        if type(note) is PythonNote:
            return (), note.named(args, kwargs)
        if isinstance(note, FunctionNote) and note.defaults:
            kwargs = {name: item for name, item in kwargs.items() if not is_default(note.defaults, name, item)}
        return args, kwargs

    def _pairs(self, at: int) -> Sequence[Any]:
        """The stack of a record, as far as it has one of its own."""
        tape = self.probe.tape
        first = at + FIXED + tape[at + ARGS] + tape[at + KWARGS]
        return tape[first : first + max(tape[at + FRAMES], 0)]

    def place(self, at: int) -> Place:
        """The place of a record; that of its parents is found first, also when they are not complete yet."""
        chain = []
        while at != OUTERMOST and at not in self._places:
            chain.append(at)
            at = self.probe.tape[at + PARENT]
        place = self._places[at] if at != OUTERMOST else None
        for at in reversed(chain):
            place = self._places[at] = self._place(at, place)
        assert place is not None
        return place

    def _place(self, at: int, outer: Place | None) -> Place:
        note = self.probe.tape[at + NOTE]
        site, module, step = outer or (self.decoder.outside, None, None)
        if self.probe.tape[at + FRAMES] != INHERITED:
            site = self.decoder.sites.chain(self._pairs(at), site)
        step = self.decoder.steps.of(note, step)
        return site, note.facts if isinstance(note, ModuleNote) else module, step

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


def _numbering(numbers: dict[int, int]) -> Callable[[int], int]:
    return lambda at: numbers.get(at, -1)  # a producer that began after the numbering has none yet
