"""The numbers that a guard samples: losses, activations, updates; `trace.health_numbers` judges them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from insitu.capture.guard.activations import Activations
from insitu.capture.guard.loss_values import Losses
from insitu.capture.guard.weight_updates import WeightUpdates
from insitu.trace.health_numbers import NumberHistory

FIRST_SAMPLE = 3  # the backward pass whose activations are looked at first: the passes before are slow anyway

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks


class TrainingNumbers:
    """What is sampled; `is_due` says whether a backward pass, or a step, is looked at closely.

    `paths` returns the paths of the parameters, by id.
    """

    def __init__(self, is_due: Callable[[int], bool], paths: Callable[[], dict[int, str]]) -> None:
        self._is_due = is_due
        self._losses, self._activations, self._updates = Losses(), Activations(), WeightUpdates(paths)
        self._passes = 0

    def begin_backward(self, check: ProbeChecks, at: int, args: Any) -> None:
        """A backward pass begins at the call at an offset."""
        self._losses.add(check, at, args, self._passes)

    def end_backward(self, check: ProbeChecks) -> None:
        """A backward pass has ended: what runs from now on belongs to the next."""
        self._passes += 1
        if self._passes >= FIRST_SAMPLE and self._is_due(self._passes):
            self._activations.begin(check, self._passes)
        else:
            self._activations.end()

    def begin_step(self, optimizer: Any, number: int) -> None:
        """A step of an optimizer begins, which has this number."""
        if self._is_due(number):
            self._updates.begin(optimizer)

    def end_step(self, optimizer: Any) -> None:
        """A step of an optimizer has ended."""
        self._updates.end(optimizer)

    def stop(self) -> None:
        """The guard has ended."""
        self._activations.end()

    def losses(self) -> NumberHistory:
        """The numbers of the losses only."""
        return NumberHistory(spikes=self._losses.spikes())

    def history(self) -> NumberHistory:
        """All numbers as plain data."""
        return NumberHistory(
            activations=self._activations.histories(),
            updates=tuple(self._updates.histories()),
            spikes=self._losses.spikes(),
            outliers=self._losses.outliers(),
        )
