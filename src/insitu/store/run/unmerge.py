"""From the file of a run back to journals: what a run had before it was resumed is merged again with what came after.

The journals are made in a folder that passes away, and are read as the ones on the disk are. What they cannot say, as
which process wrote them and when, the file says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from insitu.errors import StoreError
from insitu.store.journal.journal_reader import Shard, read_shard
from insitu.store.journal.journal_writer import Entry, JournalWriter
from insitu.store.journal.parts import place_of
from insitu.store.journal.shard_facts import ShardFacts
from insitu.store.run.run_file_reader import FileVariable, RunFileReader
from insitu.store.stored_type import JSON, Array

_BATCH = 2**26  # bytes of values that are in memory at a time
_NEVER = 1e9


@contextmanager
def unpacked(run: RunFileReader, wanted: Sequence[ShardFacts], parts: Path) -> Iterator[list[Shard]]:
    """The journals of some ranks and attempts, made from the file of their run."""
    folder = parts / f"unpacked-{os.getpid()}-{os.urandom(4).hex()}"
    try:
        yield [_unpacked(run, facts, folder) for facts in wanted]
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(f"{str(folder)!r} cannot be written: {error.strerror or error}") from error
    finally:
        rmtree(folder, ignore_errors=True)


def _unpacked(run: RunFileReader, facts: ShardFacts, folder: Path) -> Shard:
    about = {**run.about_of(facts.attempt), "world_size": facts.world_size}
    rows = [_Rows.of(variable, facts) for variable in run.variables]
    with JournalWriter(folder, facts.rank, about, run=run.run_id, attempt=facts.attempt, sync=_NEVER) as journal:
        for variable in run.variables:
            if said := facts_of_rank(variable.facts, facts.rank):
                journal.describe(variable.path, **said)
        for frames in _batches(run, facts, rows):
            for (step, time), entries in frames:
                journal.step(step, time, entries)
    shard = read_shard(place_of(folder, facts.rank, run.run_id, facts.attempt))
    shard.tag, shard.size, shard.known = facts.tag, facts.size, facts
    shard.started, shard.ended, shard.dropped = facts.started, facts.ended, facts.dropped
    shard.events = [event for event in run.events if (event.rank, event.attempt) == facts.key]
    return shard


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a variable that one journal had, each with the number of the frame it belongs to."""

    variable: FileVariable
    steps: Array
    times: Array
    calls: Array
    slots: Array

    @classmethod
    def of(cls, variable: FileVariable, facts: ShardFacts) -> _Rows:
        columns = variable.columns()
        here = np.flatnonzero((columns.ranks == facts.rank) & (columns.attempts == facts.attempt))
        return cls(variable, *(column[here] for column in (columns.steps, columns.times, columns.calls, columns.index)))


Frames = list[tuple[tuple[int, float], list[Entry]]]


def _batches(run: RunFileReader, facts: ShardFacts, rows: list[_Rows]) -> Iterator[Frames]:
    """The steps of a journal with their values, in groups that fit into the memory."""
    table = run.table_of_steps
    here = (table["rank"] == facts.rank) & (table["attempt"] == facts.attempt)
    steps, times = table["step"][here], table["time"][here]
    places = [_frames_of(each, steps, times) for each in rows]
    sizes = np.zeros(len(steps), np.int64)
    for each, place in zip(rows, places, strict=True):
        np.add.at(sizes, place, each.variable.sizes(each.slots))
    group = np.cumsum(sizes) // _BATCH
    for number in np.unique(group).tolist():
        first, last = np.searchsorted(group, number), np.searchsorted(group, number, side="right")
        made: Frames = [((int(steps[at]), float(times[at])), []) for at in range(first, last)]
        for each, place in zip(rows, places, strict=True):
            chosen = np.flatnonzero((place >= first) & (place < last))
            for at, entry in zip((place[chosen] - first).tolist(), _entries(each, chosen), strict=True):
                made[at][1].append(entry)
        yield made


def _frames_of(rows: _Rows, steps: Array, times: Array) -> Array:
    """The frame of each row. A step that was recorded twice has two: the second value of a call is in the second."""
    both = [np.concatenate([steps, rows.steps]), np.concatenate([times, rows.times]).view(np.int64)]  # NaN too
    ids = np.unique(np.stack(both, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    known, wanted = ids[: len(steps)], ids[len(steps) :]
    order = np.argsort(known, kind="stable")
    first = np.searchsorted(known[order], wanted)
    last = np.searchsorted(known[order], wanted, side="right") - 1
    if not (last >= first).all():
        raise StoreError(f"{rows.variable.name!r} has values in steps that are not there")
    seen: dict[tuple[int, int], int] = {}
    repeats = np.zeros(len(first), np.int64)
    for number in np.flatnonzero(last > first).tolist():
        key = int(first[number]), int(rows.calls[number])
        repeats[number] = seen.get(key, 0)
        seen[key] = seen.get(key, 0) + 1
    found: Array = order[np.minimum(first + repeats, last)]
    return found


def _entries(rows: _Rows, chosen: Array) -> Iterator[Entry]:
    slots, inverse = np.unique(rows.slots[chosen], return_inverse=True)
    pieces = [bytes(piece) for piece in rows.variable.pieces(slots)]
    shapes = [(len(piece),) for piece in pieces] if rows.variable.kind.name == JSON else rows.variable.shapes(slots)
    for call, slot in zip(rows.calls[chosen].tolist(), inverse.tolist(), strict=True):
        yield rows.variable.path, call, rows.variable.kind.name, shapes[slot], pieces[slot]


def facts_of_rank(facts: dict[str, Any], rank: int) -> dict[str, Any]:
    """What one rank said about a variable, of what all of them said.

    >>> facts_of_rank({"source": "a.py:1", "scale": {"ranks": {0: 0.5, 1: 0.25}}}, 1)
    {'source': 'a.py:1', 'scale': 0.25}
    """
    found = {}
    for name, fact in facts.items():
        differs = isinstance(fact, dict) and fact.keys() == {"ranks"} and isinstance(fact["ranks"], dict)
        if not differs:
            found[name] = fact
        elif rank in fact["ranks"]:
            found[name] = fact["ranks"][rank]
    return found
