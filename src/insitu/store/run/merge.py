"""Merges the journals of all ranks into the one file of a run. Needs no torch; a failure leaves the journals.

Journals of one run are merged, and no others. If the file exists already and holds the same run, the journals are added
to it: those of a rank that ended late, or of a later attempt. The journals are removed only if the file holds all of
them, each has its END frame, none is damaged and no rank is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from insitu.errors import StoreError
from insitu.store.files import check_free, rename
from insitu.store.journal.claims import remove_claims
from insitu.store.journal.journal_reader import read_shard
from insitu.store.journal.journaled_runs import (
    JournaledRun,
    newest_run,
    remove_older_runs,
    run_to_merge,
    tag_and_size,
)
from insitu.store.journal.parts import remove_journal, remove_leftovers, unfinished_file
from insitu.store.journal.run_shards import RunShards
from insitu.store.journal.shard_facts import missing_ranks_of
from insitu.store.run.block_splitter import DamagedError
from insitu.store.run.existing_file import ExistingFile
from insitu.store.run.file_builder import check_compression
from insitu.store.run.journal_survey import OnProgress, find_damage
from insitu.store.run.merge_lock import merge_lock
from insitu.store.run.run_file_writer import write_run_file
from insitu.store.run.source_choice import choose_sources
from insitu.store.run.unmerge import unmerged
from insitu.trace.counter import progress


def show_progress(what: str, done: int, total: int) -> None:
    """Show people how far the merge has come."""
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
    """Make the file of a run from its journals, or add them to it; return sentences about what is missing in it.

    `runs` are the ids of the run to merge, several if journals with different ids are known to be of one run; the
    default is the run in the file, or else the one that began last. With `replace_older`, the journals of runs that
    began before it are removed, if they have ended or their processes are known to be dead.
    """
    check_compression(compression)
    newest_run(parts)  # raises before anything is written without a journal
    with merge_lock(parts), ExistingFile.open(target) as existing:
        run = run_to_merge(parts, runs, existing.run_id)
        merge = _Merge(parts, target, run, existing if existing.holds(run) else ExistingFile(), on_progress)
        check_free(target, overwrite=overwrite or merge.existing.file is not None)
        shards = merge.write(compression, overwrite)
        if replace_older:  # before its own journals are removed, which say when it began
            remove_older_runs(parts, run)
        if not keep_parts:
            merge.remove_journals(shards)
        remove_leftovers(parts)
    show_progress("", 0, 0)
    return shards.missing(is_merged=True)


class _Merge:
    """One merge: the journals of a run, and the file that may already hold some of them."""

    def __init__(
        self, parts: Path, target: Path, run: JournaledRun, existing: ExistingFile, on_progress: OnProgress
    ) -> None:
        self.parts, self.target, self.run, self.existing = parts, target, run, existing
        self._on_progress = on_progress

    def write(self, compression: str, overwrite: bool) -> RunShards:
        """Make the file, and return the journals that it holds."""
        unfinished = unfinished_file(self.parts)
        try:
            try:
                shards = self._write(unfinished, compression, verify=False)
            except DamagedError:  # read all values first, to know which are damaged
                unfinished.unlink()
                shards = self._write(unfinished, compression, verify=True)
            self.existing.check_unchanged(self.target)
            rename(unfinished, self.target, overwrite=overwrite or self.existing.file is not None)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(
                f"{str(self.target)!r} cannot be written: {error.strerror or error}; all that was recorded is in"
                f" {str(self.parts)!r}"
            ) from error
        finally:
            with suppress(OSError):
                unfinished.unlink()
        return shards

    def _write(self, path: Path, compression: str, *, verify: bool) -> RunShards:
        journals = [read_shard(place) for place in self.run.places]
        if verify:
            find_damage(journals, self._on_progress)
        choice = choose_sources(journals, self.existing.shards, self.parts)
        sources = list(choice.journals)
        with ExitStack() as stack:
            if self.existing.file is not None and choice.from_file:
                sources += stack.enter_context(unmerged(self.existing.file, choice.from_file, self.parts))
            shards = RunShards(sources, run_id=self.run.id, excluded=choice.excluded)
            try:
                write_run_file(shards, path, compression=compression, verify=verify, on_progress=self._on_progress)
            finally:
                shards.pool.close()
            return shards

    def remove_journals(self, shards: RunShards) -> None:
        """Remove the journals that are in the file, if nothing of the run can be missing there."""
        facts = shards.shard_facts()
        all_ended = all(each.ended is not None for each in facts)
        is_complete = not (shards.troubles or shards.excluded or missing_ranks_of(facts))
        if not (all_ended and is_complete):
            return
        merged = {(each.tag, each.size) for each in facts}
        for place in self.run.places:
            if tag_and_size(place) in merged:
                remove_journal(place.path)
        remove_claims(self.parts, self.run.id)
