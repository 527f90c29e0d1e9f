"""Writes the journal of one rank while a run goes on, so that a crash cannot take back a recorded step.

Each step is one frame (`frames.py`) or several. They are written before `step` returns: a killed process loses nothing.
A thread makes the system write them to the disk about once a second, so a power cut loses at most that second. A value
that is equal to the one stored last is written as its digest alone.

A journal is a row of files, its segments. A segment ends between two steps when it is large enough or has enough steps.
The next one stores every value again, so that each segment can be read, sent and lost without the others.

A signal handler may raise an exception at any moment. A frame counts from the one assignment on that notes its end in
the file; until then it is cut off again. A caller that does not know whether a frame was written passes it again, with
the same ticket.

A journal belongs to a run, and to an attempt of it (`parts.py`). Its first frame names the process that writes it, and
whether that process got the lock of the file; its last one, END, says that it is complete.
"""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterable, Mapping
from contextlib import suppress
from errno import ENOENT
from functools import lru_cache
from pathlib import Path
from struct import Struct
from threading import RLock
from types import TracebackType
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest

from insitu.errors import StoreError, is_interrupt, tell
from insitu.operating_system import CREATE_TO_APPEND, lock_file, sync_data
from insitu.store.files import PARTS, sync_directory, write_all
from insitu.store.format_version import JOURNAL_VERSION
from insitu.store.journal import frames
from insitu.store.journal.declarations import Declarations, json_bytes
from insitu.store.journal.parts import check_not_link, place_of
from insitu.store.journal.process import Process
from insitu.store.journal.segment_limits import KEPT
from insitu.store.journal.sync_thread import SyncThread
from insitu.store.json_writer import SCALARS, JsonWriter, Repr

# A value of a step: its path, its number among the values of that path in this step, its dtype as torch spells it
# without "torch.", its shape, and its bytes; or, with None for the dtype, any small Python value.
Entry = tuple[str, int, str | None, tuple[int, ...], Any]

SYNC = 1.0
_TRIES = 100


