"""Reads the journal of one rank from the disk, in any state: still written, killed, cut, damaged.

Heads and indexes are read and checked here; the values stay in the files. The entries of the steps are not kept,
because there may be more than fit into memory: `Shard.step_frames` reads them again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from insitu.errors import NewerVersionError, StoreError
from insitu.operating_system import read_at
from insitu.store.format_version import JOURNAL_VERSION, check_version
from insitu.store.journal import frames
from insitu.store.journal.declarations import DeclaredNames, checked_text
from insitu.store.journal.entry_table import StepFrame
from insitu.store.journal.file_pool import FilePool, JournalFile, moved
from insitu.store.journal.heads import HeadScan
from insitu.store.journal.journal_state import JournalOwner, State, open_for_reading, state_of
from insitu.store.journal.parts import JournalPlace, journal_files, segment_number
from insitu.store.journal.remote_shards import sent_files
from insitu.store.journal.shard_facts import ShardFacts
from insitu.store.json_reader import plain_value
from insitu.store.stored_type import Array
from insitu.trace.run import RunEvent

FRAME_ERRORS = (StoreError, ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class FramePlace:
    """Where a frame begins: the number of its segment, the byte, and the sequence number before it."""

    segment: int
    position: int
    sequence: int


@dataclass(slots=True)
class StepCounts:
    """Which steps a journal holds. A step may have several frames."""

    steps: int = 0
    frames: int = 0
    first: int | None = None  # the lowest step
    last: int | None = None  # the step that was written last
    is_open: bool = False  # more of the last step was expected
    last_place: FramePlace | None = None  # where the last step begins
    last_segment: int = -1  # with the last frame
    continuing: set[int] = field(default_factory=set)  # segments that begin with more of a step of the one before

    def add(self, head: StepHead, place: FramePlace) -> None:
        """Count a frame."""
        if not head.continues(self.last):
            self.steps += 1
            self.last_place = place
        elif place.segment != self.last_segment:
            self.continuing.add(place.segment)
        self.last_segment = place.segment
        self.frames += 1
        self.is_open = bool(head.flags & frames.OPEN)
        self.last = head.step
        self.first = head.step if self.first is None else min(self.first, head.step)


@dataclass(slots=True)
class Shard:
    """The journal of one rank, as far as it can be read.

    `tag` and `size` identify the journal and the bytes of its files: a file that was merged from a journal knows by
    them whether it has all of it. `merged` is set for a journal that was made from the file of a run.
    """

    place: JournalPlace
    tag: str = ""
    size: int = 0
    state: State = "unknown"
    owner: JournalOwner = field(default_factory=JournalOwner)
    files: list[JournalFile] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    started: float | None = None
    ended: float | None = None
    dropped: int = 0
    counts: StepCounts = field(default_factory=StepCounts)
    names: DeclaredNames = field(default_factory=DeclaredNames)
    events: list[RunEvent] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)  # what is damaged, as sentences
    merged: ShardFacts | None = None
    sequence: int = -1  # of the last frame that was read

    @property
    def rank(self) -> int:
        """The rank that wrote the journal."""
        return self.place.rank

    @property
    def attempt(self) -> int:
        """The attempt of the run that it belongs to."""
        return self.place.attempt

    def add_trouble(self, text: str) -> None:
        """Note damage, once."""
        sentence = f"rank {self.rank}: {text}"
        if sentence not in self.troubles:
            self.troubles.append(sentence)

    @property
    def stretches(self) -> list[range]:
        """The files in groups that can be read without the others: mostly each file is one.

        A damaged journal is one group: a value that was lost in one file may be in the file before.
        """
        if self.troubles:
            return [range(len(self.files))]
        numbers = [segment_number(file.path) for file in self.files]
        begins = [place for place, number in enumerate(numbers) if number not in self.counts.continuing]
        return [range(first, last) for first, last in pairwise([*begins, len(self.files)])]

    def step_frames(
        self, number: int, pool: FilePool, first_file: int, files: range | None = None
    ) -> Iterator[StepFrame]:
        """Read the steps again, as far as the journal went when it was first read.

        `number` is the position of this journal among all; its files are in `pool` from `first_file` on. `files`
        chooses some of them.
        """
        chosen = range(len(self.files)) if files is None else files
        for step in steps_of(self._frames(pool, first_file, chosen), number):
            yield from step

    def _frames(self, pool: FilePool, first_file: int, files: range) -> Iterator[tuple[int, frames.Frame]]:
        """All frames, each with the number of its file in the pool."""
        sequence = -1
        for number in files:
            scan = pool.scan(first_file + number, sequence)
            for frame in scan.frames():
                yield first_file + number, frame
            sequence = scan.sequence


def steps_of(found: Iterable[tuple[int, frames.Frame]], shard: int) -> Iterator[list[StepFrame]]:
    """The frames of each step, from frames that are each with the number of its file."""
    step: list[StepFrame] = []
    for file, frame in found:
        head = step_head(frame)
        if head is None:
            continue
        starts_step = not step or not head.continues(step[0].step)
        if starts_step:
            if step:
                yield step
            step = []
        read = StepFrame(
            shard=shard,
            file=file,
            step=head.step,
            time=head.time,
            start=frame.start,
            length=frame.length,
            entries=np.frombuffer(frame.index, frames.ENTRY, head.count, frames.STEP_HEAD.size),
            is_replaced=np.zeros(head.count, bool),
            starts_step=starts_step,
        )
        step = _with_replacements(step, read) if head.flags & frames.AGAIN else [*step, read]
    if step:
        yield step


def _with_replacements(step: list[StepFrame], again: StepFrame) -> list[StepFrame]:
    """The frames of a step with the entries marked that the last frame replaces.

    An entry of the last frame that is unchanged, and equal to one that the step already has, is marked itself.
    """
    known = {value for frame in step for value in _values(frame.entries)}
    is_same = again.entries["kind"] == frames.SAME
    is_known = is_same & np.array([value in known for value in _values(again.entries)], bool)
    keys = _keys(again.entries)[~is_known]
    earlier = [replace(frame, is_replaced=frame.is_replaced | np.isin(_keys(frame.entries), keys)) for frame in step]
    return [*earlier, replace(again, is_replaced=is_known)]


def _values(entries: Array) -> list[tuple[Any, ...]]:
    """Each entry as its variable, call, layout and digest."""
    return [tuple(entry) for entry in entries[["variable", "call", "layout", "digest"]].tolist()]


def _keys(entries: Array) -> Array:
    return entries["variable"].astype(np.uint64) << np.uint64(32) | entries["call"].astype(np.uint64)


@dataclass(frozen=True, slots=True)
class StepHead:
    """The fields of a step's index besides its entries, with the flags of its frame."""

    step: int
    time: float
    count: int
    text: bytes
    flags: int

    def continues(self, step: int | None) -> bool:
        """Whether this frame has more of the step of the previous frame."""
        return bool(self.flags & frames.MORE) and self.step == step


