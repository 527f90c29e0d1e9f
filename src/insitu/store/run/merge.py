"""From the journals of all ranks to the one file of a run. Needs no torch; a failure leaves the journals.

Journals of one run are merged, and no other: the rest stays where it is. Where the file is there already and holds the
same run, the journals are added to it: a rank that ended late, an attempt that came after. The journals are removed
only if the file holds all of them, each has its END frame, none is damaged and no rank is missing.

`/about` is JSON in bytes: all that is known of the run and its variables, with the checksum of every column. The
attributes say the same in short, for a reader with plain h5py. `/steps` and `/events/marks` are tables of columns.
`/vars/<escaped path>` is a variable: `step rank call time` with a row for each time it was seen, `values`, `digest`
with the xxh3_128 of each stored value, and, only where they are needed, `attempt` (of each row, where the job was
restarted), `index` (the stored value of each row, where one was stored once and seen often), `offset` and `shape`
(where `values` is flat, since the shapes differ).
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from insitu.errors import StoreError
from insitu.store.files import check_free, rename
from insitu.store.hdf5 import RUN_FORMAT, RUN_VERSION, numpy_type, text_type
from insitu.store.journal.claims import remove_claims
from insitu.store.journal.journal_reader import read_shard
from insitu.store.journal.journal_writer import value_json
from insitu.store.journal.journaled_runs import JournaledRun, check_journals, remove_older, run_to_merge, tag_and_size
from insitu.store.journal.parts import passing_name, remove_journal, remove_leftovers
from insitu.store.journal.run_shards import RunShards
from insitu.store.journal.shard_facts import (
    attempts_of,
    ended_of,
    last_committed_of,
    missing_of,
    missing_ranks_of,
    started_of,
    world_size_of,
)
from insitu.store.run.block_splitter import DamagedError
from insitu.store.run.existing_file import ExistingFile
from insitu.store.run.file_builder import FileBuilder, build_file, check_compression, text_attribute
from insitu.store.run.journal_survey import JournalSurvey, OnProgress, find_damage
from insitu.store.run.merge_lock import merge_lock
from insitu.store.run.run_file_writer import Checksums, fill
from insitu.store.run.source_choice import choose
from insitu.store.run.unmerge import unpacked
from insitu.store.run.variable_plan import VariablePlan
from insitu.store.stored_type import Array
from insitu.trace.collector import collector_paused
from insitu.trace.counting import progress

_ATTRIBUTES = ("insitu", "torch", "python", "command", "git", "patterns", "settings")
_LONGEST_EVENT = 1000
_LONGEST_DESCRIPTION = 1000  # of a variable in /about, without its path and facts


def show_progress(what: str, done: int, total: int) -> None:
    """Let people see how far the merge has come."""
    progress.what, progress.done, progress.total = what, done, total


def merge_journals(
    parts: Path,
    target: Path,
    *,
    runs: Sequence[str] = (),
    compression: str = "none",
    overwrite: bool = False,
    keep_parts: bool = False,
    replace_older: bool = False,
    on_progress: OnProgress = show_progress,
) -> list[str]:
    """Make the file of a run from its journals, or add them to it; what is missing in it is given back.

    `runs` are the ids of the run to take, several if journals that carry different ids are known to be of one run; by
    default it is the run in the file, or else the one that began last. With `replace_older`, the journals of runs that
    began before it are removed, if they have ended or are known to be dead.
    """
    check_compression(compression)
    check_journals(parts)
    with merge_lock(parts), ExistingFile.of(target) as before:
        chosen = run_to_merge(parts, runs, before.run_id)
        merge = _Merge(parts, target, chosen, before if before.holds(chosen) else ExistingFile(), on_progress)
        check_free(target, overwrite=overwrite or merge.before.file is not None)
        shards = merge.write(compression, overwrite)
        if replace_older:  # before its own journals go, which say when it began
            remove_older(parts, chosen)
        if not keep_parts:
            merge.remove_journals(shards)
        remove_leftovers(parts)
    show_progress("", 0, 0)
    return missing_in(shards)


class _Merge:
    """One merge: the journals of a run, and what its file has already."""

    def __init__(
        self, parts: Path, target: Path, run: JournaledRun, before: ExistingFile, on_progress: OnProgress
    ) -> None:
        self.parts, self.target, self.run, self.before = parts, target, run, before
        self._on_progress = on_progress
        self._left_out: list[str] = []

    def write(self, compression: str, overwrite: bool) -> RunShards:
        """Make the file."""
        passing = passing_name(self.parts)
        try:
            try:
                shards = self._written(passing, compression, verify=False)
            except DamagedError:  # read them all first, to know which
                passing.unlink()
                shards = self._written(passing, compression, verify=True)
            self.before.check_unchanged(self.target)
            rename(passing, self.target, overwrite=overwrite or self.before.file is not None)
        except OSError as error:
            if isinstance(error, StoreError):
                raise
            raise StoreError(
                f"{str(self.target)!r} cannot be written: {error.strerror or error}; all that was recorded is in"
                f" {str(self.parts)!r}"
            ) from error
        finally:
            with suppress(OSError):
                passing.unlink()
        return shards

    def _written(self, passing: Path, compression: str, *, verify: bool) -> RunShards:
        journals = [read_shard(place) for place in self.run.places]
        if verify:
            find_damage(journals, self._on_progress)
        choice = choose(journals, self.before.shards, self.parts)
        self._left_out = choice.left_out
        with ExitStack() as stack:
            if self.before.file is not None and choice.from_file:
                journals = stack.enter_context(unpacked(self.before.file, choice.from_file, self.parts))
                choice.journals.extend(journals)
            shards = RunShards(choice.journals, left_out=choice.left_out)
            shards.run_id = self.run.id
            try:
                _made(shards, passing, compression, self._on_progress, verify=verify)
            finally:
                shards.files.close()
            return shards

    def remove_journals(self, shards: RunShards) -> None:
        """Remove the journals that are in the file, if nothing of the run can be missing there."""
        facts = shards.shard_facts()
        all_ended = all(one.ended is not None for one in facts)
        is_whole = not shards.troubles and not self._left_out
        if not (all_ended and is_whole) or missing_ranks_of(facts):
            return
        merged = {(one.tag, one.size) for one in facts}
        for place in self.run.places:
            if tag_and_size(place) in merged:
                remove_journal(place.path)
        remove_claims(self.parts, self.run.id)


def missing_in(shards: RunShards) -> list[str]:
    """What is missing in a file that is made from these journals."""
    return missing_of(shards.shard_facts(is_merged=True)) + shards.left_out


def _made(shards: RunShards, passing: Path, compression: str, on_progress: OnProgress, *, verify: bool) -> None:
    """Make the file from the journals."""
    survey = JournalSurvey(shards, verify=verify, on_progress=on_progress)
    plans = [VariablePlan.of(variable, shards) for variable in survey.variables]
    payload = sum(plan.payload for plan in plans) + 64 * survey.steps + _size_of_about(shards, plans)
    check_room(passing.parent, payload, shards.size)
    with build_file(passing, payload, 9 * len(plans), compression) as made, collector_paused():
        checksums, steps = fill(survey, plans, made, on_progress)
        tables = {"steps": steps, "events/marks": _write_events(made, shards)}
        _write_about(made, shards, describe(survey, plans, checksums, tables))


def _size_of_about(shards: RunShards, plans: list[VariablePlan]) -> int:
    """The bytes that /about and the events take at most."""
    said = len(value_json(list(shards.abouts.values()))) + sum(map(len, missing_in(shards)))
    said += 2 * _LONGEST_EVENT * len(shards.events) + 512 * len(shards.shards)
    said += sum(_LONGEST_DESCRIPTION + 2 * len(plan.variable.path) + len(str(plan.facts)) for plan in plans)
    return 2 * said


def check_room(folder: Path, payload: int, journals: int) -> None:
    """Raise before anything is written if the disk cannot hold the file beside the journals."""
    disk = os.statvfs(folder)
    free = disk.f_bavail * disk.f_frsize
    if payload > free:
        raise OSError(
            errno.ENOSPC,
            f"{os.strerror(errno.ENOSPC)}: the file takes up to {bytes_text(payload)} beside the"
            f" {bytes_text(journals)} of its journals, and {bytes_text(free)} are free",
        )


def bytes_text(count: int) -> str:
    """A number of bytes for people.

    >>> bytes_text(12), bytes_text(3_456_789)
    ('12 B', '3.5 MB')
    """
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.1f} {units[0]}" if units[0] != "B" else f"{count} B"


def _write_events(made: FileBuilder, shards: RunShards) -> dict[str, int]:
    """Write the events; the checksums of their columns."""
    events = shards.events
    marks: dict[str, Array] = {
        "step": np.array([-1 if event.step is None else event.step for event in events], np.int64),
        "rank": np.array([event.rank for event in events], np.int32),
        "attempt": np.array([event.attempt for event in events], np.int32),
        "time": np.array([event.time for event in events], np.float64),
        "kind": _texts([event.kind for event in events]),
        "text": _texts([event.text for event in events]),
    }
    return _table(made, "events/marks", marks)


def _texts(texts: list[str]) -> Array:
    short = [text.replace("\0", " ").encode("utf-8", "backslashreplace")[:_LONGEST_EVENT] for text in texts]
    return np.array(short, np.dtype(f"S{max(map(len, short), default=0) or 1}"))


def _table(made: FileBuilder, where: str, columns: Mapping[str, Array]) -> dict[str, int]:
    group = made.group(where, {})
    for name, column in columns.items():
        kind = text_type(column.itemsize) if column.dtype.kind == "S" else numpy_type(column.dtype)
        made.column(group, name, column, kind)
    return {name: xxh3_64_intdigest(column.tobytes()) for name, column in columns.items()}


def describe(
    survey: JournalSurvey, plans: list[VariablePlan], checksums: list[Checksums], tables: dict[str, Checksums]
) -> dict[str, Any]:
    """All that is known of the run, as JSON."""
    shards = survey.shards
    events = shards.events
    return {
        "about": value_json(shards.about),
        "abouts": {str(attempt): value_json(about) for attempt, about in shards.abouts.items()},
        "run": shards.run_id,
        "shards": [facts.to_json() for facts in shards.shard_facts(is_merged=True)],
        "left_out": shards.left_out,
        "steps": survey.steps,
        "events": [len(events), *(_texts([getattr(e, name) for e in events]).itemsize for name in ("kind", "text"))],
        "tables": tables,
        "variables": [_described(plan, sums) for plan, sums in zip(plans, checksums, strict=True)],
    }


def _described(plan: VariablePlan, sums: Checksums) -> dict[str, Any]:
    variable = plan.variable
    return {
        "name": variable.name,
        "path": variable.path,
        "dtype": variable.kind.name,
        "form": plan.form,
        "shape": list(plan.shape) if plan.form == "dense" else None,
        "rows": variable.rows,
        "stored": variable.stored,
        "width": plan.text_width or None,
        "dimensions": plan.dimensions,
        "columns": sums,
        "facts": {name: value_json(fact) for name, fact in plan.facts.items()},
    }


def _write_about(made: FileBuilder, shards: RunShards, about: dict[str, Any]) -> None:
    text = np.frombuffer(json.dumps(about, separators=(",", ":")).encode("ascii"), np.uint8)
    made.column(made.file, "about", text, numpy_type(text.dtype))
    attributes = made.file.attrs
    attributes["format"] = text_attribute(RUN_FORMAT)
    attributes["format_version"] = RUN_VERSION
    attributes["checksum"] = np.uint64(xxh3_64_intdigest(text.tobytes()))
    facts = shards.shard_facts(is_merged=True)
    last = last_committed_of(facts)
    started, ended = started_of(facts), ended_of(facts)
    attributes["run_id"] = text_attribute(shards.run_id)
    attributes["attempts"] = np.array([attempt.number for attempt in attempts_of(facts)], np.int64)
    attributes["world_size"] = world_size_of(facts)
    attributes["complete"] = not missing_in(shards)
    attributes["missing_ranks"] = np.array(missing_ranks_of(facts), np.int64)
    attributes["ranks"] = np.array(list(last), np.int64)
    attributes["last_committed"] = np.array([-1 if step is None else step for step in last.values()], np.int64)
    attributes["dropped"] = sum(one.dropped for one in facts)
    attributes["start"], attributes["end"] = (np.nan if at is None else at for at in (started, ended))
    for name in _ATTRIBUTES:
        if name in shards.about:
            attributes[name] = text_attribute(shards.about[name])
