"""How long `insitu show` of a small file takes, from the key to the text; and that it does without torch."""

from __future__ import annotations

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
        show: list[float] = []
        python: list[float] = []
        for _ in range(effort.repeats(7)):
            python.append(run("-c", "pass"))
            show.append(run("-m", "insitu", "show", str(file)))
    note = f"{events} events, wall time, no torch; python -c pass takes {statistics.median(python):.3f} s"
    yield Row("insitu show small.h5", show, at_most(0.3), "s", note)


def save(file: Path) -> int:
    """Write a small trace; how many events it has."""
    subject = mha()
    with insitu.record(subject.model) as trace:
        subject.forward()
    store.save(trace, file)
    return len(trace)


def run(*words: str) -> float:
    """The seconds that a new Python takes."""
    start = perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - start
