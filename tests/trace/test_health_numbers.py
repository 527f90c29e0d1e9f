"""The numbers of a training, judged on histories made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from insitu.trace.event import Call, Site
from insitu.trace.findings import DeadActivation, Finding, LossSpike, SaturatedActivation, UnusualUpdates
from insitu.trace.health_numbers import (
    ActivationHistory,
    ActivationSample,
    NumberHistory,
    SpikeRecord,
    UpdateHistory,
    has_recovered,
    is_spike,
    number_findings,
)

CALL = Call(1, None, "function", "torch.relu", site=Site("train.py", 3, "forward"))
UPDATES = UpdateHistory("head.weight", (0.01,) * 8, (0.1,) * 8, scale=0.1)
SPIKE = SpikeRecord(CALL, 40, 9.0, 1.0)


def activation(kind: str, *shares: float) -> NumberHistory:
    samples = tuple(ActivationSample(number, share) for number, share in enumerate(shares, 3))
    return NumberHistory(activations=(ActivationHistory(CALL, "act", kind, samples),))  # type: ignore[arg-type]


def updates(*histories: UpdateHistory) -> NumberHistory:
    return NumberHistory(updates=histories)


CASES: dict[str, tuple[NumberHistory, list[type[Finding]]]] = {
    "nothing": (NumberHistory(), []),
    "a ReLU that dies": (activation("relu", 0.5, 1.0, 1.0, 1.0), [DeadActivation]),
    "a ReLU that is zero twice": (activation("relu", 0.5, 1.0, 1.0), []),
    "a ReLU that lives again": (activation("relu", 1.0, 1.0, 1.0, 0.9), []),
    "a sparse ReLU": (activation("relu", 0.999, 0.999, 0.999), []),
    "a tanh that saturates": (activation("tanh", 0.1, 0.995, 0.995, 1.0), [SaturatedActivation]),
    "a tanh that does not": (activation("tanh", 0.98, 0.98, 0.98), []),
    "a sigmoid that begins saturated": (activation("sigmoid", 1.0, 1.0, 0.995), [SaturatedActivation]),
    "a sigmoid that becomes certain": (activation("sigmoid", 0.2, 1.0, 1.0, 1.0), []),
    "a softmax that begins certain": (activation("softmax", 1.0, 1.0, 1.0), [SaturatedActivation]),
    "usual updates": (updates(UPDATES), []),
    "lasting large updates": (updates(replace(UPDATES, ratios=(0.7,) * 6)), [UnusualUpdates]),
    "large updates at first": (updates(replace(UPDATES, ratios=(0.7, 0.7, 0.4, 0.2, 0.1, 0.05))), []),
    "a weight that is replaced": (updates(replace(UPDATES, ratios=(90.0, 0.7, 0.9, 0.1))), [UnusualUpdates]),
    "a weight that begins near zero": (updates(replace(UPDATES, ratios=(90.0, 2.0, 0.9), scale=1e-5)), []),
    "small updates": (updates(replace(UPDATES, ratios=(1e-9,) * 4)), [UnusualUpdates]),
    "small updates of one of two": (updates(replace(UPDATES, ratios=(1e-9,) * 4), UPDATES), []),
    "small updates of a warm-up": (updates(replace(UPDATES, ratios=(1e-9,) * 4, rates=(1e-9, 1e-8))), []),
    "no updates at all": (updates(replace(UPDATES, ratios=(0.0,) * 4)), []),
    "a spike": (NumberHistory(spikes=(SPIKE, replace(SPIKE, loss=20.0))), [LossSpike]),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_far_out_have_their_finding_and_others_none(name: str) -> None:
    numbers, expected = CASES[name]
    assert [type(finding) for finding in number_findings(numbers)] == expected


def test_a_dead_relu_is_named_with_the_pass_it_died_in() -> None:
    (finding,) = number_findings(activation("relu", 0.5, 0.5, 1.0, 1.0, 1.0))
    assert isinstance(finding, DeadActivation) and (finding.since, finding.samples) == (5, 3)
    assert "returned only zeros in 3 sampled backward passes, since backward pass 5" in finding.text


def test_the_largest_spike_of_a_place_is_reported() -> None:
    (finding,) = number_findings(NumberHistory(spikes=(SPIKE, replace(SPIKE, loss=20.0))))
    assert isinstance(finding, LossSpike) and finding.loss == 20.0
    assert "not known" in finding.text


@pytest.mark.parametrize(
    ("loss", "window", "first", "expected"),
    [
        (9.0, [1.0, 1.1] * 8, 1.0, True),
        (9.0, [1.0, 1.1] * 7, 1.0, False),  # too few losses
        (3.0, [1.0, 1.1] * 8, 1.0, False),  # not far enough
        (9.0, [-4.0, 4.0] * 8, 4.0, False),  # losses around zero vary
        (1e-6, [1e-8, 2e-8] * 8, 1.0, False),  # a training that has converged
        (9.0, [1.0] * 15 + [3.0], 1.0, False),  # it has happened before
    ],
)
def test_a_spike_is_far_above_the_median_and_above_all_losses_before(
    loss: float, window: list[float], first: float, expected: bool
) -> None:
    assert is_spike(loss, window, first) == expected


def test_a_loss_that_stays_high_is_not_a_spike() -> None:
    assert has_recovered(9.0, [1.0, 1.2, 0.9]) and not has_recovered(9.0, [8.0, 9.0, 7.0]) and has_recovered(9.0, [])
