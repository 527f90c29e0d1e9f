"""From the tapes of a session to its events, when somebody asks for them."""

from __future__ import annotations

from copy import copy

from insitu.capture.forwards import Forwards
from insitu.capture.segment import Ids, Segment, numbering
from insitu.capture.sites import Base, Sites
from insitu.capture.step_counter import StepCounter
from insitu.capture.tape import Record, Tape
from insitu.capture.tape_decoder import Place, TapeDecoder
from insitu.capture.value_decoder import ValueDecoder
from insitu.capture.variables.last_values import LastValues
from insitu.trace.collector import pause_collector
from insitu.trace.counter import count_progress
from insitu.trace.event import Change, Event


class Decoder:
    """Turns the records of one session into events, one by one or all at once.

    What it remembers of earlier records is kept by id, so that they may be on a tape no longer.
    """

    def __init__(self, base: Base, *, origin: float, rank: int, with_nestings: bool = True) -> None:
        self.sites = Sites(with_nestings=with_nestings)
        self.outside = self.sites.outside(base.above)
        self.origin, self.rank = origin, rank
        self.steps = StepCounter()
        self.values = ValueDecoder()
        self.places: dict[int, Place] = {}
        self.last = LastValues()
        # What has changed in records that were looked at before their turn, by their ids.
        self.early: dict[int, tuple[Change, ...]] = {}
        self._forwards: dict[int, Forwards] = {}
        self._numbers: dict[int, int] | None = None

    def copy(self) -> Decoder:
        """A decoder that goes on from here, and leaves this one as it is."""
        same = copy(self)
        same.steps, same.values = copy(self.steps), self.values.copy()
        same.places, same.last, same.early = dict(self.places), self.last.copy(), dict(self.early)
        same._forwards = {thread: forwards.copy() for thread, forwards in self._forwards.items()}
        return same

    def tape(self, tape: Tape, ids: Ids) -> TapeDecoder:
        """The decoder of one tape, whose records have these ids."""
        return TapeDecoder(self, tape, ids)

    def forwards(self, thread: int) -> Forwards:
        """The calls of a thread that made autograd nodes."""
        return self._forwards.setdefault(thread, Forwards())

    def number(self, id: int) -> int:
        """The number that a record gets as an event; -1 for one that began after the numbering."""
        if self._numbers is None:
            return id
        return self._numbers.get(id, -1)

    @pause_collector()
    def all(self, segments: list[Segment], *, renumber: bool = True) -> list[Event]:
        """Every event of all segments, in the order they began, with numbers from 0 on, or with the ids they have."""
        tapes = [self.tape(segment.tape, segment.ids) for segment in segments]
        found = [(record, tape) for segment, tape in zip(segments, tapes, strict=True) for record in segment.records()]
        if not are_in_order(segments):
            found.sort(key=lambda item: (item[0][0], item[1].identity(item[0][1])))
        if renumber:
            self._renumber(found, tapes)
        every = (
            tape.event(at) if parent is None else tape.change(time, at, parent)
            for (time, at, parent), tape in count_progress(found, len(found), "reading the trace")
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


def are_in_order(segments: list[Segment]) -> bool:
    """Whether the records of all segments are in the order in which they began: they are of one thread."""
    threads = {segment.tape.thread for segment in segments}
    return len(threads) == 1 and all(segment.ids.is_even for segment in segments)