def step_head(frame: frames.Frame) -> StepHead | None:
    """The head of a step; None if the frame is not a step, or its index has another length than it declares."""
    if frame.kind & frames.KIND != frames.STEP or len(frame.index) < frames.STEP_HEAD.size:
        return None
    step, time, count, length = frames.STEP_HEAD.unpack_from(frame.index)
    end = frames.STEP_HEAD.size + count * frames.ENTRY.itemsize
    if len(frame.index) != end + length:
        return None
    return StepHead(step, time, count, frame.index[end:], frame.kind & ~frames.KIND)


def read_shard(place: JournalPlace, sent: Sequence[JournalFile] | None = None) -> Shard:
    """All that can be read of a journal; what cannot be read is noted in `troubles`.

    `sent` are its files at an address; by default those at the address that the folder notes. Raises NewerVersionError
    for a journal that a newer version of insitu wrote.
    """
    shard, scan = Shard(place), None
    state = state_of(place)  # before reading: a journal that ends while it is read was not killed
    for file in _files_of_journal(shard, sent):
        try:
            with _source(file) as source:
                _report_torn_end(shard, scan)
                sequence = -1 if scan is None else scan.sequence
                scan = source(sequence)
                _read_file(shard, file, scan)
        except NewerVersionError:
            raise
        except OSError as error:  # a StoreError is one
            shard.add_trouble(f"{file.path.name} cannot be read: {error.strerror or error}")
    if shard.ended is not None:
        _report_torn_end(shard, scan)
    shard.state = _final_state(shard, state)
    return shard


