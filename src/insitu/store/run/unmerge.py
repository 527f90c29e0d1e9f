"""Turns the file of a run back into journals, so that an earlier part of a run is merged again with a later one.

The journals are made in a temporary folder, and are read like any others. What they cannot say, such as which process
wrote them and when, comes from the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import numpy as np

from insitu.errors import StoreError
from insitu.store.journal.journal_reader import Shard, read_shard
from insitu.store.journal.journal_writer import Entry, JournalWriter
from insitu.store.journal.parts import place_of, unmerged_folder
from insitu.store.journal.run_shards import facts_of_rank
from insitu.store.journal.shard_facts import ShardFacts
from insitu.store.run.run_file_reader import FileVariable, RunFileReader
from insitu.store.stored_type import JSON, Array

_BATCH = 2**26  # bytes of values that are in memory at a time
_NEVER = 1e9


@contextmanager
def unmerged(run: RunFileReader, shards: Sequence[ShardFacts], parts: Path) -> Iterator[list[Shard]]:
    """The journals of these ranks and attempts, made from the file of their run."""
    folder = unmerged_folder(parts)
    try:
        yield [_unmerged_shard(run, facts, folder) for facts in shards]
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{str(folder)!r} cannot be written: {error.strerror or error}") from error
    finally:
        rmtree(folder, ignore_errors=True)


def _unmerged_shard(run: RunFileReader, facts: ShardFacts, folder: Path) -> Shard:
    about = {**run.about_of(facts.attempt), "world_size": facts.world_size}
    with JournalWriter(folder, facts.rank, about, run=run.run_id, attempt=facts.attempt, sync=_NEVER) as journal:
        for variable in run.variables:
            if own := facts_of_rank(variable.facts, facts.rank):
                journal.describe(variable.path, **own)
        for batch in _batches(run, facts):
            for step in batch:
                journal.step(step.number, step.time, step.entries)
    shard = read_shard(place_of(folder, facts.rank, run.run_id, facts.attempt))
    shard.tag, shard.size, shard.merged = facts.tag, facts.size, facts
    shard.started, shard.ended, shard.dropped = facts.started, facts.ended, facts.dropped
    shard.events = [event for event in run.events if (event.rank, event.attempt) == facts.key]
    return shard


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of a journal with its values."""

    number: int
    time: float
    entries: list[Entry]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a variable that one journal had, and the frame that each of them belongs to."""

    variable: FileVariable
    calls: Array
    slots: Array
    frames: Array

    @classmethod
    def of(cls, variable: FileVariable, facts: ShardFacts, steps: Array, times: Array) -> _Rows:
        columns = variable.columns()
        here = np.flatnonzero((columns.ranks == facts.rank) & (columns.attempts == facts.attempt))
        calls = columns.calls[here]
        frames = _frames_of(variable.name, steps, times, columns.steps[here], columns.times[here], calls)
        return cls(variable, calls, columns.index[here], frames)

    def entries(self, first: int, last: int) -> Iterator[tuple[int, Entry]]:
        """The values of the frames from first to before last, each with the number of its frame."""
        chosen = np.flatnonzero((self.frames >= first) & (self.frames < last))
        slots, inverse = np.unique(self.slots[chosen], return_inverse=True)
        path, dtype = self.variable.path, self.variable.type.name
        pieces = [bytes(piece) for piece in self.variable.pieces(slots)]
        shapes = [(len(piece),) for piece in pieces] if dtype == JSON else self.variable.shapes(slots)
        rows = zip(self.frames[chosen].tolist(), self.calls[chosen].tolist(), inverse.tolist(), strict=True)
        for frame, call, slot in rows:
            yield frame, (path, call, dtype, shapes[slot], pieces[slot])


def _batches(run: RunFileReader, facts: ShardFacts) -> Iterator[list[_Step]]:
    """The steps of a journal with their values, in lists that fit into memory."""
    table = run.table_of_steps
    here = (table["rank"] == facts.rank) & (table["attempt"] == facts.attempt)
    steps, times = table["step"][here], table["time"][here]
    every = [_Rows.of(variable, facts, steps, times) for variable in run.variables]
    sizes = np.zeros(len(steps), np.int64)
    for rows in every:
        np.add.at(sizes, rows.frames, rows.variable.sizes(rows.slots))
    group = np.cumsum(sizes) // _BATCH
    for number in np.unique(group).tolist():
        first, last = np.searchsorted(group, number), np.searchsorted(group, number, side="right")
        batch = [_Step(int(steps[at]), float(times[at]), []) for at in range(first, last)]
        for rows in every:
            for frame, entry in rows.entries(first, last):
                batch[frame - first].entries.append(entry)
        yield batch


def _frames_of(name: str, steps: Array, times: Array, row_steps: Array, row_times: Array, row_calls: Array) -> Array:
    """The frame of each row. A step that was recorded twice has two: the second value of a call is in the second."""
    pairs = [np.concatenate([steps, row_steps]), np.concatenate([times, row_times]).view(np.int64)]  # NaN too
    ids = np.unique(np.stack(pairs, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    known, wanted = ids[: len(steps)], ids[len(steps) :]
    order = np.argsort(known, kind="stable")
    first = np.searchsorted(known[order], wanted)
    last = np.searchsorted(known[order], wanted, side="right") - 1
    if not (last >= first).all():
        raise StoreError(f"{name!r} has values in steps that are not there")
    seen: dict[tuple[int, int], int] = {}
    earlier = np.zeros(len(first), np.int64)  # how many values of the same step and call come before
    for number in np.flatnonzero(last > first).tolist():
        key = int(first[number]), int(row_calls[number])
        earlier[number] = seen.get(key, 0)
        seen[key] = seen.get(key, 0) + 1
    found: Array = order[np.minimum(first + earlier, last)]
    return found
