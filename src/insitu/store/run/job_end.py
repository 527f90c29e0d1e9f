"""The end of a job: rank 0 waits for the journals of the others, and makes one file of all. No collective is needed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from insitu.store.journal.claims import Start
from insitu.store.journal.journal_state import state_of
from insitu.store.journal.parts import JournalPlace, place_of
from insitu.store.run.merge import merge_journals

POLL = 0.05
SLOWEST_POLL = 0.5
LATEST = 2.0  # seconds after the end of rank 0 in which a rank that has not begun to record may still do so


@dataclass(frozen=True, slots=True)
class Ranks:
    """The journals of all ranks of one start of a job."""

    parts: Path
    start: Start
    count: int

    def wait(self, patience: float) -> list[int]:
        """Wait until every rank has ended, is known to be dead, or has not begun `LATEST` seconds after rank 0 ended.

        Given back are the ranks that may still run.
        """
        begin, pause = time.monotonic(), POLL
        waiting = self._pending(list(range(self.count)), is_late=False)
        while waiting and time.monotonic() < begin + patience:
            time.sleep(pause)
            pause = min(SLOWEST_POLL, pause * 1.2)
            waiting = self._pending(waiting, is_late=time.monotonic() > begin + LATEST)
        return waiting

    def _pending(self, ranks: list[int], *, is_late: bool) -> list[int]:
        return [rank for rank in ranks if self._is_pending(rank, is_late)]

    def _is_pending(self, rank: int, is_late: bool) -> bool:
        place = self._place(rank)
        return state_of(place) in ("running", "unknown") if place.path.is_dir() else not is_late

    def _place(self, rank: int) -> JournalPlace:
        return place_of(self.parts, rank, self.start.run, self.start.attempt)

    def merge(self, target: Path, *, compression: str, overwrite: bool) -> list[str]:
        """Make the file of the run, or add to it; what is missing in it is given back."""
        run = [self.start.run]
        return merge_journals(
            self.parts, target, runs=run, compression=compression, overwrite=overwrite, replace_older=overwrite
        )
