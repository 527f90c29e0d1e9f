"""From the records of one tape to events: names, sites, arguments, made when somebody asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from insitu.capture.calls import FunctionCallee, OperatorCallee, PythonCallee
from insitu.capture.compiled_graphs.graph_session import GraphCallee
from insitu.capture.flops import flops
from insitu.capture.names import ModuleCallee
from insitu.capture.segment import THREAD_STRIDE, Ids, adding
from insitu.capture.tape import (
    BACKWARD,
    COMPILED,
    NODE_COUNT,
    OUTERMOST,
    PHASES,
    RUNNING,
    MarkEntry,
    Raised,
    Tape,
    VariableEntry,
    node_range,
)
from insitu.capture.tensors import DeferredValue, ParameterValue, RichValue, Value
from insitu.trace.event import Call, Change, Event, Fields, Mark, Mode, ModuleFacts, Site, Variable, Word

if TYPE_CHECKING:
    from insitu.capture.decode import Decoder

SIMPLE = frozenset({int, float, bool, type(None), Word})
VALUES = frozenset({Value, ParameterValue, RichValue, DeferredValue})
MOST_TEXT = 200
# Where a call was made, the module that it is or that was running, the step, and whether it is inside a `torch.vmap`.
Place = tuple[Site | None, ModuleFacts | None, int, bool]


class TapeDecoder:
    """Turns the records of one tape into events.

    With `connects`, operators of a backward pass name the call whose gradient they compute: all records are decoded
    in their order. To read single records it is switched off.
    """

    def __init__(self, decoder: Decoder, tape: Tape, ids: Ids, *, connects: bool = True) -> None:
        self.decoder, self.tape, self.ids = decoder, tape, ids
        self.connects = connects and tape.level == "aten"
        self.identity: Callable[[int], int] = adding(ids.cleared) if ids.is_even else ids
        self.number = self.identity if decoder.values.is_live else lambda at: decoder.number(self.identity(at))
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
        """The change of a variable at an offset; None if its value is an equal number."""
        entry, item = self.tape.change(at)
        changes = self.decoder.early.get(self.identity(at))
        if changes is None:
            changes = self._changes(entry, item, parent)
        if not changes:
            return None
        return self.variable(entry, item, changes, self.number(at), parent, time)

    def _changes(self, entry: VariableEntry, item: Any, parent: int) -> tuple[Change, ...]:
        around = parent if parent == OUTERMOST else self.identity(parent)
        return self.decoder.last.changes(around, entry, item)

    def variable(
        self, entry: VariableEntry, item: Any, changes: tuple[Change, ...], number: int, parent: int, time: float
    ) -> Variable:
        """The event of a change."""
        point, decoder = entry.point, self.decoder
        site, step, parent_number = decoder.outside, 0, None
        if parent != OUTERMOST:
            site, _, step, _ = self.place(parent)
            parent_number = self.number(parent)
        return Variable(
            number,
            parent_number,
            entry.name,
            self.plain(item),
            changes,
            decoder.sites.line(point.file, point.line, point.function, site),
            round((time - decoder.origin) * 1e9) if time else 0,
            self.tape.thread,
            step,
            decoder.rank,
        )

    def event(self, at: int, *, is_open: bool = False) -> Event:
        """The event of the call or mark at an offset; with `is_open`, as it was before the call ended."""
        decoder, thread = self.decoder, self.tape.thread
        callee, result, parent, start, end, phase, nodes, positional, keywords, frames = self.tape.record(at)
        number, began, parent_number = self.number(at), round((start - decoder.origin) * 1e9), None
        outer = None
        if parent != OUTERMOST:
            parent_number, outer = self.number(parent), self.place(parent)
        id = self.identity(at)
        place = decoder.places.get(id)
        if place is None:
            place = decoder.places[id] = self._place(callee, start, frames, outer)
        site, module, step, is_vmapped = place
        kind = type(callee)
        if kind is MarkEntry:
            return Mark(number, parent_number, callee.mark, callee.text, began, thread, step, decoder.rank)
        args, kwargs = self._arguments(callee, positional, keywords)
        call = Call(
            number,
            parent_number,
            callee.kind,
            callee.facts.type if kind is ModuleCallee else callee.name,
            module,
            args,
            kwargs,
            None,
            decoder.sites.operator(frames) if frames and kind is FunctionCallee else None,
            site,
            began,
            None,
            None,
            PHASES[phase],
            thread,
            step,
            decoder.rank,
        )
        if result is not RUNNING and not is_open:
            call.duration = round((end - start) * 1e9) if end != start or kind is not GraphCallee else None
            self._end(call, result)
        if kind is PythonCallee and callee.code is not None:
            call.defined = decoder.sites.definition(callee.code)
        if nodes or phase == BACKWARD:
            self._connect(call, callee, nodes)
        call.flops = flops(call)
        if is_vmapped or phase == COMPILED or kind is GraphCallee:
            call.mode = unusual_mode(phase, kind)
        return call

    def _end(self, call: Call, result: Any) -> None:
        """Add how a call ended."""
        if type(result) is Raised:
            call.raised, call.message = result.type, result.message
        else:
            call.result = self.plain(result)

    def _connect(self, call: Call, callee: Any, nodes: int) -> None:
        """Remember the autograd nodes that a call made; name the call that made the node of a backward operator."""
        kind = type(callee)
        if kind is FunctionCallee:
            self._remember_forward(call, nodes)
        elif kind is OperatorCallee and call.phase == PHASES[BACKWARD]:
            self._name_forward(call, nodes)

    def _remember_forward(self, call: Call, nodes: int) -> None:
        if self.connects and nodes >= NODE_COUNT:
            self.forwards.add(node_range(nodes), call.id, call.module)

    def _name_forward(self, call: Call, node: int) -> None:
        origin = self.forwards.find(node)
        if origin is not None:
            call.module, call.forward = origin.module, origin.id

    def _arguments(
        self, callee: Any, positional: list[Any], keywords: list[Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, less those that torch's Python functions only hand on at their defaults."""
        args, kwargs = self.plain_tuple(positional), {}
        if keywords:
            kwargs = dict(zip(keywords[::2], self.plain_list(keywords[1::2]), strict=True))
        kind = type(callee)
        if kind is PythonCallee:
            return (), callee.by_name(args, kwargs)
        if kind is FunctionCallee and kwargs and callee.defaults:
            kwargs = {name: item for name, item in kwargs.items() if not is_default(callee.defaults, name, item)}
        return args, kwargs

    def place(self, at: int) -> Place:
        """The place of a record; that of its parents is found first, even if they are not complete yet."""
        places, identity, waiting = self.decoder.places, self.identity, []
        place = places.get(identity(at))
        while place is None:
            waiting.append(at)
            at = self.tape.parent(at)
            if at == OUTERMOST:
                break
            place = places.get(identity(at))
        for at in reversed(waiting):
            callee, _, _, start, _, _, _, _, _, frames = self.tape.record(at)
            place = places[identity(at)] = self._place(callee, start, frames, place)
        assert place is not None
        return place

    def _place(self, callee: Any, start: float, frames: list[Any] | None, outer: Place | None) -> Place:
        """The place of a call or mark in the place of its parent."""
        decoder = self.decoder
        site, module, step, is_vmapped = outer or (decoder.outside, None, None, False)
        if frames is not None:
            site = decoder.sites.chain(frames, site)
            is_vmapped = is_vmapped or decoder.sites.is_vmapped(frames)
        if type(callee) is ModuleCallee:
            module = callee.facts
        elif type(callee) is GraphCallee:
            site, module = callee.site(decoder.sites, site), callee.module(module)
        return site, module, decoder.steps.of(callee, step, start), is_vmapped

    def plain(self, item: Any) -> Any:
        """What a record holds of an argument or a result, as plain data."""
        kind = type(item)
        if kind in VALUES:
            return item.facts or self.decoder.values.facts(item, self)
        if kind in SIMPLE:
            return item
        decode = CONTAINERS.get(kind)
        if decode is not None:
            return decode(self, item)
        if kind in WORDS:
            return Word(item)
        return item

    def plain_list(self, item: list[Any]) -> list[Any]:
        """A list as plain data."""
        return [self.plain(part) for part in item]

    def plain_tuple(self, item: Sequence[Any]) -> tuple[Any, ...]:
        """A tuple as plain data."""
        return tuple([self.plain(part) for part in item])

    def plain_dict(self, item: dict[str, Any]) -> dict[str, Any]:
        """A dict as plain data."""
        return {name: self.plain(part) for name, part in item.items()}

    def plain_fields(self, item: Fields) -> Fields:
        """An object with fields as plain data."""
        return Fields(item.type, self.plain_dict(item.items))

    def plain_text(self, item: str) -> str:
        """The beginning of a text."""
        if len(item) <= MOST_TEXT:
            return item
        return item[:MOST_TEXT] + "…"


CONTAINERS: dict[type, Callable[[TapeDecoder, Any], Any]] = {
    str: TapeDecoder.plain_text,
    list: TapeDecoder.plain_list,
    tuple: TapeDecoder.plain_tuple,
    torch.Size: TapeDecoder.plain_tuple,
    dict: TapeDecoder.plain_dict,
    Fields: TapeDecoder.plain_fields,
    type(...): lambda decoder, item: Word("..."),
}
WORDS = frozenset({torch.dtype, torch.device, torch.layout, torch.memory_format})


def unusual_mode(phase: int, kind: type) -> Mode:
    """The mode of a call that is compiled, or inside a `torch.vmap`. Operators there see the whole batch."""
    if phase == COMPILED or kind is GraphCallee:
        return "compiled"
    if kind is OperatorCallee:
        return "eager"
    return "vmap"


def is_default(defaults: dict[str, Any], name: str, item: Any) -> bool:
    """Whether a keyword argument was handed on at its default, or is torch's own business (`_stacklevel`)."""
    if name not in defaults:
        return False
    default = defaults[name]
    is_equal = type(item) is type(default) and item == default
    return is_equal or name.startswith("_")
