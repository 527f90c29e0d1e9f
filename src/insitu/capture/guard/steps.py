"""What a guard sees of the logic of training steps: modes, owners of parameters, accumulation, clipping, data."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from insitu.capture.explain.reading import Reading
from insitu.capture.guard.accumulation import Accumulation
from insitu.capture.guard.clipping import clip_before_unscaling
from insitu.capture.guard.data import broadcast_pairs, byte_input
from insitu.capture.guard.evaluation import Modes, Window
from insitu.capture.guard.facts import input_values, outermost_modules, own_tensors
from insitu.capture.guard.hidden_layers import HiddenLayerSearch
from insitu.capture.guard.loss_dependence import LossDependence
from insitu.capture.guard.masks import padding_masks
from insitu.capture.guard.method_calls import Trouble
from insitu.capture.guard.optimizers import OptimizerSteps, parameters_of
from insitu.capture.guard.ownership import Ownership
from insitu.trace.step_health import BroadcastPair, ByteInput, PaddingMask, ScaledClip, StepHistory

if TYPE_CHECKING:
    from collections.abc import Callable

    from insitu.capture.guard.check import GuardChecks, ProbeChecks
    from insitu.capture.probe import Probe


class StepLogic:
    """Collects the facts of steps; `checks_here` returns the checks of the guard in this thread."""

    def __init__(
        self,
        checks: GuardChecks,
        checks_here: Callable[[], list[ProbeChecks]],
        model: nn.Module | None,
        trouble: Trouble,
    ) -> None:
        self._checks, self._checks_here, self._model = checks, checks_here, model
        self.ownership = Ownership(trouble)
        self._modes = Modes(checks_here, trouble)
        self._accumulation = Accumulation()
        self._hidden = HiddenLayerSearch()
        self._dependence = LossDependence()
        self._stepping: list[int] = []  # the optimizers that step, one inside the other, by their ids
        self._since: Window | None = None  # what follows the last backward pass
        self._clip: ScaledClip | None = None
        self._has_data = False  # whether the data of the first backward pass was looked at
        self._bytes: ByteInput | None = None
        self._broadcasts: tuple[BroadcastPair, ...] = ()
        self._masks: tuple[PaddingMask, ...] = ()

    def start(self, undo: ExitStack) -> None:
        """Listen to what is not on the tape."""
        self.ownership.start(undo)
        self._modes.start(undo)

    # Backward passes.

    def begin_backward(self) -> None:
        """A backward pass begins."""
        self._accumulation.begin_backward()

    def end_backward(self, probe: Probe, at: int, parameters: Iterable[Tensor | None]) -> None:
        """A backward pass has ended."""
        self._accumulation.end_backward(tuple(probe.tape.frames(at)[:2]), parameters)
        if probe.check is not None:
            self._since = Window(probe.check, probe.check.gone + at)
        if self._accumulation.is_due or not self._has_data:
            with Reading(probe.tape, with_nestings=self._accumulation.is_due) as reading:
                self._look_at_pass(reading, at)
        if not self._dependence.is_settled:
            self._look_at_dependence(probe, at)

    def _look_at_pass(self, reading: Reading, at: int) -> None:
        if self._accumulation.is_due:
            self._accumulation.look_at_loss(reading, at, is_scaled=self._checks.is_scaled)
        if not self._has_data:
            self._has_data = True
            self._bytes = byte_input(reading)
            self._masks = tuple(padding_masks(reading))
            self._broadcasts = tuple(broadcast_pairs(reading, input_values(reading, at)))

    def _look_at_dependence(self, probe: Probe, at: int) -> None:
        if self._dependence.is_due:
            constants = {id(tensor) for _, tensor in own_tensors(probe)}
            with Reading(probe.tape) as reading:
                self._dependence.look(reading, at, constants)
        self._dependence.end_backward()

    # Steps.

    def begin_step(self, optimizer: Any, steps: OptimizerSteps, frame: FrameType, *, is_sampled: bool) -> None:
        """An optimizer is about to step; one that steps inside of another does its work."""
        self._forget_step(optimizer)  # an exception may have ended it
        self._stepping.append(id(optimizer))
        if len(self._stepping) > 1:
            return
        self._accumulation.begin_step(id(optimizer), frame, is_scaled=self._checks.is_scaled)
        self.ownership.begin_step(steps, optimizer, is_sampled=is_sampled)
        if not is_sampled:
            return
        self._modes.see_step(self._roots(), steps.moved)
        self._look_for_hidden_layers(optimizer)
        if self._checks.is_scaled and self._clip is None:
            self._find_clip(optimizer, steps)

    def _look_for_hidden_layers(self, optimizer: Any) -> None:
        moved = set(map(id, parameters_of(optimizer)))
        for check in self._checks_here():
            self._hidden.look(list(check.probe.names.callees.values()), moved)

    def _find_clip(self, optimizer: Any, steps: OptimizerSteps) -> None:
        if self._since is None:
            return
        gradients = {id(each.grad) for each in parameters_of(optimizer) if each.grad is not None}
        with Reading(self._since.check.probe.tape) as reading:
            at = clip_before_unscaling(reading, self._since.offset, gradients)
            if at is not None:
                self._clip = ScaledClip(reading.call(at), steps.name)

    def end_step(self, optimizer: Any) -> None:
        """An optimizer has stepped, and with it those inside."""
        self._forget_step(optimizer)
        self._modes.end_step()

    def _forget_step(self, optimizer: Any) -> None:
        if id(optimizer) in self._stepping:
            del self._stepping[self._stepping.index(id(optimizer)) :]

    def _roots(self) -> Iterator[tuple[str, nn.Module]]:
        """The model or, without one, the outermost modules that were called, with their paths."""
        if self._model is not None:
            yield "", self._model
            return
        for check in self._checks_here():
            yield from outermost_modules(check.probe)

    @property
    def resting(self) -> set[int]:
        """The ids of parameters that are left out of the training on purpose."""
        return self._modes.resting

    # The end.

    def history(
        self, optimizers: dict[int, OptimizerSteps], paths: dict[int, str], owned: Container[int]
    ) -> StepHistory:
        """The steps as plain data; `owned` are the ids of the parameters that optimizers have."""
        return StepHistory(
            modes=self._modes.histories(),
            dropouts=self._modes.dropouts(),
            last_evaluation=self._modes.last_evaluation(),
            shared=tuple(self.ownership.shared(optimizers.values(), paths)),
            accumulations=tuple(self._accumulation.histories(optimizers)),
            clip=self._clip,
            bytes=self._bytes,
            broadcasts=self._broadcasts,
            masks=self._masks,
            unrelated=self._dependence.history(),
            hidden=tuple(each for each in self._hidden.histories(owned) if not self._checks.is_allowed("", each.path)),
        )
