"""Every fact and every kept value of a trace is what a hand saw of the tensor at that moment, whoever changed it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.capture.oracle import troubles
from tests.faults.amount import amount
from tests.hostile.aliases import Entry, Hand, Program, Seen
from torch import Tensor, nn

import insitu
from insitu.capture.calls import function_callee
from insitu.capture.tensors import short_dtype
from insitu.trace.event import Call, Stats, TensorFacts

pytestmark = pytest.mark.usefixtures("quick_collections")

KEEPS = {"meta": "meta", "stats": "stats", "clone": torch.clone}
STEPS = 60
# The level, what is kept, whether there is a model, and whether the hand was there before the session.
CASES = [
    case
    for case in itertools.product(("modules", "functions", "aten"), KEEPS, (False, True), (False, True))
    if not case[3] or case[0] == "functions"
]


class Subject(nn.Module):
    """A model whose forward pass is the whole program."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.run = program.run

    def forward(self, x: Tensor) -> Tensor:
        """Run the program."""
        self.run(STEPS)
        return x


@insitu.watch
def watched(x: Any, more: Any) -> Any:
    """A function that is watched, and returns what it was given."""
    return more


@contextlib.contextmanager
def looking(hand: Hand, level: str) -> Iterator[None]:
    """The hand looks at all that the level records."""
    with contextlib.ExitStack() as modes:
        if level in ("functions", "aten"):
            modes.enter_context(hand.functions)
        if level == "aten":
            modes.enter_context(hand.operators)
        yield


@pytest.mark.filterwarnings("ignore")  # of torch, that sizes of `out=` change, and such things
@pytest.mark.parametrize("seed", range(amount(len(CASES), 200 * len(CASES))))
def test_what_is_recorded_is_what_a_hand_sees(seed: int) -> None:
    level, keep, with_model, is_below = CASES[seed % len(CASES)]
    hand = Hand()
    program = Program(seed, hand, watched)
    subject, x = Subject(program), torch.ones(1)
    session = insitu.record(subject if with_model else None, level=level, keep=KEEPS[keep])
    with contextlib.ExitStack() as blocks:
        if is_below:
            blocks.enter_context(looking(hand, level))
        trace = blocks.enter_context(session)
        if not is_below:
            blocks.enter_context(looking(hand, level))
        hand.call("module", subject, (x,))
    assert troubles(trace) == []
    check(trace, hand, level, keep, program)


def check(trace: insitu.Trace, hand: Hand, level: str, keep: str, program: Program) -> None:
    """The calls of each kind are those that the hand saw, with the same tensors."""
    kinds = {"modules": ["module"], "functions": ["function", "module"], "aten": ["aten", "function", "module"]}[level]
    for kind in [*kinds, "python"]:
        calls = [call for call in trace.find(kind=kind) if call.thread == 0 and call.name != "aten.detach"]
        entries = [entry for entry in hand.entries if entry.kind == kind and is_recorded(entry)]
        for call, entry in zip(calls, entries, strict=False):
            where = f"{call.name} {call.id} after {program.done}"
            compare(call.inputs, entry.inputs, keep, f"input of {where}")
            if entry.outputs is not None:
                compare(call.outputs, entry.outputs, keep, f"output of {where}", is_settled=kind != "aten")
        assert len(calls) == len(entries)


def is_recorded(entry: Entry) -> bool:
    """Whether a call is one that a trace has; torch calls `detach` only because somebody listens."""
    if entry.kind == "function":
        return not function_callee(entry.function).silent
    return entry.function is not torch.ops.aten.detach.default


def compare(found: Any, expected: list[Seen], keep: str, where: str, *, is_settled: bool = True) -> None:
    """The facts of a trace are those that the hand saw; what an operator returns is not yet known to autograd."""
    assert [facts.shape for facts in found] == [seen.shape for seen in expected], where
    for facts, seen in zip(found, expected, strict=True):
        assert facts.dtype == short_dtype(seen.dtype), where
        assert (facts.device, facts.strides) == (seen.device, seen.strides), where
        assert not is_settled or facts.requires_grad == seen.requires_grad, where
        compare_values(facts, seen, keep, where)


def compare_values(facts: TensorFacts, seen: Seen, keep: str, where: str) -> None:
    """What was kept is what was there; functions of the user are given no arrays."""
    if keep == "clone" and not seen.is_array:
        assert np.asarray(facts.kept, dtype=seen.values.dtype).tobytes() == seen.values.tobytes(), where
    if keep == "stats":
        assert facts.stats is not None, where
        assert_stats(facts.stats, seen.values.astype(np.float64), where)


def assert_stats(found: Stats, values: Any, where: str) -> None:
    """The statistics are those of the values, by NumPy."""
    finite = values[np.isfinite(values)]
    bounds = (finite.min(), finite.max()) if finite.size else (None, None)
    assert (found.count, found.min, found.max) == (values.size, *bounds), where
    assert (found.nan, found.inf) == (np.isnan(values).sum(), np.isinf(values).sum()), where
    assert found.zeros == (values == 0).sum(), where
    if finite.size:
        assert found.mean == pytest.approx(finite.mean(), rel=1e-3, abs=1e-3 * np.abs(finite).max()), where


def test_the_hand_finds_a_value_that_is_old() -> None:
    """The comparison itself can fail: here it is given a call from before a write."""
    hand, x = Hand(), torch.zeros(3)
    with insitu.record(keep="stats") as trace, hand.functions:
        x.sum()
        x.add_(1)
        x.sum()
    calls = [call for call in trace.calls if isinstance(call, Call)]
    entries = [entry for entry in hand.entries if is_recorded(entry)]
    compare(calls[2].inputs, entries[2].inputs, "stats", "")
    with pytest.raises(AssertionError):
        compare(calls[0].inputs, entries[2].inputs, "stats", "")
