"""The journals of all ranks as one: which variables there are, and where each of their values lies.

Everything is columns, one row for each entry of each step, so that a run of millions of values is found in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest

from insitu.errors import StoreError
from insitu.store import frames
from insitu.store.dtypes import JSON, Kind, kind_of
from insitu.store.parts import MOST_RANKS, Files, rank_folders
from insitu.store.shard import RunEvent, read_shard
from insitu.store.value import Array

_BLOCK = 2**24
_NONE = np.void(xxh3_128_digest(b"null"))  # None, as the journal has it

Cut = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Found:
    """One variable: a row for each time it was seen. `entries[index[row]]` is where the value of a row is stored."""

    name: str
    path: str
    kind: Kind
    steps: Array
    ranks: Array
    calls: Array
    times: Array
    index: Array
    entries: Array
    layouts: Array
    digests: Array

    def __len__(self) -> int:
        return len(self.steps)


class Catalog:
    """All committed steps of all ranks.

    With `verify` every value is read and checked, so that those that are damaged are known before they are asked for.
    """

    def __init__(self, parts: Path, *, verify: bool = True) -> None:
        folders = rank_folders(parts)
        if not folders:
            raise StoreError(f"there is no journal of a run in {str(parts)!r}")
        self.shards = [read_shard(folder, rank) for rank, folder in folders.items()]
        self.troubles = [trouble for shard in self.shards for trouble in shard.troubles]
        self.files = Files([path for shard in self.shards for path in shard.files])
        self.keys: list[tuple[str, str]] = []
        self.shapes: list[tuple[int, ...]] = []
        self._collect()
        self._check_entries()
        if verify:
            self._verify()
        self._resolve()

    @property
    def world_size(self) -> int:
        """How many ranks there were, as far as the ones that are left know."""
        said = [size for shard in self.shards if type(size := shard.about.get("world_size")) is int]
        return max([shard.rank + 1 for shard in self.shards] + [size for size in said if 0 < size <= MOST_RANKS])

    @property
    def missing_ranks(self) -> list[int]:
        """The ranks that left nothing."""
        return sorted(set(range(self.world_size)) - {shard.rank for shard in self.shards})

    @property
    def events(self) -> list[RunEvent]:
        """What happened, in the order of the time."""
        return sorted((event for shard in self.shards for event in shard.events), key=lambda event: event.time)

    @property
    def live(self) -> bool:
        """Whether a rank still writes."""
        return any(shard.live for shard in self.shards)

    @property
    def about(self) -> dict[str, Any]:
        """The facts about the run, as the lowest rank has them."""
        return next((shard.about for shard in self.shards if shard.about), {})

    @property
    def started(self) -> float | None:
        """When the first rank began."""
        return min((shard.started for shard in self.shards if shard.started is not None), default=None)

    @property
    def ended(self) -> float | None:
        """When the last rank ended; None if one did not."""
        every = [shard.ended for shard in self.shards if shard.ended is not None]
        return max(every) if len(every) == len(self.shards) else None

    @property
    def dropped(self) -> int:
        """How many steps could not be written."""
        return sum(shard.dropped for shard in self.shards)

    @property
    def missing(self) -> list[str]:
        """What is not there and should be; nothing, if the run is complete."""
        found = [f"rank {rank} left no journal" for rank in self.missing_ranks]
        for shard in self.shards:
            if shard.ended is None:
                state = "still runs" if shard.live else "did not end properly (killed?)"
                none = "no step was written" + " yet" * shard.live
                last = none if shard.last_committed is None else f"the last step written is {shard.last_committed}"
                found.append(f"rank {shard.rank} {state}: {last}")
            if shard.is_open:
                found.append(
                    f"rank {shard.rank}: step {shard.last_committed} had not ended: values of it may be missing"
                )
            if shard.dropped:
                found.append(f"rank {shard.rank}: {shard.dropped} step{'s' * (shard.dropped > 1)} could not be written")
            for (path, reason), step in shard.left_out.items():
                found.append(f"rank {shard.rank}: not all of {path!r} is recorded, first at step {step}: {reason}")
        return found + self.troubles

    def step_rows(self) -> Array:
        """One frame of each step, in the order of step and rank: a step may have several, all with its time."""
        order = np.lexsort((self.time, self.rank, self.step))
        is_first = np.ones(len(order), bool)
        columns = [column[order] for column in (self.step, self.rank, self.time)]
        is_first[1:] = np.any([column[1:] != column[:-1] for column in columns], axis=0)
        return order[is_first]

    def _collect(self) -> None:
        steps = [
            (shard.rank, number + first, step, time, start, length)
            for shard, first in zip(self.shards, self._first_files(), strict=True)
            for number, step, time, start, length in shard.steps
        ]
        columns = list(zip(*steps, strict=True)) if steps else [()] * 6
        types = (np.int32, np.int64, np.int64, np.float64, np.int64, np.int64)
        named = zip(columns, types, strict=True)
        self.rank, self.file, self.step, self.time, self.start, self.length = (np.array(c, t) for c, t in named)
        every = [entries for shard in self.shards for entries in shard.entries]
        table = np.concatenate(every) if every else np.empty(0, frames.ENTRY)
        self.frame = np.repeat(np.arange(len(every)), [len(entries) for entries in every]).astype(np.int64)
        self.call, self.stored = table["call"].astype(np.int64), table["kind"] == frames.STORED
        self.size, self.digest = table["length"].astype(np.int64), table["digest"]
        self.variable, self.layout = self._global_numbers(table)

    def _first_files(self) -> list[int]:
        counts = [len(shard.files) for shard in self.shards]
        return [sum(counts[:number]) for number in range(len(counts))]

    def _global_numbers(self, table: Array) -> tuple[Array, Array]:
        """The numbers of variables and layouts are those of a rank; here they become the same for all."""
        keys: dict[tuple[str, str], int] = {}
        shapes: dict[tuple[int, ...], int] = {}
        variable, layout = np.empty(len(table), np.int64), np.empty(len(table), np.int64)
        taken = 0
        for shard in self.shards:
            here = slice(taken, taken + sum(map(len, shard.entries)))
            taken = here.stop
            names = {number: keys.setdefault(key, len(keys)) for number, key in sorted(shard.variables.items())}
            sizes = {number: shapes.setdefault(said[1], len(shapes)) for number, said in shard.layouts.items()}
            variable[here] = _mapped(table["variable"][here], names)
            layout[here] = _mapped(table["layout"][here], sizes)
        self.keys, self.shapes = list(keys), list(shapes)
        return variable, layout

    def _check_entries(self) -> None:
        """Which entries can be what they say, and where their data begin."""
        within = np.where(self.stored, self.size, 0)
        ends = np.cumsum(within)
        first = np.searchsorted(self.frame, self.frame)  # the first entry of the same step
        before = (ends - within) - (ends - within)[first] if len(ends) else ends
        self.begin = self.start[self.frame] + before
        count = np.array([int(np.prod(shape, dtype=object)) for shape in self.shapes] or [0], np.int64)
        width = np.array([kind_of(dtype).itemsize for _, dtype in self.keys] or [0], np.int64)
        named = (self.variable >= 0) & (self.layout >= 0)
        fits = (self.size >= 0) & (count[self.layout] * width[self.variable] == self.size)
        inside = (before >= 0) & (before + within <= self.length[self.frame])
        # A journal has room for larger numbers of calls than a file.
        self.good = named & fits & inside & (self.call < 2**31)

    def _verify(self) -> None:
        entries = np.flatnonzero(self.stored & self.good)
        for first, last, block, cuts in self.blocks(entries):
            here = entries[first:last]
            if not holds(block, cuts, self.digest[here]):
                self.good[here] = [
                    holds(block, [cut], self.digest[[entry]]) for cut, entry in zip(cuts, here, strict=True)
                ]

    def blocks(self, entries: Array) -> Iterator[tuple[int, int, bytes, list[Cut]]]:
        """The bytes of stored entries, in the order given; those that lie together are read at once.

        Which entries a block holds, from the first to before the last, its bytes, and where each of them lies in it.
        """
        files, begins, sizes = self.file[self.frame[entries]], self.begin[entries], self.size[entries]
        ends = begins + sizes
        apart = np.ones(len(entries), bool)
        apart[1:] = (files[1:] != files[:-1]) | (begins[1:] != ends[:-1])
        # Long rows of entries are parted too: where the bytes since the first of them pass a multiple of the limit.
        part = (begins - np.maximum.accumulate(np.where(apart, begins, 0))) // _BLOCK if len(entries) else begins
        apart[1:] |= part[1:] != part[:-1]
        bounds = [*np.flatnonzero(apart).tolist(), len(entries)]
        form, cuts = b"", []
        for first, last in pairwise(bounds):
            begin, end = int(begins[first]), int(ends[last - 1])
            block = self.files.read(int(files[first]), begin, end - begin)
            if form != (form := sizes[first:last].tobytes()):  # most steps are like the one before
                cuts = list(pairwise([0, *np.cumsum(sizes[first:last]).tolist()]))
            yield first, last, block, cuts

    def data(self, entries: Array) -> Iterator[Any]:
        """The bytes of each of these entries."""
        for *_, block, cuts in self.blocks(entries):
            view = memoryview(block)
            yield from (view[start:end] for start, end in cuts)

    def _resolve(self) -> None:
        """Find the stored value that each repeat refers to; one that is lost takes its repeats with it."""
        count = len(self.frame)
        rank = self.rank[self.frame]
        order = np.lexsort((np.arange(count), self.call, self.variable, rank))
        same = np.ones(count, bool)
        for column in (self.call, self.variable, rank):
            same[1:] &= column[order][1:] == column[order][:-1]
        same[:1] = False
        places = np.arange(count)
        begins = np.maximum.accumulate(np.where(same, 0, places))
        latest = np.maximum.accumulate(np.where(self.stored[order], places, -1))
        found = latest >= begins
        source = order[np.where(found, latest, places)]
        equal = (self.layout[source] == self.layout[order]) & (self.digest[source] == self.digest[order])
        self.source = np.empty(count, np.int64)
        self.source[order] = source
        whole = np.empty(count, bool)
        whole[order] = found & equal & self.good[source]
        self.whole = whole & self.good
        self._tell_lost()

    def _tell_lost(self) -> None:
        lost = np.flatnonzero(~self.whole & (self.call != frames.REPLACED))
        for frame, count in zip(*np.unique(self.frame[lost], return_counts=True), strict=True):
            values = "1 value is" if count == 1 else f"{count} values are"
            self.troubles.append(f"rank {self.rank[frame]}: step {self.step[frame]}: {values} lost")

    @cached_property
    def variables(self) -> list[Found]:
        """The variables that have a value, each with a name of its own."""
        rows = np.flatnonzero(self.whole)
        frame = self.frame[rows]
        rows = rows[np.lexsort((rows, self.rank[frame], self.step[frame]))]
        rows = rows[np.argsort(self.variable[rows], kind="stable")]
        numbers, begins = np.unique(self.variable[rows], return_index=True)
        groups = dict(zip(numbers.tolist(), np.split(rows, begins[1:]), strict=True)) if len(rows) else {}
        for number in self._unbound(groups):
            del groups[number]
        names = unique_names([self.keys[number] for number in groups])
        return [self._found(name, number, groups[number]) for name, number in zip(names, groups, strict=True)]

    def _unbound(self, groups: dict[int, Array]) -> list[int]:
        """The variables that never are anything but None, of paths with tensors: a name that waits to be bound."""
        bound = {path for path, dtype in (self.keys[number] for number in groups) if dtype != JSON}
        waiting = [number for number in groups if self.keys[number][1] == JSON and self.keys[number][0] in bound]
        return [number for number in waiting if (self.digest[groups[number]] == _NONE).all()]

    def _found(self, name: str, number: int, rows: Array) -> Found:
        path, dtype = self.keys[number]
        frame, entries = self.frame[rows], rows[self.stored[rows]]
        places = np.argsort(entries)
        index = places[np.searchsorted(entries, self.source[rows], sorter=places)]
        columns = (self.step[frame], self.rank[frame], self.call[rows], self.time[frame], index)
        return Found(name, path, kind_of(dtype), *columns, entries, self.layout[entries], self.digest[entries])

    def facts(self, path: str) -> dict[str, Any]:
        """What the ranks say about a path: one value where they agree, else a dict by rank."""
        said = {shard.rank: shard.facts[path] for shard in self.shards if path in shard.facts}
        names = dict.fromkeys(name for facts in said.values() for name in facts)
        return {name: _agreed({rank: facts.get(name) for rank, facts in said.items()}) for name in names}


def holds(block: bytes, cuts: list[Cut], digests: Array) -> bool:
    """Whether the parts of a block have these digests."""
    view = memoryview(block)
    return b"".join([xxh3_128_digest(view[start:end]) for start, end in cuts]) == digests.tobytes()


def _mapped(numbers: Array, to: dict[int, int]) -> Array:
    """The numbers mapped; -1 for those that are not known."""
    known, place = np.unique(numbers, return_inverse=True)
    return np.array([to.get(number, -1) for number in known.tolist()], np.int64)[place]


def _agreed(by_rank: dict[int, Any]) -> Any:
    texts = {repr(value) for value in by_rank.values()}
    return next(iter(by_rank.values())) if len(texts) == 1 else {"ranks": by_rank}


def unique_names(keys: Iterable[tuple[str, str]]) -> list[str]:
    """The name of each path and dtype: the path, for the first dtype it has; tensors come before Python values.

    >>> unique_names([("x", "json"), ("x", "float32"), ("x", "int64")])
    ['x@json', 'x', 'x@int64']
    """
    every = list(keys)
    paths = {path for path, _ in every}
    names: dict[int, str] = {}
    taken: set[str] = set()
    for number in sorted(range(len(every)), key=lambda number: every[number][1] == JSON):
        path, dtype = every[number]
        name = path
        while name in taken or (name != path and name in paths):
            name += f"@{dtype}"
        taken.add(name)
        names[number] = name
    return [names[number] for number in range(len(every))]
