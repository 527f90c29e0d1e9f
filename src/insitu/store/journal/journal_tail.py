"""What a process has added to its journal since it was last read, value by value.

The last step of a journal may get more frames, and frames that replace values of it. So its values are read again each
time, until a later step begins or the journal ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest

from insitu.errors import StoreError
from insitu.operating_system import read_at
from insitu.store.journal import frames
from insitu.store.journal.entry_table import StepFrame
from insitu.store.journal.journal_reader import FRAME_ERRORS, FramePlace, Shard, read_frame, steps_of
from insitu.store.journal.journal_state import open_for_reading
from insitu.store.journal.parts import journal_files, segment_number
from insitu.store.json_reader import plain_value
from insitu.store.stored_type import JSON, stored_type

_START = FramePlace(0, len(frames.MAGIC) + 8, -1)

LastValue = Callable[[str, str, int], Any]  # of a path, a dtype and a call


@dataclass(frozen=True, slots=True)
class TailValue:
    """A value of a step. `key` is the path and the dtype of its variable."""

    key: tuple[str, str]
    rank: int
    step: int
    call: int
    time: float
    value: Any


@dataclass(frozen=True, slots=True)
class TailPart:
    """The values of the steps that have ended since the last time, and of the step that may not have ended."""

    ended: list[TailValue] = field(default_factory=list)
    open: list[TailValue] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _ReadFrame:
    """A frame with its data."""

    file: int
    frame: frames.Frame
    data: bytes


@dataclass(frozen=True, slots=True)
class _TailEntry:
    """An entry of a frame; it has a `piece` of the data, unless the value did not change."""

    variable: int
    layout: int
    call: int
    digest: bytes
    piece: memoryview | None
    is_replaced: bool


class JournalTail:
    """The end of a journal that grows.

    It begins at the last step that `shard` has. `last_value` returns the value that a variable had before, for a value
    that did not change.
    """

    def __init__(self, shard: Shard, last_value: LastValue) -> None:
        self._shard = shard
        self._last_value = last_value
        self._next = shard.counts.last_place or _START
        self._applied = shard.sequence
        self._known: dict[tuple[int, int], Any] = {}  # the last value of a variable and call

    @property
    def shard(self) -> Shard:
        """The journal as it is known now: its steps, events and end."""
        return self._shard

    def read(self) -> TailPart:
        """Read what is new."""
        found = list(self._frames())
        for read in found:
            self._apply(read.frame)
        data = {(read.file, read.frame.start): read.data for read in found}
        steps = list(steps_of(((read.file, read.frame) for read in found), 0))
        is_over = self._shard.ended is not None
        last = [] if is_over else steps[-1:]
        ended = [value for step in steps[: len(steps) - len(last)] for value in self._values(step, data, self._known)]
        if last:
            self._next = _place_of(last[0][0], found)
        return TailPart(ended, [value for step in last for value in self._values(step, data, dict(self._known))])

    def _frames(self) -> Iterator[_ReadFrame]:
        """The frames from the last step on; a frame that is not whole yet is read the next time."""
        tag = bytes.fromhex(self._shard.tag)
        files = {segment_number(path): path for path, own in journal_files(self._shard.place.path) if own == tag}
        sequence, start = self._next.sequence, self._next.position
        for number in sorted(number for number in files if number >= self._next.segment):
            with open_for_reading(files[number]) as file:
                scan = frames.FrameScan(frames.OpenFile(file), tag, sequence)
                begin = start if number == self._next.segment else None
                for frame in scan.frames(begin):
                    yield _ReadFrame(number, frame, read_at(file, frame.length, frame.start))
                sequence = scan.sequence

    def _apply(self, frame: frames.Frame) -> None:
        """Take the declarations and events of a frame, once."""
        if frame.sequence <= self._applied:
            return
        self._applied = frame.sequence
        with suppress(*FRAME_ERRORS):  # a merge reports it
            read_frame(self._shard, frame)

    def _values(
        self, step: list[StepFrame], data: dict[tuple[int, int], bytes], known: dict[tuple[int, int], Any]
    ) -> Iterator[TailValue]:
        """The values of a step, without those that a later frame replaces; `known` learns the last value of each."""
        for frame in step:
            for entry in _entries(frame, data[frame.file, frame.start]):
                key = self._shard.names.variables.get(entry.variable)
                if key is None:
                    continue
                try:
                    value = self._value(key, entry, known)
                except FRAME_ERRORS:  # a merge reports it
                    continue
                known[entry.variable, entry.call] = value
                if not entry.is_replaced:
                    yield TailValue(key, self._shard.rank, frame.step, entry.call, frame.time, value)

    def _value(self, key: tuple[str, str], entry: _TailEntry, known: dict[tuple[int, int], Any]) -> Any:
        """The value of an entry: what its bytes say or, for one that did not change, the last that is known."""
        path, dtype = key
        if entry.piece is None:
            place = (entry.variable, entry.call)
            if place not in known:
                known[place] = self._last_value(path, dtype, entry.call)
            return known[place]
        if xxh3_128_digest(entry.piece) != entry.digest:
            raise StoreError(f"a value of {path!r} is damaged")
        if dtype == JSON:
            return plain_value(bytes(entry.piece))
        return self._tensor(entry.piece, dtype, entry.layout)

    def _tensor(self, piece: memoryview, dtype: str, layout: int) -> Any:
        """The array that the bytes of a tensor are."""
        kind = stored_type(dtype)
        _, shape = self._shard.names.layouts[layout]
        return kind.decode(np.frombuffer(bytearray(piece), kind.bits).reshape((*shape, *kind.inner)))


def _entries(frame: StepFrame, data: bytes) -> Iterator[_TailEntry]:
    """The entries of a frame, each with its bytes, which follow each other in the data of the frame."""
    pieces = memoryview(data)
    begin = 0
    for entry, is_replaced in zip(frame.entries.tolist(), frame.is_replaced.tolist(), strict=True):
        variable, layout, call, kind, length, digest = entry
        piece = None
        if kind == frames.STORED:
            piece = pieces[begin : begin + length]
            begin += length
        yield _TailEntry(variable, layout, call, digest, piece, is_replaced)


def _place_of(step: StepFrame, found: list[_ReadFrame]) -> FramePlace:
    """Where the first frame of a step begins."""
    (read,) = [read for read in found if (read.file, read.frame.start) == (step.file, step.start)]
    return FramePlace(read.file, frames.position_of(read.frame), read.frame.sequence - 1)
