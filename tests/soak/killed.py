"""A training that is killed in the middle: `python -m tests.soak.killed FOLDER STEPS`, which ends by SIGKILL."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.soak.measure import Meter
from tests.soak.progress import Progress
from tests.soak.soaking import train


class Deadly(Meter):
    """Measures nothing, and kills the process in a step."""

    def begin(self) -> None:
        """A step begins."""

    def end(self, step: int) -> None:
        """It has ended, and with the last one all else."""
        if step + 1 == self.size:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    place, steps = Path(sys.argv[1]), int(sys.argv[2])
    train(place / "run.h5", place / "steps.log", 2 * steps, Deadly(steps, place, place), Progress(place / "committed"))
