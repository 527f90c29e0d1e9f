"""The facts about each journal of a run, the attempts of the run, and sentences about missing data.

A run has an attempt for each time that its job was started: under `torchrun --max-restarts` each restart is one, and so
is each start with `resume=True`. The file of a run keeps these facts: a later merge must know which journals it has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from insitu.errors import StoreError
from insitu.store.journal.parts import MOST_RANKS
from insitu.trace.run import Attempt

if TYPE_CHECKING:
    from insitu.store.journal.journal_reader import Shard


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """The facts about a journal. `missing` are sentences: that it did not end, and its damage.

    `tag` and `size` say whether a journal on the disk is the one that was read, and whether it has grown since.
    """

    rank: int
    attempt: int
    tag: str
    size: int
    world_size: int
    steps: int
    frames: int
    first: int | None
    last: int | None
    started: float | None
    ended: float | None
    dropped: int
    missing: tuple[str, ...]

    @property
    def key(self) -> tuple[int, int]:
        """Rank and attempt: a run has one journal with these."""
        return self.rank, self.attempt

    def to_json(self) -> dict[str, Any]:
        """Plain data for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> ShardFacts:
        """The facts that `to_json` wrote; raises a StoreError if the file is damaged or forged."""
        known = {name: _checked(name, data[name], types) for name, types in _TYPES.items()}
        rank, world_size = known["rank"], known["world_size"]
        if not (0 <= rank < world_size <= MOST_RANKS and 0 <= known["attempt"] < 2**31):
            raise StoreError(f"it has rank {rank} of {world_size}, attempt {known['attempt']}")
        return cls(**known, missing=tuple(str(text) for text in data["missing"]))


_INT, _INT_OR_NONE, _NUMBER_OR_NONE = (int,), (int, type(None)), (int, float, type(None))
_TYPES: dict[str, tuple[type, ...]] = {
    "rank": _INT,
    "attempt": _INT,
    "tag": (str,),
    "size": _INT,
    "world_size": _INT,
    "steps": _INT,
    "frames": _INT,
    "first": _INT_OR_NONE,
    "last": _INT_OR_NONE,
    "started": _NUMBER_OR_NONE,
    "ended": _NUMBER_OR_NONE,
    "dropped": _INT,
}


def _checked(name: str, value: Any, types: tuple[type, ...]) -> Any:
    if type(value) not in types:
        raise StoreError(f"its journals have {name}={value!r:.80}")
    return value


def facts_of(shard: Shard, *, is_merged: bool = False) -> ShardFacts:
    """The facts about a journal: for the file that it is merged into, or for the journal on the disk."""
    if shard.merged is not None:
        return shard.merged
    return ShardFacts(
        rank=shard.rank,
        attempt=shard.attempt,
        tag=shard.tag,
        size=shard.size,
        world_size=_world_size(shard),
        steps=shard.counts.steps,
        frames=shard.counts.frames,
        first=shard.counts.first,
        last=shard.counts.last,
        started=shard.started,
        ended=shard.ended,
        dropped=shard.dropped,
        missing=tuple(_missing_sentences(shard, is_merged)),
    )


def _world_size(shard: Shard) -> int:
    """The world size that the journal declares, if it can be right."""
    size = shard.about.get("world_size")
    if type(size) is int and shard.rank < size <= MOST_RANKS:
        return size
    return shard.rank + 1


def unfinished_sentences(shard: Shard, *, is_merged: bool = False) -> Iterable[str]:
    """Sentences about a journal that has not ended; a running one may be followed, and then they say nothing new."""
    rank, last = f"rank {shard.rank}", shard.counts.last
    if shard.ended is None:
        yield f"{rank} {_state_text(shard, is_merged)}: {_last_step_text(shard, is_merged)}"
    if shard.counts.is_open:
        yield f"{rank}: step {last} had not ended: values of it may be missing"


