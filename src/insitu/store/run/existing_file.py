"""The file at the target of a merge before it begins: a file with a run, another file, or none."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from insitu.errors import StoreError
from insitu.store.hdf5 import holds_run
from insitu.store.journal.journaled_runs import JournaledRun, tag_and_size
from insitu.store.journal.shard_facts import ShardFacts
from insitu.store.run.run_file_reader import RunFileReader


class ExistingFile:
    """The file at the target of a merge; `file` is None if there is none, or it holds no run that can be read."""

    def __init__(self, file: RunFileReader | None = None, stamp: tuple[int, int, int] | None = None) -> None:
        self.file, self._stamp = file, stamp

    @classmethod
    def open(cls, target: Path) -> ExistingFile:
        """The file that is there now."""
        stamp = _stamp(target)
        try:
            return cls(RunFileReader(target) if stamp is not None and holds_run(target) else None, stamp)
        except StoreError:  # it holds something else, or is damaged
            return cls(None, stamp)

    @property
    def run_id(self) -> str | None:
        """The id of the run in the file."""
        if self.file is not None:
            found: str | None = self.file.run_id
            return found
        return None

    @property
    def shards(self) -> list[ShardFacts]:
        """The journals that the file holds."""
        if self.file is not None:
            return self.file.shards
        return []

    def holds(self, run: JournaledRun) -> bool:
        """Whether the file is of this run."""
        return self.file is not None and is_same_run(self.file, run)

    def check_unchanged(self, target: Path) -> None:
        """Raise if another program has changed the file."""
        if self.file is not None and _stamp(target) != self._stamp:
            raise StoreError(f"{str(target)!r} was changed while it was added to: try again")

    def __enter__(self) -> ExistingFile:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.file is not None:
            self.file.close()


def is_same_run(file: RunFileReader, run: JournaledRun) -> bool:
    """Whether a file and journals are of the same run. Without ids they are if they have a journal in common."""
    if file.run_id != run.id:
        return False
    return bool(run.id) or bool({facts.tag for facts in file.shards} & {tag_and_size(at)[0] for at in run.places})


def _stamp(path: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None
