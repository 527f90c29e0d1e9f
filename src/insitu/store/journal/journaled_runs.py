"""The runs whose journals are in one folder: each has an id, and they are never mixed."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.errors import ChoiceError, StoreError
from insitu.store.journal.claims import remove_claims
from insitu.store.journal.journal_state import State, is_over, owner_of, state_of
from insitu.store.journal.parts import JournalPlace, journal_files, places, remove_journal

_SHORT = 8  # characters of an id that people see


@dataclass(frozen=True, slots=True)
class JournaledRun:
    """A run in a folder of journals."""

    id: str
    places: tuple[JournalPlace, ...]

    @property
    def began(self) -> float:
        """When its first journal began; 0 if none of them can be read."""
        times = [owner_of(place.path).began for place in self.places]
        return min(filter(None, times), default=0.0)

    @property
    def states(self) -> set[State]:
        """The states of its journals."""
        return {state_of(place) for place in self.places}

    @property
    def attempts(self) -> set[int]:
        """The numbers of its attempts."""
        return {place.attempt for place in self.places}

    @property
    def has_rank_0(self) -> bool:
        """Whether rank 0 has a journal of it."""
        return any(place.rank == 0 for place in self.places)

    @property
    def is_over(self) -> bool:
        """Whether no process can be writing one of its journals."""
        return all(map(is_over, self.places))

    def __str__(self) -> str:
        ranks = {place.rank for place in self.places}
        listed = f"rank {min(ranks)}" if len(ranks) == 1 else f"{len(ranks)} ranks"
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.began))
        return f"run {self.id[:_SHORT] or 'without an id'} ({listed}, began {began})"


def runs_in(parts: Path) -> dict[str, JournaledRun]:
    """The runs in a folder by id; the one that began last is the last."""
    by_run: dict[str, list[JournalPlace]] = {}
    for place in places(parts):
        by_run.setdefault(place.run, []).append(place)
    runs = [JournaledRun(run, tuple(every)) for run, every in by_run.items()]
    if len(runs) > 1:
        runs.sort(key=lambda run: run.began)
    return {run.id: run for run in runs}


def newest_run(parts: Path) -> JournaledRun:
    """The run in a folder that began last; raises a StoreError if the folder has no run."""
    runs = runs_in(parts)
    if not runs:
        raise StoreError(f"{str(parts)!r} holds no journal of a run")
    return list(runs.values())[-1]


def run_named(parts: Path, name: str) -> JournaledRun:
    """The run whose id begins with this text."""
    runs = runs_in(parts)
    matching = [run for run in runs.values() if run.id.startswith(name)]
    if len(matching) != 1:
        there = ", ".join(run[:_SHORT] for run in runs) or "none"
        raise ChoiceError(f"{name!r} is not the id of one run in {str(parts)!r}; there is {there}")
    return matching[0]


def other_runs(parts: Path, ids: Sequence[str]) -> list[JournaledRun]:
    """The runs in a folder that have none of these ids; none if the folder does not exist."""
    if not os.path.isdir(parts):
        return []
    return [run for run in runs_in(parts).values() if run.id not in ids]


def tag_and_size(place: JournalPlace) -> tuple[str, int]:
    """The tag and the bytes of the journal in a folder; ("", -1) if there are several, or none that can be read."""
    try:
        files = journal_files(place.path)
        tags = {tag.hex() for _, tag in files}
        size = sum(path.stat().st_size for path, _ in files)
    except OSError:
        return "", -1
    if len(tags) != 1:
        return "", -1
    return tags.pop(), size


def run_to_merge(parts: Path, ids: Sequence[str], id_in_file: str | None) -> JournaledRun:
    """The run to merge: the one in the file, or the newest; runs that are known to be one become one."""
    runs = runs_in(parts)
    if not ids:
        return runs.get(id_in_file or "") or newest_run(parts)
    if unknown := [run for run in ids if run not in runs]:
        raise StoreError(f"{str(parts)!r} has no journal of the run {unknown[0]!r}")
    every = [place for run in ids for place in runs[run].places]
    _check_unique(every)
    return JournaledRun(ids[0], tuple(every))


def _check_unique(every: Sequence[JournalPlace]) -> None:
    """Raise if two journals claim to be the same rank of the same attempt."""
    seen: set[tuple[int, int]] = set()
    for place in every:
        if (place.rank, place.attempt) in seen:
            raise StoreError(f"rank {place.rank} is in several of the runs: they are not one run")
        seen.add((place.rank, place.attempt))


def remove_older_runs(parts: Path, run: JournaledRun) -> None:
    """Remove the runs that began before this one, if no process can be writing them.

    A run without a rank 0 stays: it may be a rank of the same job that did not find out which run it belongs to.
    """
    for other in other_runs(parts, [run.id, *{place.run for place in run.places}]):
        if other.has_rank_0 and other.began < run.began and other.is_over:
            _remove_run(parts, other)


def _remove_run(parts: Path, run: JournaledRun) -> None:
    for place in run.places:
        remove_journal(place.path)
    remove_claims(parts, run.id)
