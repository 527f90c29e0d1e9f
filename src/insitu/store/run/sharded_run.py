"""A run whose journals are read where they are, without merging them: at an address, or in a folder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from insitu.errors import ChoiceError, StoreError
from insitu.store.address import Address
from insitu.store.journal.file_pool import JournalFile
from insitu.store.journal.journal_reader import Shard, read_shard
from insitu.store.journal.parts import JournalPlace, places
from insitu.store.journal.remote_shards import places_at
from insitu.store.run.run import Run
from insitu.store.run.run_journals import RunJournals

_SHORT = 8  # characters of an id that people see
_MOST_NAMED = 8


def run_at(address: Address, name: str | None = None) -> Run:
    """The run at an address; `name` is the beginning of its id, if there are several."""
    found = places_at(address)
    if not found:
        raise StoreError(f"no journal of a run is at {address.text!r}")
    chosen = _chosen_run(found, name)
    shards = [read_shard(place, files) for place, files in found.items() if place.run == chosen]
    check_ranks_agree(shards)
    return Run(RunJournals(Path(address.root), chosen, shards, origin=address.text))


def run_in_folder(folder: Path, name: str | None = None) -> Run:
    """The run whose journals are in a folder, such as a copy of an address."""
    found = places(folder)
    if not found:
        raise StoreError(
            f"{str(folder)!r} is a directory without journals of a run: give the name of a file, or of a directory that"
            " has some"
        )
    chosen = _chosen_run(found, name)
    shards = [read_shard(place) for place in found if place.run == chosen]
    check_ranks_agree(shards)
    return Run(RunJournals(folder, chosen, shards))


def sent_run(address: Address, parts: Path, run_id: str) -> Run:
    """A run that is being sent: the journals on this machine, and what is at the address."""
    here = [place for place in (places(parts) if parts.is_dir() else []) if place.run == run_id]
    there: dict[JournalPlace, list[JournalFile]] = {}
    with suppress(StoreError):  # the journals that are here say that their other segments cannot be read
        there = {place: files for place, files in places_at(address).items() if place.run == run_id}
    known = {(place.rank, place.attempt) for place in here}
    shards = [read_shard(place) for place in here]
    shards += [read_shard(place, files) for place, files in there.items() if (place.rank, place.attempt) not in known]
    return Run(RunJournals(parts, run_id, shards, origin=address.text))


def _chosen_run(found: Iterable[JournalPlace], name: str | None) -> str:
    """The id of the one run that journals belong to; an error that names the runs if there are several."""
    ranks: dict[str, set[int]] = {}
    for place in found:
        ranks.setdefault(place.run, set()).add(place.rank)
    matching = [run for run in ranks if run.startswith(name or "")]
    if len(matching) == 1:
        return matching[0]
    listed = "; ".join(f"{run[:_SHORT] or 'no id'} ({_rank_text(ranks[run])})" for run in ranks)
    if not matching:
        raise ChoiceError(f"no run here has an id that begins with {name!r}; there is {listed}")
    raise StoreError(
        f"these shards belong to {len(matching)} runs: {listed}. Choose one, as in run={matching[0][:_SHORT]!r}"
    )


def _rank_text(ranks: Iterable[int]) -> str:
    every = sorted(ranks)
    listed = ", ".join(map(str, every[:_MOST_NAMED]))
    more = ", …" if len(every) > _MOST_NAMED else ""
    return f"rank {listed}{more}" if len(every) == 1 else f"ranks {listed}{more}"


def check_ranks_agree(shards: Sequence[Shard]) -> None:
    """Raise if journals of one attempt declare different numbers of ranks: they are not of one job."""
    by_attempt: dict[int, dict[int, list[int]]] = {}
    for shard in shards:
        size = shard.about.get("world_size")
        if isinstance(size, int):
            by_attempt.setdefault(shard.attempt, {}).setdefault(size, []).append(shard.rank)
    for attempt, by_size in by_attempt.items():
        if len(by_size) > 1:
            listed = "; ".join(f"{_rank_text(ranks)} of {size}" for size, ranks in sorted(by_size.items()))
            raise StoreError(
                f"these shards do not belong together: in attempt {attempt} there are {listed}. Remove those of"
                " another job"
            )