@contextmanager
def _source(file: JournalFile) -> Iterator[Callable[[int], frames.FrameScan | HeadScan]]:
    """A function that scans a file, from a sequence number on."""
    if file.address is None and not os.path.lexists(file.path):
        file = moved(file)
    if file.address is not None:
        pool = FilePool([file])
        yield lambda sequence: pool.scan(0, sequence)
        return
    with open_for_reading(file.path) as descriptor:
        tag = _tag_of(descriptor, file.tag)
        yield lambda sequence: frames.FrameScan(frames.OpenFile(descriptor), tag, sequence)


def _files_of_journal(shard: Shard, sent: Sequence[JournalFile] | None) -> list[JournalFile]:
    """The files of a journal, on this machine and at an address; if there are several journals, those of the largest.

    A segment that is in both places is read from this machine.
    """
    folder = shard.place.path
    sizes: dict[bytes, int] = {}
    local, error = _local_files(folder)  # before those at the address: a segment is always in one of the two
    if sent is None:
        sent, trouble = sent_files(shard.place)
        if trouble:
            shard.add_trouble(trouble)
    found = {file.path.name: file for file in (*sent, *local)}
    if error and not found:
        shard.add_trouble(f"{folder.name} cannot be read: {error}")
        return []
    if not found:
        shard.add_trouble(f"{folder.name} holds no journal")
        return []
    for file in found.values():
        sizes[file.tag] = sizes.get(file.tag, 0) + file.size
    largest = max(sizes, key=lambda tag: sizes[tag])
    for tag in sizes.keys() - {largest}:
        shard.add_trouble(f"{folder.name} also has the journal {tag.hex()} of another process")
    shard.tag = largest.hex()
    return sorted((file for file in found.values() if file.tag == largest), key=lambda file: segment_number(file.path))


def _local_files(folder: Path) -> tuple[list[JournalFile], str]:
    """The files of a journal on this machine; or why they cannot be read."""
    try:
        return [JournalFile(path, path.stat().st_size, tag) for path, tag in journal_files(folder)], ""
    except OSError as error:
        return [], error.strerror or str(error)


def _report_torn_end(shard: Shard, scan: frames.FrameScan | HeadScan | None) -> None:
    """Report a damaged end of a file after which more was written; the last file of a killed process may be torn."""
    if scan is None or not scan.gaps:
        return
    start, end = scan.gaps[-1]
    if end == scan.source.size:
        shard.add_trouble(f"the last {end - start} bytes of {shard.files[-1].path.name} are damaged")


def _final_state(shard: Shard, state: State) -> State:
    if shard.ended is not None:
        return "ended"
    return "killed" if state == "ended" else state  # the END frame is there, and damaged


def _tag_of(file: int, name_tag: bytes) -> bytes:
    """The tag at the beginning of a file and before its first frame; if the two differ, the one in its name."""
    size, begin = len(frames.MAGIC), read_at(file, 24, 0)
    first, second = begin[size : size + 8], begin[size + 8 : size + 16]
    if first == second and len(first) == 8:
        return first
    return name_tag


