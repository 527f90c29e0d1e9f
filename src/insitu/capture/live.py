"""Live delivery: each event is decoded and handed to the sinks as soon as it is complete, and then forgotten."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from time import perf_counter
from typing import Any
from weakref import WeakSet

from insitu.capture.decode import Decoder, TapeDecoder
from insitu.capture.explain.notes import settle
from insitu.capture.probe import Probe, Trouble
from insitu.capture.tape import OUTERMOST, VariableNote
from insitu.capture.tensors import GIVEN
from insitu.trace.event import Event, Mark

Sink = Callable[[Event], None]

# How long a tape may grow before it is cleared, which can only be done between outermost calls.
CLEAR_AT = 4096
# Ids count on from thread to thread and from tape to tape.
THREAD_STRIDE = 1 << 40
# The ids of changes of variables, which take no room on the tape.
CHANGES_FROM = 1 << 39


running: WeakSet[Live] = WeakSet()


def renew_locks() -> None:
    """This process is the child of a fork, and whoever held the locks is not here."""
    for live in running:
        live._lock = threading.RLock()


os.register_at_fork(after_in_child=renew_locks)


class Live:
    """Hands on the events of one recording."""

    def __init__(self, decoder: Decoder, sinks: tuple[Sink, ...], trouble: Trouble) -> None:
        running.add(self)
        decoder.is_live = True
        self.decoder, self.sinks, self.trouble = decoder, sinks, trouble
        self._tapes: dict[int, tuple[TapeDecoder, list[int]]] = {}
        self._lock = threading.RLock()
        self._changes = count()

    def close(self, probe: Probe, at: int) -> None:
        """The record at an offset is complete: called by the probe."""
        with self._unheard(probe):
            tape, cleared = self._tape(probe)
            event = tape.event(at)
            self._hand_on(event)
            # A mark may be made in the middle of a call, and a generator goes on later.
            outermost = probe.parent == OUTERMOST and not probe.suspended
            if outermost and len(probe.tape) > CLEAR_AT and not isinstance(event, Mark):
                self._clear(probe, tape, cleared)

    def open(self, probe: Probe, at: int) -> None:
        """The call of a watched function begins: for sinks that show it at once."""
        with self._unheard(probe):
            sinks = [opened for sink in self.sinks if (opened := getattr(sink, "opened", None)) is not None]
            if sinks:
                event = self._tape(probe)[0].event(at)
                self._hand_on(event, sinks)

    def change(self, probe: Probe, note: VariableNote, value: Any) -> None:
        """A variable has changed."""
        with self._unheard(probe):
            number = probe.thread * THREAD_STRIDE + CHANGES_FROM + next(self._changes)
            tape, _ = self._tape(probe)
            self._hand_on(tape.variable(note, value, note.changes or (), number, probe.parent, probe.clock()))

    @contextmanager
    def _unheard(self, probe: Probe) -> Iterator[None]:
        """What the sinks do is none of the user's: not recorded, not timed, and its failures do not reach them."""
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
            except Exception as error:
                self.sinks = tuple(other for other in self.sinks if other is not sink)
                self.trouble("handing on an event", error)

    def _tape(self, probe: Probe) -> tuple[TapeDecoder, list[int]]:
        if id(probe) not in self._tapes:
            cleared = [probe.thread * THREAD_STRIDE]
            self._tapes[id(probe)] = (self.decoder.tape(probe, lambda at: cleared[0] + at), cleared)
        return self._tapes[id(probe)]

    def cleared(self, probe: Probe) -> int:
        """How much of the tape was cleared so far: what ids count on from."""
        return self._tape(probe)[1][0]

    def _clear(self, probe: Probe, tape: TapeDecoder, cleared: list[int]) -> None:
        """Forget the tape; the tensors that are still there get their facts now, while offsets mean something."""
        settle(probe)
        alive = {key: value for key, value in probe.table.items() if value() is not None}
        for value in alive.values():
            tape.plain(value)
            value.producer = GIVEN  # its facts know better; the offset means nothing any more
        probe.table.clear()
        probe.table.update(alive)
        cleared[0] += len(probe.tape)
        probe.tape.clear()
        probe.codes.clear()
        tape.forget()
        self.decoder.forget()
