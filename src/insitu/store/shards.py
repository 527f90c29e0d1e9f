"""The journals of all ranks of a run: what they say about the run, without their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from insitu.errors import StoreError
from insitu.store.dtypes import JSON
from insitu.store.parts import MOST_RANKS, Files, rank_folders
from insitu.store.shard import RunEvent, read_shard
from insitu.store.stretch import Numbering, StepFrame


class Shards:
    """All journals of a run as they were when they were read."""

    def __init__(self, parts: Path) -> None:
        folders = rank_folders(parts)
        if not folders:
            raise StoreError(f"there is no journal of a run in {str(parts)!r}")
        self.shards = [read_shard(folder, rank) for rank, folder in folders.items()]
        self.troubles = [trouble for shard in self.shards for trouble in shard.troubles]
        self.files = Files([path for shard in self.shards for path in shard.files])
        self._first_files = [0, *accumulate(len(shard.files) for shard in self.shards)]
        declared = [(shard.variables, {n: shape for n, (_, shape) in shard.layouts.items()}) for shard in self.shards]
        self.numbering = Numbering(declared)

    def step_frames(self, number: int) -> Iterator[StepFrame]:
        """The steps of one journal, in the order in which they were written."""
        return self.shards[number].step_frames(number, self.files, self._first_files[number])

    @cached_property
    def size(self) -> int:
        """The bytes of all journals."""
        return sum(size for shard in self.shards for size in shard.sizes)

    def lost(self, frame: StepFrame, count: int) -> str:
        """A sentence about values that cannot be read."""
        values = "1 value is" if count == 1 else f"{count} values are"
        return f"rank {self.shards[frame.shard].rank}: step {frame.step}: {values} lost"

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
            if shard.dropped:
                found.append(f"rank {shard.rank}: {shard.dropped} step{'s' * (shard.dropped > 1)} could not be written")
        return found + self.troubles

    def facts(self, path: str) -> dict[str, Any]:
        """What the ranks say about a path: one value where they agree, else a dict by rank."""
        said = {shard.rank: shard.facts[path] for shard in self.shards if path in shard.facts}
        names = dict.fromkeys(name for facts in said.values() for name in facts)
        return {name: _agreed({rank: facts.get(name) for rank, facts in said.items()}) for name in names}


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
