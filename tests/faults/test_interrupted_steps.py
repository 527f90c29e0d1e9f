"""An interrupt while a step is written: each finished value is in the run exactly once, and nothing is left behind."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.capture.oracle import nothing_left
from tests.faults.amount import amount
from tests.faults.interrupt import Interrupt
from tests.faults.training import ONLY, STEPS, check, train

import insitu

PARTS = amount(1, 16)  # of a test that would take minutes
pytestmark = pytest.mark.filterwarnings("ignore::insitu.errors.InsituWarning")


def ctrl_c(frame: Any) -> None:
    raise KeyboardInterrupt


def alarm(number: int, frame: Any) -> None:
    raise TimeoutError("time is up")


def late(frame: Any) -> None:
    """A handler of the user raises what is an error like any other."""
    alarm(signal.SIGALRM, frame)


ARRIVALS = {"Ctrl-C": (ctrl_c, KeyboardInterrupt), "alarm": (late, TimeoutError)}


@pytest.mark.parametrize("kind", ARRIVALS)
@pytest.mark.parametrize("goes_on", [False, True])
@pytest.mark.parametrize("part", range(PARTS))
def test_exception_at_any_instruction_neither_drops_nor_doubles_a_value(
    kind: str, goes_on: bool, part: int, one_thread: None
) -> None:
    arrive, error = ARRIVALS[kind]
    before = signal.signal(signal.SIGALRM, alarm)
    try:
        moment, came = part + 50 * goes_on, True
        while came:
            moment += amount(211, PARTS)
            came = trained(Interrupt(moment, arrive), error, goes_on=goes_on)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert moment > 500


def trained(interrupt: Interrupt, error: type[BaseException], *, goes_on: bool) -> bool:
    """Train with an interrupt, and check the run; whether the interrupt came."""
    noted: dict[tuple[str, int], np.ndarray[Any, Any]] = {}

    def note(path: str, step: int, value: Any) -> None:
        noted[path, step] = value.detach().numpy().copy()

    net, loop = train(note, 3, caught=error if goes_on else ())
    with nothing_left():
        try:
            with insitu.record_run(net, only=ONLY, keep="values") as recorded:
                before = sys.gettrace()
                sys.settrace(interrupt)
                try:
                    loop()
                finally:
                    sys.settrace(before)
        except error:
            assert interrupt.came and not goes_on
    with recorded.run as run:
        assert goes_on or interrupt.came or run.complete
        # A call that was interrupted before it began makes no step, and those after it have other numbers.
        check(run, noted if not goes_on else {})
        for name in ONLY if goes_on else ():
            values = [value.tobytes() for (other, _), value in noted.items() if other == name]
            found = iter([np.ascontiguousarray(value).tobytes() for value in run[name]])
            assert all(value in found for value in values), (name, run.missing)  # in this order
    return interrupt.came


WAYS = ["SIGTERM before", "SIGTERM after", "SIGINT before", "SIGINT after", "SIGKILL after"]
DEATHS = [
    *(f"{way} {number}" for way in WAYS for number in range(2, 12)[:: amount(5, 1)]),  # the first write begins the file
    *(f"{way} {number}" for way in ("exit", "kill") for number in range(STEPS)[:: amount(3, 1)]),
    "open 0",
]


@pytest.mark.timeout(600)
def test_killed_program_keeps_its_finished_steps(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.training", str(tmp_path), *DEATHS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for death in DEATHS:
        place = tmp_path / death
        lines = [line.split() for line in (place / "notes").read_text().splitlines()]
        noted = {(path, int(step)): np.array([float(text) for text in rest]) for path, step, *rest in lines}
        assert noted or "before 2" in death or "after 2" in death
        with insitu.load(place / "run.h5") as run:
            check(run, noted)
            has_ended = all(shard.ended is not None for shard in run._source.shards)
            is_whole = death.startswith(("SIGTERM", "SIGINT", "open")) or has_ended
            assert run.complete == is_whole, (death, run.missing)
