"""A process that reads a run while it is written, again and again: `python -m tests.soak.reader RUN COMMITTED`.

It prints what it read, a line for each time, and ends when the run is whole; with the exit code 1 if anything that it
read was wrong. COMMITTED is a file with the number of steps that were written when it was looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.soak.expected import wrong
from tests.soak.progress import committed

import insitu

SHOW_EACH = 10  # times between those that `insitu show` is asked, too
REST = 3.0  # times as long as the reading took: it shall not hold up the training


def read(path: Path, least: int, first: int) -> tuple[dict[str, Any], bool]:
    """Read the run as it is now, and check the steps from the first on; whether it has ended."""
    began = time.perf_counter()
    with insitu.load(path) as run:
        opened = time.perf_counter() - began
        steps = run.steps
        found = {"steps": len(steps), "seconds": round(opened, 3), "running": run.running}
        problems = [] if len(steps) >= least else [f"{least} steps were written, {len(steps)} are there"]
        if not np.array_equal(steps, np.arange(len(steps))):
            problems.append("steps are missing")
        problems += wrong(run, first, len(steps) - run.running)  # of the last one, there may be more to come
        problems += [] if run.running else [f"it ended: {text}" for text in run.missing]
        over = not run.running and run.path.is_file()
    return {**found, "wrong": problems}, over


def show(path: Path) -> list[str]:
    """What is wrong with what `insitu show` says."""
    done = subprocess.run([sys.executable, "-m", "insitu", "show", str(path)], capture_output=True, text=True)
    good = done.returncode == 0 and "head.weight.grad" in done.stdout and not done.stderr
    return [] if good else [f"insitu show: {done.returncode}: {done.stdout[-300:]} {done.stderr[-300:]}"]


def main(path: Path, progress: Path) -> int:
    """Read until the run has ended."""
    times, first, over = 0, 0, False
    while not over:
        least = committed(progress)
        if least == 0:
            time.sleep(0.01)
            continue
        began, was_there = time.perf_counter(), path.is_file()
        try:
            found, over = read(path, least, first)
            if times % SHOW_EACH == 0:
                found["wrong"] += show(path)
        except Exception as error:
            if path.is_file() and not was_there:  # what it was read from is removed when the file is made
                continue
            found = {"steps": 0, "seconds": 0.0, "wrong": [f"{type(error).__name__}: {error}"]}
        times += 1
        first = max(0, found["steps"] - 2)
        found["files"] = len(os.listdir("/proc/self/fd"))
        found["wrong"] += ["torch was imported"] if "torch" in sys.modules else []
        print(json.dumps(found), flush=True)
        if found["wrong"]:
            return 1
        if not over:
            time.sleep(min(REST * (time.perf_counter() - began), 20.0))
    found, _ = read(path, committed(progress), 0)
    print(json.dumps({**found, "files": len(os.listdir("/proc/self/fd"))}), flush=True)
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
