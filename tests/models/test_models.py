"""Every program of the table does the same with and without a trace, and the trace has every operator it runs."""

from __future__ import annotations

import functools
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from tests.capture.oracle import BareMode, ops, troubles
from tests.models.cases import CASES, Case
from tests.models.outcome import Build, Outcome, bare, traced, untraced

import insitu

pytestmark = pytest.mark.usefixtures("one_thread")

VARIANTS = {
    "modules": {"level": "modules"},
    "functions": {"level": "functions"},
    "aten": {"level": "aten"},
    "aten+stats": {"level": "aten", "keep": "stats"},
}


@contextmanager
def quiet(case: Case) -> Iterator[None]:
    """Without the warnings that torch itself gives for a case."""
    with warnings.catch_warnings():
        for message in case.ignore:
            warnings.filterwarnings("ignore", message)
        yield


def quietly(name: str) -> Build:
    """What builds the program of a case, and runs it without the warnings that torch itself gives for it."""
    case = CASES[name]

    def build() -> Any:
        with quiet(case):
            subject, run = case.build()

        def silenced() -> Any:
            with quiet(case):
                return run()

        return subject, silenced

    return build


@functools.cache
def expected(name: str) -> Outcome:
    return untraced(quietly(name))


@functools.cache
def bare_ops(name: str) -> list[str]:
    return bare(quietly(name))


# What test_zero_tensors_have_no_memory_to_look_at runs in a process of its own, and what no dispatch mode can live
# with: torch.jit.trace below one gives another graph, whoever made the mode.
ELSEWHERE = {
    ("forward_mode", "aten+stats"),
    ("traced_by_jit_meanwhile", "aten"),
    ("traced_by_jit_meanwhile", "aten+stats"),
}


@pytest.mark.parametrize(("name", "variant"), [pair for pair in product(CASES, VARIANTS) if pair not in ELSEWHERE])
def test_nothing_changes(name: str, variant: str) -> None:
    result, rng = expected(name)
    found = traced(quietly(name), lambda subject: insitu.record(**VARIANTS[variant]))
    assert troubles(found.trace) == []
    assert found.outcome[0] == result
    assert found.outcome[1] == rng
    if CASES[name].bare:
        assert ops(found.trace) == (bare_ops(name) if "aten" in variant else [])


@pytest.mark.parametrize("name", CASES)
def test_a_subject_is_a_step_and_changes_nothing(name: str) -> None:
    level = "aten" if CASES[name].bare else "functions"
    found = traced(quietly(name), lambda subject: insitu.record(subject, level=level))
    assert found.outcome == expected(name)
    assert troubles(found.trace) == []
    calls = found.trace.calls
    own = [call for call in calls if call.kind == "module" and call.path == "" and call.parent is None]
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
    assert "aten._transformer_encoder_layer_fwd" in bare_ops("encoder_fused")
    assert "aten._native_multi_head_attention" in bare_ops("attention_fused")
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
