"""What an event costs, counted and not timed: numbers that do not depend on the machine.

Each case runs a program alone and in a session, both after a first pass in which everything is learnt. Per event it has
then made so many more calls of Python functions and of C functions, and has kept so many more blocks of memory and
objects that the garbage collector tracks. `budget.txt` says how many may be: more is too slow, and much less means that
the budget has become loose. `pytest --update` writes what is counted.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import insitu

pytestmark = pytest.mark.usefixtures("quick_collections")

FILE = Path(__file__).parent / "budget.txt"
COLUMNS = ("calls", "C calls", "blocks", "tracked")
PASSES = 30
OVER, UNDER = 1.02, 0.85  # of the budget
ROUNDING = {"blocks": 0.6}  # Python keeps some memory back for reuse; the other columns are exact


class Net(nn.Module):
    """Layers, functions, views and keyword arguments, as a model has them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Attention with one head."""
        hidden = self.norm(self.first(x)).view(2, 4, 8)
        weights = torch.softmax(hidden @ hidden.transpose(1, 2) / 8**0.5, dim=-1)
        mean = (weights @ hidden).mean(dim=-1, keepdim=True)
        return self.last(hidden - mean)


class Program:
    """What is run, and the session that it is run in; `events` are those of one pass."""

    def __init__(self, run: Callable[[], object], session: Callable[[], Any], events: Callable[[Any], int]) -> None:
        self.run, self.session, self.events = run, session, events


def forward() -> Callable[[], object]:
    net, x = model()
    return lambda: net(x)


def training() -> Callable[[], object]:
    net, x = model()

    def step() -> None:
        net(x).square().mean().backward()
        net.zero_grad()

    return step


def model() -> tuple[Net, Tensor]:
    torch.manual_seed(0)
    return Net(), torch.randn(2, 4, 8)


def traced(run: Callable[[], object], **options: Any) -> Program:
    return Program(run, lambda: insitu.record(**options), lambda trace: len(trace.events) // (PASSES + 3))


def guarded() -> Program:
    """Of a guard nothing is kept: its events are those of a session at the same level."""
    with insitu.record() as trace:
        training()()
    return Program(training(), insitu.guard, lambda found: len(trace.events))


def watched(value: Any, passes: int = 50) -> Program:
    """A function that binds a variable again and again; what is kept is kept for each change."""

    def loop() -> Any:
        x = value
        for _ in range(passes):
            x = x * 0.5 + 1.0
        return x

    followed = insitu.watch("x")(loop)

    def session() -> AbstractContextManager[Any]:
        return insitu.record(level="python")

    def run() -> object:
        return followed() if active else loop()

    active: list[bool] = []
    program = Program(run, session, lambda trace: passes)
    program.session = lambda: flagged(session(), active)
    return program


def recorded(**options: Any) -> Program:
    """Values of a training run, handed to a function; an event is a value."""
    net, x = model()
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    taken: list[str] = []

    def step() -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    def sink(path: str, value: Any, step: int, rank: int) -> None:
        taken.append(path)

    def session() -> Any:
        taken.clear()
        return insitu.record_run(net, to=sink, **options)

    return Program(step, session, lambda _: len(taken) // (PASSES + 3))


def looped(value: Any, passes: int = 50) -> Program:
    """A training loop whose variable is recorded: an event is a value, with the reports of the lines around it."""

    def loop() -> Any:
        loss = value
        for _ in range(passes):
            loss = loss * 0.5
            hash(None)  # any call may have changed the variable
        return loss

    @contextmanager
    def session() -> Iterator[Any]:
        with insitu.record_run(only="loop.loss", to=lambda path, value, step, rank: None) as live:
            yield loop and live

    return Program(loop, session, lambda _: passes)


class flagged:
    """A session that says when it is on."""

    def __init__(self, session: AbstractContextManager[Any], flag: list[bool]) -> None:
        self._session, self._flag = session, flag

    def __enter__(self) -> Any:
        self._flag.append(True)
        return self._session.__enter__()

    def __exit__(self, *error: Any) -> None:
        self._flag.clear()
        self._session.__exit__(*error)


CASES: dict[str, Callable[[], Program]] = {
    "modules, forward": lambda: traced(forward(), level="modules"),
    "functions, forward": lambda: traced(forward(), level="functions"),
    "aten, forward": lambda: traced(forward(), level="aten"),
    "functions, forward and backward": lambda: traced(training(), level="functions"),
    "aten, forward and backward": lambda: traced(training(), level="aten"),
    'functions, keep="stats"': lambda: traced(forward(), level="functions", keep="stats"),
    "guard, forward and backward": guarded,
    "a variable, a number": lambda: watched(1.0),
    "a variable, a tensor": lambda: watched(torch.ones(4)),
    "values of variables, recorded": lambda: recorded(only=["forward.weights", "forward.mean"], keep="values"),
    "a variable of the loop, a number": lambda: looped(1.0),
    "a variable of the loop, a tensor": lambda: looped(torch.ones(4)),
    "statistics of outputs, recorded": lambda: recorded(only=["first", "norm", "last"], keep="stats"),
}


def cost(program: Program) -> tuple[float, ...]:
    """What an event costs, column by column."""
    alone = counted(program.run)
    with program.session() as found:
        inside = counted(program.run)
    events = program.events(found)
    assert events > 0
    return tuple(round(inside[column] / events - alone[column] / events, 1) for column in COLUMNS)


def counted(run: Callable[[], object]) -> dict[str, float]:
    """The calls that one pass makes, and what the passes after it keep."""
    run()
    calls = profiled(run)
    gc.collect()
    gc.disable()
    gc.freeze()  # what is there already is not counted again and again
    run()  # Python holds back some memory for reuse, and the collection has freed it
    try:
        blocks, tracked = sys.getallocatedblocks(), len(gc.get_objects())
        for _ in range(PASSES):
            run()
        kept = len(gc.get_objects()) - tracked
        blocks = sys.getallocatedblocks() - blocks
    finally:
        gc.unfreeze()
        gc.enable()
    return {"calls": calls["call"], "C calls": calls["c_call"], "blocks": blocks / PASSES, "tracked": kept / PASSES}


def profiled(run: Callable[[], object]) -> Counter[str]:
    """The calls of Python and of C functions in one run. The profiler is called by Python alone, and calls nobody."""
    calls: Counter[str] = Counter()

    def count(frame: Any, event: str, argument: Any) -> None:
        calls[event] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return calls


def read() -> tuple[str, dict[str, tuple[float, ...]]]:
    """The Python that it was counted with, and the budget of each case."""
    head, *lines = FILE.read_text(encoding="utf-8").splitlines()
    rows = [line.rsplit(maxsplit=len(COLUMNS)) for line in lines]
    return head.split()[1].rstrip(","), {name.strip(): tuple(map(float, numbers)) for name, *numbers in rows}


def write(budget: dict[str, tuple[float, ...]]) -> None:
    widths = max(map(len, budget))
    lines = [f"Python {this_python()}, more for each event than without a session: {', '.join(COLUMNS)}"]
    lines += [f"{name:{widths}}" + "".join(f"{number:9.1f}" for number in numbers) for name, numbers in budget.items()]
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def this_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def verdict(counted: tuple[float, ...], budget: tuple[float, ...], *, tight: bool) -> list[str]:
    """What is not as the budget says."""
    pairs = zip(COLUMNS, counted, budget, strict=True)
    found = []
    for column, now, then in pairs:
        rounding = ROUNDING.get(column, 0.1)
        if now > then * OVER + rounding:
            found.append(f"{column}: {now} is over {then}")
        elif tight and now < then * UNDER - rounding:
            found.append(f"{column}: {now} is far below {then}")
    return found


def print_costs() -> None:
    """Print the cost of each case as JSON, for `costs`."""
    gc.collect()
    gc.freeze()
    print(json.dumps({name: cost(make()) for name, make in CASES.items()}))


def costs() -> dict[str, tuple[float, ...]]:
    """The cost of each case in a process of its own: what other tests have imported or compiled costs calls, too."""
    program = "from tests.test_budget import print_costs; print_costs()"
    done = subprocess.run([sys.executable, "-c", program], cwd=FILE.parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {name: tuple(numbers) for name, numbers in json.loads(done.stdout).items()}


def test_an_event_costs_what_it_may(request: pytest.FixtureRequest) -> None:
    found = costs()
    if request.config.getoption("--update"):
        write(found)
    python, budget = read()
    assert list(budget) == list(CASES)
    # Another Python inlines other calls: there, it is only to be seen that nothing got out of hand.
    tight = python == this_python()
    slack = 1.0 if tight else 1.25
    wrong = {
        name: trouble
        for name, numbers in found.items()
        if (trouble := verdict(numbers, tuple(slack * limit for limit in budget[name]), tight=tight))
    }
    assert not wrong, f"{wrong}\nIs that meant? pytest tests/test_budget.py --update"


def test_too_much_and_much_less_are_both_found() -> None:
    budget = (20.0, 40.0, 3.0, 1.0)
    assert verdict(budget, budget, tight=True) == []
    assert verdict((21.0, 40.0, 3.0, 1.0), budget, tight=True) == ["calls: 21.0 is over 20.0"]
    assert verdict((20.0, 30.0, 3.0, 1.0), budget, tight=True) == ["C calls: 30.0 is far below 40.0"]
    assert verdict((20.0, 30.0, 3.0, 1.0), budget, tight=False) == []
