"""Writes a recorded run: the journal of this process while it runs, then the file, or what is left to send."""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

from insitu.errors import StoreError, tell
from insitu.session import dist
from insitu.session.run_destination import RunDestination
from insitu.store.journal.claims import Start
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.parts import parts_of, place_of, remove_journal
from insitu.store.journal.rank_ends import wait_for_ranks
from insitu.store.journal.sender import SegmentSender
from insitu.store.run.merge import merge_journals
from insitu.store.run.run import Run, joined_run
from insitu.store.run.run_start import open_journal
from insitu.store.run.sharded_run import sent_run
from insitu.view.progress import working

MOST_RANKS_NAMED = 8


class RunWriter:
    """The journal of this process, and the file that rank 0 makes of all journals, or the thread that sends them."""

    def __init__(self, destination: RunDestination, journal: JournalWriter, start: Start, folder: Path) -> None:
        self.to, self._address, self._does_merge = destination.file, destination.address, destination.does_merge
        self.journal, self.start, self.folder = journal, start, folder
        self._sender = self._open_sender()
        self.rank, self._ranks = dist.current_rank(), dist.world_size()

    @classmethod
    def open(cls, destination: RunDestination, about: dict[str, Any], *, overwrite: bool, resume: bool) -> RunWriter:
        """Open a journal beside the file of the run."""
        to = destination.file or Path()
        folder = parts_of(to)
        journal, start = open_journal(
            folder,
            to,
            about,
            rank=dist.current_rank(),
            ranks=dist.world_size(),
            # What an earlier run left in the spool is sent, too: it is not in the way.
            overwrite=overwrite or destination.address is not None,
            resume=resume,
            limits=destination.limits,
        )
        return cls(destination, journal, start, folder)

    @classmethod
    def open_temporary(cls, about: dict[str, Any], owner: object) -> RunWriter:
        """Open a journal in a temporary folder, which is removed together with its owner."""
        temporary = tempfile.mkdtemp(prefix="insitu-")
        weakref.finalize(owner, _remove_folder, temporary, os.getpid())
        folder, start = parts_of(Path(temporary) / "run.h5"), Start.new()
        journal = JournalWriter(folder, dist.current_rank(), about, run=start.run)
        return cls(RunDestination(), journal, start, folder)

    def _open_sender(self) -> SegmentSender | None:
        if self._address is None:
            return None
        return SegmentSender(place_of(self.folder, self.journal.rank, *self._run_and_attempt), self._address)

    @property
    def _run_and_attempt(self) -> tuple[str, int]:
        return self.start.run, self.start.attempt

    def run(self) -> Run:
        """The run as it is on the disk now, and at the address."""
        if self._address is not None:
            return sent_run(self._address, self.folder, self.start.run)
        file = self.to or self.folder.with_suffix("")
        return joined_run(file, self.folder, self.start.run)

    def close(self, error: BaseException | None, *, step: int, is_incomplete: bool) -> None:
        """Close the journal; `error` is the exception that ended the recording."""
        self.journal.dropped += is_incomplete
        if error is not None:
            self.note_error(error, step)
        self.journal.close()

    def note_error(self, error: BaseException, step: int) -> None:
        """Write that an exception has ended a part of the recording."""
        with suppress(StoreError):
            self.journal.event("raised", type(error).__name__, step=step, time=time.time())

    def discard(self) -> None:
        """Remove the journal, which is empty."""
        if self._sender is not None:
            self._sender.close(patience=0.0)
        remove_journal(self.journal.folder)
        with suppress(OSError):  # other ranks have begun
            self.folder.rmdir()

    def finish(
        self, *, patience: float, compression: str, overwrite: bool, trouble: Callable[[str, Exception], None]
    ) -> None:
        """Send the last segment, or make the file."""
        if self._sender is not None:
            self._tell_unsent(self._sender.close(patience=patience))
        elif self._does_merge:
            self._merge(patience=patience, compression=compression, overwrite=overwrite, trouble=trouble)

    def _tell_unsent(self, files: list[Path]) -> None:
        if not files or self._address is None:
            return
        count = "1 segment" if len(files) == 1 else f"{len(files)} segments"
        are = "is" if len(files) == 1 else "are"
        tell(
            f"{count} of rank {self.rank} {are} not at {self._address.text} yet: `insitu recover {self.to}"
            f" --to {self._address.text}` sends what is in {str(self.folder)!r}"
        )

    def _merge(
        self, *, patience: float, compression: str, overwrite: bool, trouble: Callable[[str, Exception], None]
    ) -> None:
        """Wait for the other ranks, and make the file; on another rank, or without a file, do nothing."""
        if self.to is None or self.rank != 0:
            return
        try:
            ranks = max(self._ranks, dist.world_size())  # the process group may be gone by now
            waiting = wait_for_ranks(self.folder, self.start, ranks, patience=patience)
            if waiting and patience == 0.0:  # the other ranks may run for a long time
                self._tell_waiting(waiting)
                return
            with working(f"merging {self.to.name}"):
                missing = merge_journals(
                    self.folder,
                    self.to,
                    runs=[self.start.run],
                    compression=compression,
                    overwrite=overwrite,
                    replace_older=overwrite,
                )
        except Exception as error:
            trouble("making the file of the run", error)
            return
        for text in missing:
            tell(f"{self.to}: {text}")

    def _tell_waiting(self, waiting: list[int]) -> None:
        names = ", ".join(map(str, waiting[:MOST_RANKS_NAMED]))
        if len(waiting) > MOST_RANKS_NAMED:
            names += ", …"
        tell(f"{self.to} is not written yet: rank {names} has not ended. `insitu recover {self.to}` writes it later")

    def tell_journals(self) -> None:
        """Tell the user where the journals are, because the file was not made."""
        if self.to is not None and self.folder.is_dir():
            recover = f"merge them with `insitu recover {self.to}`"
            tell(f"{self.to} was not written: the journals are in {self.folder}; {recover}")


def _remove_folder(folder: str, process: int) -> None:
    """Remove a temporary folder, but not in the child of a fork: the folder belongs to its parent."""
    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)
