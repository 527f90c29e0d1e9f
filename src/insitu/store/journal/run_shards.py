"""The journals of all ranks of a run, and their declarations about the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np

from insitu.store.journal.entry_table import Numbering, StepFrame
from insitu.store.journal.file_pool import FilePool
from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.shard_facts import ShardFacts, facts_of, missing_of
from insitu.store.stored_type import JSON, Array
from insitu.trace.run import RunEvent


class RunShards:
    """The journals of one run as they were when they were read.

    `excluded` are sentences about journals that are not among them.
    """

    def __init__(self, shards: Sequence[Shard], *, run_id: str = "", excluded: Sequence[str] = ()) -> None:
        self.run_id = run_id
        self.excluded = list(excluded)
        self.shards = sorted(shards, key=lambda shard: (shard.rank, shard.attempt))
        self.pool = FilePool([file for shard in self.shards for file in shard.files])
        self._first_files = [0, *accumulate(len(shard.files) for shard in self.shards)]
        self.numbering = Numbering([shard.names for shard in self.shards])

    def step_frames(self, number: int, files: range | None = None) -> Iterator[StepFrame]:
        """The frames of one journal, or of some of its files, in the order in which they were written."""
        return self.shards[number].step_frames(number, self.pool, self._first_files[number], files)

    @cached_property
    def size(self) -> int:
        """The bytes of all journals."""
        return sum(file.size for shard in self.shards for file in shard.files)

    @property
    def ranks(self) -> Array:
        """The rank of each journal."""
        return np.array([shard.rank for shard in self.shards], np.int32)

    @property
    def attempts(self) -> Array:
        """The attempt of each journal."""
        return np.array([shard.attempt for shard in self.shards], np.int32)

    def report_lost(self, lost: Iterable[tuple[StepFrame, int]]) -> None:
        """Note that some values of these frames cannot be read."""
        for frame, count in lost:
            values = "1 value is" if count == 1 else f"{count} values are"
            self.shards[frame.shard].add_trouble(f"step {frame.step}: {values} lost")

    def shard_facts(self, *, is_merged: bool = False) -> list[ShardFacts]:
        """The facts about each journal."""
        return [facts_of(shard, is_merged=is_merged) for shard in self.shards]

    @property
    def troubles(self) -> list[str]:
        """Sentences about the damage."""
        return list(chain.from_iterable(shard.troubles for shard in self.shards))

    @property
    def events(self) -> list[RunEvent]:
        """The events of all ranks, ordered by time."""
        events = chain.from_iterable(shard.events for shard in self.shards)
        return sorted(events, key=attrgetter("time"))

    @property
    def is_running(self) -> bool:
        """Whether a rank still writes."""
        return any(shard.state == "running" for shard in self.shards)

    @property
    def about(self) -> dict[str, Any]:
        """The facts about the run, from its last attempt that has any."""
        by_attempt = sorted(self.abouts.items(), reverse=True, key=itemgetter(0))
        return next((about for _, about in by_attempt if about), {})

    @property
    def abouts(self) -> dict[int, dict[str, Any]]:
        """The facts about each attempt, from the lowest rank that has any."""
        found: dict[int, dict[str, Any]] = {}
        for shard in self.shards:
            if not found.get(shard.attempt):
                found[shard.attempt] = shard.about
        return found

    def missing(self, *, is_merged: bool = False) -> list[str]:
        """Sentences about missing data; none if the run is complete."""
        return missing_of(self.shard_facts(is_merged=is_merged)) + self.excluded

    def facts(self, path: str) -> dict[str, Any]:
        """What the ranks declare about a path."""
        declared = {shard.rank: shard.names.facts for shard in self.shards if path in shard.names.facts}
        return joined_facts({rank: facts[path] for rank, facts in declared.items()})


def joined_facts(by_rank: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Facts of several ranks: one value for each name where all ranks agree, else a dict by rank.

    >>> joined_facts({0: {"source": "a.py:1", "part": 0}, 1: {"source": "a.py:1", "part": 1}, 2: {}})
    {'source': 'a.py:1', 'part': {'ranks': {0: 0, 1: 1}}}
    """
    known = {rank: facts for rank, facts in by_rank.items() if facts}
    names = dict.fromkeys(name for facts in known.values() for name in facts)
    return {name: _agreed({rank: facts.get(name) for rank, facts in known.items()}) for name in names}


def _agreed(by_rank: dict[int, Any]) -> Any:
    texts = {repr(value) for value in by_rank.values()}
    if len(texts) == 1:
        return next(iter(by_rank.values()))
    return {"ranks": by_rank}


def facts_of_rank(facts: dict[str, Any], rank: int) -> dict[str, Any]:
    """The facts of one rank, from the joined facts of all.

    >>> facts_of_rank({"source": "a.py:1", "scale": {"ranks": {0: 0.5, 1: 0.25}}}, 1)
    {'source': 'a.py:1', 'scale': 0.25}
    """
    found = {}
    for name, fact in facts.items():
        if not _differs_by_rank(fact):
            found[name] = fact
        elif rank in fact["ranks"]:
            found[name] = fact["ranks"][rank]
    return found


def _differs_by_rank(fact: Any) -> bool:
    return isinstance(fact, dict) and fact.keys() == {"ranks"} and isinstance(fact["ranks"], dict)


def unique_names(keys: Iterable[tuple[str, str]]) -> list[str]:
    """The name of each path and dtype: the path, for the first dtype it has; tensors come before Python values.

    >>> unique_names([("x", "json"), ("x", "float32"), ("x", "int64")])
    ['x@json', 'x', 'x@int64']
    """
    every = list(keys)
    paths = {path for path, _ in every}
    names: dict[int, str] = {}
    used: set[str] = set()
    for number in sorted(range(len(every)), key=lambda number: every[number][1] == JSON):
        path, dtype = every[number]
        name = path
        while name in used or (name != path and name in paths):
            name += f"@{dtype}"
        used.add(name)
        names[number] = name
    return [names[number] for number in range(len(every))]
