"""The journals of all ranks of a run: what they say about the run, without their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

from insitu.store.journal.entry_table import Numbering, StepFrame
from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.parts import FilePool
from insitu.store.journal.shard_facts import ShardFacts, facts_of, missing_of
from insitu.store.stored_type import JSON
from insitu.trace.run import RunEvent


class RunShards:
    """The journals of one run as they were when they were read.

    `left_out` are sentences about journals that are not among them.
    """

    def __init__(self, shards: Sequence[Shard], *, left_out: Sequence[str] = ()) -> None:
        self.run_id = ""
        self.left_out = list(left_out)
        self.shards = sorted(shards, key=lambda shard: (shard.rank, shard.attempt))
        self.files = FilePool([path for shard in self.shards for path in shard.files])
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

    def report_lost(self, frame: StepFrame, count: int) -> None:
        """Some values of a step cannot be read."""
        shard = self.shards[frame.shard]
        values = "1 value is" if count == 1 else f"{count} values are"
        text = f"rank {shard.rank}: step {frame.step}: {values} lost"
        if text not in shard.troubles:
            shard.troubles.append(text)

    def shard_facts(self, *, is_merged: bool = False) -> list[ShardFacts]:
        """What is known of each journal."""
        return [facts_of(shard, is_merged=is_merged) for shard in self.shards]

    @property
    def troubles(self) -> list[str]:
        """What is damaged, as sentences."""
        return [trouble for shard in self.shards for trouble in shard.troubles]

    @property
    def events(self) -> list[RunEvent]:
        """What happened, in the order of the time."""
        return sorted((event for shard in self.shards for event in shard.events), key=lambda event: event.time)

    @property
    def live(self) -> bool:
        """Whether a rank still writes."""
        return any(shard.state == "running" for shard in self.shards)

    @property
    def about(self) -> dict[str, Any]:
        """The facts about the run, as the last attempt has them."""
        found = self.abouts
        return next((found[attempt] for attempt in sorted(found, reverse=True) if found[attempt]), {})

    @property
    def abouts(self) -> dict[int, dict[str, Any]]:
        """The facts about each attempt, as its lowest rank has them."""
        found: dict[int, dict[str, Any]] = {}
        for shard in self.shards:
            if not found.get(shard.attempt):
                found[shard.attempt] = shard.about
        return found

    @property
    def missing(self) -> list[str]:
        """What is not there and should be; nothing, if the run is complete."""
        return missing_of(self.shard_facts()) + self.left_out

    def facts(self, path: str) -> dict[str, Any]:
        """What the ranks say about a path: one value where they agree, else a dict by rank."""
        said = {shard.rank: shard.facts[path] for shard in self.shards if path in shard.facts}
        names = dict.fromkeys(name for facts in said.values() for name in facts)
        return {name: agreed({rank: facts.get(name) for rank, facts in said.items()}) for name in names}


def agreed(by_rank: dict[int, Any]) -> Any:
    """The one value where all ranks say the same, else what each says."""
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
