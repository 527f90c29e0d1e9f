"""Samples of the outputs of activation functions: how many are at the ends, in a few backward passes of a training.

Outside of the sampled passes nothing runs here: the strategies of handlers.py are replaced for one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.guard.loss_values import instruction_at
from insitu.capture.isolation import run_isolated
from insitu.capture.ledger import Cells
from insitu.capture.modes import skip_when_compiling
from insitu.capture.sites import Sites
from insitu.capture.tape import Tape
from insitu.capture.tensor_memory import has_values
from insitu.trace.event import Call
from insitu.trace.health_numbers import ActivationHistory, ActivationKind, ActivationSample
from insitu.trace.operation import operation

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks

NEAR = 1e-4  # how near an end an output is that counts
MOST_PLACES = 1024
MOST_SAMPLES = 16  # that are kept of each place, the latest
LEAST_OUTPUTS = 8  # of a tensor: with fewer, all can be at an end by chance

Key = tuple[Any, ...]


@dataclass(slots=True)
class SampledPlace:
    """One activation function at one place; several calls in one pass count together.

    `frames` are code objects and instructions in turn, the innermost first: no text is made while the program runs.
    """

    name: str
    path: str
    frames: list[Any]
    kind: ActivationKind
    samples: list[ActivationSample] = field(default_factory=list)

    def add(self, backward_pass: int, share: float) -> None:
        """One more call has this share of outputs at the ends."""
        if self.samples and self.samples[-1].backward_pass == backward_pass:
            share = min(share, self.samples.pop().share)
        self.samples.append(ActivationSample(backward_pass, share))
        del self.samples[:-MOST_SAMPLES]

    def history(self) -> ActivationHistory:
        """The place as plain data."""
        call = Call(-1, None, "function", self.name, site=Sites().chain(self.frames, None))
        return ActivationHistory(call, self.path, self.kind, tuple(self.samples))


class Activations:
    """The activation functions of one guard."""

    def __init__(self) -> None:
        self._places: dict[Key, SampledPlace] = {}
        self._pass = 0
        self._replaced: list[tuple[ProbeChecks, str, Any]] = []
        self._pending: list[tuple[SampledPlace, int, Cells]] = []

    def begin(self, check: ProbeChecks, backward_pass: int) -> None:
        """The next pass is sampled, and has this number."""
        self.end()
        self._pass = backward_pass
        for name, strategy in list(check.strategies.items()):
            kind = KINDS.get(operation("function", name).base)
            if kind is not None:
                self._replaced.append((check, name, strategy))
                check.strategies[name] = (strategy[0], self._sampling(check, name, kind, strategy[1]))

    def end(self) -> None:
        """The pass is over: put the strategies back."""
        self._settle()
        for check, name, strategy in self._replaced:
            check.strategies[name] = strategy
        self._replaced.clear()

    def _sampling(
        self, check: ProbeChecks, name: str, kind: ActivationKind, strategy: Callable[..., bool]
    ) -> Callable[..., bool]:
        def sample(at: int, args: Any, kwargs: Any, result: Any, first: int, count: int) -> bool:
            is_bad = strategy(at, args, kwargs, result, first, count)
            if count and not is_bad and isinstance(result, Tensor):
                self._add(check, name, kind, at, result)
            return is_bad

        skip_when_compiling(sample)
        return sample

    def _add(self, check: ProbeChecks, name: str, kind: ActivationKind, at: int, result: Tensor) -> None:
        share = run_isolated(lambda: SHARES[kind](result))
        if share is None:
            return
        deferral = check.probe.services.deferral
        number = share.item() if deferral is None or not deferral.applies_to(result) else deferral.number(share)
        frames = frames_of(check.probe.tape, at)
        key = (name, check.path, *instruction_at(frames))
        place = self._places.get(key)
        if place is None:
            if len(self._places) >= MOST_PLACES:
                return
            place = self._places[key] = SampledPlace(name, check.path, frames, kind)
        if isinstance(number, Cells):
            self._pending.append((place, self._pass, number))
        else:
            place.add(self._pass, number)

    def _settle(self) -> None:
        """Take the samples that were on their device until now."""
        pending, self._pending = self._pending, []
        for place, backward_pass, cells in pending:
            place.add(backward_pass, float(cells.read()[0]))

    def histories(self) -> tuple[ActivationHistory, ...]:
        """All places as plain data."""
        self._settle()
        return tuple(place.history() for place in self._places.values())


def frames_of(tape: Tape, at: int) -> list[Any]:
    """The frames of the user's code around a call: its own, or those of the module that it is in."""
    found = (tape.frames(each) for each in tape.ancestors(at))
    return next(filter(None, found), [])


KINDS: dict[str, ActivationKind] = {"relu": "relu", "sigmoid": "sigmoid", "tanh": "tanh", "softmax": "softmax"}


def share_of(mask: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor | None]:
    """The function that counts the outputs that a mask finds; None where there are too few to judge."""

    def share(result: Tensor) -> Tensor | None:
        values = result.detach()
        if not has_values(values) or not values.is_floating_point() or values.numel() < LEAST_OUTPUTS:
            return None
        return mask(values).float().mean()

    return share


def one_is_certain(values: Tensor) -> Tensor:
    """The rows of a softmax in which one output has it all; a row of one output always has."""
    if values.dim() == 0 or values.shape[-1] == 1:
        return values < 0
    largest = values.amax(-1)
    is_over_last = (values.sum(-1) - 1).abs().max() < NEAR  # else it is over another dimension
    return (largest > 1 - NEAR) & is_over_last


SHARES: dict[ActivationKind, Callable[[Tensor], Tensor | None]] = {
    "relu": share_of(lambda values: values == 0),
    "sigmoid": share_of(lambda values: (values < NEAR) | (values > 1 - NEAR)),
    "tanh": share_of(lambda values: values.abs() > 1 - NEAR),
    "softmax": share_of(one_is_certain),
}
