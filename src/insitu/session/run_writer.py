"""Where a recorded run goes: the journal of this process while it runs, and the file that is merged at the end."""

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
from insitu.store.journal.claims import Start
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.parts import parts_of, remove_journal
from insitu.store.journal.rank_ends import wait_for_ranks
from insitu.store.run.merge import merge_journals
from insitu.store.run.run import Run, joined_run
from insitu.store.run.run_start import open_journal
from insitu.view.progress import working

MOST_RANKS_NAMED = 8


class RunWriter:
    """The journal of this process, and the file that rank 0 makes of all journals."""

    def __init__(self, to: Path | None, journal: JournalWriter, start: Start, folder: Path) -> None:
        self.to, self.journal, self.start, self.folder = to, journal, start, folder
        self.rank, self._ranks = dist.current_rank(), dist.world_size()

    @classmethod
    def open(cls, to: Path, about: dict[str, Any], *, overwrite: bool, resume: bool) -> RunWriter:
        """Open a journal beside the file of the run."""
        folder = parts_of(to)
        journal, start = open_journal(
            folder,
            to,
            about,
            rank=dist.current_rank(),
            ranks=dist.world_size(),
            overwrite=overwrite,
            resume=resume,
        )
        return cls(to, journal, start, folder)

    @classmethod
    def open_temporary(cls, about: dict[str, Any], owner: object) -> RunWriter:
        """Open a journal in a temporary folder, which is removed together with its owner."""
        temporary = tempfile.mkdtemp(prefix="insitu-")
        weakref.finalize(owner, _remove_folder, temporary, os.getpid())
        folder, start = parts_of(Path(temporary) / "run.h5"), Start.new()
        journal = JournalWriter(folder, dist.current_rank(), about, run=start.run)
        return cls(None, journal, start, folder)

    def run(self) -> Run:
        """The run as it is on the disk now."""
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
        remove_journal(self.journal.folder)
        with suppress(OSError):  # other ranks have begun
            self.folder.rmdir()

    def merge(
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
