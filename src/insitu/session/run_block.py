"""What a run records besides the model: a block in a frame that runs, or a decorated function."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import FrameType, FunctionType
from typing import Any

import insitu
from insitu.capture.updates import is_optimizer, mentions_optimizer, values_in
from insitu.capture.values.function_search import functions_of
from insitu.capture.values.loop_targets import LoopScope
from insitu.capture.variables.follow.callees import callees
from insitu.capture.variables.follow.definitions import nested_codes
from insitu.capture.variables.follow.line_meanings import names_in_with

OWN = os.path.join(os.path.dirname(insitu.__file__), "")


@dataclass(frozen=True)
class RunBlock:
    """A frame that runs already, or a function that is about to run with some arguments; or neither."""

    frame: FrameType | None
    function: FunctionType | None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def in_frame(cls, frame: FrameType | None) -> RunBlock:
        """The block in a frame; an `ExitStack` may have entered it. A callback of ours has no block."""
        while frame is not None and frame.f_code.co_filename == contextlib.__file__:
            frame = frame.f_back
        if frame is None or frame.f_code.co_filename.startswith(OWN):
            return NO_BLOCK
        return cls(frame, None)

    @cached_property
    def scope(self) -> LoopScope | None:
        """The code with its names. To ask for those of a frame keeps its variables alive until it ends."""
        if self.frame is not None:
            return LoopScope.of_frame(self.frame)
        if self.function is not None:
            return LoopScope.of_function(self.function)
        return None

    def expects_updates(self) -> bool:
        """Whether the code, or what it calls, refers to an optimizer: then a step ends with its update."""
        if self.scope is None:
            return False
        names = self._names(self.scope)
        values = list(values_in((self.scope.code, *nested_codes(self.scope.code)), names))
        if any(map(is_optimizer, values)):
            return True
        receiver = {"self": names["self"]} if "self" in names else {}
        functions = [function for value in values for function in functions_of(value)]
        reached = [each for function in functions for each in (function, *callees(function, names.get("self")))]
        return any(mentions_optimizer(each.__code__, {**each.__globals__, **receiver}) for each in reached)

    def _names(self, scope: LoopScope) -> dict[str, Any]:
        """What the code can refer to: in a function that runs already, the names in the block only."""
        names = {**scope.namespace, **self.arguments}
        inside = names_in_with(scope.code, self.frame.f_lineno) if self.frame is not None else None
        if inside is None:
            return names
        return {name: value for name, value in names.items() if name in inside}


NO_BLOCK = RunBlock(None, None)
