"""A whole training with everything on: values recorded to a file, a guard around it, a watched step that prints."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
import weakref
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.soak.measure import Meter, handles
from tests.soak.progress import Progress
from tests.soak.training import KEEP, PATHS, Step, make, train_step

import insitu

WINDOW = 200  # steps: no tape goes longer without being cleared


@dataclass(frozen=True, slots=True)
class Soaked:
    """What came of a training: what was measured, what was read meanwhile, what was left behind."""

    steps: int
    meter: Meter
    reads: list[dict[str, Any]]
    reader_failed: str
    lines: int
    findings: int
    closing: float
    loading: float
    size: int
    left: list[str]


def soak(folder: Path, steps: int, tell: Any) -> Soaked:
    """Train so many steps with all sessions on, while another process reads."""
    run, log = folder / "run.h5", folder / "steps.log"
    meter = Meter(max(WINDOW, steps // 30), folder / "run.h5.parts", log, tell)
    before = handles()
    progress = Progress(folder / "committed")
    with Reader(run, folder) as reader:
        began, findings, model = train(run, log, steps, meter, progress)
        closing = time.perf_counter() - began
        reads, failed = reader.finish()
    progress.close()
    return Soaked(
        steps,
        meter,
        reads,
        failed,
        log.read_bytes().count(b"\n"),
        findings,
        closing,
        load_time(run, steps),
        run.stat().st_size,
        leftovers(folder, before, model),
    )


def train(run: Path, log: Path, steps: int, meter: Meter, progress: Progress) -> tuple[float, int, weakref.ref[Any]]:
    """The training; when its sessions began to close, what the guard found, and the model, if it is still there."""
    model, optimizer = make()
    step_once: Step = insitu.watch("loss", file=log)(train_step)
    with ExitStack() as sessions:
        guard = sessions.enter_context(insitu.guard(model, action="warn"))
        recorded = sessions.enter_context(insitu.record_run(model, only=PATHS, keep=KEEP, to=run))
        for step in range(steps):
            meter.begin()
            step_once(model, optimizer, step)
            meter.end(step)
            progress.tell((recorded.committed_step or -1) + 1)
        began = time.perf_counter()
    progress.tell(steps)
    return began, len(guard.findings), weakref.ref(model)


class Reader:
    """Lets a process read the run, until it has ended."""

    def __init__(self, run: Path, folder: Path) -> None:
        self._output = folder / "reads.jsonl"
        command = [sys.executable, "-m", "tests.soak.reader", str(run), str(folder / "committed")]
        with self._output.open("w") as output, (folder / "reader.err").open("w") as errors:
            self._process = subprocess.Popen(command, stdout=output, stderr=errors)
        self._errors = folder / "reader.err"

    def finish(self) -> tuple[list[dict[str, Any]], str]:
        """What it read, and how it failed, if it did."""
        code = self._process.wait(timeout=600)
        reads = [json.loads(line) for line in self._output.read_text().splitlines()]
        wrong = [text for read in reads for text in read["wrong"]]
        return reads, "; ".join(wrong) or (f"it ended with {code}: {self._errors.read_text()[-500:]}" if code else "")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def load_time(run: Path, steps: int) -> float:
    """The seconds that it takes to open the run and read one variable."""
    began = time.perf_counter()
    with insitu.load(run) as loaded:
        assert len(loaded["head.weight.grad"].values) == steps
    return time.perf_counter() - began


def leftovers(folder: Path, before: tuple[int, int], model: weakref.ref[Any]) -> list[str]:
    """What the sessions have left behind, and should not."""
    gc.collect()
    files, threads = handles()
    parts = [path.name for path in folder.glob("run.h5.*")]
    found = {
        f"{files - before[0]} files are open": files != before[0],
        f"{threads - before[1]} threads run": threads != before[1],
        f"{', '.join(parts)} beside the file": bool(parts),
        "the model is still there": model() is not None,
        "the thresholds of the collector": gc.get_threshold() != (700, 10, 10),
    }
    return [what for what, is_so in found.items() if is_so]
