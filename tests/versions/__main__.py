"""`make versions`: run the tests with each version of torch and Python, and print the table of docs/versions.md.

An environment takes 1.5 GB, and the packages that environments share take 8 GB. INSITU_VERSIONS names the folder of the
environments, INSITU_DOWNLOADS that of the wheels.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.versions.environment import ROOT, Environment, Workshop
from tests.versions.interpreters import interpreter
from tests.versions.pairs import PAIRS, Pair, parse_pair
from tests.versions.suite import Outcome, Selection, outcome, ready_environments, run_tests


def main() -> int:
    """Make the environments, run the tests, print the table; 1 if a test failed."""
    options = read_options()
    workshop = Workshop(options.folder.resolve(), options.downloads.resolve())
    if not options.table:
        for pair in options.pairs:
            try_pair(workshop, pair, options)
    found = [each for each in map(outcome, ready_environments(workshop.folder)) if each is not None]
    print(table(found))
    return int(any(each.failures for each in found))


def read_options() -> argparse.Namespace:
    """The options of the command line."""
    folder = Path(os.environ.get("INSITU_VERSIONS", ROOT / ".versions"))
    downloads = Path(os.environ.get("INSITU_DOWNLOADS", folder / "downloads"))
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument("pairs", nargs="*", type=parse_pair, default=PAIRS, help="such as 2.8.0/3.12 or newest/3.13")
    parser.add_argument("--folder", type=Path, default=folder, help="where the environments are made")
    parser.add_argument("--downloads", type=Path, default=downloads, help="where the wheels are kept")
    parser.add_argument("--workers", type=int, default=2, help="how many tests run at the same time")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="run these tests (default: all)")
    parser.add_argument("--quick", action="store_true", help="leave out slow tests")
    parser.add_argument("--make", action="store_true", help="make the environments and run nothing")
    parser.add_argument("--table", action="store_true", help="print the table of the last runs and run nothing")
    return parser.parse_args()


def try_pair(workshop: Workshop, pair: Pair, options: argparse.Namespace) -> Environment | None:
    """Run the tests with one torch and one Python."""
    python = interpreter(f"python{pair.python}")
    if python is None:
        print(f"{pair.text}: this machine does not have python{pair.python}", file=sys.stderr)
        return None
    environment = workshop.environment(pair, python)
    print(f"{pair.text}: {environment.folder}", file=sys.stderr, flush=True)
    if not options.make:
        run_tests(environment, Selection(tuple(options.tests), options.quick), options.workers)
    return environment


def table(outcomes: list[Outcome]) -> str:
    """The results as a table, with the names of the tests that failed below it."""
    lines = ["| torch | Python | tests | passed | failed | skipped | date |", "|---|---|---|---|---|---|---|"]
    for each in outcomes:
        counts = f"{each.passed:,} | {len(each.failures)} | {each.skipped}"
        lines.append(f"| {each.torch} | {each.python} | {each.selection} | {counts} | {each.day} |")
    for each in outcomes:
        if each.failures:
            lines += ["", f"torch {each.torch}, Python {each.python}:", *(f"- {name}" for name in each.failures)]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
