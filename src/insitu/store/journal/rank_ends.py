"""The end of a job: rank 0 waits until the journals of the other ranks have ended. No collective is needed."""

from __future__ import annotations

import time
from pathlib import Path

from insitu.store.journal.claims import Start
from insitu.store.journal.journal_state import state_of
from insitu.store.journal.parts import place_of

POLL = 0.05
SLOWEST_POLL = 0.5
LATEST = 2.0  # seconds after the end of rank 0 in which another rank may still begin to record


def wait_for_ranks(parts: Path, start: Start, count: int, *, patience: float) -> list[int]:
    """Wait until every rank has ended, is known to be dead, or has not begun `LATEST` seconds after rank 0 ended.

    Returns the ranks that may still run after so many seconds.
    """
    begin, pause = time.monotonic(), POLL
    waiting = _pending(parts, start, list(range(count)), is_late=False)
    while waiting and time.monotonic() < begin + patience:
        time.sleep(pause)
        pause = min(SLOWEST_POLL, pause * 1.2)
        waiting = _pending(parts, start, waiting, is_late=time.monotonic() > begin + LATEST)
    return waiting


def _pending(parts: Path, start: Start, ranks: list[int], *, is_late: bool) -> list[int]:
    return [rank for rank in ranks if _is_pending(parts, start, rank, is_late=is_late)]


def _is_pending(parts: Path, start: Start, rank: int, *, is_late: bool) -> bool:
    place = place_of(parts, rank, start.run, start.attempt)
    if not place.path.is_dir():
        return not is_late
    return state_of(place) in ("running", "unknown")
