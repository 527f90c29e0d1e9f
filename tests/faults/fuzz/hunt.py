"""Runs workers and sees how they end: `python -m tests.faults.fuzz.hunt FORM HOW COUNT [FIRST]` for a large hunt."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.fuzz.worker import mutants

_ROOT = Path(__file__).parents[3]
_PATIENCE = 20.0  # seconds for one mutant


@dataclass
class Hunt:
    """How mutants ended, and the faults: which mutant, and what happened."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[tuple[str, str]] = field(default_factory=list)

    def note(self, mutant: str, outcome: str) -> None:
        """Count how a mutant ended."""
        kind, _, what = outcome.partition(" ")
        self.outcomes["fault" if kind == "fault" else outcome] += 1
        if kind == "fault":
            self.faults.append((mutant, what))

    def __str__(self) -> str:
        return ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.outcomes.items()))


def hunt(form: str, ways: Mapping[str, int], first: int = 0) -> Hunt:
    """Use so many mutants of each way; a worker that dies or hangs is followed by another, behind what killed it."""
    ranges = [f"{how}={first}:{first + count}" for how, count in ways.items()]
    found, index = Hunt(), 0
    names = [f"{how} {number}" for how, number in mutants(ranges)]
    while index < len(names):
        with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
            index = _work(found, [form, folder, str(index), *ranges], names, index)
    return found


def _work(found: Hunt, words: list[str], names: list[str], first: int) -> int:
    """Let one worker go as far as it gets; the mutant to go on with."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.faults.fuzz.worker", *words]
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=_ROOT) as worker,
    ):
        index, outcome = first - 1, ""
        for line in _lines(worker):
            text, _, outcome = line.partition(" ")
            index = int(text)
            if outcome != "begins":
                found.note(names[index], outcome)
        if index == len(names) - 1 and outcome != "begins" and not worker.wait():
            return len(names)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    if index < first or worker.returncode > 0:
        raise RuntimeError(f"the worker for {' '.join(words)} failed:\n{said[-1500:]}")
    found.note(names[index], f"fault {_end(worker.returncode, said)}")
    return index + 1


def _end(code: int, said: str) -> str:
    how = "hung" if code == -signal.SIGKILL else f"died of {signal.Signals(-code).name}"
    return f"{how}: {' < '.join([line.strip() for line in said.splitlines() if 'File' in line][:6])}"


def _lines(worker: subprocess.Popen[bytes]) -> Iterator[str]:
    """The lines of a worker, until it ends; one that says nothing for long is killed."""
    stream: Any = worker.stdout
    rest = b""
    while True:
        if not select.select([stream], [], [], _PATIENCE)[0]:
            worker.send_signal(signal.SIGABRT)  # says where it is
            with suppress(subprocess.TimeoutExpired):
                worker.wait(2)
            worker.kill()
            worker.wait()
            worker.returncode = -signal.SIGKILL
            return
        piece = os.read(stream.fileno(), 2**16)
        if not piece:
            worker.wait()
            return
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line.decode() for line in lines)


def main() -> int:
    """Hunt, and print each fault once."""
    form, how, count, *first = sys.argv[1:]
    found = hunt(form, {how: int(count)}, int(first[0]) if first else 0)
    print(f"{form} {how}: {found}")
    places: dict[str, list[str]] = {}
    for mutant, what in found.faults:
        places.setdefault(what.split(" at ")[-1], []).append(mutant)
    for names in places.values():
        print(f"  {len(names)} × {names[:5]} {dict(found.faults)[names[0]]}")
    return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main())
