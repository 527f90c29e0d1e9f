"""A stretch of steps as columns, a row for each entry: its variable, where its bytes are, whether they can be right.

A journal may hold a thousand million values, so a run is read as stretches of steps; what one stretch must know of
those before it is in `LastStored`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from xxhash import xxh3_128, xxh3_128_digest

from insitu.store.journal import frames
from insitu.store.journal.parts import FilePool
from insitu.store.stored_type import Array, stored_type

_BLOCK = 2**24
_LARGE = 2**26  # a value that is larger is read in pieces
_MOST_CALLS = 2**31  # a journal has room for larger numbers of calls than a file

Cut = tuple[int, int]


@dataclass(frozen=True, slots=True)
class StepFrame:
    """One step of a rank: the entries of its index, and where its data are.

    `shard` is the place of the journal among all, `file` the place of its file. A step may have several frames.
    """

    shard: int
    file: int
    step: int
    time: float
    start: int
    length: int
    entries: Array
    is_first: bool = True  # not one with more of the step before


def stretches(steps: Iterable[StepFrame], most: int) -> Iterator[list[StepFrame]]:
    """Steps in lists of about so many entries."""
    stretch: list[StepFrame] = []
    count = 0
    for step in steps:
        stretch.append(step)
        count += len(step.entries) + 1
        if count >= most:
            yield stretch
            stretch, count = [], 0
    if stretch:
        yield stretch


class Numbering:
    """Numbers the variables and shapes of all ranks: in its journal, each rank has numbers of its own."""

    def __init__(self, declared: Sequence[tuple[dict[int, tuple[str, str]], dict[int, tuple[int, ...]]]]) -> None:
        keys: dict[tuple[str, str], int] = {}
        shapes: dict[tuple[int, ...], int] = {}
        known: dict[Any, tuple[_Map, _Map]] = {}
        self._maps: list[tuple[_Map, _Map]] = []
        for variables, layouts in declared:
            content = tuple(sorted(variables.items())), tuple(sorted(layouts.items()))
            if content not in known:  # mostly all ranks declare the same
                by_variable = {number: keys.setdefault(key, len(keys)) for number, key in content[0]}
                by_layout = {number: shapes.setdefault(shape, len(shapes)) for number, shape in content[1]}
                known[content] = _Map(by_variable), _Map(by_layout)
            self._maps.append(known[content])
        self.keys, self.shapes = list(keys), list(shapes)
        counts = [int(np.prod(shape, dtype=object)) for shape in self.shapes]
        self.counts = np.array(counts or [0], np.int64)
        self.widths = np.array([stored_type(dtype).itemsize for _, dtype in self.keys] or [0], np.int64)

    def apply(self, steps: list[StepFrame], table: Array) -> tuple[Array, Array]:
        """The numbers of variable and layout of each entry; -1 where the journal did not declare one."""
        if len({id(self._maps[step.shard]) for step in steps}) == 1:
            variables, layouts = self._maps[steps[0].shard]
            return variables.apply(table["variable"]), layouts.apply(table["layout"])
        variable, layout = np.empty(len(table), np.int64), np.empty(len(table), np.int64)
        start = 0
        for step in steps:
            here = slice(start, start + len(step.entries))
            variables, layouts = self._maps[step.shard]
            variable[here] = variables.apply(step.entries["variable"])
            layout[here] = layouts.apply(step.entries["layout"])
            start = here.stop
        return variable, layout


class _Map:
    """Maps the numbers of one rank to those of all."""

    def __init__(self, to: dict[int, int]) -> None:
        known = sorted(to)
        self._known = np.array(known or [-1], np.int64)
        self._to = np.array([to[number] for number in known] or [-1], np.int64)

    def apply(self, numbers: Array) -> Array:
        place = np.minimum(np.searchsorted(self._known, numbers), len(self._known) - 1)
        return np.where(self._known[place] == numbers, self._to[place], -1)


class LastStored:
    """Of each value that a journal stored: what it was when it was last stored, so that repeats of it can be found.

    A value is known by its journal and by a key made of its variable and call.
    """

    def __init__(self) -> None:
        self._of: dict[int, _Stored] = {}

    def find(self, shards: Array, keys: Array) -> _Stored:
        """What is known of these values, in the same order; `slots` is -1 for one that was not stored."""
        found = _Stored.empty(len(keys))
        for shard, here in runs(shards):
            stored = self._of.get(shard)
            if stored is not None:
                found.put(here, stored.at(keys[here]))
        return found

    def update(self, shards: Array, values: _Stored) -> None:
        """These values were stored."""
        for shard, here in runs(shards):
            new = values.part(here)
            old = self._of.get(shard)
            self._of[shard] = new if old is None else old.merged(new)


@dataclass(slots=True)
class _Stored:
    """Stored values in the order of their keys; `slots` says which of the stored values of its variable each one is."""

    keys: Array
    slots: Array
    layouts: Array
    digests: Array

    @classmethod
    def empty(cls, count: int) -> _Stored:
        digests = np.zeros(count, frames.ENTRY["digest"])
        return cls(np.full(count, -1, np.int64), np.full(count, -1, np.int64), np.full(count, -1, np.int64), digests)

    def part(self, here: Any) -> _Stored:
        return _Stored(self.keys[here], self.slots[here], self.layouts[here], self.digests[here])

    def put(self, here: Any, values: _Stored) -> None:
        self.keys[here], self.slots[here] = values.keys, values.slots
        self.layouts[here], self.digests[here] = values.layouts, values.digests

    def at(self, keys: Array) -> _Stored:
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found = self.part(place)
        found.slots = np.where(found.keys == keys, found.slots, -1)
        return found

    def merged(self, new: _Stored) -> _Stored:
        place = np.minimum(np.searchsorted(self.keys, new.keys), len(self.keys) - 1)
        known = self.keys[place] == new.keys
        self.put(place[known], new.part(known))
        if known.all():
            return self
        more = new.part(~known)
        keys = np.concatenate([self.keys, more.keys])
        order = np.argsort(keys)
        every = _Stored(
            keys,
            np.concatenate([self.slots, more.slots]),
            np.concatenate([self.layouts, more.layouts]),
            np.concatenate([self.digests, more.digests]),
        )
        return every.part(order)


def runs(values: Array) -> Iterator[tuple[int, slice]]:
    """The stretches of equal values in a sorted array."""
    bounds = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist(), len(values)]
    for first, last in pairwise(bounds):
        if last > first:
            yield int(values[first]), slice(first, last)


class EntryTable:
    """The entries of some steps, in the order of the steps. `good` says which of them can be right."""

    def __init__(self, steps: list[StepFrame], numbering: Numbering, files: FilePool) -> None:
        self._numbering, self._files = numbering, files
        self.steps = steps
        counts = [len(step.entries) for step in steps]
        table = np.frombuffer(b"".join([step.entries.data for step in steps]), frames.ENTRY)
        self.frame = np.repeat(np.arange(len(steps)), counts).astype(np.int64)
        self.shard = np.array([step.shard for step in steps], np.int64)
        self.file = np.array([step.file for step in steps], np.int64)
        self.step = np.array([step.step for step in steps], np.int64)
        self.is_first = np.array([step.is_first for step in steps], bool)
        self.time = np.array([step.time for step in steps], np.float64)
        self.call = table["call"].astype(np.int64)
        self.stored = table["kind"] == frames.STORED
        self.size = table["length"].astype(np.int64)
        self.digest = table["digest"]
        self.variable: Array = self.call
        self.layout: Array = self.call
        if steps:
            self.variable, self.layout = numbering.apply(steps, table)
        self._check()

    def __len__(self) -> int:
        return len(self.frame)

    def _check(self) -> None:
        start = np.array([step.start for step in self.steps], np.int64)
        length = np.array([step.length for step in self.steps], np.int64)
        within = np.where(self.stored, self.size, 0)
        ends = np.cumsum(within)
        first = np.searchsorted(self.frame, self.frame)  # the first entry of the same step
        before = (ends - within) - (ends - within)[first] if len(ends) else ends
        self.begin = start[self.frame] + before
        is_named = (self.variable >= 0) & (self.layout >= 0)
        size = self._numbering.counts[self.layout] * self._numbering.widths[self.variable]
        has_size = (self.size >= 0) & (size == self.size)
        is_inside = (before >= 0) & (before + within <= length[self.frame])
        self.good = is_named & has_size & is_inside & (self.call < _MOST_CALLS)

    def verify(self) -> None:
        """Read every stored value, and find those that are damaged."""
        entries = np.flatnonzero(self.stored & self.good)
        is_large = self.is_large(entries)
        for entry in entries[is_large].tolist():
            digest = xxh3_128()
            for piece in self.pieces(entry):
                digest.update(piece)
            self.good[entry] = digest.digest() == self.digest[entry].tobytes()
        entries = entries[~is_large]
        for first, last, block, cuts in self.blocks(entries):
            here = entries[first:last]
            if not holds(block, cuts, self.digest[here]):
                one_by_one = zip(cuts, here, strict=True)
                self.good[here] = [holds(block, [cut], self.digest[[entry]]) for cut, entry in one_by_one]

    def blocks(self, entries: Array) -> Iterator[tuple[int, int, bytes, list[Cut]]]:
        """The bytes of stored entries, in the order given; those that are next to each other are read at once.

        Which entries a block holds, from the first to before the last, its bytes, and where each entry is in it.
        """
        files, begins, sizes = self.file[self.frame[entries]], self.begin[entries], self.size[entries]
        ends = begins + sizes
        apart = np.ones(len(entries), bool)
        apart[1:] = (files[1:] != files[:-1]) | (begins[1:] != ends[:-1])
        # Long rows of entries are cut too: where the bytes since the first of them pass a multiple of the limit.
        part = (begins - np.maximum.accumulate(np.where(apart, begins, 0))) // _BLOCK if len(entries) else begins
        apart[1:] |= part[1:] != part[:-1]
        bounds = [*np.flatnonzero(apart).tolist(), len(entries)]
        form, cuts = b"", []
        for first, last in pairwise(bounds):
            begin, end = int(begins[first]), int(ends[last - 1])
            block = self._files.read(int(files[first]), begin, end - begin)
            if form != (form := sizes[first:last].tobytes()):  # most steps are like the one before
                cuts = list(pairwise([0, *np.cumsum(sizes[first:last]).tolist()]))
            yield first, last, block, cuts

    def is_large(self, entries: Array) -> Array:
        """Which of these entries have values that are read in pieces."""
        return self.size[entries] > _LARGE

    def pieces(self, entry: int) -> Iterator[bytes]:
        """The bytes of one entry, some at a time."""
        file, begin, end = int(self.file[self.frame[entry]]), int(self.begin[entry]), int(self.size[entry])
        for start in range(0, end, _BLOCK):
            yield self._files.read(file, begin + start, min(_BLOCK, end - start))

    def data(self, entries: Array) -> Iterator[Any]:
        """The bytes of each of these entries."""
        for *_, block, cuts in self.blocks(entries):
            view = memoryview(block)
            yield from (view[start:end] for start, end in cuts)

    def resolve(self, last: LastStored, next_slots: Array) -> None:
        """Find the stored value that each entry has: `slots`, and `whole` for those that have one.

        A value that is lost takes its repeats with it. `next_slots` is, for each variable, the slot that its next
        stored value gets; it is moved on.
        """
        order = np.lexsort((np.arange(len(self)), self.call, self.variable, self.shard[self.frame]))
        shard, variable, call = self.shard[self.frame][order], self.variable[order], self.call[order]
        is_first = np.ones(len(self), bool)
        is_first[1:] = (shard[1:] != shard[:-1]) | (variable[1:] != variable[:-1]) | (call[1:] != call[:-1])
        firsts = np.flatnonzero(is_first)
        group = np.cumsum(is_first) - 1
        before = last.find(shard[firsts], _key(variable[firsts], call[firsts]))
        places = np.arange(len(self))
        latest = np.maximum.accumulate(np.where(self.stored[order], places, -1))
        is_here = latest >= firsts[group] if len(self) else latest >= 0
        source = order[np.where(is_here, latest, places)]
        layout = np.where(is_here, self.layout[source], before.layouts[group])
        digest = np.where(is_here, self.digest[source], before.digests[group])
        is_equal = (layout == self.layout[order]) & (digest == self.digest[order])
        is_found = np.where(is_here, self.good[source], before.slots[group] >= 0)
        self.source, self.whole = np.full(len(self), -1, np.int64), np.zeros(len(self), bool)
        self.source[order] = np.where(is_here, source, -1)
        self.whole[order] = is_found & is_equal & self.good[order]
        self.is_lost = ~self.whole & (self.call != frames.REPLACED)
        self.slots = np.full(len(self), -1, np.int64)
        self._give_slots(next_slots)
        repeats = np.where(is_here, self.slots[source], before.slots[group])
        self.slots[order] = np.where(self.whole[order], repeats, -1)
        self._remember(last, order, is_first, latest, is_here)

    def _give_slots(self, next_slots: Array) -> None:
        """Number the stored values of each variable, in the order of the steps."""
        stored = np.flatnonzero(self.whole & self.stored)
        by_variable = stored[np.argsort(self.variable[stored], kind="stable")]
        variable = self.variable[by_variable]
        for number, here in runs(variable):
            count = here.stop - here.start
            self.slots[by_variable[here]] = next_slots[number] + np.arange(count)
            next_slots[number] += count

    def _remember(self, last: LastStored, order: Array, is_first: Array, latest: Array, is_here: Array) -> None:
        """Keep the value that each group of entries stored last. One that is damaged has no slot."""
        is_last = np.ones(len(self), bool)
        is_last[:-1] = is_first[1:]
        ends = np.flatnonzero(is_last & is_here)
        entries = order[latest[ends]]
        keys = _key(self.variable[entries], self.call[entries])
        values = _Stored(keys, self.slots[entries], self.layout[entries], self.digest[entries])
        last.update(self.shard[self.frame[entries]], values)


def _key(variable: Array, call: Array) -> Array:
    return variable * 2**32 + call


def holds(block: bytes, cuts: list[Cut], digests: Array) -> bool:
    """Whether the parts of a block have these digests."""
    view = memoryview(block)
    return b"".join([xxh3_128_digest(view[start:end]) for start, end in cuts]) == digests.tobytes()