def _read_file(shard: Shard, file: JournalFile, scan: frames.FrameScan | HeadScan) -> None:
    """Take the frames of a file."""
    size, expected, name = scan.source.size, scan.sequence + 1, file.path.name
    lost_segments = _segments_between(shard, file)
    shard.size += size
    shard.files.append(JournalFile(file.path, size, scan.tag, file.address))
    before = scan.sequence
    for frame in scan.frames():
        if frame.sequence != expected:
            what = f"{frame.sequence - expected} frames are missing before byte {frame.start} of {name}"
            shard.add_trouble(f"{what}{lost_segments}")
        expected, lost_segments = frame.sequence + 1, ""
        try:
            read_frame(shard, frame)
        except NewerVersionError:
            raise
        except FRAME_ERRORS as error:
            shard.add_trouble(f"a frame of {name} cannot be understood: {error!r}")
    _check_magic(shard, file.path, scan, has_frames=scan.sequence > before)
    for start, end in scan.gaps:
        if end < size:
            shard.add_trouble(f"{end - start} bytes of {name} are damaged, from byte {start}")


def _segments_between(shard: Shard, file: JournalFile) -> str:
    """Which segments are missing before a file, as the end of a sentence; empty if none is."""
    first = segment_number(shard.files[-1].path) + 1 if shard.files else 0
    last = segment_number(file.path) - 1
    if first > last:
        return ""
    if first == last:
        return f": segment {first} is missing"
    return f": the segments {first} to {last} are missing"


def read_frame(shard: Shard, frame: frames.Frame) -> None:
    """Take a frame: count its step, read its declarations or its event; raises if it makes no sense."""
    shard.sequence = frame.sequence
    _READERS[frame.kind & frames.KIND](shard, frame)


def _check_magic(shard: Shard, path: Path, scan: frames.FrameScan | HeadScan, *, has_frames: bool) -> None:
    """Look at the first bytes of a file. One bit may be damaged: frames that can be read prove that it is not newer."""
    magic = scan.magic()
    if magic == frames.MAGIC[: len(magic)]:
        return
    version = frames.magic_version(magic) or 0
    if version > JOURNAL_VERSION and not has_frames:
        check_version("journal", version, JOURNAL_VERSION)
    shard.add_trouble(f"{path.name} is damaged: it begins with {magic!r}, not {frames.MAGIC!r}")


def _read_about(shard: Shard, frame: frames.Frame) -> None:
    record = json.loads(frame.index)
    check_version("journal", record["format_version"], JOURNAL_VERSION)
    shard.started = float(record["time"]) if shard.started is None else shard.started
    shard.owner = JournalOwner.from_json(record)
    about = plain_value(checked_text(record["facts"]))
    shard.about = about if isinstance(about, dict) else {}
    shard.names.read(record["declared"])


def _read_step(shard: Shard, frame: frames.Frame) -> None:
    head = step_head(frame)
    if head is None:
        raise ValueError(f"a step whose index has {len(frame.index)} bytes")
    if head.text:
        shard.names.read(json.loads(head.text))
    place = FramePlace(segment_number(shard.files[-1].path), frames.position_of(frame), frame.sequence - 1)
    shard.counts.add(head, place)


def _read_event(shard: Shard, frame: frames.Frame) -> None:
    record = json.loads(frame.index)
    step = None if record["step"] is None else int(record["step"])
    kind, text, time = str(record["kind"]), str(record["text"]), float(record["time"])
    shard.events.append(RunEvent(kind, text, step, shard.rank, time, shard.attempt))


def _read_end(shard: Shard, frame: frames.Frame) -> None:
    record = json.loads(frame.index)
    shard.names.read(record["declared"])
    shard.ended, shard.dropped = float(record["time"]), int(record["dropped"])
    shard.events.append(RunEvent("end", "", shard.counts.last, shard.rank, shard.ended, shard.attempt))


_READERS: dict[int, Callable[[Shard, frames.Frame], None]] = {
    frames.ABOUT: _read_about,
    frames.STEP: _read_step,
    frames.EVENT: _read_event,
    frames.END: _read_end,
}
