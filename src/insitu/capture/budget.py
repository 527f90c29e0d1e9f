"""How much memory a trace may take: what is complete is taken off the tapes, and the oldest of it goes first.

A tape is looked at when a record is about to be added to one that has become long, in the thread that writes it. The
records after the last call that still runs are taken off as a segment, as they are: decoding is for later.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakSet

from insitu.capture.explain.note import save_waiting_tapes
from insitu.capture.segment import Segment
from insitu.capture.tape import OUTERMOST, Seam
from insitu.capture.tensors import EARLIER, RichValue, with_roots
from insitu.operating_system import at_fork
from insitu.trace.event import Event
from insitu.trace.missing import Missing

if TYPE_CHECKING:
    from insitu.capture.decode import Decoder
    from insitu.capture.probe import Probe, Trouble

# Bytes for each slot of a tape once its events are decoded, as measured; an event takes 11 to 17 slots.
SLOT, SLOT_WITH_STATISTICS = 75, 100
SEGMENTS = 16  # into which a trace that fills its memory is divided
SAMPLE = 7  # each so many slots are looked at, to know how large containers are
SHORTEST = 1 << 10  # slots: a smaller budget would divide a trace into single calls

_budgets: WeakSet[Budget] = WeakSet()


def renew_locks() -> None:
    """This process is the child of a fork, and whoever held the locks is not here."""
    for budget in _budgets:
        budget.lock = threading.RLock()


at_fork(after_in_child=renew_locks)


class Overflow(Protocol):
    """Takes the events that memory has no room for."""

    def add(self, events: list[Event]) -> None:
        """Keep these events, which are the next ones."""


class Contents(NamedTuple):
    """What there is of a recording: its segments, a decoder that knows what was before them, and what is missing."""

    segments: list[Segment]
    decoder: Decoder
    missing: Missing | None


class Budget:
    """The segments of one recording, and what has become of those for which there was no room.

    `archive` takes the events of the oldest segments; without one they are dropped.
    """

    def __init__(
        self,
        limit: int,
        decoder: Callable[[], Decoder],
        *,
        keeps: bool,
        archive: Overflow | None,
        trouble: Trouble,
        full: Callable[[bool], None],
    ) -> None:
        self.limit, self.archive = limit, archive
        self.lock = threading.RLock()
        self.kept_bytes = 0  # of what `keep` made since the last cut
        self.missing: Missing | None = None
        self._slot = SLOT_WITH_STATISTICS if keeps else SLOT
        self.length = max(SHORTEST, limit // (SEGMENTS * self._slot))
        self._decoder, self._trouble, self._full = decoder, trouble, full
        self._segments: deque[tuple[Segment, int]] = deque()
        self._bytes = 0
        self._after: Decoder | None = None  # the decoder after the segments that are gone
        _budgets.add(self)

    def cut(self, probe: Probe) -> None:
        """Take what is complete off the tape of this thread, if that is much."""
        tape = probe.tape
        enough = self.length // 4 if not self._is_heavy() else 1
        innermost = tape.end_of(probe.parent) if probe.parent != OUTERMOST else 0
        if len(tape) - innermost < enough:
            return  # a call that began earlier will end soon, and then there is more to take off
        begin, seam = _seam(probe)
        if len(tape) - begin < enough:
            probe.due = len(tape) + self.length // 8
            return
        with self.lock:
            self._take_off(probe, begin, seam)
            self._shrink()

    def _is_heavy(self) -> bool:
        return self.kept_bytes > self.limit // SEGMENTS

    def weigh(self, probes: list[Probe], size: int) -> None:
        """A result of `keep` takes so many bytes."""
        self.kept_bytes += size
        if self._is_heavy():
            for probe in probes:
                if not probe.over:
                    probe.due = 0

    def _take_off(self, probe: Probe, begin: int, seam: Seam) -> None:
        """Move the end of a tape into a segment. The tensors that are still there learn the ids of their producers."""
        tape, ids = probe.tape, probe.ids
        save_waiting_tapes(probe)
        probe.tracker.numbers.before_cut(begin)
        alive = {key: value for key, value in probe.table.items() if value() is not None}
        for value in with_roots(alive.values()):
            if value.producer >= begin:
                value.producer = EARLIER - ids(value.producer)
            if isinstance(value, RichValue):
                value.tape_length = min(value.tape_length, begin)
        segment = Segment(tape.part(), begin, None, ids)
        size = self._size(tape, begin)
        later = ids.copy()
        later.clear(begin, len(tape), seam)
        probe.writes.clear()  # which are offsets, too

        def move() -> None:
            if not self._segments or self._segments[-1][0] is not segment:
                self._segments.append((segment, size))
                self._bytes += size
            probe.ids = later
            del tape[begin:]
            probe.due = begin + self.length
            self.kept_bytes = 0

        try:
            move()
        except BaseException:  # a signal: what was begun is completed first
            move()
            raise
        probe.table.clear()
        probe.table.update(alive)
        probe.codes.clear()

    def _size(self, tape: list[Any], begin: int) -> int:
        """The bytes that a part of a tape takes once it is decoded; containers have items of their own."""
        contained = sum(len(slot) for slot in tape[begin::SAMPLE] if type(slot) in (list, tuple, dict))
        return (len(tape) - begin + SAMPLE * contained) * self._slot + self.kept_bytes

    def _shrink(self) -> None:
        """Let the oldest segments go until the rest fits."""
        while len(self._segments) > 1 and self._bytes > self.limit - self.limit // SEGMENTS:
            if self._after is None:
                self._full(self.archive is not None)
            segment, size = self._segments[0]
            first_decoder = self._decoder()  # which settles the paths of modules for this segment
            decoder = self._after.copy() if self._after is not None else first_decoder
            first = decoder.steps.current
            count, on_disk = self._let_go(decoder, segment)
            calls = {segment.ids(at) for at in _running(segment)}
            self._segments.popleft()
            self._bytes -= size
            self._after = decoder
            gone = Missing(count, (first, decoder.steps.current), tuple(sorted(calls)), on_disk)
            self.missing = gone if self.missing is None else self.missing.and_also(gone)

    def _let_go(self, decoder: Decoder, segment: Segment) -> tuple[int, int]:
        """Give a segment to the archive, if there is one: how many events it has, and how many are on disk now."""
        if self.archive is None:
            return decoder.pass_over(segment), 0
        decoder.values.is_live = True  # values that are alive keep their facts, for later segments
        events = decoder.take(segment)
        try:
            self.archive.add(events)
        except Exception as error:
            self.archive = None
            self._trouble("writing the oldest events to disk, and drops them from now on", error)
            return len(events), 0
        return len(events), len(events)

    def contents(self, probes: list[Probe], *, in_place: bool) -> Contents:
        """All that is there now. The tapes may be read in place if nobody writes to them meanwhile."""
        with self.lock:
            segments = [segment for segment, _ in self._segments]
            for probe in probes:
                end = len(probe.tape) if probe.tape.end is None else probe.tape.end
                tape = probe.tape if in_place else probe.tape.part(end)
                segments.append(Segment(tape, 0, end, probe.ids.copy()))
            decoder = self._after.copy() if self._after is not None else self._decoder()
            decoder.values.is_live = False
            return Contents(segments, decoder, self.missing)


def _running(segment: Segment) -> list[int]:
    """The calls that ran when a segment was taken off: they lack what was in it."""
    return [at for at in segment.tape.calls(segment.begin) if segment.tape.is_running(at)]


def _seam(probe: Probe) -> tuple[int, Seam]:
    """Where the last call that has not returned, and may be left for a while, ends; and how things are now."""
    tape, last, time = probe.tape, -1, 0.0
    running: list[int] = []
    for began, at, parent in tape.records(seams=probe.ids.seams, running=running):
        time = began
        if parent is None and tape.is_running(at):
            last = at
    begin = tape.end_of(last) if last >= 0 else 0
    return begin, Seam(time, tuple(at for at in running if at < begin))
