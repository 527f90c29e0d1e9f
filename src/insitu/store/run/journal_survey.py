"""How much of each variable the journals hold. The file of a run is laid out before a value is written to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from insitu.store.journal.entry_table import EntryTable, LastStored, stretches
from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.run_shards import RunShards, unique_names
from insitu.store.run.shard_index import NONE
from insitu.store.stored_type import JSON, Array, StoredType, stored_type

STRETCH = 2**18  # entries that are looked at together; each takes some hundred bytes meanwhile

# Called with what is done, how many bytes of it, and of how many.
OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class VariableCounts:
    """One variable: how often it was seen, how many different values are stored, and what these take.

    `number` is the place of the variable in `Numbering.keys`, `width` the bytes of its largest value.
    """

    number: int
    name: str
    path: str
    kind: StoredType
    rows: int
    stored: int
    size: int
    width: int
    layouts: tuple[int, ...]
    has_attempts: bool  # whether a row is of another attempt than the first


class JournalSurvey:
    """Counts what the journals of a run hold, rank by rank.

    With `verify` every value is read and checked, so that the damaged ones are known and left out.
    """

    def __init__(self, shards: RunShards, *, verify: bool, on_progress: OnProgress) -> None:
        count = len(shards.numbering.keys)
        self.shards, self.verify, self.steps = shards, verify, 0
        self._rows, self._stored, self._size, self._width, self._nones = (np.zeros(count, np.int64) for _ in range(5))
        self._is_repeated = np.zeros(count, bool)  # seen in another attempt than the first
        self._layouts: dict[int, dict[int, None]] = {}
        done = 0
        for number, shard in enumerate(shards.shards):
            on_progress("reading", done, shards.size)
            self._count(number)
            done += sum(shard.sizes)
        self.variables = self._counted()

    def _count(self, number: int) -> None:
        shards = self.shards
        last, slots = LastStored(), np.zeros(len(shards.numbering.keys), np.int64)
        for frames in stretches(shards.step_frames(number), STRETCH):
            stretch = EntryTable(frames, shards.numbering, shards.files)
            if self.verify:
                stretch.verify()
            stretch.resolve(last, slots)
            self.steps += sum(frame.is_first for frame in frames)
            self._add(stretch)
            if shards.shards[number].attempt:
                self._is_repeated[stretch.variable[stretch.whole]] = True
            for frame, lost in zip(*np.unique(stretch.frame[stretch.is_lost], return_counts=True), strict=True):
                shards.report_lost(frames[frame], int(lost))

    def _add(self, stretch: EntryTable) -> None:
        stored = stretch.whole & stretch.stored
        variable, layout, size = stretch.variable[stored], stretch.layout[stored], stretch.size[stored]
        self._rows += self._number_of(stretch.variable[stretch.whole])
        self._stored += self._number_of(variable)
        self._nones += self._number_of(stretch.variable[stretch.whole & (stretch.digest == NONE)])
        np.add.at(self._size, variable, size)
        np.maximum.at(self._width, variable, size)
        pairs = np.unique(np.stack([variable, layout]), axis=1)
        for one, of in zip(*pairs.tolist(), strict=True):
            self._layouts.setdefault(one, {})[of] = None

    def _number_of(self, variables: Array) -> Array:
        return np.bincount(variables, minlength=len(self._rows))

    def _counted(self) -> list[VariableCounts]:
        """The variables that have a value, each with a name of its own."""
        keys = self.shards.numbering.keys
        seen = np.flatnonzero(self._rows).tolist()
        bound = {keys[number][0] for number in seen if keys[number][1] != JSON}
        numbers = [number for number in seen if not self._is_unbound(number, bound)]
        names = unique_names([keys[number] for number in numbers])
        return [self._variable(number, name) for number, name in zip(numbers, names, strict=True)]

    def _is_unbound(self, number: int, bound: set[str]) -> bool:
        """Whether a variable is nothing but None, at a path that also has tensors: a name that waits to be bound."""
        path, dtype = self.shards.numbering.keys[number]
        is_always_none = dtype == JSON and self._nones[number] == self._rows[number]
        return is_always_none and path in bound

    def _variable(self, number: int, name: str) -> VariableCounts:
        path, dtype = self.shards.numbering.keys[number]
        return VariableCounts(
            number,
            name,
            path,
            stored_type(dtype),
            rows=int(self._rows[number]),
            stored=int(self._stored[number]),
            size=int(self._size[number]),
            width=int(self._width[number]),
            layouts=tuple(sorted(self._layouts[number])),
            has_attempts=bool(self._is_repeated[number]),
        )


def find_damage(journals: Sequence[Shard], on_progress: OnProgress) -> None:
    """Read every value of these journals; what is damaged is told in their `troubles`."""
    shards = RunShards(journals)
    try:
        JournalSurvey(shards, verify=True, on_progress=on_progress)
    finally:
        shards.files.close()
