"""What capture hands over to explain a failure: the exception, the frames it left, the calls before it."""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

from insitu.trace.event import Opaque
from insitu.trace.explain.failure_history import FailureHistory, Instruction, TensorToken

# Code that the user did not write, unless a model is written in it.
LIBRARIES = tuple(os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "purelib", "platlib"))
UNKNOWN = Opaque("unknown")


def _unknown_attribute(name: str) -> Any:
    return UNKNOWN


@dataclass(slots=True, frozen=True)
class ObjectSnapshot:
    """An object that a name refers to and that is neither a tensor nor plain data.

    `module_type` is the class of a torch module, else empty; `attribute` reads an attribute without running code.
    """

    module_type: str = ""
    attribute: Callable[[str], Any] = _unknown_attribute


@dataclass(slots=True, frozen=True)
class FrameSnapshot:
    """One frame: its code, the instruction it had come to, and the values of its names, with tensors as tokens.

    `is_hidden` says that the code is torch's, or ours.
    """

    code: CodeType
    lasti: int
    names: Mapping[str, Any] = field(default_factory=dict)
    is_hidden: bool = False


# The frame of a failure that left none.
NO_FRAME = FrameSnapshot(compile("", "", "exec"), 0, is_hidden=True)


@dataclass(slots=True, frozen=True)
class InPlaceChange:
    """A call that needs a tensor for its gradient, and the later one that changed the tensor in place, if it is known.

    `parameter` is the path of the tensor, if it is a parameter. `handed_out` is the call that made a view of the tensor
    on another line than the one that needs it.
    """

    needed_by: int
    changed_by: int | None
    parameter: str = ""
    handed_out: int | None = None


class LiveTensors:
    """What only the tensors themselves can answer. This class knows none that is still alive."""

    def parameter_path(self, tensor: TensorToken) -> str:
        """The path of a parameter or buffer of the modules around the call; empty for other tensors."""
        return ""

    def initializer(self, tensor: TensorToken) -> int | None:
        """The recorded call whose result is this parameter: the first one."""
        return None

    def users(self, tensor: TensorToken) -> list[int]:
        """The recorded calls that took this tensor."""
        return []

    def limits(self, tensor: TensorToken) -> tuple[float, float] | None:
        """The smallest and the largest value of a tensor, if it is alive and has not changed since."""
        return None

    def present_limits(self, tensor: TensorToken) -> tuple[float, float] | None:
        """The smallest and the largest value that a tensor has now, if it is alive; it may have changed since."""
        return None

    def first_outside(self, tensor: TensorToken, low: float, high: float) -> tuple[int, float] | None:
        """The index and the value of the first element of a list of numbers that is not within limits."""
        return None

    def nan_parameters(self) -> tuple[str, ...]:
        """The paths of the parameters that hold NaN: of the model around the failure, else of the last one called."""
        return ()

    def in_place_change(self, loss: TensorToken | None, message: str, end: int) -> InPlaceChange | None:
        """The change of a tensor that the backward pass of a loss needs."""
        return None

    def custom_backward(self, loss: TensorToken | None, function: str) -> CodeType | None:
        """The `backward` of a custom autograd function in the graph of a loss."""
        return None


@dataclass(slots=True, frozen=True)
class Failure:
    """An exception and what was known when it passed.

    `at` is the recorded call that it passed through, `end` the length of the history at that moment. `own` is the
    innermost frame of the user's code, NO_FRAME where only torch ran; `inner` is the innermost frame of all. `callers`
    are the frames of the user between `own` and the recorded call, the innermost first. `modules` are the paths of the
    modules around, the outermost first.
    """

    error: str
    message: str
    history: FailureHistory
    at: int | None = None
    end: int = 0
    own: FrameSnapshot = NO_FRAME
    inner: FrameSnapshot = NO_FRAME
    modules: tuple[str, ...] = ()
    live: LiveTensors = field(default_factory=LiveTensors)
    callers: tuple[Instruction, ...] = ()

    @property
    def has_own_frame(self) -> bool:
        """Whether code of the user ran."""
        return self.own is not NO_FRAME
