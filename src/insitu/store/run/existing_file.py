"""What is at the place of a file before a run is merged into it: the same run, another file, or nothing."""

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
    """What is at the target before a merge: a file with a run, another file, or nothing."""

    def __init__(self, file: RunFileReader | None = None, stamp: tuple[int, int, int] | None = None) -> None:
        self.file, self._stamp = file, stamp

    @classmethod
    def of(cls, target: Path) -> ExistingFile:
        """What is there now."""
        stamp = _stamp(target)
        try:
            return cls(RunFileReader(target) if stamp is not None and holds_run(target) else None, stamp)
        except StoreError:  # it is another file, or a damaged one
            return cls(None, stamp)

    @property
    def run_id(self) -> str | None:
        """The id of the run in the file."""
        return self.file.run_id if self.file is not None else None

    @property
    def shards(self) -> list[ShardFacts]:
        """The journals that the file has."""
        return self.file.shards if self.file is not None else []

    def holds(self, run: JournaledRun) -> bool:
        """Whether the file is of this run. Without ids it is if they have a journal in common."""
        if self.run_id != run.id:
            return False
        return bool(run.id) or bool({facts.tag for facts in self.shards} & {tag_and_size(at)[0] for at in run.places})

    def check_unchanged(self, target: Path) -> None:
        """Raise if another program has changed the file."""
        if self.file is not None and _stamp(target) != self._stamp:
            raise StoreError(f"{str(target)!r} was changed while it was added to: try again")

    def __enter__(self) -> ExistingFile:
        return self

    def __exit__(self, *raised: object) -> None:
        if self.file is not None:
            self.file.close()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        found = os.stat(path)
        return found.st_ino, found.st_size, found.st_mtime_ns
    return None
