"""The least that a tool can cost which is called at each function, operator and module: one that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode


class Functions(TorchFunctionMode):
    """Is called at each torch function."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Operators(TorchDispatchMode):
    """Is called at each operator, as written in torch's own documentation."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class TunedOperators(TorchDispatchMode):
    """The same, as fast as Python can make it."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func._op(*args, **(kwargs or {}))


def _before(module: nn.Module, args: Any) -> None:
    pass


def _after(module: nn.Module, args: Any, output: Any) -> None:
    pass


@contextmanager
def hooks() -> Iterator[None]:
    """Hooks that are called before and after each module call."""
    handles = [register_module_forward_pre_hook(_before), register_module_forward_hook(_after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def standard(run: Callable[[], object]) -> object:
    """Run something with everything on that does nothing, in its standard form."""
    with hooks(), Functions(), Operators():
        return run()


def tuned(run: Callable[[], object]) -> object:
    """Run something with everything on that does nothing, in its fastest form."""
    with hooks(), Functions(), TunedOperators():
        return run()
