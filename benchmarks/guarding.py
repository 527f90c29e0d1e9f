"""A guard on the training step of a tiny GPT2: against the same session without checks, and against torch's own.

A guard that keeps the last steps is measured against one that does not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import torch

import insitu
from benchmarks.measure import Effort, Row, at_most, in_turn, told
from benchmarks.models import PASSES, Subject, gpt2

ROUNDS = 4  # of the passes of a training, so that 40 steps are more than the last 20


def training(subject: Subject, optimizer: torch.optim.Optimizer | None) -> Callable[[], None]:
    """Some steps of training, with an optimizer or without."""

    def steps() -> None:
        for _ in range(PASSES):
            subject.forward()[0].square().mean().backward()  # type: ignore[index]
            if optimizer is not None:
                optimizer.step()
            subject.model.zero_grad()

    return steps


def rows(effort: Effort) -> Iterator[Row]:
    """Forward and backward, which is the target; then with an optimizer."""
    subject = gpt2()
    subject.model.train()
    yield from guarded(effort, "GPT2, forward and backward", training(subject, None), 1.35)
    optimizer = torch.optim.SGD(subject.model.parameters(), 1e-4)
    yield from guarded(effort, "GPT2, with SGD", training(subject, optimizer), 1.35)
    yield from with_last_steps(effort, "GPT2, with SGD", training(subject, optimizer), None)
    yield from with_last_steps(effort, "GPT2, with SGD, guard(model)", training(subject, optimizer), subject.model)


def with_last_steps(
    effort: Effort, name: str, steps: Callable[[], None], model: torch.nn.Module | None
) -> Iterator[Row]:
    """A guard that keeps the last steps, against one that does not, over enough steps for both."""

    def in_guard() -> None:
        with insitu.guard(model):
            for _ in range(ROUNDS):
                steps()

    def in_flight_recorder() -> None:
        with insitu.guard(model, last=20):
            for _ in range(ROUNDS):
                steps()

    times = in_turn({"guard": in_guard, "last": in_flight_recorder}, effort.repeats(15))
    yield Row(f"guard with last=20 / guard: {name}", times.ratio("last", "guard"), at_most(1.15))


def guarded(effort: Effort, name: str, steps: Callable[[], None], target: float) -> Iterator[Row]:
    """One training in all ways."""

    def in_record() -> None:
        with insitu.record():
            steps()

    def in_guard() -> None:
        with insitu.guard():
            steps()

    def in_anomaly() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with torch.autograd.detect_anomaly():
                steps()

    times = in_turn({"alone": steps, "record": in_record, "guard": in_guard, "anomaly": in_anomaly}, effort.repeats(15))
    note = f"alone {told(times.ratio('record', 'alone'))} without checks, {told(times.ratio('guard', 'alone'))} with"
    yield Row(f"guard / record: {name}", times.ratio("guard", "record"), at_most(target), note=note)
    yield Row(f"detect_anomaly / guard: {name}", times.ratio("anomaly", "guard"), None)
