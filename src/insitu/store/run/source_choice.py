"""Where each journal of a run is read from: from the disk, or from the file that was merged from it before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.store.journal.journal_reader import Shard
from insitu.store.journal.journaled_runs import tag_and_size
from insitu.store.journal.parts import JournalPlace
from insitu.store.journal.shard_facts import ShardFacts


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """Which journals are taken, and for which the file has what is there; `left_out` says which data were not taken."""

    journals: list[Shard]
    from_file: list[ShardFacts]
    left_out: list[str]


def not_in_file(places: Iterable[JournalPlace], merged: Sequence[ShardFacts]) -> list[JournalPlace]:
    """The journals of which a file has not all there is now."""
    known = {(facts.rank, facts.attempt): (facts.tag, facts.size) for facts in merged}
    return [place for place in places if known.get((place.rank, place.attempt)) != tag_and_size(place)]


def choose(shards: Sequence[Shard], merged: Sequence[ShardFacts], parts: Path) -> SourceChoice:
    """Take each journal that has at least what the file has of it; never one in the place of another."""
    in_file = {facts.key: facts for facts in merged}
    journals, left_out = [], []
    for shard in shards:
        facts = in_file.get((shard.rank, shard.attempt))
        if facts is None or _has_all(shard, facts):
            journals.append(shard)
        elif _is_being_removed(shard, facts):
            continue
        elif facts.tag != shard.tag:
            where = f"rank {shard.rank}, attempt {shard.attempt}"
            left_out.append(f"{where} is in the file from another journal than that in {str(parts)!r}, left out")
        elif shard.size != facts.size:
            text = f"the {facts.steps} steps that the file had of it are kept"
            left_out.append(f"rank {shard.rank}: its journal in {str(parts)!r} is damaged now: {text}")
    taken = {(shard.rank, shard.attempt) for shard in journals}
    return SourceChoice(journals, [facts for facts in merged if facts.key not in taken], left_out)


def _is_being_removed(shard: Shard, facts: ShardFacts) -> bool:
    """Whether the file has a journal to its end, and its first file is gone: a merge removes them in order."""
    has_begin = bool(shard.files) and shard.files[0].name.startswith(f"{0:05d}-")
    return facts.ended is not None and not has_begin


def _has_all(shard: Shard, facts: ShardFacts) -> bool:
    is_same = shard.tag == facts.tag
    has_no_new_damage = set(shard.troubles) <= set(facts.missing)
    return is_same and has_no_new_damage and shard.frame_count >= facts.frames
