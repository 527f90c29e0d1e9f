"""The entries of some steps as columns: the variable of each, where its bytes are, and whether they can be right.

A journal may hold a billion values, so the steps of a run are read in batches, one table each. What a table must know
of the tables before it is in `LastStored`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from xxhash import xxh3_128, xxh3_128_digest

from insitu.store.journal import frames
from insitu.store.journal.declarations import DeclaredNames
from insitu.store.journal.file_pool import FilePool
from insitu.store.stored_type import Array, stored_type

_BLOCK = 2**24
_LARGE = 2**26  # a value that is larger is read in pieces
_MOST_CALLS = 2**31  # a journal has room for larger call numbers than the file of a run

Bounds = tuple[int, int]  # where a value begins and ends in a block of bytes


@dataclass(frozen=True, slots=True)
class StepFrame:
    """One frame of a step: the entries of its index, and where its data are.

    `shard` is the position of the journal among all, `file` the number of its file in the pool. `starts_step` is False
    for a frame with more of the step of the frame before it. `is_replaced` marks entries that another entry of the
    same step replaces: they are not values, and they are not lost.
    """

    shard: int
    file: int
    step: int
    time: float
    start: int
    length: int
    entries: Array
    is_replaced: Array
    starts_step: bool


def frame_batches(steps: Iterable[StepFrame], most_entries: int) -> Iterator[list[StepFrame]]:
    """Frames in lists of about so many entries."""
    batch: list[StepFrame] = []
    count = 0
    for frame in steps:
        batch.append(frame)
        count += len(frame.entries) + 1
        if count >= most_entries:
            yield batch
            batch, count = [], 0
    if batch:
        yield batch


class Numbering:
    """Numbers the variables and shapes of all ranks: each rank has numbers of its own in its journal."""

    def __init__(self, shards: Sequence[DeclaredNames]) -> None:
        keys: dict[tuple[str, str], int] = {}
        shapes: dict[tuple[int, ...], int] = {}
        maps: dict[Any, tuple[_NumberMap, _NumberMap]] = {}
        self._maps: list[tuple[_NumberMap, _NumberMap]] = []
        for names in shards:
            declared = tuple(sorted(names.variables.items())), tuple(sorted(names.shapes.items()))
            if declared not in maps:  # mostly all ranks declare the same
                by_variable = {number: keys.setdefault(key, len(keys)) for number, key in declared[0]}
                by_layout = {number: shapes.setdefault(shape, len(shapes)) for number, shape in declared[1]}
                maps[declared] = _NumberMap(by_variable), _NumberMap(by_layout)
            self._maps.append(maps[declared])
        self.keys, self.shapes = list(keys), list(shapes)
        counts = [int(np.prod(shape, dtype=object)) for shape in self.shapes]
        self.counts = np.array(counts or [0], np.int64)
        self.widths = np.array([stored_type(dtype).itemsize for _, dtype in self.keys] or [0], np.int64)

    def apply(self, steps: list[StepFrame], entries: Array) -> tuple[Array, Array]:
        """The numbers of variable and shape of each entry; -1 where the journal did not declare one."""
        if len({id(self._maps[frame.shard]) for frame in steps}) == 1:
            variables, layouts = self._maps[steps[0].shard]
            return variables.apply(entries["variable"]), layouts.apply(entries["layout"])
        variable, layout = np.empty(len(entries), np.int64), np.empty(len(entries), np.int64)
        start = 0
        for frame in steps:
            here = slice(start, start + len(frame.entries))
            variables, layouts = self._maps[frame.shard]
            variable[here] = variables.apply(frame.entries["variable"])
            layout[here] = layouts.apply(frame.entries["layout"])
            start = here.stop
        return variable, layout


class _NumberMap:
    """Maps the numbers of one rank to those of all ranks."""

    def __init__(self, numbers: dict[int, int]) -> None:
        own = sorted(numbers)
        self._own = np.array(own or [-1], np.int64)
        self._shared = np.array([numbers[number] for number in own] or [-1], np.int64)

    def apply(self, numbers: Array) -> Array:
        place = np.minimum(np.searchsorted(self._own, numbers), len(self._own) - 1)
        return np.where(self._own[place] == numbers, self._shared[place], -1)


class LastStored:
    """For each value that a journal stored: what was stored last, so that unchanged values can be found.

    A value is known by its journal, and by a key made of its variable and call.
    """

    def __init__(self) -> None:
        self._by_shard: dict[int, _StoredValues] = {}

    def find(self, shards: Array, keys: Array) -> _StoredValues:
        """The values with these keys, in the same order; `slots` is -1 for one that was not stored."""
        found = _StoredValues.empty(len(keys))
        for shard, here in equal_ranges(shards):
            stored = self._by_shard.get(shard)
            if stored is not None:
                found.put(here, stored.at(keys[here]))
        return found

    def update(self, shards: Array, values: _StoredValues) -> None:
        """Note that these values were stored."""
        for shard, here in equal_ranges(shards):
            new = values.part(here)
            old = self._by_shard.get(shard)
            self._by_shard[shard] = new if old is None else old.merge(new)


@dataclass(slots=True)
class _StoredValues:
    """Stored values, ordered by their keys; `slots` are their numbers among the stored values of their variable."""

    keys: Array
    slots: Array
    layouts: Array
    digests: Array

    @classmethod
    def empty(cls, count: int) -> _StoredValues:
        nothing = np.full(count, -1, np.int64)
        return cls(nothing, nothing.copy(), nothing.copy(), np.zeros(count, frames.ENTRY["digest"]))

    def part(self, here: Any) -> _StoredValues:
        return _StoredValues(self.keys[here], self.slots[here], self.layouts[here], self.digests[here])

    def put(self, here: Any, values: _StoredValues) -> None:
        self.keys[here], self.slots[here] = values.keys, values.slots
        self.layouts[here], self.digests[here] = values.layouts, values.digests

    def at(self, keys: Array) -> _StoredValues:
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found = self.part(place)
        found.slots = np.where(found.keys == keys, found.slots, -1)
        return found

    def merge(self, new: _StoredValues) -> _StoredValues:
        place = np.minimum(np.searchsorted(self.keys, new.keys), len(self.keys) - 1)
        is_known = self.keys[place] == new.keys
        self.put(place[is_known], new.part(is_known))
        if is_known.all():
            return self
        more = new.part(~is_known)
        every = _StoredValues(
            np.concatenate([self.keys, more.keys]),
            np.concatenate([self.slots, more.slots]),
            np.concatenate([self.layouts, more.layouts]),
            np.concatenate([self.digests, more.digests]),
        )
        return every.part(np.argsort(every.keys))


def equal_ranges(values: Array) -> Iterator[tuple[int, slice]]:
    """The ranges of equal values in a sorted array."""
    bounds = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    for first, last in pairwise(bounds):
        if last > first:
            yield int(values[first]), slice(first, last)


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """The frames of a table, a row for each."""

    shard: Array
    file: Array
    step: Array
    time: Array
    start: Array
    length: Array
    starts_step: Array

    @classmethod
    def of(cls, steps: list[StepFrame]) -> FrameColumns:
        """The columns of these frames."""
        return cls(
            shard=np.array([frame.shard for frame in steps], np.int64),
            file=np.array([frame.file for frame in steps], np.int64),
            step=np.array([frame.step for frame in steps], np.int64),
            time=np.array([frame.time for frame in steps], np.float64),
            start=np.array([frame.start for frame in steps], np.int64),
            length=np.array([frame.length for frame in steps], np.int64),
            starts_step=np.array([frame.starts_step for frame in steps], bool),
        )


class EntryTable:
    """The entries of some frames, a row for each, in the order of the frames; `frame` is the row in `frames`.

    `is_good` says which entries can be right. `resolve` adds `slots`, `source`, `is_whole` and `is_lost`.
    """

    def __init__(self, steps: list[StepFrame], numbering: Numbering, pool: FilePool) -> None:
        self._numbering, self._pool = numbering, pool
        self.steps, self.frames = steps, FrameColumns.of(steps)
        entries = np.frombuffer(b"".join([frame.entries.data for frame in steps]), frames.ENTRY)
        self.frame = np.repeat(np.arange(len(steps)), [len(frame.entries) for frame in steps]).astype(np.int64)
        self.shard = self.frames.shard[self.frame]
        self.call = entries["call"].astype(np.int64)
        self.is_stored = entries["kind"] == frames.STORED
        self.is_replaced = np.concatenate([np.zeros(0, bool), *(frame.is_replaced for frame in steps)])
        self.size = entries["length"].astype(np.int64)
        self.digest = entries["digest"]
        self.variable: Array = self.call
        self.layout: Array = self.call
        if steps:
            self.variable, self.layout = numbering.apply(steps, entries)
        self._check()

    def __len__(self) -> int:
        return len(self.frame)

    def _check(self) -> None:
        """Find where the bytes of each entry begin, and which entries can be right."""
        in_data = np.where(self.is_stored, self.size, 0)
        ends = np.cumsum(in_data)
        first = np.searchsorted(self.frame, self.frame)  # the first entry of the same frame
        before = (ends - in_data) - (ends - in_data)[first] if len(ends) else ends
        self.begin = self.frames.start[self.frame] + before
        is_named = (self.variable >= 0) & (self.layout >= 0)
        size = self._numbering.counts[self.layout] * self._numbering.widths[self.variable]
        has_size = (self.size >= 0) & (size == self.size)
        is_inside = (before >= 0) & (before + in_data <= self.frames.length[self.frame])
        self.is_good = is_named & has_size & is_inside & ~self.is_replaced & (self.call < _MOST_CALLS)

    def verify(self) -> None:
        """Read every stored value, and find those that are damaged."""
        entries = np.flatnonzero(self.is_stored & self.is_good)
        is_large = self.is_large(entries)
        for entry in entries[is_large].tolist():
            digest = xxh3_128()
            for piece in self.pieces(entry):
                digest.update(piece)
            self.is_good[entry] = digest.digest() == self.digest[entry].tobytes()
        entries = entries[~is_large]
        for first, last, block, bounds in self.blocks(entries):
            here = entries[first:last]
            if not has_digests(block, bounds, self.digest[here]):
                each = zip(bounds, here, strict=True)
                self.is_good[here] = [has_digests(block, [part], self.digest[[entry]]) for part, entry in each]

    def blocks(self, entries: Array) -> Iterator[tuple[int, int, bytes, list[Bounds]]]:
        """The bytes of stored entries, in the order given; those that are next to each other are read at once.

        Yields the first entry of a block, the one after its last, its bytes, and where each entry is in them.
        """
        files, begins, sizes = self.frames.file[self.frame[entries]], self.begin[entries], self.size[entries]
        ends = begins + sizes
        is_apart = np.ones(len(entries), bool)
        is_apart[1:] = (files[1:] != files[:-1]) | (begins[1:] != ends[:-1])
        # Long blocks are split too: where the bytes since their beginning pass a multiple of the limit.
        part = (begins - np.maximum.accumulate(np.where(is_apart, begins, 0))) // _BLOCK if len(entries) else begins
        is_apart[1:] |= part[1:] != part[:-1]
        form, bounds = b"", []
        for first, last in pairwise([*np.flatnonzero(is_apart).tolist(), len(entries)]):
            begin, end = int(begins[first]), int(ends[last - 1])
            block = self._pool.read(int(files[first]), begin, end - begin)
            if form != (form := sizes[first:last].tobytes()):  # most steps are like the one before
                bounds = list(pairwise([0, *np.cumsum(sizes[first:last]).tolist()]))
            yield first, last, block, bounds

    def is_large(self, entries: Array) -> Array:
        """Which of these entries have values that are read in pieces."""
        return self.size[entries] > _LARGE

    def pieces(self, entry: int) -> Iterator[bytes]:
        """The bytes of one entry, some at a time."""
        file, begin, size = int(self.frames.file[self.frame[entry]]), int(self.begin[entry]), int(self.size[entry])
        for start in range(0, size, _BLOCK):
            yield self._pool.read(file, begin + start, min(_BLOCK, size - start))

    def data(self, entries: Array) -> Iterator[Any]:
        """The bytes of each of these entries."""
        for *_, block, bounds in self.blocks(entries):
            view = memoryview(block)
            yield from (view[start:end] for start, end in bounds)

    def resolve(self, last: LastStored, next_slots: Array) -> None:
        """Find the stored value of each entry: `slots`, and `is_whole` for entries that have one.

        An unchanged value whose stored value is lost is lost too. `next_slots` has, for each variable, the slot of its
        next stored value; it is moved on.
        """
        groups = _Groups.of(self)
        order, group = groups.order, groups.group
        before = last.find(self.shard[order][groups.firsts], groups.keys[groups.firsts])
        places = np.arange(len(self))
        latest = np.maximum.accumulate(np.where(self.is_stored[order], places, -1))
        is_here = latest >= groups.firsts[group] if len(self) else latest >= 0
        source = order[np.where(is_here, latest, places)]
        layout = np.where(is_here, self.layout[source], before.layouts[group])
        digest = np.where(is_here, self.digest[source], before.digests[group])
        is_equal = (layout == self.layout[order]) & (digest == self.digest[order])
        is_found = np.where(is_here, self.is_good[source], before.slots[group] >= 0)
        self.source, self.is_whole = np.full(len(self), -1, np.int64), np.zeros(len(self), bool)
        self.source[order] = np.where(is_here, source, -1)
        self.is_whole[order] = is_found & is_equal & self.is_good[order]
        self.is_lost = ~self.is_whole & ~self.is_replaced
        self.slots = np.full(len(self), -1, np.int64)
        self._number_slots(next_slots)
        slots = np.where(is_here, self.slots[source], before.slots[group])
        self.slots[order] = np.where(self.is_whole[order], slots, -1)
        self._remember(last, groups, order[latest], is_here)

    def _number_slots(self, next_slots: Array) -> None:
        """Number the stored values of each variable, in the order of the steps."""
        stored = np.flatnonzero(self.is_whole & self.is_stored)
        by_variable = stored[np.argsort(self.variable[stored], kind="stable")]
        for number, here in equal_ranges(self.variable[by_variable]):
            count = here.stop - here.start
            self.slots[by_variable[here]] = next_slots[number] + np.arange(count)
            next_slots[number] += count

    def _remember(self, last: LastStored, groups: _Groups, latest: Array, is_here: Array) -> None:
        """Keep the value that each group of entries stored last. One that is damaged has no slot."""
        is_last = np.ones(len(self), bool)
        is_last[:-1] = groups.begins[1:]
        ends = np.flatnonzero(is_last & is_here)
        entries = latest[ends]
        values = _StoredValues(groups.keys[ends], self.slots[entries], self.layout[entries], self.digest[entries])
        last.update(self.shard[entries], values)

    def lost_by_frame(self) -> Iterator[tuple[StepFrame, int]]:
        """The frames with lost values, and how many they lost."""
        rows, counts = np.unique(self.frame[self.is_lost], return_counts=True)
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            yield self.steps[row], count


@dataclass(frozen=True, slots=True)
class _Groups:
    """The entries of a table grouped by journal, variable and call, each group in the order of the steps.

    `order` sorts the entries; the other columns are in this order.
    """

    order: Array
    keys: Array
    begins: Array  # whether an entry is the first of its group
    firsts: Array  # the place of the first entry of each group
    group: Array  # the group of each entry

    @classmethod
    def of(cls, table: EntryTable) -> _Groups:
        order = np.lexsort((np.arange(len(table)), table.call, table.variable, table.shard))
        shard, keys = table.shard[order], table.variable[order] * 2**32 + table.call[order]
        begins = np.ones(len(table), bool)
        begins[1:] = (shard[1:] != shard[:-1]) | (keys[1:] != keys[:-1])
        return cls(order, keys, begins, np.flatnonzero(begins), np.cumsum(begins) - 1)


def has_digests(block: bytes, bounds: list[Bounds], digests: Array) -> bool:
    """Whether the values in a block have these digests."""
    view = memoryview(block)
    return b"".join([xxh3_128_digest(view[start:end]) for start, end in bounds]) == digests.tobytes()
