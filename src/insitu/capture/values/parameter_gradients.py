"""Gradients of parameters, recorded when an optimizer is about to use them; and the updates that it makes."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from insitu.capture.isolation import run_isolated
from insitu.capture.modes import skip_all_when_compiling
from insitu.capture.tensor_memory import local_part
from insitu.capture.values.intake import text_of
from insitu.capture.values.targets import Targets
from insitu.errors import is_interrupt

if TYPE_CHECKING:
    from insitu.capture.values.value_recorder import ValueRecorder


class ParameterGradients:
    """Gradients as an optimizer finds them; without an optimizer of torch, as they are at the end of the step.

    `TensorGradients` of a probe notes the gradient of every tensor in the backward pass. A recording wants those of
    parameters only, after they were accumulated, scaled and clipped: so it listens to parameters and optimizers.
    """

    def __init__(self, recorder: ValueRecorder) -> None:
        self._recorder = recorder
        self._pending: dict[str, Tensor] = {}
        self._stash: dict[str, Tensor] = {}
        self._has_optimizer = False
        self._is_listening = False

    @property
    def are_pending(self) -> bool:
        """Whether there are gradients that no optimizer has used."""
        return bool(self._pending)

    def start(self, undo: ExitStack, targets: Targets) -> None:
        """Listen to the backward passes of one model, and to the optimizers."""
        for target in targets.gradients:
            parameter = getattr(target.module, target.name)
            if parameter.requires_grad and parameter.is_leaf:
                hook = parameter.register_post_accumulate_grad_hook(functools.partial(self._ready, target.path))
                undo.callback(hook.remove)
        if not self._is_listening:
            self._listen(undo, targets)

    def _listen(self, undo: ExitStack, targets: Targets) -> None:
        """Listen to the optimizers, which are those of all models."""
        needs_updates = bool(targets.gradients) or (bool(targets.parameters) and self._recorder.sink.is_early)
        if not needs_updates:
            return
        self._is_listening = True
        undo.callback(setattr, self, "_is_listening", False)
        undo.callback(register_optimizer_step_pre_hook(self._before_update).remove)
        undo.callback(register_optimizer_step_post_hook(self._after_update).remove)

    def _ready(self, path: str, parameter: Tensor) -> None:
        if not self._recorder.is_active:
            return
        try:
            self._pending[path] = parameter
            if parameter.grad is not None:  # it may be gone before the step ends, and no optimizer has used it
                grad = local_part(parameter.grad).detach()
                self._stash[path] = grad if self._has_optimizer else grad.clone()
        except Exception as error:
            if is_interrupt(error):
                raise
            self._recorder.leave_out(path, text_of(error))

    def _before_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not any(callable(argument) for argument in (*args, *kwargs.values())):  # else the backward pass comes in it
            self._take_used(ids_of(optimizer))

    def _after_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        owned = ids_of(optimizer)
        self._take_used(owned)
        self._recorder.after_update(owned)

    def _take_used(self, owned: set[int]) -> None:
        self._has_optimizer = True
        if not self._pending or not self._recorder.is_active:
            return
        try:
            used = [path for path, parameter in self._pending.items() if id(parameter) in owned]
            with self._recorder.lock:
                run_isolated(functools.partial(self._take, used))
        except Exception as error:
            if is_interrupt(error):
                raise
            self._recorder.trouble("taking gradients", error)

    def _take(self, paths: list[str]) -> None:
        """Take gradients; one that was taken is no longer pending."""
        uses = self._recorder.now.uses
        for path in paths:
            grad, use = self._pending[path].grad, uses.get(path, 0)
            if grad is None:
                grad = self._stash.get(path)
            if grad is not None:
                self._recorder.settle(path, grad, use)
            uses[path] = use + 1
            del self._pending[path]

    def take_rest(self) -> None:
        """Take the gradients that no optimizer has used: the step ends."""
        self._take(list(self._pending))
        self._stash.clear()


skip_all_when_compiling(ParameterGradients._ready, ParameterGradients._before_update, ParameterGradients._after_update)


def ids_of(optimizer: Any) -> set[int]:
    """The ids of the parameters of an optimizer; nothing, if its class keeps them elsewhere."""
    groups = getattr(optimizer, "param_groups", ())
    return {id(parameter) for group in groups for parameter in group.get("params", ())}
