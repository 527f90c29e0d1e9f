"""The logic of steps, from histories made by hand: nothing here needs torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from insitu.trace.event import Arm, Call, Loop, Nesting, Site
from insitu.trace.findings import Finding
from insitu.trace.step_findings import EvaluatedTraining, TwoOptimizers, UndividedAccumulation
from insitu.trace.step_health import (
    AccumulationHistory,
    ModeHistory,
    SharedParameters,
    StepHistory,
    step_findings,
)

LOOP = Loop(2, "for x, y in loader:")
BACKWARD = Site("train.py", 3, "train", nesting=Nesting(3, loops=(LOOP,)))
STEP = Site("train.py", 5, "train", nesting=Nesting(5, loops=(LOOP,), arms=(Arm(4, 0),)))
LOSS = Call(1, None, "function", "torch.nn.functional.mse_loss")
ACCUMULATED = AccumulationHistory(
    optimizer="SGD",
    passes=4,
    steps=10,
    usual_steps=10,
    rewritten_steps=0,
    has_other_losses=False,
    has_split=False,
    optimizers=1,
    backward=Call(2, None, "function", "torch.Tensor.backward", site=BACKWARD),
    loss=LOSS,
    step=STEP,
)
SHARED = SharedParameters(("a.weight",), ("SGD", "Adam"), (0.1, 0.01), (BACKWARD, STEP), (2, 4), returns=3)
EVALUATED = ModeHistory("", ("norm (BatchNorm1d)",), steps=5, samples=5, is_last=True)


def found(**history: Any) -> list[type[Finding]]:
    return [type(each) for each in step_findings(StepHistory(**history))]


def test_gradients_that_add_up_are_a_finding() -> None:
    assert found(accumulations=(ACCUMULATED,)) == [UndividedAccumulation]
    assert found(accumulations=(replace(ACCUMULATED, usual_steps=9),)) == [UndividedAccumulation]  # the last is shorter


@pytest.mark.parametrize(
    "change",
    [
        {"passes": 1},
        {"steps": 1, "usual_steps": 1},
        {"usual_steps": 5},
        {"rewritten_steps": 1},
        {"has_other_losses": True},
        {"optimizers": 2},
        {"optimizer": "AdamW"},
        {"optimizer": "RMSprop"},
        {"step": None},
        {"step": replace(STEP, nesting=replace(BACKWARD.nesting, loops=()))},
        {"step": replace(STEP, nesting=BACKWARD.nesting)},
        {"step": replace(STEP, function="other")},
    ],
)
def test_gradients_that_add_up_on_purpose_are_healthy(change: dict[str, Any]) -> None:
    assert found(accumulations=(replace(ACCUMULATED, **change),)) == []


def test_a_step_in_a_caller_is_compared_with_the_loop_there() -> None:
    inside = Site("train.py", 20, "Trainer.backward", caller=BACKWARD, nesting=Nesting(20))
    backward = replace(ACCUMULATED.backward, site=inside)
    assert found(accumulations=(replace(ACCUMULATED, backward=backward),)) == [UndividedAccumulation]


def test_parts_of_a_batch_need_no_condition() -> None:
    assert found(accumulations=(replace(ACCUMULATED, step=None, has_split=True),)) == [UndividedAccumulation]


def test_two_optimizers_are_named_where_the_one_with_more_parameters_was_made() -> None:
    (finding,) = step_findings(StepHistory(shared=(SHARED,)))
    assert isinstance(finding, TwoOptimizers) and finding.site is STEP
    assert found(shared=(replace(SHARED, returns=1),)) == []


def test_evaluation_mode_counts_if_it_lasts_to_the_last_step() -> None:
    assert found(modes=(EVALUATED,)) == [EvaluatedTraining]
    assert found(modes=(replace(EVALUATED, is_last=False),)) == []
    assert found(modes=(replace(EVALUATED, steps=1),)) == []