def _missing_sentences(shard: Shard, is_merged: bool) -> Iterable[str]:
    rank = f"rank {shard.rank}"
    yield from unfinished_sentences(shard, is_merged=is_merged)
    if shard.dropped:
        yield f"{rank}: {shard.dropped} step{'s' * (shard.dropped > 1)} could not be written"
    for (path, reason), step in shard.names.omissions.items():
        yield f"{rank}: not all of {path!r} is recorded, first at step {step}: {reason}"
    yield from shard.troubles


def _last_step_text(shard: Shard, is_merged: bool) -> str:
    if shard.counts.last is not None:
        return f"the last step written is {shard.counts.last}"
    if shard.state == "running" and not is_merged:
        return "no step was written yet"
    return "no step was written"


def _state_text(shard: Shard, is_merged: bool) -> str:
    if shard.state == "killed":
        return "did not end properly (killed?)"
    if shard.state != "running":
        process = shard.owner.process
        host = process.host if process else "another machine"
        return f"did not end: it was killed, or still runs on {host}"
    if is_merged:
        return "still ran when the file was made"
    return "still runs"


def _by_attempt(shards: Sequence[ShardFacts]) -> dict[int, list[ShardFacts]]:
    found: dict[int, list[ShardFacts]] = {}
    for facts in sorted(shards, key=lambda facts: (facts.attempt, facts.rank)):
        found.setdefault(facts.attempt, []).append(facts)
    return found


def _known(shards: Sequence[ShardFacts], value: Callable[[ShardFacts], Any]) -> list[Any]:
    """A value of each journal, without None."""
    return [found for facts in shards if (found := value(facts)) is not None]


def attempts_of(shards: Sequence[ShardFacts]) -> list[Attempt]:
    """The attempts of a run, in their order."""
    return [_attempt(number, found) for number, found in _by_attempt(shards).items()]


def _attempt(number: int, shards: list[ShardFacts]) -> Attempt:
    firsts = _known(shards, lambda facts: facts.first)
    lasts = _known(shards, lambda facts: facts.last)
    return Attempt(
        number=number,
        ranks=tuple(sorted(facts.rank for facts in shards)),
        world_size=world_size_of(shards),
        steps=(min(firsts), max(lasts)) if firsts and lasts else None,
        started=started_of(shards),
        ended=ended_of(shards),
    )


def missing_of(shards: Sequence[ShardFacts]) -> list[str]:
    """Sentences about missing data; none if the run is complete."""
    attempts = _by_attempt(shards)
    found = []
    for attempt, every in attempts.items():
        prefix = f"attempt {attempt}: " if len(attempts) > 1 else ""
        found += [f"{prefix}rank {rank} left no journal" for rank in _ranks_without_journal(every)]
        found += [f"{prefix}{text}" for facts in every for text in facts.missing]
    return found


def _ranks_without_journal(shards: Sequence[ShardFacts]) -> list[int]:
    return sorted(set(range(world_size_of(shards))) - {facts.rank for facts in shards})


def missing_ranks_of(shards: Sequence[ShardFacts]) -> list[int]:
    """The ranks that left nothing in one of the attempts."""
    missing = [_ranks_without_journal(every) for every in _by_attempt(shards).values()]
    return sorted(set().union(*missing))


def last_committed_of(shards: Sequence[ShardFacts]) -> dict[int, int | None]:
    """The last step of each rank, in its last attempt."""
    return {facts.rank: facts.last for facts in sorted(shards, key=lambda facts: facts.key)}


def world_size_of(shards: Sequence[ShardFacts]) -> int:
    """How many ranks there were, as far as the journals say."""
    return max((facts.world_size for facts in shards), default=1)


def started_of(shards: Sequence[ShardFacts]) -> float | None:
    """When the first rank began."""
    return min(_known(shards, lambda facts: facts.started), default=None)


def ended_of(shards: Sequence[ShardFacts]) -> float | None:
    """When the last rank ended; None if one of them did not."""
    ends = _known(shards, lambda facts: facts.ended)
    if len(ends) == len(shards):
        return max(ends, default=None)
    return None