class JournalWriter:
    """Appends steps to the journal of a rank, in a folder that only its owner reads.

    `step` is called in the training loop. If the disk is full or fails, it cuts the torn step off and raises a
    StoreError once. Later steps that cannot be written are counted in `dropped`; the first step that can be written
    again is followed by an event that says so.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, JournalWriter(f"{folder}/run.h5.parts") as journal:
    ...     journal.step(0, 0.0, [("forward.x", 0, "float32", (2,), bytes(8)), ("forward.name", 0, None, (), "a")])
    ...     journal.committed_step
    True
    0
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        rank: int = 0,
        about: Mapping[str, Any] | None = None,
        *,
        run: str = "",
        attempt: int = 0,
        roll: int = KEPT.size,
        roll_steps: int = KEPT.steps,
        sync: float = SYNC,
    ) -> None:
        self.folder = place_of(Path(folder), rank, run, attempt).path
        self.rank = rank
        self.committed_step: int | None = None
        self.dropped = 0
        self._about = {
            "format_version": JOURNAL_VERSION,
            "rank": rank,
            "time": clock.time(),
            "facts": value_json(dict(about or {})),
            "process": Process.current().to_json(),
        }
        self._declarations = Declarations()
        self._last: dict[tuple[int, int], tuple[int, bytes]] = {}
        self._tag, self._sequence, self._number = os.urandom(8), 0, 0
        self._roll, self._roll_steps, self._process = roll, roll_steps, os.getpid()
        self._segment_steps = 0
        self._unchanged = 0  # the most bytes of unchanged values in a frame of this segment: the next stores them again
        self._writing, self._syncing = RLock(), RLock()
        self._file, self._size, self._has_name = -1, 0, True
        self._ticket: int | None = None  # of the frame that was written last
        self._is_unsure = False  # a frame was begun, and it is not known to be whole
        self._is_closed = False
        self._is_dirty = False  # something is written that is not synced
        self._is_name_synced = False
        self._has_failed = False  # the last write failed, and the user was told
        self._full_files: list[int] = []  # to be synced and closed
        self._sync_error: OSError | None = None
        self._last_failure: int | str = ""  # the step, or the name of the frame, that could not be written
        self._make_folder()
        try:
            self._open_next()
        except OSError as error:
            raise StoreError(f"{str(self.folder)!r} cannot be written: {error.strerror}") from error
        self._sync_thread = SyncThread(self._sync, sync)

    def describe(self, path: str, **facts: Any) -> None:
        """Declare facts about a variable: its `source`, the scale of a quantized one, the offset of a local part."""
        with self._writing:
            self._declarations.describe(path, {name: value_json(fact) for name, fact in facts.items()})

    def omit(self, path: str, reason: str, *, step: int) -> None:
        """Declare that values of a path are not recorded; the next step writes this."""
        with self._writing:
            self._declarations.omit(path, reason, step)

    def step(
        self, step: int, time: float, entries: Iterable[Entry], *, flags: int = 0, ticket: int | None = None
    ) -> bool:
        """Write values of a step, and return whether they are written. A value that has not changed takes 40 bytes.

        `flags` are those of `frames.py`. A frame with the ticket of the last one is not written again.
        """
        with self._writing:
            self._check_open()
            if ticket is not None and ticket == self._ticket:
                return True
            try:
                self._begin_frame()
                if not flags & frames.MORE:
                    if self._size >= self._roll or self._segment_steps >= self._roll_steps:
                        self._begin_segment()
                    self._segment_steps += 1
                index, pieces, size = self._pack(step, time, entries)
                self._append(frames.STEP | flags, index, pieces, size, step=step, ticket=ticket)
            except OSError as error:
                return self._fail(step, error)
            except BaseException:
                self._last.clear()
                raise
            if self._has_failed or self._sync_error:
                self._report_trouble()
            return True

    def holds(self, entry: Entry) -> bool:
        """Whether a value is equal to the one that was last written for its path and call."""
        path, call, dtype, shape, data = entry
        with self._writing:
            found = self._declarations.known.get((path, str(dtype), shape))
            if found is None:
                return False
            variable, layout, _ = found
            return self._last.get((variable, call)) == (layout, xxh3_128_digest(data))

    def event(self, kind: str, text: str, *, step: int | None = None, time: float | None = None) -> bool:
        """Write an event of the run: a mark, an error, trouble with the disk."""
        when = clock.time() if time is None else time
        index = json_bytes({"kind": kind, "text": text, "step": step, "time": when})
        with self._writing:
            self._check_open()
            try:
                self._begin_frame()
                self._append(frames.EVENT, index, [], 0)
            except OSError as error:
                return self._fail(f"the event {kind!r}", error)
            return True

    def flush(self) -> None:
        """Wait until everything that was written is on the disk."""
        with self._writing:
            self._check_open()
            self._sync(always=True)
            error, self._sync_error = self._sync_error, None
        if error is not None:
            raise StoreError(f"{str(self.folder)!r} cannot be written to the disk: {error.strerror}") from error

    def close(self) -> None:
        """End the journal; the steps stay readable even if that fails."""
        if self._is_closed:
            return
        if self._process != os.getpid():  # a child process: the journal belongs to its parent
            self._close_files()
            self._is_closed = True
            return
        self._sync_thread.stop()
        with self._writing:
            try:
                self._end()
            finally:
                self._sync(always=True)
                self._close_files()
            self._is_closed = True

    def __enter__(self) -> JournalWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if error is not None and self._file >= 0 and self._process == os.getpid():
            with suppress(StoreError):
                self.event("error", f"{type(error).__name__}: {error}"[:1000])
        self.close()

    def _end(self) -> None:
        facts = {"time": clock.time(), "dropped": self.dropped, "declared": self._declarations.records}
        try:
            self._begin_frame()
            last = frames.last_bytes(self._tag)
            self._append(frames.END, json_bytes(facts), [last], len(last))
        except OSError as error:
            self._fail("the end", error)

    def _pack(self, step: int, time: float, entries: Iterable[Entry]) -> tuple[bytes, list[Any], int]:
        """The index and the data of a step, and the bytes of the data. One loop, because it runs for every value."""
        known, declare, last = self._declarations.known, self._declarations.declare, self._last
        fields: list[Any] = []
        pieces: list[Any] = []
        total = unchanged = 0
        for path, call, dtype, shape, data in entries:
            if dtype is None:
                data = value_json(data).encode("ascii")
                dtype, shape = "json", (len(data),)
            found = known.get((path, dtype, shape))
            variable, layout, size = found if found is not None else declare(path, dtype, shape)
            if len(data) != size:
                data = _checked_bytes(path, dtype, shape, size, data)
            digest = xxh3_128_digest(data)
            mark = (layout, digest)
            if last.get((variable, call)) == mark:
                fields += (variable, layout, call, frames.SAME, size, digest)
                unchanged += size
            else:
                last[variable, call] = mark
                fields += (variable, layout, call, frames.STORED, size, digest)
                pieces.append(data)
                total += size
        if unchanged > self._unchanged:
            self._unchanged = unchanged
        text = self._declarations.unwritten()
        count = len(fields) // 6
        index = b"".join(
            (frames.STEP_HEAD.pack(step, time, count, len(text)), _entries_struct(count).pack(*fields), text),
        )
        return index, pieces, total

    def _begin_frame(self) -> None:
        """Cut off the rest of an interrupted frame, and forget the values that it was to store."""
        if self._is_unsure:
            self._cut()
        if self._file >= 0 and self._has_name and os.fstat(self._file).st_nlink == 0:
            self._recreate()
        self._is_unsure = True

    def _begin_segment(self) -> None:
        """Begin another segment, which stores all values anew; not if these would be more than half of this one."""
        is_worth_it = self._size >= 2 * self._unchanged
        if self._segment_steps and is_worth_it:
            self._last.clear()
            self._open_next()

    def _append(
        self,
        kind: int,
        index: bytes,
        pieces: list[Any],
        size: int,
        *,
        step: int | None = None,
        ticket: int | None = None,
    ) -> None:
        """Write a frame whole, or nothing."""
        if self._file < 0:
            self._open_next()
        head = frames.head(self._tag, kind, self._sequence, index, size)
        end, number = self._size + len(head) + size, self._sequence + 1
        committed = self.committed_step if step is None else step
        try:
            write_all(self._file, [head, *pieces], len(head) + size)
        except BaseException:
            self._cut()
            raise
        last = self._ticket if step is None else ticket
        # One assignment, within which Python handles no signal: from here on the frame counts.
        self._size, self._sequence, self._ticket, self.committed_step = end, number, last, committed
        self._is_unsure, self._is_dirty = False, True
        if step is not None:
            self._declarations.mark_written()

    def _cut(self) -> None:
        """Cut a torn frame off; if that fails, go on in another file: the reader skips the torn frame."""
        self._last.clear()
        if self._file < 0:
            return
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            self._retire_file()

    def _retire_file(self) -> None:
        """Let the sync thread close the file; the next frame begins another one."""
        # One assignment before the append: a file that is in both places would be closed twice.
        file, self._file, self._size = self._file, -1, 0
        self._full_files.append(file)

    def _fail(self, frame: int | str, error: OSError) -> bool:
        """Handle a frame, the number of a step or a name, that could not be written; False if the user was told before.

        Errors that are not those of the disk are raised again.
        """
        self._last.clear()
        is_wrong_value = isinstance(error, StoreError)
        if is_wrong_value or is_interrupt(error):  # a TimeoutError of the user is an OSError, too
            raise error
        self.dropped += isinstance(frame, int) and frame != self._last_failure
        self._last_failure = frame
        if self._has_failed:
            return False
        self._has_failed = True
        name = f"step {frame}" if isinstance(frame, int) else frame
        raise StoreError(
            f"{name} of rank {self.rank} is not recorded: {error.strerror or error}; {self._kept_text()} kept in"
            f" {str(self.folder)!r}. Recording goes on when the disk accepts data again"
        ) from error

    def _kept_text(self) -> str:
        if self.committed_step is None:
            return "nothing was"
        return f"all up to step {self.committed_step} is"

    def _report_trouble(self) -> None:
        """Write an event: the disk accepts steps again, or could not be synced."""
        text = f"fdatasync: {self._sync_error}"
        if self._has_failed:
            text = f"{self.dropped} step{'s' * (self.dropped > 1)} could not be written"
        self._has_failed, self._sync_error, self._last_failure = False, None, ""
        with suppress(StoreError):
            self.event("trouble", text, step=self.committed_step)

    def _make_folder(self) -> None:
        try:
            for _ in range(_TRIES):
                check_not_link(self.folder.parent)
                os.makedirs(self.folder.parent, mode=0o700, exist_ok=True)
                with suppress(FileNotFoundError):  # the process that merged an older run has just removed it
                    os.mkdir(self.folder, mode=0o700)
                    return
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT))
        except FileExistsError:
            of = str(self.folder.parent).removesuffix(PARTS)
            raise StoreError(
                f"{str(self.folder)!r} is there already, from a run that was killed or still goes on:"
                f" `insitu recover {of}` makes its file; or give another name, or overwrite=True"
            ) from None
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{str(self.folder)!r} cannot be made: {error.strerror}") from error

    def _recreate(self) -> None:
        """Go on in a new file after the journal was deleted, and report that."""
        self._last.clear()
        self._retire_file()
        lost = "nothing" if self.committed_step is None else f"all up to step {self.committed_step}"
        text = f"{str(self.folder)!r} was deleted while it is written: {lost} is gone, and later steps are recorded"
        self._open_next()
        tell(text)
        self.event("trouble", text, step=self.committed_step)

    def _open_next(self) -> None:
        """Begin a file. It repeats all declarations, so that it can be read without the files before it."""
        path = self.folder / f"{self._number:05d}-{self._tag.hex()}.journal"
        self._number += 1  # at once: after an interruption the name is taken
        sequence, full = self._sequence + 1, self._file
        try:
            file = _new_file(path)
        except FileNotFoundError:  # the folder was deleted
            self._make_folder()
            file = _new_file(path)
        try:
            index = json_bytes({**self._about, "lock": lock_file(file), "declared": self._declarations.records})
            begin = frames.MAGIC + self._tag + frames.head(self._tag, frames.ABOUT, self._sequence, index, 0)
            write_all(file, [begin], len(begin))
            has_name = os.fstat(file).st_nlink > 0  # not every file system counts names
        except BaseException:
            os.close(file)
            os.unlink(path)
            raise
        # One assignment, within which Python handles no signal. The sync thread must see the file before the flags.
        self._file, self._size, self._sequence, self._has_name, self._is_dirty, self._is_name_synced = (
            *(file, len(begin), sequence, has_name),
            *(True, False),
        )
        self._segment_steps = self._unchanged = 0
        if full >= 0:
            self._full_files.append(full)

    def _sync(self, always: bool = False) -> None:
        """Make the system write its data to the disk, and close the files that are full."""
        with self._syncing:
            if not (self._is_dirty or self._full_files or always):
                return
            self._is_dirty = False
            full = [self._full_files.pop(0) for _ in range(len(self._full_files))]
            try:
                for file in (*full, self._file):
                    if file >= 0:
                        sync_data(file)
                if not self._is_name_synced:
                    self._is_name_synced = True
                    sync_directory(self.folder)
            except OSError as error:
                self._sync_error = _disk_error(error)
            finally:
                for file in full:
                    os.close(file)

    def _close_files(self) -> None:
        for file in (self._file, *self._full_files):
            if file >= 0:
                os.close(file)
        self._file, self._full_files = -1, []

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise StoreError(f"{str(self.folder)!r} belongs to process {self._process}: a child cannot write to it")
        if not self._sync_thread.is_running:
            raise StoreError(f"{str(self.folder)!r} is closed")


def _new_file(path: Path) -> int:
    return os.open(path, CREATE_TO_APPEND, 0o600)


@lru_cache(maxsize=256)
def _entries_struct(count: int) -> Struct:
    return Struct("<" + frames.ENTRY_FORMAT * count)


def _disk_error(error: OSError) -> OSError:
    """The error; a TimeoutError that a signal handler of the user raised is raised again."""
    if is_interrupt(error):
        raise error
    return error


def _checked_bytes(path: str, dtype: str, shape: tuple[int, ...], size: int, data: Any) -> memoryview:
    view = memoryview(data)
    if view.nbytes != size:
        raise StoreError(f"{path!r} has {view.nbytes} bytes, and {dtype} of shape {tuple(shape)} takes {size}")
    return view


def value_json(value: Any) -> str:
    """A small Python value as text; any other object becomes its shortened repr, marked as such.

    >>> value_json({"lr": 0.1}), value_json(None)
    ('{"dict":[["lr",0.1]]}', 'null')
    """
    scalar = SCALARS.get(type(value))
    if scalar is not None:  # mostly
        return scalar(value)
    arrays: list[Any] = []
    if isinstance(value, np.generic) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        value = value.item()
    text = JsonWriter(arrays).json(value)
    if arrays:  # arrays are variables of their own
        text = JsonWriter([]).json(Repr(type(value).__name__, repr(value)[:200]))
    return text
