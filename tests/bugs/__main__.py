"""The faulty programs and what insitu says of each, with and without the walk through the lineage: `make bugs`."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tests.bugs.catalog import Program, faulty, missed
from tests.bugs.verdicts import Verdict, explanation_without_walk, verdict


@dataclass(frozen=True)
class Row:
    """One program: what is said of it, whether the fault is named, and whether it is without the walk."""

    program: Program
    verdict: Verdict
    is_found: bool
    is_found_without_walk: bool

    @property
    def text(self) -> str:
        """The line of the table."""
        program = self.program
        place = program.names or f"line {program.faults[0]}"
        found, found_without = mark(self.is_found), mark(self.is_found_without_walk)
        said = self.verdict.summary(program.wanted)
        return f"{found:4}  {found_without:7}  {program.found_by:7}  {program.name:28}  {place:16}  {said}"


def mark(is_found: bool) -> str:
    """A sign for whether a fault was found."""
    return "ok" if is_found else "✗"


def row(program: Program) -> Row:
    """Look at one program."""
    said = verdict(program)
    is_found = said.names(program.wanted)
    is_found_without_walk = is_found
    if program.found_by == "explain":
        is_found_without_walk = explanation_without_walk(program).names(program.wanted)
    return Row(program, said, is_found, is_found_without_walk)


def main() -> int:
    """Print the table; 1 unless exactly the programs of `missed.txt` were missed."""
    print(f"{'walk':4}  {'without':7}  {'by':7}  {'program':28}  {'at fault':16}  the verdict")
    rows = []
    for program in faulty():
        rows.append(row(program))
        print(rows[-1].text, flush=True)
    found = sum(each.is_found for each in rows)
    found_without_walk = sum(each.is_found_without_walk for each in rows)
    print(f"\n{found} of {len(rows)} found, {found_without_walk} without the walk")
    missed_now = {each.program.name for each in rows if not each.is_found}
    return 0 if missed_now == missed() & {each.program.name for each in rows} else 1


if __name__ == "__main__":
    sys.exit(main())
