"""What is known of each journal of a run without its steps, the attempts they belong to, and what is missing of them.

A run has an attempt for each time that its job was started: under `torchrun --max-restarts` each restart is one, and so
is each start with `resume=True`. The file of a run keeps these facts, so that it can tell later which journals it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from insitu.errors import StoreError
from insitu.store.journal.parts import MOST_RANKS
from insitu.trace.run import Attempt

if TYPE_CHECKING:
    from insitu.store.journal.journal_reader import Shard


@dataclass(frozen=True, slots=True)
class ShardFacts:
    """What is known of a journal. `missing` are sentences about this journal: that it did not end, what was damaged.

    `tag` and `size` tell whether a journal on the disk is the one that was read, and whether it has grown since.
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
        """What makes it the only one in its run."""
        return self.rank, self.attempt

    def to_json(self) -> dict[str, Any]:
        """Plain data for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: Any) -> ShardFacts:
        """What `to_json` gave; an error if a stranger's file says something else."""
        known = {name: _checked(name, said[name], kinds) for name, kinds in _KINDS.items()}
        rank, world_size = known["rank"], known["world_size"]
        if not (0 <= rank < world_size <= MOST_RANKS and 0 <= known["attempt"] < 2**31):
            raise StoreError(f"it has rank {rank} of {world_size}, attempt {known['attempt']}")
        return cls(**known, missing=tuple(str(text) for text in said["missing"]))


_WHOLE, _WHOLE_OR_NONE, _NUMBER_OR_NONE = (int,), (int, type(None)), (int, float, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    **{
        "rank": _WHOLE,
        "attempt": _WHOLE,
        "tag": (str,),
        "size": _WHOLE,
        "world_size": _WHOLE,
        "steps": _WHOLE,
        "frames": _WHOLE,
    },
    **{"first": _WHOLE_OR_NONE, "last": _WHOLE_OR_NONE},
    **{"started": _NUMBER_OR_NONE, "ended": _NUMBER_OR_NONE, "dropped": _WHOLE},
}


def _checked(name: str, value: Any, kinds: tuple[type, ...]) -> Any:
    if type(value) not in kinds:
        raise StoreError(f"its journals say {name}={value!r:.80}")
    return value


def facts_of(shard: Shard, *, is_merged: bool = False) -> ShardFacts:
    """What is known of a journal; as the file has it that is merged from it, or as it is on the disk."""
    if shard.known is not None:
        return shard.known
    said = shard.about.get("world_size")
    is_size = type(said) is int and shard.rank < said <= MOST_RANKS
    return ShardFacts(
        rank=shard.rank,
        attempt=shard.attempt,
        tag=shard.tag,
        size=shard.size,
        world_size=said if is_size and type(said) is int else shard.rank + 1,
        steps=shard.step_count,
        frames=shard.frame_count,
        first=shard.first_step,
        last=shard.last_committed,
        started=shard.started,
        ended=shard.ended,
        dropped=shard.dropped,
        missing=tuple(_missing_of(shard, is_merged)),
    )


def _missing_of(shard: Shard, is_merged: bool) -> Iterable[str]:
    if shard.ended is None:
        none = "no step was written" + " yet" * (shard.state == "running" and not is_merged)
        last = none if shard.last_committed is None else f"the last step written is {shard.last_committed}"
        yield f"rank {shard.rank} {_state_text(shard, is_merged)}: {last}"
    if shard.is_open:
        yield f"rank {shard.rank}: step {shard.last_committed} had not ended: values of it may be missing"
    if shard.dropped:
        yield f"rank {shard.rank}: {shard.dropped} step{'s' * (shard.dropped > 1)} could not be written"
    for (path, reason), step in shard.left_out.items():
        yield f"rank {shard.rank}: not all of {path!r} is recorded, first at step {step}: {reason}"
    yield from shard.troubles


def _state_text(shard: Shard, is_merged: bool) -> str:
    if shard.state == "running":
        return "still ran when the file was made" if is_merged else "still runs"
    if shard.state == "killed":
        return "did not end properly (killed?)"
    process = shard.writer.process
    return f"did not end: it was killed, or still runs on {process.host if process else 'another machine'}"


def attempts_of(facts: Sequence[ShardFacts]) -> list[Attempt]:
    """The attempts of a run, in their order."""
    return [_attempt(number, found) for number, found in _by_attempt(facts).items()]


def _attempt(number: int, found: list[ShardFacts]) -> Attempt:
    starts = [one.started for one in found if one.started is not None]
    ends = [one.ended for one in found if one.ended is not None]
    firsts = [one.first for one in found if one.first is not None]
    lasts = [one.last for one in found if one.last is not None]
    return Attempt(
        number=number,
        ranks=tuple(sorted(one.rank for one in found)),
        world_size=max(one.world_size for one in found),
        steps=(min(firsts), max(lasts)) if firsts and lasts else None,
        started=min(starts, default=None),
        ended=max(ends) if len(ends) == len(found) else None,
    )


def _by_attempt(facts: Sequence[ShardFacts]) -> dict[int, list[ShardFacts]]:
    found: dict[int, list[ShardFacts]] = {}
    for one in sorted(facts, key=lambda one: (one.attempt, one.rank)):
        found.setdefault(one.attempt, []).append(one)
    return found


def missing_of(facts: Sequence[ShardFacts]) -> list[str]:
    """What is not there and should be, as sentences; nothing, if the run is complete."""
    every = _by_attempt(facts)
    found = []
    for attempt, ones in every.items():
        ranks = set(range(max(one.world_size for one in ones))) - {one.rank for one in ones}
        texts = [f"rank {rank} left no journal" for rank in sorted(ranks)]
        texts += [text for one in ones for text in one.missing]
        found += [f"attempt {attempt}: {text}" for text in texts] if len(every) > 1 else texts
    return found


def missing_ranks_of(facts: Sequence[ShardFacts]) -> list[int]:
    """The ranks that left nothing in one of the attempts."""
    found: set[int] = set()
    for ones in _by_attempt(facts).values():
        found |= set(range(max(one.world_size for one in ones))) - {one.rank for one in ones}
    return sorted(found)


def last_committed_of(facts: Sequence[ShardFacts]) -> dict[int, int | None]:
    """The last step of each rank, in its last attempt."""
    return {one.rank: one.last for one in sorted(facts, key=lambda one: (one.rank, one.attempt))}


def world_size_of(facts: Sequence[ShardFacts]) -> int:
    """How many ranks there were, as far as the journals that are left know."""
    return max((one.world_size for one in facts), default=1)


def started_of(facts: Sequence[ShardFacts]) -> float | None:
    """When the first rank began."""
    return min((one.started for one in facts if one.started is not None), default=None)


def ended_of(facts: Sequence[ShardFacts]) -> float | None:
    """When the last rank ended; None if one did not."""
    ends = [one.ended for one in facts if one.ended is not None]
    return max(ends, default=None) if len(ends) == len(facts) else None
