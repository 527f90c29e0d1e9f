"""Live delivery: each event is decoded and handed to the sinks as soon as it is complete, and then forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from time import perf_counter
from typing import Any
from weakref import WeakSet

from insitu.capture.decode import Decoder
from insitu.capture.deferral import Deferral
from insitu.capture.explain.note import save_waiting_tapes
from insitu.capture.probe import Probe, Trouble
from insitu.capture.segment import THREAD_STRIDE, Ids
from insitu.capture.tape import OUTERMOST, MarkEntry, VariableEntry
from insitu.capture.tape_decoder import TapeDecoder
from insitu.capture.tensors import GIVEN, RichValue, with_roots
from insitu.operating_system import at_fork
from insitu.trace.event import Event

Sink = Callable[[Event], None]

# How long a tape may grow before it is cleared between outermost calls, and inside of one: that may be a training.
CLEAR_AT, CLEAR_INSIDE = 1 << 12, 1 << 16
MOST_WAITING = 1 << 14  # events whose numbers wait on a device
# The ids of changes of variables, which take no room on the tape.
CHANGES_FROM = 1 << 39


running: WeakSet[Live] = WeakSet()


def renew_locks() -> None:
    """This process is the child of a fork, and whoever held the locks is not here."""
    for live in running:
        live._lock = threading.RLock()


at_fork(after_in_child=renew_locks)


class Live:
    """Hands on the events of one recording."""

    def __init__(
        self, decoder: Decoder, sinks: tuple[Sink, ...], trouble: Trouble, deferral: Deferral | None = None
    ) -> None:
        running.add(self)
        decoder.values.is_live = True
        self.decoder, self.sinks, self.trouble = decoder, sinks, trouble
        self._tapes: dict[int, tuple[TapeDecoder, Ids]] = {}
        self._lock = threading.RLock()
        self._changes = count()
        self._waiting: list[Callable[[], None]] | None = None if deferral is None else []

    def close(self, probe: Probe, at: int) -> None:
        """The record at an offset is complete: called by the probe."""
        with self._paused(probe):
            tape, ids = self._tape(probe)
            self._do_now_or_later(lambda: self._hand_on(tape.event(at)))
            # A mark may be made in the middle of a call.
            is_mark = type(probe.tape.callee(at)) is MarkEntry
            if len(probe.tape) > CLEAR_AT and is_long(probe, at, ids.begin) and not is_mark:
                self._hand_on_all()
                self._clear(probe, tape, ids)

    def _do_now_or_later(self, hand_on: Callable[[], None]) -> None:
        """Hand on an event; where numbers wait on a device, once they have come over."""
        if self._waiting is None:
            hand_on()
            return
        self._waiting.append(hand_on)
        if len(self._waiting) > MOST_WAITING:
            self._hand_on_all()

    def _hand_on_all(self) -> None:
        """Hand on the events that wait; whatever they need of a device comes over now."""
        if self._waiting is None:
            return
        waiting, self._waiting = self._waiting, []
        for hand_on in waiting:
            hand_on()

    def deliver(self) -> None:
        """What waited on the devices has come over: hand on the events that waited for it."""
        with self._lock:
            self._hand_on_all()

    def open(self, probe: Probe, at: int) -> None:
        """The call of a watched function begins: for sinks that show it at once."""
        with self._paused(probe):
            sinks = [opened for sink in self.sinks if (opened := getattr(sink, "opened", None)) is not None]
            if sinks:
                tape = self._tape(probe)[0]
                self._do_now_or_later(lambda: self._hand_on(tape.event(at, is_open=True), sinks))

    def change(self, probe: Probe, entry: VariableEntry, value: Any) -> None:
        """A variable has changed."""
        with self._paused(probe):
            number = probe.tape.thread * THREAD_STRIDE + CHANGES_FROM + next(self._changes)
            tape, _ = self._tape(probe)
            changes, parent, time = entry.changes or (), probe.parent, probe.clock()
            self._do_now_or_later(lambda: self._hand_on(tape.variable(entry, value, changes, number, parent, time)))

    @contextmanager
    def _paused(self, probe: Probe) -> Iterator[None]:
        """Run sinks with recording paused: their time is not counted, and their errors do not reach the user's code."""
        began = perf_counter()
        taking, paused = probe.taking, probe.paused
        probe.taking, probe.paused = False, True
        try:
            with self._lock:
                yield
        except Exception as error:
            self.trouble("handing on an event", error)
        finally:
            probe.taking, probe.paused = taking, paused
            probe.spent += perf_counter() - began

    def _hand_on(self, event: Event, sinks: Iterable[Sink] | None = None) -> None:
        """Give an event to all sinks; one that fails gets no more."""
        for sink in self.sinks if sinks is None else sinks:
            try:
                sink(event)
            except RecursionError as error:  # the user's stack is full just now
                self.trouble("handing on an event", error)
            except Exception as error:
                self.sinks = tuple(other for other in self.sinks if other is not sink)
                self.trouble("handing on an event", error)

    def _tape(self, probe: Probe) -> tuple[TapeDecoder, Ids]:
        if id(probe) not in self._tapes:
            ids = Ids(probe.tape.thread * THREAD_STRIDE)
            self._tapes[id(probe)] = (self.decoder.tape(probe.tape, ids), ids)
        return self._tapes[id(probe)]

    def cleared(self, probe: Probe) -> tuple[int, int]:
        """From where on the tape was cleared last, and how much of it so far: what ids count on from."""
        ids = self._tape(probe)[1]
        return ids.begin, ids.cleared

    def _clear(self, probe: Probe, tape: TapeDecoder, ids: Ids) -> None:
        """Forget what is on the tape after the last call that has not returned. The tensors that are still there get
        their facts now, while offsets mean something."""
        begin = probe.tape.end_of_running()
        save_waiting_tapes(probe)
        alive = {key: value for key, value in probe.table.items() if value() is not None}
        for value in with_roots(alive.values()):
            tape.plain(value)
            if value.producer >= begin:
                value.producer = GIVEN  # its facts know better; the offset means nothing any more
            if isinstance(value, RichValue):
                value.tape_length = 0
        probe.table.clear()
        probe.table.update(alive)
        probe.writes.clear()
        tape.forget(begin)
        ids.clear(begin, len(probe.tape))
        tape.identity = tape.number = ids
        del probe.tape[begin:]
        probe.codes.clear()
        self.decoder.values.forget()


def is_long(probe: Probe, at: int, begin: int) -> bool:
    """Whether a tape is to be cleared, now that the call at an offset has ended; last time it was from `begin` on.

    Between outermost calls all of it can go. Inside of one it is tried when much was added since, and when one of the
    calls has ended that had to stay, if so much can go with it that it is worth to look through all of the tape.
    """
    if probe.parent == OUTERMOST and not probe.suspended:
        return True
    length = len(probe.tape)
    if length <= CLEAR_INSIDE:
        return False
    is_worth = at < begin and probe.parent < begin // 2  # what runs ends there: a recursion halves its tape each time
    return is_worth or length > begin + CLEAR_INSIDE
