"""Gradients of a model, taken when an optimizer is about to use them."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from insitu.capture.keep import local

if TYPE_CHECKING:
    from insitu.capture.values import Taking


class Gradients:
    """Gradients as an optimizer finds them, or as the step leaves them where there is no optimizer of torch."""

    def __init__(self, taking: Taking) -> None:
        self._taking = taking
        self._pending: dict[str, Tensor] = {}
        self._stash: dict[str, Tensor] = {}
        self._has_optimizer = False

    def start(self, undo: ExitStack) -> None:
        """Listen to the backward passes and to the optimizers."""
        if not self._taking.targets.gradients:
            return
        for module, name, path in self._taking.targets.gradients:
            parameter = getattr(module, name)
            if parameter.requires_grad and parameter.is_leaf:
                hook = parameter.register_post_accumulate_grad_hook(functools.partial(self._ready, path))
                undo.callback(hook.remove)
        undo.callback(register_optimizer_step_pre_hook(self._before_update).remove)
        undo.callback(register_optimizer_step_post_hook(self._after_update).remove)

    def _ready(self, path: str, parameter: Tensor) -> None:
        if not self._taking.is_active:
            return
        try:
            self._pending[path] = parameter
            if parameter.grad is not None:  # it may be gone before the step ends, and no optimizer has used it
                grad = local(parameter.grad).detach()
                self._stash[path] = grad if self._has_optimizer else grad.clone()
        except Exception as error:
            self._taking.trouble("noting a gradient", error)

    def _before_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not any(callable(argument) for argument in (*args, *kwargs.values())):  # else the backward pass comes in it
            self._after_update(optimizer, args, kwargs)

    def _after_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._has_optimizer = True
        try:
            owned = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
            for path, parameter in list(self._pending.items()):
                if id(parameter) in owned:
                    self._taking.take(path, parameter.grad)
                    self._pending.pop(path, None)
                    self._stash.pop(path, None)
        except Exception as error:
            self._taking.trouble("taking gradients", error)

    def finish(self) -> None:
        """The step ends: take what no optimizer has asked for."""
        for path, parameter in self._pending.items():
            grad = parameter.grad if parameter.grad is not None else self._stash.get(path)
            if grad is not None:
                self._taking.take(path, grad)
        self._pending.clear()
        self._stash.clear()
