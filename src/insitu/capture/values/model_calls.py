"""Calls of a model and its modules: which call is the outermost one, and the outputs that are yet to be taken."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import nn

from insitu.capture.names import innermost_module, wrapping
from insitu.capture.values.targets import Targets
from insitu.trace.path import Segments

Wanted = dict[str, set[Segments]]  # by path, the parts of an output that are recorded


class Output(NamedTuple):
    """The output of a module, and what is wanted of it."""

    wanted: Wanted
    value: Any


class ModelCalls:
    """The calls of a model, or of several. The outermost call of a model, or of a wrapper around it, is a step."""

    def __init__(self, model: nn.Module, targets: Targets) -> None:
        self.model = innermost_module(model)
        self._roots: set[int] = set()
        self.modules: dict[int, Wanted | None] = {}
        self.add(model, targets)
        self.threads: set[int] = set()  # those in which the model runs
        self.outputs: list[Output] = []

    def add(self, model: nn.Module, targets: Targets) -> None:
        """Hear the calls of one more model."""
        roots = {id(module) for module in wrapping(model)}
        self._roots |= roots
        self.modules.update(targets.outputs)
        self.modules.update(dict.fromkeys(roots, targets.outputs.get(id(innermost_module(model)))))

    def is_outermost(self, module: nn.Module, ident: int) -> bool:
        """Whether a call of a module is the outermost one of the model in a thread."""
        return id(module) in self._roots and ident not in self.threads

    def add_output(self, module: nn.Module, value: Any, *, is_step: bool) -> None:
        """Keep an output until it is taken. A wrapper returns the output of the model: only the outermost counts."""
        wanted = self.modules.get(id(module))
        is_repeated = id(module) in self._roots and not is_step
        if wanted is not None and not is_repeated:
            self.outputs.append(Output(wanted, value))
