"""A small training that is recorded, notes what it has done, and whose run is checked against these notes.

`python -m tests.faults.training FOLDER DEATH…` forks a child for each death: "SIGTERM after 3" comes after the third
write to the journal, "exit 1" after the update of step 1.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import insitu

STEPS = 4
ONLY = ["forward", "forward.h", "inner.weight", "inner.weight.grad", "total"]
Note = Callable[[str, int, Any], None]


class Net(nn.Module):
    """A model with a variable, a parameter and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 2)
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        """One pass."""
        h = self.inner(x)
        self.total += h.detach().sum(0)
        return h.tanh()  # type: ignore[no-any-return]


def train(note: Note, steps: int = STEPS, *, caught: type[BaseException] | tuple[()] = ()) -> tuple[Net, Any]:
    """A model, and what trains it; `note` is called with all that was done, and the value that must be recorded."""
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def one(step: int) -> None:
        optimizer.zero_grad()
        out = net(torch.full((4, 3), float(step)) + torch.arange(12.0).reshape(4, 3) / 9)
        note("forward", step, out)
        out.square().sum().backward()
        grad = net.inner.weight.grad
        note_grad = grad.clone() if grad is not None else None
        optimizer.step()
        note("inner.weight.grad", step, note_grad)
        note("inner.weight", step, net.inner.weight)
        note("total", step, net.total)

    def loop() -> None:
        for step in range(steps):
            try:
                one(step)
            except caught:
                net.zero_grad()

    return net, loop


def check(run: Any, noted: dict[tuple[str, int], np.ndarray[Any, Any]]) -> None:
    """What was noted is in the run, once; nothing is there twice."""
    for series in run.find("**"):
        keys = list(zip(series.steps.tolist(), series.calls.tolist(), strict=True))
        assert len(set(keys)) == len(keys), (series.name, keys)
    for (path, step), value in noted.items():
        here = run[path].steps == step
        assert here.sum() == 1, f"{path} of step {step} is there {here.sum()} times; {run.missing}"
        assert np.array_equal(np.asarray(run[path].at(step)).reshape(-1), value.reshape(-1)), (path, step)


def killing(way: str, number: int) -> None:
    """Let a signal come at the n-th write to the journal."""
    real, left = os.writev, number

    def writev(file: int, buffers: Any) -> int:
        nonlocal left
        left -= 1
        if not left and way.endswith("before"):
            os.kill(os.getpid(), getattr(signal, way.split()[0]))
        written = real(file, buffers)
        if not left and way.endswith("after"):
            os.kill(os.getpid(), getattr(signal, way.split()[0]))
        return written

    os.writev = writev


def work(folder: Path, way: str, number: int) -> None:
    """Train, and die."""
    notes = os.open(folder / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(path: str, step: int, value: Any) -> None:
        text = " ".join(map(str, value.detach().reshape(-1).tolist()))
        os.write(notes, f"{path} {step} {text}\n".encode())
        is_time = path == "total" and step == number
        if is_time and way == "exit":
            os._exit(0)
        if is_time and way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

    net, loop = train(note)
    if " " in way:
        killing(way, number)
    recording = insitu.record_run(net, only=ONLY, keep="values", to=folder / "run.h5")
    if way == "open":  # and never left
        recording.__enter__()
        loop()
        return
    with recording:
        loop()


def main(folder: Path, deaths: list[str]) -> None:
    """A child for each death."""
    (folder / "warm").mkdir()
    work(folder / "warm", "", 0)  # all is imported before the first child is forked
    for death in deaths:
        place = folder / death
        place.mkdir()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        way, _, number = death.rpartition(" ")
        with suppress(KeyboardInterrupt):
            work(place, way, int(number))
        return


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2:])
