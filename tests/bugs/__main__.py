"""The faulty programs and what insitu says of each, with and without the walk through the lineage: `make bugs`.

`python -m tests.bugs --advice` follows the advice on each program, and says what becomes of it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tests.bugs.advised import Outcome, outcome
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


def follow_advice() -> int:
    """Print the advice on each program and what it does; 1 if an advice that is certain does not repair."""
    print(f"{'advice':8}  {'at fault':8}  {'then':5}  {'program':28}  the fix")
    programs = [program for program in faulty() if program.found_by in ("explain", "guard")]
    outcomes = [(program, outcome(program)) for program in programs]
    for program, each in outcomes:
        place = "yes" if each.is_at_fault else ""
        print(f"{each.word:8}  {place:8}  {each.result:5}  {program.name:28}  {each.code}")
    print(*summary([each for _, each in outcomes]), sep="\n")
    return int(any(each.word == "certain" and not each.repairs for _, each in outcomes))


def summary(outcomes: list[Outcome]) -> list[str]:
    """How many have an advice of each kind, at the line at fault, and how many run with it."""
    lines = [""]
    for word in ("certain", "likely", "possible", "unknown", "none"):
        of_word = [each for each in outcomes if each.word == word]
        here, well = (sum(map(bool, [getattr(each, name) for each in of_word])) for name in ("is_at_fault", "repairs"))
        lines.append(f"{len(of_word):3} {word:8}  {here:3} at the line at fault  {well:3} run with it")
    return lines


if __name__ == "__main__":
    sys.exit(follow_advice() if "--advice" in sys.argv else main())
