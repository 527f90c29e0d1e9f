"""A run with one part in its file and the other in journals: of a rank that ended late, or an attempt that goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from insitu.store.journal.journal_reader import read_shard
from insitu.store.journal.parts import JournalPlace
from insitu.store.journal.run_shards import facts_of_rank, joined_facts, unique_names
from insitu.store.run.run_file_reader import RunFileReader
from insitu.store.run.run_home import RunHome
from insitu.store.run.run_journals import ShardIndex
from insitu.store.run.series import SeriesColumns, VariableSource
from insitu.store.run.source_choice import choose_sources
from insitu.store.stored_type import Array
from insitu.trace.run import RunEvent

Part = tuple[VariableSource, Array]  # a variable, and the rows of it that are shown


class JoinedRun:
    """The file of a run together with journals that are not in it, or have grown since."""

    def __init__(self, file: RunFileReader, parts: Path, places: Sequence[JournalPlace]) -> None:
        self._file = file
        self.path, self.origin = file.path, file.origin
        shards = [read_shard(place) for place in places]
        ShardIndex(shards)  # adds the damage to the troubles of the shards
        choice = choose_sources(shards, file.shards, parts)
        index = self._index = ShardIndex(choice.journals)
        self.run_id, self.running = file.run_id, index.is_running
        self.about = index.about or file.about
        self.shards = [*choice.from_file, *index.shard_facts()]
        self.excluded = list(dict.fromkeys([*file.excluded, *choice.excluded]))
        self.others: list[str] = []
        self._in_file = {facts.key for facts in choice.from_file}
        self.variables = self._joined_variables()
        self.journals = index.shards

    @property
    def steps(self) -> tuple[Array, Array]:
        """The step and the rank of every step that was recorded."""
        table = self._file.table_of_steps
        is_shown = self._is_shown(table["rank"], table["attempt"])
        steps = np.concatenate([table["step"][is_shown], self._index.step])
        return steps, np.concatenate([table["rank"][is_shown], self._index.rank])

    @property
    def events(self) -> list[RunEvent]:
        """Marks, errors and ends, ordered by time."""
        in_file = [event for event in self._file.events if (event.rank, event.attempt) in self._in_file]
        return sorted([*in_file, *self._index.events], key=lambda event: event.time)

    def close(self) -> None:
        """Close the files."""
        self._file.close()
        self._index.pool.close()

    def _is_shown(self, ranks: Array, attempts: Array) -> Array:
        """Which rows of the file are shown: those of journals that are read from the file."""
        keys = np.array([rank * 2**31 + attempt for rank, attempt in self._in_file], np.int64)
        return np.isin(ranks.astype(np.int64) * 2**31 + attempts, keys)

    def _joined_variables(self) -> list[JoinedVariable]:
        parts: dict[tuple[str, str], list[Part]] = {}
        for part in (*self._file_parts(), *self._journal_parts()):
            parts.setdefault((part[0].path, part[0].type.name), []).append(part)
        names = unique_names(parts)
        return [JoinedVariable(name, every) for name, every in zip(names, parts.values(), strict=True)]

    def _file_parts(self) -> Iterator[Part]:
        for variable in self._file.variables:
            columns = variable.columns()
            rows = np.flatnonzero(self._is_shown(columns.ranks, columns.attempts))
            if len(rows):
                yield variable, rows

    def _journal_parts(self) -> Iterator[Part]:
        for variable in self._index.variables:
            yield variable, np.arange(variable.rows)


class JoinedVariable:
    """A variable with rows in a file and rows in journals; the slots of the parts follow each other."""

    def __init__(self, name: str, parts: list[Part]) -> None:
        self.home: RunHome | None = None
        self.name, self._parts = name, parts
        first = parts[0][0]
        self.path, self.type = first.path, first.type
        shapes = {variable.shape for variable, _ in parts}
        self.shape = shapes.pop() if len(shapes) == 1 else None
        self.facts = _facts_of_parts(parts)
        counts = [int(variable.columns().index.max()) + 1 for variable, _ in parts]
        self._begins = np.cumsum([0, *counts])
        self._columns = self._joined_columns()

    def columns(self) -> SeriesColumns:
        """When and where the variable was seen."""
        return self._columns

    def _joined_columns(self) -> SeriesColumns:
        shown = [variable.columns().part(rows) for variable, rows in self._parts]
        names = [field.name for field in fields(SeriesColumns)]
        joined = {name: np.concatenate([getattr(columns, name) for columns in shown]) for name in names}
        begins = zip(shown, self._begins.tolist(), strict=False)
        joined["index"] = np.concatenate([columns.index + begin for columns, begin in begins])
        return SeriesColumns(**joined).in_order()

    def shapes(self, slots: Array) -> list[tuple[int, ...]]:
        """The shapes of stored values."""
        return [shape for variable, own in self._split(slots) for shape in variable.shapes(own)]

    def digests(self, slots: Array) -> Array:
        """The digests of stored values."""
        return np.concatenate([variable.digests(own) for variable, own in self._split(slots)])

    def pieces(self, slots: Array) -> Iterator[Any]:
        """The bytes of stored values, which are checked."""
        for variable, own in self._split(slots):
            yield from variable.pieces(own)

    def _split(self, slots: Array) -> Iterator[Part]:
        """Slots by the part that has them, in the order they are asked for."""
        owners = np.searchsorted(self._begins, slots, side="right") - 1
        bounds = np.flatnonzero(np.diff(owners)) + 1
        for own, which in zip(np.split(slots, bounds), np.split(owners, bounds), strict=True):
            if len(own):
                yield self._parts[which[0]][0], own - self._begins[which[0]]


def _facts_of_parts(parts: list[Part]) -> dict[str, Any]:
    """What the ranks declare about a variable; later parts replace earlier ones."""
    by_rank: dict[int, dict[str, Any]] = {}
    for variable, rows in parts:
        for rank in np.unique(variable.columns().ranks[rows]).tolist():
            by_rank.setdefault(rank, {}).update(facts_of_rank(variable.facts, rank))
    return joined_facts(by_rank)
