"""The user's frames around a recorded call, and whether one of them calls the function of the next."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import CodeType

from insitu.trace.explain.bindings import FUNCTIONS, scope_of
from insitu.trace.explain.expressions import Expression, called_name, expression_at, line_at, source_tree
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory

FORWARD = "forward"
CONSTRUCTOR = "__init__"


@dataclass(slots=True, frozen=True)
class StackFrame:
    """One frame of the user. `module_call` is the recorded call of a module whose `forward` the next frame runs."""

    code: CodeType
    lasti: int
    module_call: int | None = None

    @property
    def file(self) -> str:
        """The file of the code."""
        return self.code.co_filename

    @property
    def line(self) -> int:
        """The line that the frame had come to."""
        return line_at(self.code, self.lasti)

    @property
    def expression(self) -> Expression:
        """The expression that the frame had come to."""
        return expression_at(self.code, self.lasti)


Stack = tuple[StackFrame, ...]


def stack_of(history: FailureHistory, at: int | None) -> Stack:
    """The frames of the user around a recorded call, the innermost first."""
    found: list[StackFrame] = []
    for each in history.ancestors(at):
        is_module = history.callee_facts(each).kind == "module"
        for place, (code, lasti) in enumerate(history.frames(each)):
            is_caller = is_module and place == 0
            found.append(StackFrame(code, lasti, each if is_caller else None))
    return tuple(found)


def stack_at(failure: Failure, at: int | None) -> Stack:
    """The frames of the user at a failure, the innermost first; `at` is the call that raised, if it is recorded."""
    if not failure.has_own_frame:
        return stack_of(failure.history, at)
    own = (failure.own.code, failure.own.lasti)
    inner = tuple(StackFrame(code, lasti) for code, lasti in (own, *failure.callers))
    return (*inner, *stack_of(failure.history, failure.at))


def function_of(frame: StackFrame) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The definition of the function that a frame runs."""
    scope = scope_of(source_tree(frame.file), frame.line)
    if isinstance(scope, FUNCTIONS) and scope.name == frame.code.co_name:
        return scope
    return None


def is_call_of(history: FailureHistory, caller: StackFrame, inner: StackFrame, node: ast.Call) -> bool:
    """Whether an expression calls the function of the inner frame itself."""
    name = inner.code.co_name
    written = called_name(node)
    if caller.module_call is not None:
        return name == FORWARD and len(history.args(caller.module_call)) == len(node.args)
    if name == CONSTRUCTOR:
        return bool(inner.code.co_qualname.split(".")[-2:-1] == [written])
    return name in (written, "__call__")
