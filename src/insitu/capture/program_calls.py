"""The models of a whole program, which nobody has named: modules with parameters that no other module calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from threading import get_ident
from typing import Any

import torch
from torch import nn

from insitu.capture.compiled import regions
from insitu.capture.modes import skip_all_when_compiling, skip_when_compiling
from insitu.capture.modules import ValueProbe, patch
from insitu.capture.names import weight_of, wrapping
from insitu.capture.step_rule import StepRule

# Takes a model that is called, and returns a probe that is to hear this call, if the patch does not know it yet.
Learn = Callable[[nn.Module], ValueProbe | None]
MODEL = 2  # the weight of a module that has parameters


class OutermostModules(dict[int, Any]):
    """Has every module that is called while no model runs in this thread: only such calls are heard."""

    def __init__(self, threads: set[int]) -> None:
        super().__init__()
        self._threads = threads

    def __contains__(self, key: object) -> bool:
        return get_ident() not in self._threads


class ProgramCalls:
    """Hears the outermost calls of all models of a program, for the rule of its steps."""

    def __init__(self, rule: StepRule, learn: Learn = lambda model: None, *, is_counted: bool) -> None:
        self._rule, self._learn = rule, learn
        self._is_counted = is_counted  # without an optimizer, a step ends with a call
        self._threads: set[int] = set()  # those in which a model runs
        self._hearing: dict[int, tuple[ValueProbe, bool]] = {}  # for a compiled region, by thread
        self.modules: dict[int, Any] = OutermostModules(self._threads)

    def is_model(self, module: nn.Module) -> bool:
        """Whether the calls of a module are heard."""
        return weight_of(module) >= MODEL

    def start(self, undo: ExitStack) -> None:
        """Begin to hear."""
        regions.begin()
        undo.callback(regions.end)
        patch.add_value_probe(self)
        undo.callback(patch.remove_value_probe, self)

    def on_module(self, run: Callable[..., Any], module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """Run a module that no model calls."""
        if not self.is_model(module):
            return run(module, *args, **kwargs)
        ident = get_ident()
        try:
            probe = self._begin(module, ident)
            if probe is not None:
                return probe.on_module(run, module, *args, **kwargs)
            return run(module, *args, **kwargs)
        finally:
            self._threads.discard(ident)

    def enter(self, module: nn.Module) -> bool:
        """A compiled region of a module begins; whether it is a model."""
        if not self.is_model(module):
            return False
        ident = get_ident()
        probe = self._begin(module, ident)
        if probe is not None:
            self._hearing[ident] = (probe, probe.enter(module))
        return True

    def leave(self, module: nn.Module, result: Any, error: BaseException | None, *, is_step: bool) -> None:
        """The compiled region, with which `enter` was called, has ended."""
        ident = get_ident()
        if is_step:
            self._threads.discard(ident)
        hearing = self._hearing.pop(ident, None)
        if hearing is not None:
            probe, is_step_of_probe = hearing
            probe.leave(module, result, error, is_step=is_step_of_probe)

    def _begin(self, module: nn.Module, ident: int) -> ValueProbe | None:
        """A call of a model begins: it may begin a step, and be the first one of the model."""
        self._threads.add(ident)
        probe = self._learn(module)
        if self._is_counted and self._rule.end == "value":
            self._rule.count_calls()
        if len(self._threads) == 1 and self._may_begin():  # calls of several threads at a time are one step
            self._rule.begin()
        self._rule.note("call")
        return probe

    def _may_begin(self) -> bool:
        """Whether a call may begin a step: an evaluation between two updates does not."""
        if self._rule.end == "update":
            return torch.is_grad_enabled()
        return self._rule.end == "call"


class SubjectCalls(ProgramCalls):
    """Hears the outermost calls of one model, or of a wrapper around it."""

    def __init__(self, rule: StepRule, subject: nn.Module, learn: Learn = lambda model: None) -> None:
        super().__init__(rule, learn, is_counted=True)
        self._roots = {id(module) for module in wrapping(subject)}

    def is_model(self, module: nn.Module) -> bool:
        """Whether a module is the model."""
        return id(module) in self._roots


skip_when_compiling(ProgramCalls.on_module, ProgramCalls.enter, ProgramCalls.leave, OutermostModules.__contains__)
skip_when_compiling(ProgramCalls.is_model, SubjectCalls.is_model)
skip_all_when_compiling(ProgramCalls._begin)
