"""`insitu recover`: build the file of a killed run from its journals, or add to its file what it lacks."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from insitu.errors import StoreError
from insitu.view.progress import working

if TYPE_CHECKING:
    from pathlib import Path

    from insitu.store.journal.journaled_runs import JournaledRun
    from insitu.store.run.run import Run

EXAMPLE = """\
Copy the journals of several machines into one run.h5.parts first: journals of one run carry the same id. If run.h5
holds the run already, only the missing parts are added, such as a rank that ended late. The journals are removed when
the file holds the complete journals of all ranks; otherwise they stay, and can be recovered again. The exit code is 1
if something is missing in the file, and the message names it.

With --to, the segments that a killed process left in run.h5.parts are sent to the address, and no file is made.

example:
  insitu recover run.h5
  insitu recover run.h5 --to s3://bucket/run
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `insitu recover`."""
    parser.add_argument("file", help="the file to make, as in run.h5, or its journals, run.h5.parts")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that holds something else")
    parser.add_argument("--to", metavar="ADDRESS", help="send the journals there instead of making a file")
    parser.add_argument(
        "--run",
        action="append",
        metavar="ID",
        help="which run, if the journals hold several; may be repeated, to merge the ranks into one run",
    )


def main(options: argparse.Namespace) -> int:
    """Make the file; 1 if something is missing in it."""
    from insitu import store
    from insitu.store.journal.journaled_runs import run_named
    from insitu.store.journal.parts import parts_of
    from insitu.store.run.merge import merge_journals
    from insitu.store.run.run import Run

    target = store.check(options.file.rstrip("/").removesuffix(store.PARTS), overwrite=True)
    parts = parts_of(target)
    if not parts.is_dir():
        raise StoreError(_nothing_to_recover(target, parts))
    if options.to is not None:
        return _send(parts, options.to)
    runs = [run_named(parts, name) for name in options.run or ()]
    _check_over(target, parts, runs)
    with working(f"merging {target.name}"):
        missing = merge_journals(parts, target, runs=[run.id for run in runs], overwrite=options.overwrite)
    with Run.open(target) as run:
        print(f"{target}: {_counts(run)}")
        for text in missing:
            print(f"! {text}")
        _print_left(parts, run)
    if missing:
        return 1
    return 0


def _send(parts: Path, text: str) -> int:
    """Send the journals to an address."""
    from insitu.store.address import Address
    from insitu.store.journal.sender import send_folder

    with working(f"sending {parts.name}"):
        count = send_folder(parts, Address.parse(text))
    print(f"{text}: {_count(count, 'segment')} sent")
    return 0


def _check_over(target: Path, parts: Path, runs: list[JournaledRun]) -> None:
    """Raise if one of the processes is still writing."""
    from insitu.store.journal.journaled_runs import run_to_merge
    from insitu.store.run.existing_file import ExistingFile

    with ExistingFile.open(target) as before:
        chosen = run_to_merge(parts, [run.id for run in runs], before.run_id)
    if "running" in chosen.states:
        raise StoreError(f"{str(target)!r} still runs: nothing to recover; `insitu show {target}` reads it as it is")


def _counts(run: Run) -> str:
    counts = [_count(len(run), "variable"), _count(len(run.steps), "step"), _count(len(run.ranks), "rank")]
    if len(run.attempts) > 1:
        counts.append(_count(len(run.attempts), "attempt"))
    return ", ".join(counts)


def _print_left(parts: Path, run: Run) -> None:
    """Say what stays in the folder of the journals, and why."""
    from insitu.store.journal.journaled_runs import other_runs, runs_in

    if os.path.isdir(parts) and run.id in runs_in(parts):
        print(f"its journals stay in {parts}, for a rank is missing, damaged or has no end")
    for other in other_runs(parts, [run.id]):
        print(f"left alone in {parts}: {other}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _nothing_to_recover(target: Path, parts: Path) -> str:
    if target.is_file():
        return f"{str(target)!r} is a file already, and {parts.name!r} is not there: nothing to recover"
    return f"nothing to recover: {str(parts)!r} does not exist, the folder where a killed run leaves its journals"
