"""Builds the failure that `trace.explain` judges: from the moment of an exception, the tape and live tensors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import TYPE_CHECKING, Any

import numpy
import torch
from torch import Tensor, nn

from insitu.capture.cells import with_cells
from insitu.capture.contents import small_content_of
from insitu.capture.explain.reading import Reading
from insitu.capture.explain.saved import custom_backward, find_change
from insitu.capture.names import wrapped_name
from insitu.capture.tensor_memory import has_values
from insitu.capture.tensors import Value
from insitu.capture.torch_internals import BUFFERS, MODULES, PARAMETERS, DisableTorchDispatch, DisableTorchFunction
from insitu.trace.explain.explanation import Explanation
from insitu.trace.explain.failure import Failure, InPlaceChange, LiveTensors
from insitu.trace.explain.pipeline import explain

if TYPE_CHECKING:
    from insitu.capture.explain.note import Moment

MOST_ELEMENTS = 4_000_000  # of a tensor that is read to explain an error


@dataclass(slots=True, frozen=True)
class ModuleAround:
    """A module around the call that failed, and its path."""

    module: nn.Module
    path: str

    @property
    def label(self) -> str:
        """The path, or the class of the outermost module."""
        return self.path or type(self.module).__name__


def explanation(moment: Moment) -> Explanation:
    """Why an exception was raised. Neither autograd nor any mode sees what is done for it."""
    with (
        torch.no_grad(),
        DisableTorchFunction(),
        DisableTorchDispatch(),
        Reading(moment.tape, cleared=moment.cleared) as reading,
    ):
        return with_cells(explain(build_failure(moment, reading)))


def build_failure(moment: Moment, reading: Reading) -> Failure:
    """The moment of an exception as `trace.explain` asks for it."""
    modules = _modules_around(moment, reading)
    return Failure(
        moment.error,
        moment.message,
        reading,
        moment.at,
        moment.end,
        own=moment.scene.own,
        inner=moment.scene.inner,
        modules=tuple(around.label for around in modules),
        live=TensorsAtMoment(moment, reading, modules),
        callers=moment.scene.callers,
    )


def _modules_around(moment: Moment, reading: Reading) -> list[ModuleAround]:
    """The modules around that are still alive, the outermost first: from the tape, else from the frames."""
    if moment.at is not None:
        callees = reading.modules(moment.at)
        return [ModuleAround(module, callee.path) for callee in callees if (module := callee.ref()) is not None]
    alive = [module for ref in moment.scene.modules if (module := ref()) is not None]
    modules = [module for module in alive if MODULES in vars(module)]  # super().__init__() has not run in the others
    if not modules:
        return []
    paths = {id(module): name for name, module in modules[0].named_modules()}
    return [ModuleAround(module, paths[id(module)]) for module in modules if id(module) in paths]


class TensorsAtMoment(LiveTensors):
    """The tensors of a failure that are still alive."""

    def __init__(self, moment: Moment, reading: Reading, modules: list[ModuleAround]) -> None:
        self._contents, self._reading, self._modules = moment.contents, reading, modules

    def parameter_path(self, tensor: Value) -> str:
        """The path in the innermost module around that has the parameter, else anywhere in the outermost module."""
        alive = tensor()
        if alive is None:
            return ""
        return next(self._paths(alive), "")

    def _paths(self, tensor: Tensor) -> Iterator[str]:
        for around in reversed(self._modules):
            yield from _paths_in(around.module, tensor, around.path)
        if not self._modules:
            return
        outermost = self._modules[0]
        for name, inner in outermost.module.named_modules():
            if wrapped_name(inner) is None:
                yield from _paths_in(inner, tensor, outermost.path, name)

    def initializer(self, tensor: Value) -> int | None:
        """The recorded call whose result is this parameter: the first one."""
        alive = tensor()
        if alive is None:
            return None
        for at in self._reading.before(len(self._reading.tape)):
            result = self._reading.result(at)
            if isinstance(result, Value) and result() is alive:
                return at
        return None

    def users(self, tensor: Value) -> list[int]:
        """The recorded calls that took this tensor."""
        alive = tensor()
        if alive is None:
            return []
        calls = self._reading.before(len(self._reading.tape))
        return [at for at in calls if any(each() is alive for each in self._reading.inputs(at))]

    def limits(self, tensor: Value) -> tuple[float, float] | None:
        """The smallest and the largest value of a tensor, if it is alive and has not changed since."""
        alive = tensor()
        if not isinstance(alive, Tensor) or not has_values(alive):
            return None
        before = self._contents.get(id(tensor))
        is_same = before is not None and before == small_content_of(alive)
        if not is_same:
            return None
        return self.present_limits(tensor)

    def present_limits(self, tensor: Value) -> tuple[float, float] | None:
        """The smallest and the largest value that a tensor or an array has now, if it is alive and not too large."""
        alive = tensor()
        if isinstance(alive, numpy.ndarray):
            alive = _as_tensor(alive)
        if not isinstance(alive, Tensor) or not has_values(alive) or not 0 < alive.numel() <= MOST_ELEMENTS:
            return None
        if alive.is_complex():
            return None
        low, high = alive.detach().aminmax()
        return float(low), float(high)

    def first_outside(self, tensor: Value, low: float, high: float) -> tuple[int, float] | None:
        """The index and the value of the first element of a list of numbers that is not within limits."""
        alive = tensor()
        is_list = isinstance(alive, Tensor) and has_values(alive) and alive.dim() == 1
        if not isinstance(alive, Tensor) or not is_list or alive.numel() > MOST_ELEMENTS:
            return None
        wrong = ((alive < low) | (alive > high)).nonzero().flatten().tolist()
        if not wrong:
            return None
        return wrong[0], float(alive[wrong[0]])

    def nan_parameters(self) -> tuple[str, ...]:
        """The paths of the parameters that hold NaN: of the model around the failure, else of the last one called."""
        model = self._modules[0].module if self._modules else self._last_model()
        if model is None:
            return ()
        named = [(name, each) for name, each in model.named_parameters() if has_values(each)]
        return tuple(name for name, each in named if each.numel() <= MOST_ELEMENTS and bool(each.isnan().any()))

    def _last_model(self) -> nn.Module | None:
        """The outermost module that was called last."""
        for at in reversed(list(self._reading.before(len(self._reading.tape)))):
            modules = self._reading.modules(at)
            if modules:
                return modules[0].ref()
        return None

    def in_place_change(self, loss: Value | None, message: str, end: int) -> InPlaceChange | None:
        """The change of a tensor that the backward pass of a loss needs."""
        return find_change(self._reading, _alive(loss), message, end)

    def custom_backward(self, loss: Value | None, function: str) -> CodeType | None:
        """The `backward` of a custom autograd function in the graph of a loss."""
        return custom_backward(_alive(loss), function)


def _as_tensor(array: numpy.ndarray[Any, Any]) -> Tensor | None:
    """An array of plain numbers as a tensor of its own."""
    if array.dtype.kind not in "iufb":
        return None
    return torch.tensor(array)


def _alive(value: Value | None) -> Tensor | None:
    if value is not None:
        return value()
    return None


def _paths_in(module: nn.Module, tensor: Any, *path: str) -> Iterator[str]:
    """The path of a parameter or buffer that the module itself has."""
    tensors = {**module.__dict__.get(PARAMETERS, {}), **module.__dict__.get(BUFFERS, {})}
    for name, own in tensors.items():
        if own is tensor:
            yield ".".join(filter(None, (*path, str(name))))
