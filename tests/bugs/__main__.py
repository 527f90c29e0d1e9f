"""The table of faulty programs, and what insitu says of each: `make bugs`."""

from __future__ import annotations

import sys

from tests.bugs.catalog import Program, faulty, missed
from tests.bugs.verdicts import verdict


def row(program: Program) -> tuple[bool, str]:
    """Whether the fault was found, and the line of the table."""
    said, wanted = verdict(program), program.wanted
    found = said.names(wanted)
    where = program.names or f"line {program.faults[0]}"
    line = f"{'ok' if found else '✗':2}  {program.found_by:7}  {program.name:28}  {where:16}  {said.summary(wanted)}"
    return found, line


def main() -> int:
    """Print the table; 1 unless exactly the programs of `missed.txt` were missed."""
    print(f"{'':2}  {'by':7}  {'program':28}  {'at fault':16}  the verdict")
    programs, not_found = faulty(), set()
    for program in programs:
        found, line = row(program)
        if not found:
            not_found.add(program.name)
        print(line, flush=True)
    print(f"\n{len(programs) - len(not_found)} of {len(programs)} found")
    return 0 if not_found == missed() & {program.name for program in programs} else 1


if __name__ == "__main__":
    sys.exit(main())
