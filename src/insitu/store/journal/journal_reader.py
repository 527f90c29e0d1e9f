"""The journal of one rank as it lies on the disk, in any state: still written, killed, cut, damaged.

What is read here is heads and indexes, all of them checked; the values stay where they are. The entries of the steps
are not kept, since there may be more than fit into the memory: `Shard.step_frames` reads them again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from insitu.errors import StoreError
from insitu.store.journal import frames
from insitu.store.journal.entry_table import StepFrame
from insitu.store.journal.journal_state import JournalOwner, State, state_of
from insitu.store.journal.parts import FilePool, JournalPlace, journal_files
from insitu.store.journal.shard_facts import ShardFacts
from insitu.store.json_reader import plain_value
from insitu.store.stored_type import Array, StoredType, stored_type
from insitu.trace.run import RunEvent

_MOST_DIMENSIONS = 64
_MOST_VALUES = 2**48


@dataclass(slots=True)
class Shard:
    """What the journal of one rank says. `sizes` are the bytes that its files had when they were read.

    `tag` is that of the journal, as text, and `size` the bytes of all files: a file of the run that was merged from it
    knows by them whether it has all of it. `known` is set where the file of the run said it: the journal is gone.
    """

    rank: int
    attempt: int = 0
    run: str = ""
    tag: str = ""
    size: int = 0
    state: State = "unknown"
    writer: JournalOwner = field(default_factory=JournalOwner)
    files: list[Path] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    tags: list[bytes] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    dropped: int = 0
    torn: int = 0
    step_count: int = 0
    frame_count: int = 0  # of steps: one may have several
    first_step: int | None = None  # the lowest of all
    last_committed: int | None = None  # the last that was written whole
    variables: dict[int, tuple[str, str]] = field(default_factory=dict)
    layouts: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    events: list[RunEvent] = field(default_factory=list)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)  # by path and reason, the first step
    is_open: bool = False  # more of the last step was expected
    troubles: list[str] = field(default_factory=list)
    known: ShardFacts | None = None

    def step_frames(self, number: int, files: FilePool, first_file: int) -> Iterator[StepFrame]:
        """Read the steps again, as far as the journal went when it was read first.

        `number` is the place of this journal among all; its files are in `files` from `first_file` on.
        """
        step: list[StepFrame] = []
        for file, frame in self._frames(files, first_file):
            head = _step_head(frame) if frame.kind & frames.KIND == frames.STEP else None
            if head is None:
                continue
            is_more = bool(step) and head.continues(step[0].step)
            if not is_more:
                yield from step
                step = []
            place = (number, file, head.step, head.time, frame.start, frame.length)
            found = StepFrame(*place, _entries(frame, head), is_first=not is_more)
            step = [*_without(step, found), found] if head.flags & frames.AGAIN else [*step, found]
        yield from step

    def _frames(self, files: FilePool, first_file: int) -> Iterator[tuple[int, frames.Frame]]:
        """All frames, each with the place of its file."""
        sequence = -1
        for place, (tag, size) in enumerate(zip(self.tags, self.sizes, strict=True), first_file):
            scan = frames.FrameScan(files.source(place, size), tag, sequence)
            for frame in scan.frames():
                yield place, frame
            sequence = scan.sequence


def read_shard(place: JournalPlace) -> Shard:
    """All that can be read of a journal; what cannot is told in `troubles`."""
    shard, sequence = Shard(place.rank, place.attempt, place.run), -1
    hint = state_of(place)  # now: what ends while it is read was not killed
    for path, tag in _files_of(shard, place):
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            shard.troubles.append(f"rank {place.rank}: {path.name} cannot be read: {error.strerror}")
            continue
        try:
            shard.size += os.fstat(file).st_size
            sequence = _read_file(shard, path, frames.FrameScan(frames.OpenFile(file), _tag(file, tag), sequence))
        finally:
            os.close(file)
    if shard.torn and shard.ended is not None:
        shard.troubles.append(f"rank {place.rank}: the last {shard.torn} bytes of {shard.files[-1].name} are damaged")
    shard.state = _state(shard, hint)
    return shard


def _files_of(shard: Shard, place: JournalPlace) -> list[tuple[Path, bytes]]:
    """The files of the journal in a folder; where there are several journals, of the largest."""
    try:
        found = journal_files(place.path)
        sizes: dict[bytes, int] = {}
        for path, tag in found:
            sizes[tag] = sizes.get(tag, 0) + path.stat().st_size
    except OSError as error:
        shard.troubles.append(f"rank {place.rank}: {place.path.name} cannot be read: {error.strerror}")
        return []
    if not found:
        shard.troubles.append(f"rank {place.rank}: there is no journal in {place.path.name}")
        return []
    largest = max(sizes, key=lambda tag: sizes[tag])
    for tag in sizes.keys() - {largest}:
        shard.troubles.append(
            f"rank {place.rank}: {place.path.name} also has the journal {tag.hex()} of another process"
        )
    shard.tag = largest.hex()
    return [(path, tag) for path, tag in found if tag == largest]


def _state(shard: Shard, hint: State) -> State:
    if shard.ended is not None:
        return "ended"
    return "killed" if hint == "ended" else hint  # its end is damaged


def _tag(file: int, named: bytes) -> bytes:
    """The tag that stands at the beginning and before the first frame; if those differ, the one in the name."""
    size, begin = len(frames.MAGIC), os.pread(file, 24, 0)
    first, second = begin[size : size + 8], begin[size + 8 : size + 16]
    return first if first == second and len(first) == 8 else named


def _read_file(shard: Shard, path: Path, scan: frames.FrameScan) -> int:
    """Take what a file holds, and give the sequence of its last frame."""
    expected = scan.sequence + 1
    if shard.torn:
        shard.troubles.append(f"rank {shard.rank}: the last {shard.torn} bytes of {shard.files[-1].name} are damaged")
        shard.torn = 0
    shard.files.append(path)
    shard.sizes.append(scan.source.size)
    shard.tags.append(scan.tag)
    if (magic := scan.source.read(0, len(frames.MAGIC))) != frames.MAGIC[: len(magic)]:
        shard.troubles.append(
            f"rank {shard.rank}: {path.name} begins with {magic!r}, not {frames.MAGIC!r}: it is damaged, or of a newer"
            " insitu, and then update insitu"
        )
    for frame in scan.frames():
        if frame.sequence != expected:
            count = frame.sequence - expected
            shard.troubles.append(f"rank {shard.rank}: {count} frames are missing before byte {frame.start}")
        expected = frame.sequence + 1
        try:
            _READERS[frame.kind & frames.KIND](shard, frame)
        except (StoreError, ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError) as error:
            shard.troubles.append(f"rank {shard.rank}: a frame of {path.name} says nothing that is known: {error!r}")
    size = scan.source.size
    for start, end in scan.gaps:
        if end == size:  # of a step that was never completed, if it is the last file
            shard.torn = end - start
        else:
            shard.troubles.append(f"rank {shard.rank}: {end - start} bytes of {path.name} are damaged, from {start}")
    return scan.sequence


def _read_about(shard: Shard, frame: frames.Frame) -> None:
    said = json.loads(frame.index)
    shard.started = float(said["time"]) if shard.started is None else shard.started
    shard.writer = JournalOwner.from_json(said)
    about = plain_value(_text(said["facts"]))
    shard.about = about if isinstance(about, dict) else {}
    _declare(shard, said["declared"])


def _read_step(shard: Shard, frame: frames.Frame) -> None:
    head = _step_head(frame)
    if head is None:
        raise ValueError(f"a step whose index has {len(frame.index)} bytes")
    if head.text:
        _declare(shard, json.loads(head.text))
    shard.step_count += not head.continues(shard.last_committed)
    shard.frame_count += 1
    shard.is_open = bool(frame.kind & frames.OPEN)
    shard.last_committed = head.step
    shard.first_step = head.step if shard.first_step is None else min(shard.first_step, head.step)


@dataclass(frozen=True, slots=True)
class _StepHead:
    """What stands before and behind the entries of a step, with the flags of its frame."""

    step: int
    time: float
    count: int
    text: bytes
    flags: int

    def continues(self, step: int | None) -> bool:
        """Whether this frame has more of the step of the frame before."""
        return bool(self.flags & frames.MORE) and self.step == step


def _step_head(frame: frames.Frame) -> _StepHead | None:
    """What stands before and behind the entries of a step; None if the index has another length than it says."""
    if len(frame.index) < frames.STEP_HEAD.size:
        return None
    step, time, count, length = frames.STEP_HEAD.unpack_from(frame.index)
    end = frames.STEP_HEAD.size + count * frames.ENTRY.itemsize
    if len(frame.index) != end + length:
        return None
    return _StepHead(step, time, count, frame.index[end:], frame.kind & ~frames.KIND)


def _entries(frame: frames.Frame, head: _StepHead) -> Array:
    entries: Array = np.frombuffer(frame.index, frames.ENTRY, head.count, frames.STEP_HEAD.size)
    return entries.copy() if head.flags & frames.AGAIN else entries  # those are changed


def _without(step: list[StepFrame], again: StepFrame) -> list[StepFrame]:
    """The frames of a step with the entries marked that a later frame replaces.

    An entry of that frame that repeats what the step has already, with the same digest, is marked itself.
    """
    known = {value for frame in step for value in _values(frame.entries)}
    is_same = again.entries["kind"] == frames.SAME
    is_repeat = is_same & np.array([value in known for value in _values(again.entries)], bool)
    keys = _keys(again.entries)[~is_repeat]
    left = []
    for frame in step:
        before = frame.entries.copy()
        before["call"][np.isin(_keys(before), keys)] = frames.REPLACED
        left.append(replace(frame, entries=before))
    again.entries["call"][is_repeat] = frames.REPLACED
    return left


def _values(entries: Array) -> list[tuple[Any, ...]]:
    """Each entry as its variable, call, layout and digest."""
    return [tuple(entry) for entry in entries[["variable", "call", "layout", "digest"]].tolist()]


def _keys(entries: Array) -> Array:
    return entries["variable"].astype(np.uint64) << np.uint64(32) | entries["call"].astype(np.uint64)


def _read_event(shard: Shard, frame: frames.Frame) -> None:
    said = json.loads(frame.index)
    step = None if said["step"] is None else int(said["step"])
    shard.events.append(
        RunEvent(str(said["kind"]), str(said["text"]), step, shard.rank, float(said["time"]), shard.attempt)
    )


def _read_end(shard: Shard, frame: frames.Frame) -> None:
    said = json.loads(frame.index)
    _declare(shard, said["declared"])
    shard.ended, shard.dropped = float(said["time"]), int(said["dropped"])
    shard.events.append(RunEvent("end", "", shard.last_committed, shard.rank, shard.ended, shard.attempt))


_READERS: dict[int, Callable[[Shard, frames.Frame], None]] = {
    **{frames.ABOUT: _read_about, frames.STEP: _read_step},
    **{frames.EVENT: _read_event, frames.END: _read_end},
}


def _declare(shard: Shard, records: list[Any]) -> None:
    for what, *said in records:
        if what == "variable":
            number, path, dtype = said
            stored_type(_text(dtype))
            shard.variables[int(number)] = _text(path), dtype
        elif what == "layout":
            number, dtype, shape = said
            shard.layouts[int(number)] = _text(dtype), checked_shape(shape, stored_type(dtype))
        elif what == "facts":
            path, facts = said
            known = {_text(name): plain_value(_text(fact)) for name, fact in facts.items()}
            shard.facts.setdefault(_text(path), {}).update(known)
        elif what == "left out":
            path, reason, step = said
            shard.left_out.setdefault((_text(path), _text(reason)), int(step))


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r:.80} is not a text")
    return value


def checked_shape(sizes: Any, kind: StoredType) -> tuple[int, ...]:
    """The shape, if one can be that: a file from a stranger may say anything."""
    total = kind.itemsize
    for size in sizes:
        if type(size) is not int or size < 0:
            raise ValueError(f"{sizes!r:.80} is not a shape")
        total *= max(size, 1)
    if total > _MOST_VALUES or len(sizes) > _MOST_DIMENSIONS:
        raise ValueError(f"no value has the shape {sizes!r:.80}")
    return tuple(sizes)
