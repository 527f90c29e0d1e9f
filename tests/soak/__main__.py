"""`make soak`: 100,000 steps of a tiny model with record, guard and watch on, and what that did to the process."""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from tests.soak.again import PARTS, again
from tests.soak.measure import Window
from tests.soak.soaking import soak
from tests.soak.verdict import HEAD, MB, invariants, row


def main(arguments: list[str] | None = None) -> int:
    """Train, print, and give 1 if something does not hold."""
    options = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    options.add_argument("--steps", type=int, default=100_000, metavar="N", help="how many steps (100,000)")
    options.add_argument(
        "--sessions", type=int, default=5_000, metavar="N", help="how many of each kind after that (5,000)"
    )
    options.add_argument("--untimed", action="store_true", help="do not judge the speed")
    options.add_argument("--in", dest="folder", type=Path, help="where to write (a temporary folder)")
    chosen = options.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        return max(run(Path(folder), chosen.steps, timed=not chosen.untimed), run_again(Path(folder), chosen.sessions))


def run(folder: Path, steps: int, *, timed: bool) -> int:
    """The training and the table."""
    print(HEAD, flush=True)
    before: Window | None = None

    def tell(window: Window) -> None:
        nonlocal before
        print(row(window, before), flush=True)
        before = window

    soaked = soak(folder, steps, tell)
    print(f"\nclosed in {soaked.closing:.1f} s: {soaked.size / MB:.0f} MB, loaded in {soaked.loading:.2f} s\n")
    found = invariants(soaked, timed=timed)
    for each in found:
        print(f"{'ok' if each.holds else '✗':2}  {each.name:42}  {each.measured}")
    return 0 if all(each.holds for each in found) else 1


def run_again(folder: Path, times: int) -> int:
    """The sessions one after another."""
    found = again(folder, times, files=times // 10) if times else []
    for each in found:
        sessions = f"{each.blocks * PARTS / each.times:+.2f} blocks each, {each.files} files, {each.threads} threads"
        print(f"{'ok' if each.holds else '✗':2}  {each.times:6,} × {each.name:33}  {sessions}", flush=True)
    return 0 if all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
