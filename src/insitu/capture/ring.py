"""The last steps of a guarded program, in bounded memory: parts of tapes, and what was kept of tensors.

A guard clears its tapes now and then. What it takes off goes into the ring instead of being lost, and the ring drops
the oldest of it: by steps, and by bytes. Tapes hold weak references only, so no tensor stays alive for the ring.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from insitu.capture.budget import SAMPLE, SLOT
from insitu.capture.decode import Decoder
from insitu.capture.segment import THREAD_STRIDE, Ids, Segment
from insitu.capture.step_counter import StepCounter
from insitu.operating_system import at_fork
from insitu.trace.event import Call, Event, Stats, TensorFacts

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

# Where the ids of a thread begin. An id that a guard takes for the offset of a call is beyond the end of every tape.
FIRST_ID = THREAD_STRIDE // 2
STATISTICS_EVERY = 20  # of so many steps, one has statistics: they take as long as the step itself
STATS_BYTES = 300  # of the statistics of one tensor, as measured

_rings: WeakSet[Ring] = WeakSet()


def renew_locks() -> None:
    """This process is the child of a fork, and whoever held the locks is not here."""
    for ring in _rings:
        ring.lock = threading.RLock()


at_fork(after_in_child=renew_locks)


@dataclass(frozen=True, slots=True)
class KeptTensors:
    """What was kept of the tensors of one call, in their order; None where it is not known."""

    outputs: tuple[Any, ...] = ()
    inputs: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class OldSegment:
    """A part of a tape in the ring, the last step that it belongs to, and its bytes."""

    segment: Segment
    last_step: int
    size: int


@dataclass(slots=True)
class StepTensors:
    """What was kept of the tensors of one step: by the id of the call, statistics and values.

    `has_gaps` says that only some calls of the step have statistics.
    """

    step: int
    stats: dict[int, KeptTensors] = field(default_factory=dict)
    values: dict[int, KeptTensors] = field(default_factory=dict)
    size: int = 0
    has_gaps: bool = False

    @property
    def has_all(self) -> bool:
        """Whether every call of the step has statistics."""
        return bool(self.stats) and not self.has_gaps

    def join(self, other: StepTensors) -> None:
        """Take over what was kept of another step."""
        self.stats |= other.stats
        self.values |= other.values
        self.size += other.size


@dataclass(frozen=True, slots=True)
class RingContents:
    """The events of the last steps. `step` is the step that runs, `first` the first that is there.

    `is_cut` says that the beginning of the first step had no room. `with_statistics` are the steps whose calls have
    statistics of the moment at which they ran. From step `kept_from` on, all statistics and values are there that were
    kept.
    """

    events: list[Event]
    first: int
    step: int
    is_cut: bool
    with_statistics: tuple[int, ...]
    kept_from: int


class Ring:
    """Keeps the last steps. The thread that writes a tape hands over what it takes off."""

    def __init__(self, last: int, memory: int) -> None:
        self.last, self.memory = last, memory
        self.lock = threading.RLock()
        self.step = 0
        self.steps_begun = 0
        self.bytes = 0
        self.segments: deque[OldSegment] = deque()
        self.tensors: deque[StepTensors] = deque([StepTensors(0)])
        self._begins: deque[tuple[int, float]] = deque()  # the number of each step that is kept, and when it began
        self._last_lost = -1  # the last step of which calls had no room
        self._has_first_begin = True  # whether the beginning of step 0 was kept
        self._last_without_tensors = -1  # the last step of which statistics or values had no room
        _rings.add(self)

    @property
    def takes_statistics(self) -> bool:
        """Whether the calls of this step get statistics."""
        return self.steps_begun > 0 and self.step % STATISTICS_EVERY == 0

    def begin_step(self) -> None:
        """Another step begins now."""
        with self.lock:
            if self.steps_begun:
                self.step += 1
                self.tensors.append(StepTensors(self.step))
            self.steps_begun += 1
            self._begins.append((self.step, perf_counter()))
            self._drop_old_steps()

    def join_steps(self) -> None:
        """All calls so far belong to one step, which is step 0."""
        with self.lock:
            if self.step == 0:
                return
            joined = StepTensors(0, has_gaps=True)
            for tensors in self.tensors:
                joined.join(tensors)
            self.tensors = deque([joined])
            self.segments = deque(replace(old, last_step=0) for old in self.segments)
            first, begin = self._begins[0]
            self._has_first_begin = first == 0 and self._last_lost < 0
            self._begins = deque([(0, begin)])
            self._last_lost = -1
            self._last_without_tensors = min(self._last_without_tensors, 0)
            self.step = 0

    def take_tape(self, probe: Probe, gone: int) -> int:
        """Keep the tape of a probe, which is about to be cleared; the id of its first record. No call still runs."""
        tape = probe.tape
        first = first_id(tape.thread, gone)
        contained = sum(len(slot) for slot in tape[::SAMPLE] if type(slot) in (list, tuple, dict))
        size = (len(tape) + SAMPLE * contained) * SLOT
        with self.lock:
            self.segments.append(OldSegment(Segment(tape.part(), 0, None, Ids(first)), self.step, size))
            self.bytes += size
            self._drop_what_has_no_room()
        return first

    def keep_statistics(self, call: int, outputs: tuple[Stats | None, ...]) -> None:
        """Keep the statistics of the outputs of a call, by its id."""
        with self.lock:
            self.tensors[-1].stats[call] = KeptTensors(outputs)
            self._weigh(STATS_BYTES * len(outputs))

    def keep_values(self, call: int, kept: KeptTensors, size: int) -> None:
        """Keep the values of the tensors of a call, by its id."""
        with self.lock:
            self.tensors[-1].values[call] = kept
            self._weigh(size)

    def _weigh(self, size: int) -> None:
        self.tensors[-1].size += size
        self.bytes += size
        if self.bytes > self.memory:
            self._drop_what_has_no_room()

    def _drop_old_steps(self) -> None:
        """Let go of what is older than the last steps."""
        first = self.step - self.last + 1
        while self._begins[0][0] < first:
            self._begins.popleft()
        while self.tensors[0].step < first:
            self._drop_tensors()
        while self.segments and self.segments[0].last_step < first:
            self._drop_segment()

    def _drop_what_has_no_room(self) -> None:
        """Let go of the oldest until the rest fits; of the tensors, those of the step that runs may go as well."""
        while self.bytes > self.memory:
            oldest_tensors, is_last = self.tensors[0], len(self.tensors) == 1
            if self.segments and self.segments[0].last_step <= oldest_tensors.step:
                self._last_lost = self.segments[0].last_step
                self._drop_segment()
            elif oldest_tensors.size:
                self._last_without_tensors = oldest_tensors.step
                self._drop_tensors()
            elif is_last:
                return
            else:
                self._drop_tensors()

    def _drop_segment(self) -> None:
        self.bytes -= self.segments.popleft().size

    def _drop_tensors(self) -> None:
        gone = self.tensors.popleft()
        self.bytes -= gone.size
        if not self.tensors:
            self.tensors.append(StepTensors(gone.step))

    def calls_with_statistics(self) -> set[int]:
        """The ids of the calls of which statistics are kept."""
        with self.lock:
            return {call for tensors in self.tensors for call in tensors.stats}

    def contents(self, current: list[Segment], make_decoder: Callable[[], Decoder], late: StepTensors) -> RingContents:
        """Decode what is there now: the segments of the ring, then those that are on the tapes.

        `late` are statistics of tensors that were still there.
        """
        with self.lock:
            segments = [old.segment for old in self.segments]
            begins, step, lost = list(self._begins), self.step, self._last_lost
            kept_from = self._last_without_tensors + 1
            kept = [replace(each, stats=dict(each.stats), values=dict(each.values)) for each in self.tensors]
        segments += [segment for segment in current if not is_taken(segment, segments)]
        decoder = make_decoder()
        decoder.steps = StepCounter.of_steps(begins)
        events = decoder.all(segments)
        by_number = {event.id: event for event in events}
        for tensors in (late, *kept):
            attach(tensors, by_number, decoder.number)
        decoder.values.release()
        first = min(step, max(0, step - self.last + 1, lost + 1))
        return RingContents(
            [event for event in events if event.step >= first],
            first,
            step,
            is_cut=self._is_cut(first, lost),
            with_statistics=tuple(each.step for each in kept if each.has_all and each.step >= max(first, kept_from)),
            kept_from=max(first, kept_from),
        )

    def _is_cut(self, first: int, lost: int) -> bool:
        """Whether the first step lacks its beginning; `lost` is the last step of which calls had no room."""
        if first == 0 and not self._has_first_begin:
            return True
        return lost >= first


def first_id(thread: int, gone: int) -> int:
    """The id of the first record on a tape, of which so much was cleared before."""
    return thread * THREAD_STRIDE + FIRST_ID + gone


def is_taken(segment: Segment, others: list[Segment]) -> bool:
    """Whether one of the others is the same part of a tape: it was handed over, and is about to be cleared."""
    start = first_start(segment)
    if start is None:
        return False
    thread = segment.tape.thread
    return any(first_start(other) == start for other in others if other.tape.thread == thread)


def first_start(segment: Segment) -> float | None:
    """When the first call of a part of a tape began; None if it has none."""
    first = next(segment.tape.calls(), None)
    if first is None:
        return None
    return segment.tape.start(first)


def attach(tensors: StepTensors, events: dict[int, Event], number: Callable[[int], int]) -> None:
    """Give the facts of tensors what was kept of them."""
    for id, kept in tensors.stats.items():
        call = events.get(number(id))
        if isinstance(call, Call):
            own = [facts for facts in call.outputs if facts.producer == call.id]
            for facts, stats in zip(own, kept.outputs, strict=False):
                facts.stats = stats
    for id, kept in tensors.values.items():
        call = events.get(number(id))
        if isinstance(call, Call):
            attach_values(call.outputs, kept.outputs)
            attach_values(call.inputs, kept.inputs)


def attach_values(facts: tuple[TensorFacts, ...], values: tuple[Any, ...]) -> None:
    """Give facts of tensors their values, as far as these are known."""
    for each, value in zip(facts, values, strict=False):
        if value is not None:
            each.kept = value
