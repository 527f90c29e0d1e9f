"""Every program of the table does the same with and without a trace, and the trace has every operator it runs."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
import torch
from tests.capture.oracle import BareMode, bits, nothing_left, ops, troubles
from tests.models.cases import CASES, Case

import insitu

VARIANTS = {
    "modules": {"level": "modules"},
    "functions": {"level": "functions"},
    "aten": {"level": "aten"},
    "aten+stats": {"level": "aten", "keep": "stats"},
}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """The models are too small for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@contextmanager
def quiet(case: Case) -> Iterator[None]:
    """Without the warnings that torch itself gives for a case."""
    with warnings.catch_warnings():
        for message in case.ignore:
            warnings.filterwarnings("ignore", message)
        yield


def outcome(case: Case, around: Any) -> tuple[Any, int]:
    """What a program returns when it is run inside `around`, and the state of the random numbers afterwards."""
    with quiet(case):
        torch.manual_seed(0)
        subject, run = case.build()
        torch.manual_seed(1)
        with around(subject):
            result = run()
        return bits(result), zlib.crc32(torch.get_rng_state().numpy().tobytes())


@functools.cache
def untraced(name: str) -> tuple[Any, int]:
    @contextmanager
    def nothing(subject: Any) -> Iterator[None]:
        yield

    outcome(CASES[name], nothing)  # what torch does only the first time is done
    return outcome(CASES[name], nothing)


@functools.cache
def bare(name: str) -> list[str]:
    mode = BareMode()
    outcome(CASES[name], lambda subject: mode)
    return mode.ops


# What test_zero_tensors_have_no_memory_to_look_at runs in a process of its own, and what no dispatch mode can live
# with: torch.jit.trace below one gives another graph, whoever made the mode.
ELSEWHERE = {
    ("forward_mode", "aten+stats"),
    ("traced_by_jit_meanwhile", "aten"),
    ("traced_by_jit_meanwhile", "aten+stats"),
}


@pytest.mark.parametrize(("name", "variant"), [pair for pair in product(CASES, VARIANTS) if pair not in ELSEWHERE])
def test_nothing_changes(name: str, variant: str) -> None:
    expected = untraced(name)
    trace = insitu.Trace()

    @contextmanager
    def recorded(subject: Any) -> Iterator[None]:
        nonlocal trace
        with insitu.record(**VARIANTS[variant]) as trace:
            yield

    with nothing_left():
        result, rng = outcome(CASES[name], recorded)
    assert troubles(trace) == []
    assert result == expected[0]
    assert rng == expected[1]
    if CASES[name].bare:
        assert ops(trace) == (bare(name) if "aten" in variant else [])


@pytest.mark.parametrize("name", CASES)
def test_a_subject_is_a_step_and_changes_nothing(name: str) -> None:
    expected = untraced(name)
    trace = insitu.Trace()

    @contextmanager
    def recorded(subject: Any) -> Iterator[None]:
        nonlocal trace
        with insitu.record(subject, level="aten" if CASES[name].bare else "functions") as trace:
            yield

    with nothing_left():
        assert outcome(CASES[name], recorded) == expected
    assert troubles(trace) == []
    own = [call for call in trace.calls if call.kind == "module" and call.path == "" and call.parent is None]
    assert {call.step for call in own} == set(range(len(own)))


def test_zero_tensors_have_no_memory_to_look_at() -> None:
    # In a process of its own, because looking at one ends the process. jvp of a gradient makes them.
    program = """if True:
        import torch, insitu
        import torch.autograd.forward_ad as ad
        x, model = torch.arange(3.0), torch.nn.Linear(3, 3)
        def run():
            with ad.dual_level():
                along = ad.unpack_dual(model(ad.make_dual(x, x))).tangent
            return torch.stack([along, *torch.func.hessian(lambda t: t.pow(3).sum())(x)])
        with insitu.record(level="aten", keep="stats") as trace:
            zero, result = torch._efficientzerotensor((3,)), run()
        assert torch.equal(result, run()) and not trace.marks, trace.marks
        assert trace.calls[0].outputs[0].shape == (3,)
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_fused_paths_stay_fused(level: str) -> None:
    assert "aten._transformer_encoder_layer_fwd" in bare("encoder_fused")
    assert "aten._native_multi_head_attention" in bare("attention_fused")
    for name, operator, calls in (
        ("encoder_fused", "aten._transformer_encoder_layer_fwd", 2),
        ("attention_fused", "aten._native_multi_head_attention", 2),
    ):
        subject, run = CASES[name].build()
        with insitu.record(subject, level=level) as trace, BareMode() as mode:
            run()
        assert mode.ops.count(operator) == calls
        assert len(trace.find(name=operator)) == (calls if level == "aten" else 0)


def test_the_table_is_full() -> None:
    assert len(CASES) > 60
