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
        return min((began for place in self.places if (began := owner_of(place.path).began)), default=0.0)

    @property
    def states(self) -> set[State]:
        """How its journals are getting on."""
        return {state_of(place) for place in self.places}

    @property
    def attempts(self) -> set[int]:
        """Its attempts."""
        return {place.attempt for place in self.places}

    def __str__(self) -> str:
        ranks = sorted({place.rank for place in self.places})
        listed = f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks)} ranks"
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.began))
        return f"run {self.id[:_SHORT] or 'without an id'} ({listed}, began {began})"


def runs_in(parts: Path) -> dict[str, JournaledRun]:
    """The runs in a folder by id, the one that began last at the end."""
    by_run: dict[str, list[JournalPlace]] = {}
    for place in places(parts):
        by_run.setdefault(place.run, []).append(place)
    found = [JournaledRun(run, tuple(every)) for run, every in by_run.items()]
    return {run.id: run for run in (sorted(found, key=lambda run: run.began) if len(found) > 1 else found)}


def newest_run(parts: Path) -> JournaledRun:
    """The run in a folder that began last."""
    found = runs_in(parts)
    if not found:
        raise StoreError(f"{str(parts)!r} holds no journal of a run")
    return list(found.values())[-1]


def run_named(parts: Path, name: str) -> JournaledRun:
    """The run whose id begins like this."""
    found = runs_in(parts)
    fitting = [run for run in found.values() if run.id.startswith(name)]
    if len(fitting) != 1:
        there = ", ".join(run[:_SHORT] for run in found) or "none"
        raise ChoiceError(f"{name!r} is not the id of one run in {str(parts)!r}; there is {there}")
    return fitting[0]


def others_in(parts: Path, ids: Sequence[str]) -> list[JournaledRun]:
    """The other runs in a folder, which may not be there."""
    if not os.path.isdir(parts):
        return []
    return [run for run in runs_in(parts).values() if run.id not in ids]


def tag_and_size(place: JournalPlace) -> tuple[str, int]:
    """Which journal is in a folder, and its bytes; nothing if there are several, or none that can be read."""
    try:
        found = journal_files(place.path)
        tags = {tag.hex() for _, tag in found}
        return (tags.pop(), sum(path.stat().st_size for path, _ in found)) if len(tags) == 1 else ("", -1)
    except OSError:
        return "", -1


def check_journals(parts: Path) -> None:
    """Raise if there is nothing to merge."""
    if not places(parts):
        raise StoreError(f"{str(parts)!r} holds no journal of a run")


def run_to_merge(parts: Path, runs: Sequence[str], in_file: str | None) -> JournaledRun:
    """The run to merge: the one in the file, or the newest; several that are known to be one become one."""
    there = runs_in(parts)
    if not runs:
        return there.get(in_file or "") or list(there.values())[-1]
    if unknown := [run for run in runs if run not in there]:
        raise StoreError(f"{str(parts)!r} has no journal of the run {unknown[0]!r}")
    every = [place for run in runs for place in there[run].places]
    _check_once(every)
    return JournaledRun(runs[0], tuple(every))


def _check_once(every: Sequence[JournalPlace]) -> None:
    """Raise if two journals say that they are the same rank of the same attempt."""
    seen: set[tuple[int, int]] = set()
    for place in every:
        if (place.rank, place.attempt) in seen:
            raise StoreError(f"rank {place.rank} is in several of the runs: they are not one run")
        seen.add((place.rank, place.attempt))


def remove_older(parts: Path, run: JournaledRun) -> None:
    """Remove the runs that began before this one, if no process can be writing them.

    A run without a rank 0 stays: it may be a rank of the same job that did not find out which run it belongs to.
    """
    for other in others_in(parts, [run.id, *{place.run for place in run.places}]):
        has_first = any(place.rank == 0 for place in other.places)
        is_older = has_first and other.began < run.began
        if is_older and all(is_over(place) for place in other.places):
            for place in other.places:
                remove_journal(place.path)
            remove_claims(parts, other.id)
