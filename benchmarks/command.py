"""How long `insitu show` of a small file takes, from the key to the text; and that it does without torch."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import insitu
from benchmarks.measure import Effort, Row, at_most
from benchmarks.models import mha
from insitu import store

CHECK = """
import sys
from insitu.cli import main
main(["show", sys.argv[1]])
assert "torch" not in sys.modules, "insitu show imports torch"
"""


def rows(effort: Effort) -> Iterator[Row]:
    """Wall time of the command, against that of Python itself."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "small.h5")
        events = save(file)
        run("-c", CHECK, str(file))
        turns = effort.repeats(7)
        python = statistics.median([run("-c", "pass") for _ in range(turns)])
        before = cpu_of_children()
        show = [run("-m", "insitu", "show", str(file)) for _ in range(turns)]
        cpu = (cpu_of_children() - before) / turns
    note = f"wall time ({cpu:.3f} s of CPU), {events} events, no torch; python -c pass takes {python:.3f} s"
    yield Row("insitu show small.h5", show, at_most(0.3), "s", note)


def save(file: Path) -> int:
    """Write a small trace; how many events it has."""
    subject = mha()
    with insitu.record(subject.model) as trace:
        subject.forward()
    store.save(trace, file)
    return len(trace)


def cpu_of_children() -> float:
    """The CPU seconds of all processes that were started here and have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def run(*words: str) -> float:
    """The seconds that a new Python takes."""
    start = perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - start
