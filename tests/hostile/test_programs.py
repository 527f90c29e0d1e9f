"""Programs that nobody would write: with the tool on they do what they do without it, and nothing stays behind."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from tests.capture.oracle import BareMode
from tests.faults.amount import FULL, amount
from tests.hostile.cast import World
from tests.hostile.programs import programs
from tests.hostile.running import Run, run
from tests.hostile.traces import check_trace
from tests.hostile.ways import WAYS

from insitu.trace.trace import Trace

SETTINGS = settings(
    max_examples=amount(25, 2000),
    derandomize=True,
    database=None,
    deadline=None,
    phases=[phase for phase in Phase if FULL or phase is not Phase.shrink],  # it takes long, and there is a time limit
    suppress_health_check=list(HealthCheck),
)
THREE_WAYS = st.lists(st.sampled_from(sorted(WAYS)), min_size=1, max_size=3, unique=True)


pytestmark = pytest.mark.usefixtures("quick_collections")


@pytest.mark.slow
@pytest.mark.timeout(amount(300, 7200))
@SETTINGS
@given(source=programs(), ways=THREE_WAYS)
def test_a_program_does_with_the_tool_what_it_does_without(tmp_path_factory: Any, source: str, ways: list[str]) -> None:
    folder = tmp_path_factory.mktemp("program")
    note(source)
    plain = run(source, folder)
    for way in ways:
        note(way)
        check(plain, run(source, folder, WAYS[way]), folder)


@pytest.mark.slow
@pytest.mark.timeout(amount(300, 7200))
@settings(SETTINGS, max_examples=amount(15, 1000))
@given(source=programs())
def test_the_operators_of_a_trace_are_those_that_a_bare_mode_sees(tmp_path_factory: Any, source: str) -> None:
    folder = tmp_path_factory.mktemp("program")
    note(source)
    bare = BareMode()
    run(source, folder, lambda model, program: bare)
    trace = run(source, folder, WAYS["record aten"]).traces[0]
    here = [call.name for call in trace.find(kind="aten") if call.thread == 0]
    assert here == bare.ops


def test_loops_in_loops_have_an_end() -> None:
    world, turns = World(), 0
    while world.few():
        while world.few():
            turns += 1
            assert turns < 30


DEEP = """
from torch import nn
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.part0 = nn.Linear(4, 4)
    def forward(self, x, y=None):
        return self(self.part0(x + 1), [x, {"a": x}])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part0, self.deep = nn.Linear(4, 4), Deep()
    def forward(self, x):
        try:
            return self.deep(x)
        except RecursionError:
            return self.part0(x)
def build():
    return Net()
def main(model, x):
    x = model(x)
    x.sum().backward()
    return x
"""


@pytest.mark.parametrize("way", ["record aten", "record of a model", "watch", "watch variables", "guard"])
def test_a_model_that_calls_itself_until_the_stack_is_full(tmp_path: Path, way: str) -> None:
    before = sys.getrecursionlimit()
    with contextlib.ExitStack() as undo:
        undo.callback(sys.setrecursionlimit, before)
        sys.setrecursionlimit(len(inspect.stack(0)) + 250)
        plain, looked_at = run(DEEP, tmp_path), run(DEEP, tmp_path, WAYS[way])
    looked_at.told = [text for text in looked_at.told if "RecursionError" not in text]  # where there was no room for us
    check(plain, looked_at, tmp_path)


def check(plain: Run, looked_at: Run, folder: Path) -> None:
    """Nothing that can be seen from outside differs, the tool had no trouble, and the traces are sound."""
    for field in dataclasses.fields(plain.outcome):
        with_tool, without = getattr(looked_at.outcome, field.name), getattr(plain.outcome, field.name)
        assert with_tool == without, f"{field.name}: {difference(with_tool, without)}"
    assert [text for text in looked_at.told if text.startswith("insitu failed")] == []
    for trace in looked_at.traces:
        if isinstance(trace, Trace):
            check_trace(trace, folder)


def difference(a: Any, b: Any) -> str:
    """The first place where plain data differs, in words."""
    if isinstance(a, (list, tuple)) and type(a) is type(b) and len(a) == len(b):
        return next(difference(x, y) for x, y in zip(a, b, strict=True) if x != y)
    if isinstance(a, list) and isinstance(b, list):
        at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
        return f"at {at}: {a[at : at + 2]!r:.300} with the tool, {b[at : at + 2]!r:.300} without"
    return f"{a!r:.300} with the tool, {b!r:.300} without"
