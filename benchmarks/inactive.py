"""What insitu costs a program that does not trace: nothing, after it was imported and used, or with INSITU=0."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

import torch

from benchmarks.measure import Case, Effort, Row, in_turn
from benchmarks.models import PASSES, mha


def rows(effort: Effort) -> Iterator[Row]:
    """After the import against before it, each time in a new process; and a session that is switched off."""
    processes = effort.repeats(5)
    ratios = [child("insitu") for _ in range(processes)]
    control = [child("nothing") for _ in range(processes)]
    note = f"{statistics.median(control):.2f}x where nothing was imported"
    yield Row("no session, insitu imported and used / before, MHA", ratios, note=note)
    yield switched_off(effort)


def child(what: str) -> float:
    """The ratio that a new process measures."""
    command = [sys.executable, "-m", "benchmarks.inactive", what]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def switched_off(effort: Effort) -> Row:
    """A session for each pass with INSITU=0."""
    import insitu

    subject = mha()

    def session() -> None:
        with insitu.record(subject.model):
            subject.forward()

    before = os.environ.get("INSITU")
    os.environ["INSITU"] = "0"
    try:
        cases = {"alone": Case(subject.forward, number=PASSES), "off": Case(session, number=PASSES)}
        times = in_turn(cases, effort.repeats(50))
    finally:
        os.environ.pop("INSITU")
        if before is not None:
            os.environ["INSITU"] = before
    return Row("a session for each pass with INSITU=0 / untraced, MHA", times.ratio("off", "alone"))


def measured_here(what: str) -> float:
    """The least time of passes after insitu was imported and used in this process, against the least before."""
    torch.set_num_threads(1)
    subject = mha()
    for _ in range(5):
        subject.forwards()
    before = min(in_turn({"": subject.forwards}, 50).seconds[""])
    if what == "insitu":
        import insitu

        for level in ("modules", "functions", "aten"):
            with insitu.record(level=level):
                subject.forward()
    return min(in_turn({"": subject.forwards}, 50).seconds[""]) / before


if __name__ == "__main__":
    print(measured_here(sys.argv[1]))
