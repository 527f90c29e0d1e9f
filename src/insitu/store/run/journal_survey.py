"""A survey of the journals: how much of each variable they hold, and so how it is stored in the file of the run.

The file is laid out before a value is written to it, so all journals are read twice: here, and when they are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from xxhash import xxh3_128_digest

from insitu.store.journal.entry_table import EntryTable, LastStored, frame_batches
from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.run_shards import RunShards, unique_names
from insitu.store.stored_type import JSON, Array, StoredType, stored_type

BATCH = 2**18  # entries in one table; each takes some hundred bytes meanwhile
NONE = np.void(xxh3_128_digest(b"null"))  # the digest of None
WIDEST_TEXT = 2**12  # the longest text of a column of texts; a longer one makes the variable ragged

# Called with the name of the work, the bytes that are done, and all bytes.
OnProgress = Callable[[str, int, int], None]
Form = Literal["dense", "ragged", "text"]


@dataclass(frozen=True, slots=True)
class VariablePlan:
    """How one variable is stored: how often it was seen, how many values are stored, and the bytes these take.

    `number` is the position of the variable in `Numbering.keys`, `width` the bytes of its largest value, `shapes` has
    the shape of each layout by its number. `has_attempts` says that a row belongs to another attempt than the first.
    """

    number: int
    name: str
    path: str
    type: StoredType
    rows: int
    stored: int
    size: int
    width: int
    shapes: dict[int, tuple[int, ...]]
    has_attempts: bool
    facts: dict[str, Any]

    @property
    def form(self) -> Form:
        """Values of one shape are "dense", values of several are "ragged"; short Python values are "text"."""
        if self.type.name == JSON:
            if self.width <= WIDEST_TEXT:
                return "text"
            return "ragged"
        if len(self.shapes) == 1:
            return "dense"
        return "ragged"

    @property
    def dimensions(self) -> int:
        """The most dimensions of a value."""
        return max(map(len, self.shapes.values()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each value of a dense variable."""
        return next(iter(self.shapes.values()))

    @property
    def has_shared_values(self) -> bool:
        """Whether several rows have the same stored value."""
        return self.stored != self.rows

    @property
    def text_width(self) -> int:
        """The bytes of each text; 0 for other forms."""
        if self.form == "text":
            return self.width
        return 0

    @property
    def values_size(self) -> int:
        """The bytes of the dataset of the values."""
        if self.form == "text":
            return self.text_width * self.stored
        return self.size

    @property
    def payload(self) -> int:
        """The most bytes that the variable takes, without compression."""
        return self.values_size + 36 * self.rows + (32 + 8 * self.dimensions) * self.stored + 4096

    def values_shape(self) -> tuple[int, ...]:
        """The shape of the dataset of the values."""
        if self.form == "text":
            return (self.stored,)
        if self.form == "dense":
            return (self.stored, *self.shape, *self.type.inner)
        return (self.size // self.type.itemsize, *self.type.inner)


@dataclass(frozen=True, slots=True)
class JournalSurvey:
    """The number of steps of all journals, and the plan of each variable that has a value."""

    steps: int
    plans: list[VariablePlan]


def survey(shards: RunShards, *, verify: bool, on_progress: OnProgress) -> JournalSurvey:
    """Count what the journals of a run hold, rank by rank.

    With `verify` every value is read and checked, so that the damaged ones are known and left out.
    """
    counter = _Counter(shards, verify)
    done = 0
    for number, shard in enumerate(shards.shards):
        on_progress("reading", done, shards.size)
        counter.add_shard(number)
        done += sum(file.size for file in shard.files)
    return JournalSurvey(counter.steps, counter.plans())


def find_damage(journals: Sequence[Shard], on_progress: OnProgress) -> None:
    """Read every value of these journals; the `troubles` of each name what is damaged."""
    shards = RunShards(journals)
    try:
        survey(shards, verify=True, on_progress=on_progress)
    finally:
        shards.pool.close()


class _Counter:
    """Counts the entries of each variable, table by table."""

    def __init__(self, shards: RunShards, verify: bool) -> None:
        count = len(shards.numbering.keys)
        self._shards, self._verify = shards, verify
        self.steps = 0
        self._rows, self._stored, self._size, self._width, self._nones = (np.zeros(count, np.int64) for _ in range(5))
        self._has_attempts = np.zeros(count, bool)
        self._layouts: dict[int, set[int]] = {}

    def add_shard(self, number: int) -> None:
        """Count the entries of one journal."""
        shards = self._shards
        last, slots = LastStored(), np.zeros(len(shards.numbering.keys), np.int64)
        for frames in frame_batches(shards.step_frames(number), BATCH):
            table = EntryTable(frames, shards.numbering, shards.pool)
            if self._verify:
                table.verify()
            table.resolve(last, slots)
            self.steps += int(table.frames.starts_step.sum())
            self._add(table)
            if shards.shards[number].attempt:
                self._has_attempts[table.variable[table.is_whole]] = True
            shards.report_lost(table.lost_by_frame())

    def _add(self, table: EntryTable) -> None:
        is_stored = table.is_whole & table.is_stored
        variable, layout, size = table.variable[is_stored], table.layout[is_stored], table.size[is_stored]
        self._rows += self._count(table.variable[table.is_whole])
        self._stored += self._count(variable)
        self._nones += self._count(table.variable[table.is_whole & (table.digest == NONE)])
        np.add.at(self._size, variable, size)
        np.maximum.at(self._width, variable, size)
        pairs = np.unique(np.stack([variable, layout]), axis=1)
        for number, layout_number in zip(*pairs.tolist(), strict=True):
            self._layouts.setdefault(number, set()).add(layout_number)

    def _count(self, variables: Array) -> Array:
        return np.bincount(variables, minlength=len(self._rows))

    def plans(self) -> list[VariablePlan]:
        """The variables that have a value, each with a name of its own."""
        keys = self._shards.numbering.keys
        seen = np.flatnonzero(self._rows).tolist()
        tensor_paths = {keys[number][0] for number in seen if keys[number][1] != JSON}
        numbers = [number for number in seen if not self._is_unbound(number, tensor_paths)]
        names = unique_names([keys[number] for number in numbers])
        return [self._plan(number, name) for number, name in zip(numbers, names, strict=True)]

    def _is_unbound(self, number: int, tensor_paths: set[str]) -> bool:
        """Whether a variable is always None, at a path that also has tensors: the name is not bound yet."""
        path, dtype = self._shards.numbering.keys[number]
        is_always_none = dtype == JSON and self._nones[number] == self._rows[number]
        return is_always_none and path in tensor_paths

    def _plan(self, number: int, name: str) -> VariablePlan:
        numbering = self._shards.numbering
        path, dtype = numbering.keys[number]
        return VariablePlan(
            number=number,
            name=name,
            path=path,
            type=stored_type(dtype),
            rows=int(self._rows[number]),
            stored=int(self._stored[number]),
            size=int(self._size[number]),
            width=int(self._width[number]),
            shapes={layout: numbering.shapes[layout] for layout in sorted(self._layouts[number])},
            has_attempts=bool(self._has_attempts[number]),
            facts=self._shards.facts(path),
        )
