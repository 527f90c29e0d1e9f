"""The modes that torch calls for us: one for its functions, one for ATen operators.

Both hold nothing but a handler. They can be taken off the stacks out of order, because sessions may overlap, and
neither makes torch.compile compile anything again: dynamo passes over the handlers, and over the dispatch mode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, MethodType
from typing import Any

from torch.overrides import TorchFunctionMode

from insitu.capture.torch_internals import (
    LIFTS_DISPATCH_MODES,
    DispatchMode,
    dispatch_mode_at,
    dispatch_stack_length,
    function_mode_at,
    function_stack_length,
    pop_dispatch_mode,
    pop_function_mode,
    push_dispatch_mode,
    push_function_mode,
    skip_frame,
)

# Called with the mode, the function, the types, the arguments and the keyword arguments or None.
Handler = Callable[..., Any]


class FunctionMode(TorchFunctionMode):
    """Calls the handler for each torch function."""

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self.silent = False
        # On the instance: torch finds it there, and one Python call for each function is saved.
        self.__torch_function__ = MethodType(handler, self)  # type: ignore[method-assign]

    def enter(self, below: int = 0) -> None:
        """Put this mode on the stack of this thread, below that many others."""
        above = [pop_function_mode() for _ in range(min(below, function_stack_length()))]
        push_function_mode(self)
        for other in reversed(above):
            push_function_mode(other)

    def silence(self) -> None:
        """Do nothing any more, wherever this mode may still be on a stack."""
        self.silent = True
        self.__torch_function__ = MethodType(pass_on, self)  # type: ignore[method-assign]

    def remove(self) -> int | None:
        """Take this mode off the stack of this thread; how many were above it, None if it was not there."""
        above = lifted(self, function_stack(), pop_function_mode)
        if above is None:
            return None
        pop_function_mode()
        for other in reversed(above):
            push_function_mode(other)
        return len(above)


class AtenMode(DispatchMode):
    """Calls the handler for each ATen operator."""

    def __init__(self, handler: Handler) -> None:
        super().__init__()
        self.silent = False
        self.__torch_dispatch__ = MethodType(handler, self)

    def enter(self, below: int = 0) -> None:
        """Put this mode on the stack of this thread, below that many others."""
        above = [pop_dispatch_mode(None) for _ in range(min(below, dispatch_stack_length()))]
        if LIFTS_DISPATCH_MODES:
            push_dispatch_mode(self)  # torch's own __enter__ keeps dynamo from compiling, as long as it is not undone
        else:
            self.__enter__()
        for other in reversed(above):
            push_dispatch_mode(other)

    def silence(self) -> None:
        """Do nothing any more, wherever this mode may still be on a stack."""
        self.silent = True
        self.__torch_dispatch__ = MethodType(pass_on, self)

    def remove(self) -> int | None:
        """Take this mode off the stack of this thread; how many were above it, None if it was not there."""
        above = lifted(self, dispatch_stack(), lambda: pop_dispatch_mode(None))
        if above is None:
            return None
        if self.old_dispatch_mode_flags:
            self.__exit__(None, None, None)
        else:
            pop_dispatch_mode(None)  # it was left inside a call, and torch has put it back after that
        for other in reversed(above):
            push_dispatch_mode(other)
        return len(above)


class ProbeModes:
    """The modes of one probe, as far as it has them.

    `is_careful` says that other modes were there first, which must not see how facts of tensors are read.
    """

    __slots__ = ("function", "is_careful", "operator")

    def __init__(self) -> None:
        self.function: FunctionMode | None = None
        self.operator: AtenMode | None = None
        self.is_careful = function_stack_length() > 0

    def enter(self) -> None:
        """Switch the modes on, for this thread."""
        sweep()
        if self.function is not None:
            # Below modes that came after the session, as if it had been there all the time: they do not see our reads.
            self.function.enter(0 if self.is_careful else function_stack_length())
        if self.operator is not None:
            self.operator.enter()

    def leave(self) -> None:
        """Switch the modes off again, wherever in the stacks they are by now."""
        if self.operator is not None:
            self.operator.remove()
        if self.function is not None:
            self.function.remove()
        sweep()

    def lift(self, *, operators: bool) -> LiftedModes:
        """Take the mode of functions off its stack for a while, and on demand that of operators."""
        modes = (self.function, self.operator if operators else None)
        return LiftedModes([(mode, mode.remove()) for mode in modes if mode is not None])

    def silence(self) -> None:
        """Make the modes do nothing, even where they could not be switched off."""
        for mode in (self.function, self.operator):
            if mode is not None:
                mode.silence()


@dataclass(frozen=True, slots=True)
class LiftedModes:
    """Modes that are off for a while, each with the number of modes that were above it; None if it was not on."""

    places: list[tuple[FunctionMode | AtenMode, int | None]]

    def put_back(self) -> None:
        """Switch the modes on again, where they were."""
        for mode, above in self.places:
            if above is not None:
                mode.enter(above)


def function_stack() -> list[Any]:
    """The function modes of this thread, the innermost last."""
    return [function_mode_at(i) for i in range(function_stack_length())]


def dispatch_stack() -> list[Any]:
    """The dispatch modes of this thread, the innermost last."""
    return [dispatch_mode_at(i) for i in range(dispatch_stack_length())]


def sweep() -> None:
    """Take off this thread's stacks what sessions had to leave there: those ended in another thread, or in a hook."""
    for mode in (*function_stack(), *dispatch_stack()):
        if isinstance(mode, (FunctionMode, AtenMode)) and mode.silent:
            mode.remove()


def pass_on(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The handler of a mode that does nothing."""
    return func(*args, **(kwargs or {}))


def lifted(mode: Any, stack: list[Any], pop: Callable[[], Any]) -> list[Any] | None:
    """The modes above one, the topmost first, taken off the stack as they are: their own exits are not ours to call."""
    if not any(other is mode for other in stack):
        return None
    above = []
    while stack.pop() is not mode:
        above.append(pop())
    return above


def skip_when_compiling(*functions: Callable[..., Any]) -> None:
    """Keep dynamo from compiling functions of ours; what they call is the user's and is left to it."""
    for function in functions:
        never_compile(function.__code__)


def skip_all_when_compiling(*functions: Callable[..., Any]) -> None:
    """Keep dynamo from compiling functions of ours and all that they call, as in hooks of a compiled optimizer."""
    for function in functions:
        skip_frame(function.__code__, with_callees=True)


def never_compile(code: CodeType) -> None:
    """Keep dynamo from compiling this code."""
    skip_frame(code)


def as_anchor(handler: Handler) -> Handler:
    """A handler with a code object of its own: on a stack, it says that its probe has recorded what lies above."""
    handler.__code__ = handler.__code__.replace()
    skip_when_compiling(handler)
    return handler


skip_when_compiling(FunctionMode.enter, FunctionMode.remove, AtenMode.enter, AtenMode.remove)
skip_when_compiling(LiftedModes.put_back, ProbeModes.lift, function_stack, dispatch_stack, lifted)
