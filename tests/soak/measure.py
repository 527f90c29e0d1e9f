"""What a process holds at a moment: memory, objects, files, threads; and how long its steps take."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Window:
    """Some steps on end. `blocks` is the least that was allocated after any of them: what a tape holds until it is
    cleared, and garbage, are not in it. `cpu` and `wall` are the median of a step."""

    step: int
    cpu: float
    wall: float
    rss: int
    blocks: int
    objects: int
    files: int
    threads: int
    recorded: int
    logged: int


@dataclass(slots=True)
class Meter:
    """Measures a training, step by step, with a window for each so many steps.

    What it keeps itself is one text for each window: the blocks that it counts are those of others.
    """

    size: int
    journal: Path
    log: Path
    tell: Callable[[Window], None] = lambda window: None
    _kept: list[str] = field(default_factory=list)
    _cpu: list[float] = field(default_factory=list)
    _wall: list[float] = field(default_factory=list)
    _floor: int = sys.maxsize
    _began: tuple[float, float] = (0.0, 0.0)

    def begin(self) -> None:
        """A step begins."""
        self._began = (time.thread_time(), time.perf_counter())

    def end(self, step: int) -> None:
        """It has ended."""
        self._cpu.append(time.thread_time() - self._began[0])
        self._wall.append(time.perf_counter() - self._began[1])
        self._floor = min(self._floor, sys.getallocatedblocks())
        if (step + 1) % self.size == 0:
            self._close(step)

    def _close(self, step: int) -> None:
        gc.collect()
        kinds = Counter(type(one).__name__ for one in gc.get_objects())
        held = (self._floor, kinds.total(), *handles())
        times = (median(self._cpu), median(self._wall))
        window = Window(step, *times, resident(), *held, size_of(self.journal), size_of(self.log))
        self.tell(window)
        self._kept.append(json.dumps([astuple(window), kinds]))
        self._cpu.clear()
        self._wall.clear()
        self._floor = sys.maxsize

    @property
    def windows(self) -> list[Window]:
        """What was measured."""
        return [Window(*json.loads(text)[0]) for text in self._kept]

    @property
    def kinds(self) -> list[Counter[str]]:
        """How many objects there were of each type, at the end of each window."""
        return [Counter(json.loads(text)[1]) for text in self._kept]


def handles() -> tuple[int, int]:
    """How many files are open, and how many threads there are, Python's or not."""
    return len(os.listdir("/proc/self/fd")), max(len(os.listdir("/proc/self/task")), threading.active_count())


def resident() -> int:
    """The bytes that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def size_of(place: Path) -> int:
    """The bytes of a file, or of all in a folder."""
    if place.is_dir():
        return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    return place.stat().st_size if place.exists() else 0
