"""`insitu recover`: the file of a run that was killed, from its journals."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from insitu.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLE = """\
The journals in run.h5.parts are removed once the file is made, and stay where one is damaged. The exit code is 1 if
something is missing in the file, which is said.

example:
  insitu recover run.h5
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """What can be said after `insitu recover`."""
    parser.add_argument("file", help="the file to make, as in run.h5, or its journals, run.h5.parts")
    parser.add_argument("--overwrite", action="store_true", help="replace a file that is there")


def main(options: argparse.Namespace) -> int:
    """Make the file; 1 if something is missing in it."""
    from insitu import store
    from insitu.store.compact import compact
    from insitu.store.parts import parts_of

    target = store.check(options.file.rstrip("/").removesuffix(store.PARTS), overwrite=True)
    parts = parts_of(target)
    if not parts.is_dir():
        raise StoreError(_nothing_to_recover(target, parts))
    with store.load(parts) as run:
        if run.running:
            raise StoreError(
                f"{str(target)!r} still runs: nothing to recover; `insitu show {target}` reads it as it is"
            )
        counts = _count(len(run), "variable"), _count(len(run.steps), "step"), _count(len(run.ranks), "rank")
    missing = compact(parts, target, overwrite=options.overwrite)
    print(f"{target}: {', '.join(counts)}")
    for text in missing:
        print(f"! {text}")
    return 1 if missing else 0


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def _nothing_to_recover(target: Path, parts: Path) -> str:
    if target.is_file():
        return f"{str(target)!r} is a file already, and {parts.name!r} is not there: nothing to recover"
    return f"nothing to recover: there is no {str(parts)!r}, where a run that was killed leaves its journals"
