"""A run of which a part is in its file and the rest in journals: a rank that ended late, an attempt that goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from insitu.store.journal.journal_reader import read_shard
from insitu.store.journal.parts import JournalPlace
from insitu.store.journal.run_shards import agreed, unique_names
from insitu.store.run.run_file_reader import RunFileReader
from insitu.store.run.run_journals import JournalVariable
from insitu.store.run.series import Columns, Recorded
from insitu.store.run.shard_index import ShardIndex
from insitu.store.run.source_choice import choose
from insitu.store.run.unmerge import facts_of_rank
from insitu.store.stored_type import Array
from insitu.trace.run import RunEvent

Rows = tuple[Recorded, Array]


class JoinedRun:
    """The file of a run together with journals that are not in it, or have grown since."""

    def __init__(self, file: RunFileReader, parts: Path, places: Sequence[JournalPlace]) -> None:
        self._file = file
        self.path = file.path
        shards = [read_shard(place) for place in places]
        ShardIndex(shards)  # which finds what is damaged
        choice = choose(shards, file.shards, parts)
        catalog = self._catalog = ShardIndex(choice.journals)
        self.run_id, self.running = file.run_id, catalog.live
        self.about = catalog.about or file.about
        self.shards = [*choice.from_file, *catalog.shard_facts()]
        self.left_out = list(dict.fromkeys([*file.left_out, *choice.left_out]))
        self.others: list[str] = []
        self._in_file = {facts.key for facts in choice.from_file}
        self.variables = self._variables()

    @property
    def steps(self) -> tuple[Array, Array]:
        """The step and the rank of every step that was recorded."""
        table = self._file.table_of_steps
        keep = self._is_kept(table["rank"], table["attempt"])
        steps = np.concatenate([table["step"][keep], self._catalog.step])
        return steps, np.concatenate([table["rank"][keep], self._catalog.rank])

    @property
    def events(self) -> list[RunEvent]:
        """Marks, errors and ends, in the order of their time."""
        kept = [event for event in self._file.events if (event.rank, event.attempt) in self._in_file]
        return sorted([*kept, *self._catalog.events], key=lambda event: event.time)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._catalog.files.close()

    def _is_kept(self, ranks: Array, attempts: Array) -> Array:
        """Which rows of the file are shown: those of journals that are read from it."""
        keys = np.array([rank * 2**31 + attempt for rank, attempt in self._in_file], np.int64)
        return np.isin(ranks.astype(np.int64) * 2**31 + attempts, keys)

    def _variables(self) -> list[JoinedVariable]:
        found: dict[tuple[str, str], list[Rows]] = {}
        new = [JournalVariable(self._catalog, variable) for variable in self._catalog.variables]
        for variable in chain[Recorded](self._file.variables, new):
            columns = variable.columns()
            is_kept = isinstance(variable, JournalVariable) or self._is_kept(columns.ranks, columns.attempts)
            rows = np.flatnonzero(np.broadcast_to(is_kept, columns.ranks.shape))
            if len(rows):
                found.setdefault((variable.path, variable.kind.name), []).append((variable, rows))
        names = unique_names(found)
        return [JoinedVariable(name, every) for name, every in zip(names, found.values(), strict=True)]


class JoinedVariable:
    """A variable with rows in a file and rows in journals; the stored values of both are numbered through."""

    def __init__(self, name: str, every: list[Rows]) -> None:
        self.name, self._every = name, every
        first = every[0][0]
        self.path, self.kind = first.path, first.kind
        shapes = {recorded.shape for recorded, _ in every}
        self.shape = shapes.pop() if len(shapes) == 1 else None
        self.facts = _joined_facts(every)
        counts = [int(recorded.columns().index.max()) + 1 for recorded, _ in every]
        self._begins = np.cumsum([0, *counts])
        self._columns = self._joined_columns()

    def columns(self) -> Columns:
        """When and where it was seen."""
        return self._columns

    def _joined_columns(self) -> Columns:
        names = ("steps", "ranks", "attempts", "calls", "times")
        every = [(recorded.columns(), rows) for recorded, rows in self._every]
        joined = {name: np.concatenate([getattr(columns, name)[rows] for columns, rows in every]) for name in names}
        moved = zip(every, self._begins.tolist(), strict=False)
        joined["index"] = np.concatenate([columns.index[rows] + begin for (columns, rows), begin in moved])
        order = np.lexsort((joined["attempts"], joined["ranks"], joined["steps"]))
        return Columns(**{name: column[order] for name, column in joined.items()})

    def shapes(self, slots: Array) -> list[tuple[int, ...]]:
        """The shapes of stored values."""
        return [shape for recorded, own in self._split(slots) for shape in recorded.shapes(own)]

    def pieces(self, slots: Array) -> Iterator[Any]:
        """The bytes of stored values, which are checked."""
        for recorded, own in self._split(slots):
            yield from recorded.pieces(own)

    def _split(self, slots: Array) -> Iterator[Rows]:
        """Stored values by where they are, in the order they are asked for."""
        owners = np.searchsorted(self._begins, slots, side="right") - 1
        cuts = np.flatnonzero(np.diff(owners)) + 1
        for own, which in zip(np.split(slots, cuts), np.split(owners, cuts), strict=True):
            if len(own):
                yield self._every[which[0]][0], own - self._begins[which[0]]


def _joined_facts(every: list[Rows]) -> dict[str, Any]:
    """What is known of a variable: one value where all ranks agree, else a dict by rank."""
    said: dict[int, dict[str, Any]] = {}
    for recorded, rows in every:
        for rank in np.unique(recorded.columns().ranks[rows]).tolist():
            said.setdefault(rank, {}).update(facts_of_rank(recorded.facts, rank))
    names = dict.fromkeys(name for facts in said.values() for name in facts)
    return {name: agreed({rank: facts.get(name) for rank, facts in said.items()}) for name in names}
