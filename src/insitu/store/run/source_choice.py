"""Chooses the source of each journal of a run: the journal on the disk, or the file that it was merged into."""

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
    """The journals that are read from the disk, those that are read from the file, and sentences about the others."""

    journals: list[Shard]
    from_file: list[ShardFacts]
    excluded: list[str]


def not_in_file(places: Iterable[JournalPlace], merged: Sequence[ShardFacts]) -> list[JournalPlace]:
    """The journals that a file does not hold to their present end."""
    known = {facts.key: (facts.tag, facts.size) for facts in merged}
    return [place for place in places if known.get((place.rank, place.attempt)) != tag_and_size(place)]


def choose_sources(shards: Sequence[Shard], merged: Sequence[ShardFacts], parts: Path) -> SourceChoice:
    """Take each journal that has at least what the file has of it; a journal never replaces another one."""
    in_file = {facts.key: facts for facts in merged}
    journals, excluded = [], []
    for shard in shards:
        facts = in_file.get((shard.rank, shard.attempt))
        if facts is None or _has_all(shard, facts):
            journals.append(shard)
        elif not _is_being_removed(shard, facts):
            excluded += _exclusions(shard, facts, parts)
    read = {(shard.rank, shard.attempt) for shard in journals}
    return SourceChoice(journals, [facts for facts in merged if facts.key not in read], excluded)


def _exclusions(shard: Shard, facts: ShardFacts, parts: Path) -> list[str]:
    """Why a journal is not read, though the file holds another one or less of it."""
    if facts.tag != shard.tag:
        where = f"rank {shard.rank}, attempt {shard.attempt}"
        return [f"{where} is in the file from another journal than that in {str(parts)!r}, left out"]
    if shard.size != facts.size:
        kept = f"the {facts.steps} steps that the file had of it are kept"
        return [f"rank {shard.rank}: its journal in {str(parts)!r} is damaged now: {kept}"]
    return []


def _is_being_removed(shard: Shard, facts: ShardFacts) -> bool:
    """Whether the file has a journal to its end, and its first file is gone: a merge removes them in order."""
    has_begin = bool(shard.files) and shard.files[0].path.name.startswith(f"{0:05d}-")
    return facts.ended is not None and not has_begin


def _has_all(shard: Shard, facts: ShardFacts) -> bool:
    is_same = shard.tag == facts.tag
    has_no_new_damage = set(shard.troubles) <= set(facts.missing)
    return is_same and has_no_new_damage and shard.counts.frames >= facts.frames
