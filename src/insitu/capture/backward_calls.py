"""Calls of `torch.autograd.backward`, which torch up to 2.10 does not show to function modes.

There insitu shows them to its own modes, as later versions show them to all. While a session runs, the code of the
function is replaced, and not the function: programs may have it under a name of their own.
"""

from __future__ import annotations

import threading
from types import FunctionType
from typing import Any

import torch

from insitu.capture.modes import FunctionMode, Handler, function_stack, never_compile, skip_when_compiling
from insitu.capture.torch_internals import is_function_mode_enabled
from insitu.operating_system import at_fork

BACKWARD: Any = torch.autograd.backward


def shows_itself(function: Any) -> bool:
    """Whether a function of torch asks function modes first. What is not written in Python is left alone."""
    code = getattr(function, "__code__", None)
    return code is None or "has_torch_function" in code.co_names


class BackwardCalls:
    """Shows calls of `torch.autograd.backward` to the modes of insitu, while a session runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions = 0
        self.is_needed = not shows_itself(BACKWARD)
        self.original: Any = BACKWARD
        if self.is_needed:
            code = BACKWARD.__code__
            self.original = FunctionType(code, BACKWARD.__globals__, BACKWARD.__name__, BACKWARD.__defaults__)
            # With the name of the file, dynamo still takes it for a function of torch.
            self._shown = show.__code__.replace(co_filename=code.co_filename, co_name=code.co_name)
            never_compile(self._shown)

    def begin(self) -> None:
        """A session starts."""
        if self.is_needed:
            with self._lock:
                self._sessions += 1
                BACKWARD.__code__ = self._shown

    def end(self) -> None:
        """A session has ended."""
        if self.is_needed:
            with self._lock:
                self._sessions = max(0, self._sessions - 1)  # a session of the parent may end in a child, too
                if self._sessions == 0:
                    BACKWARD.__code__ = self.original.__code__

    def abandon(self) -> None:
        """This process is the child of a fork: the sessions go on in the parent, not here."""
        self._lock = threading.Lock()
        self._sessions = 0
        if self.is_needed:
            BACKWARD.__code__ = self.original.__code__

    def call(self, tensors: Any, options: dict[str, Any]) -> None:
        """Call `backward` by the innermost mode of insitu, which calls it again for the next one."""
        modes = [mode for mode in function_stack() if isinstance(mode, FunctionMode)]
        if not modes or not is_function_mode_enabled():
            self.original(tensors, **options)
            return
        mode = modes[-1]
        above = mode.remove()
        try:
            handle: Handler = mode.__torch_function__
            handle(BACKWARD, (), (as_tuple(tensors),), options)
        finally:
            mode.enter(above or 0)


def as_tuple(tensors: Any) -> tuple[Any, ...]:
    """The tensors that a backward pass begins with, as later versions of torch hand them to a mode."""
    if isinstance(tensors, (torch.Tensor, torch.autograd.graph.GradientEdge)):
        return (tensors,)
    return tuple(tensors)


def show(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Has the code that `torch.autograd.backward` gets, and its parameters. It runs with the names of another file."""
    from insitu.capture.backward_calls import backward_calls

    options = {
        "grad_tensors": grad_tensors,
        "retain_graph": retain_graph,
        "create_graph": create_graph,
        "inputs": inputs,
    }
    if grad_variables is not None:  # torch warns of it
        options["grad_variables"] = grad_variables
    backward_calls.call(tensors, options)


backward_calls = BackwardCalls()
at_fork(after_in_child=backward_calls.abandon)
skip_when_compiling(BackwardCalls.call, as_tuple)
