"""The health of a training, from histories made by hand: nothing here needs torch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from insitu.trace.event import Call, Site
from insitu.trace.findings import (
    ExplodingGradients,
    Finding,
    FrozenParameters,
    MissingGradients,
    OptimizerGap,
    StaleGradients,
    StuckParameters,
    VanishingGradients,
)
from insitu.trace.health import OptimizerHistory, ParameterHistory, TrainingHistory, health_findings

CALL = Call(1, None, "function", "torch.Tensor.detach", site=Site("train.py", 3, "step"))


def training(*parameters: ParameterHistory, **more: Any) -> TrainingHistory:
    """Four healthy steps with a healthy parameter, and with others."""
    optimizers = more.pop("optimizers", (OptimizerHistory("SGD", 4, 0.1),))
    norms = {"first_norms": (1.0, 2.0, 1.0), "largest_norm": 2.0} | more
    healthy = ParameterHistory("head.weight", peak=1.0, samples=4)
    return TrainingHistory((healthy, *parameters), optimizers, **{"passes": 4, **norms})


def found(history: TrainingHistory) -> list[tuple[type[Finding], tuple[str, ...]]]:
    return [(type(each), getattr(each, "paths", ())) for each in health_findings(history)]


BODY = ParameterHistory("body.weight", peak=1.0, samples=4)
VANISHED = replace(BODY, share=1e-8, peak=1e-8)
FROZEN = replace(BODY, requires_grad=False, has_gradient=False, has_changed=False, is_layer=True)
MISSING = replace(BODY, has_gradient=False, has_changed=False, samples=0)

CASES: dict[str, tuple[TrainingHistory, list[type[Finding]]]] = {
    "a healthy training": (training(BODY), []),
    "no step": (training(replace(BODY, has_changed=False), optimizers=()), []),
    "one step": (training(replace(BODY, has_changed=False), optimizers=(OptimizerHistory("SGD", 1),)), []),
    "no gradient": (training(MISSING), [MissingGradients]),
    "no gradient after one pass": (training(MISSING, passes=1), []),
    "no gradient, but changed": (training(replace(MISSING, has_changed=True)), []),
    "no gradient, without a model": (
        training(replace(MISSING, has_optimizer=False), has_model=False, optimizers=()),
        [],
    ),
    "a gradient that explodes": (training(replace(BODY, peak=1e6)), [ExplodingGradients]),
    "a large gradient of a large weight": (training(replace(BODY, peak=1e6, norm=1e3)), []),
    "all gradients explode": (training(replace(BODY, peak=5e3), largest_norm=5e3), [ExplodingGradients]),
    "gradients that grow and stay small": (training(first_norms=(1e-3,), largest_norm=50.0), []),
    "all gradients grow from nothing": (training(first_norms=(0.0, 0.0, 0.0), largest_norm=300.0), []),
    "all gradients explode from nothing": (
        training(replace(BODY, peak=5e3), first_norms=(0.0, 0.0, 0.0), largest_norm=5e3),
        [ExplodingGradients],
    ),
    "a gradient that vanishes": (training(VANISHED), [VanishingGradients]),
    "a bias whose gradient vanishes": (training(replace(VANISHED, is_matrix=False)), []),
    "a gradient that only looks small beside a huge one": (training(replace(VANISHED, peak=0.1)), []),
    "three samples are not enough": (training(replace(VANISHED, samples=3)), []),
    "frozen late": (training(FROZEN), [FrozenParameters]),
    "frozen late, and left out of the optimizer": (training(replace(FROZEN, has_optimizer=False)), []),
    "a frozen table": (training(replace(FROZEN, is_layer=False)), []),
    "left out of the optimizer": (training(replace(BODY, has_changed=False, has_optimizer=False)), [OptimizerGap]),
    "a loss with parameters of its own": (
        training(replace(BODY, has_changed=False, has_optimizer=False, is_trained=False)),
        [],
    ),
    "too small updates": (training(replace(BODY, has_changed=False)), [StuckParameters]),
    "a bias with too small updates": (training(replace(BODY, has_changed=False, is_matrix=False)), []),
    "gradients that are not set to zero": (
        training(optimizers=(OptimizerHistory("SGD", 5, 0.1, 4, CALL),)),
        [StaleGradients],
    ),
    "gradients that are accumulated on purpose": (training(optimizers=(OptimizerHistory("SGD", 5, 0.1, 2, CALL),)), []),
}


@pytest.mark.parametrize("name", CASES)
def test_each_fault_of_a_training_has_its_finding(name: str) -> None:
    history, kinds = CASES[name]
    assert [kind for kind, _ in found(history)] == kinds


def test_layers_that_were_frozen_before_are_fine_tuning() -> None:
    (tuned,) = health_findings(training(replace(FROZEN, was_frozen=True)))
    assert isinstance(tuned, FrozenParameters) and tuned.is_fine_tuning and tuned.severity == "info"
    (late,) = health_findings(training(FROZEN))
    assert late.severity == "warning"


def test_parameters_that_are_frozen_with_a_layer_are_named_with_it() -> None:
    scale = replace(FROZEN, path="scale", is_layer=False)
    assert found(training(scale, FROZEN)) == [(FrozenParameters, ("scale", "body.weight"))]


def test_a_model_without_any_gradient_is_evaluated_unless_an_optimizer_has_it() -> None:
    alone = TrainingHistory((replace(MISSING, has_optimizer=False),), passes=4)
    assert found(alone) == []
    (finding,) = health_findings(replace(alone, parameters=(MISSING, replace(MISSING, path="b")), cut=CALL))
    assert isinstance(finding, MissingGradients) and finding.is_every and finding.passes == 4
    assert finding.call is CALL and finding.site is CALL.site


def test_a_learning_rate_of_zero_names_biases_too() -> None:
    bias = replace(BODY, path="bias", has_changed=False, is_matrix=False)
    history = training(bias, optimizers=(OptimizerHistory("SGD", 4, 0.0),))
    assert found(history) == [(StuckParameters, ("bias",))]
