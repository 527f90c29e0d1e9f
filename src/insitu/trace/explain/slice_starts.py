"""Where a slice of the source begins: an expression of a frame, with the frames around it as its callers."""

from __future__ import annotations

import ast
from typing import Any

from insitu.trace.explain.bindings import nodes_around
from insitu.trace.explain.call_stack import CONSTRUCTOR, Stack, is_call_of, stack_at, stack_of
from insitu.trace.explain.expressions import position_of, source_tree
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.pairing import argument_pairs
from insitu.trace.explain.slices.expression_parts import COMPREHENSIONS
from insitu.trace.explain.slices.passed_arguments import scope_at
from insitu.trace.explain.slices.points import CallScope, Instance, Point
from insitu.trace.explain.slices.resolver import comprehension_scope

COMPREHENSION_FRAMES = frozenset(("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"))


def stack_scope(history: FailureHistory, stack: Stack) -> CallScope | None:
    """The scope of the innermost frame of a stack; each frame is the caller of the one inside of it."""
    scope: CallScope | None = None
    for place in reversed(range(len(stack))):
        frame = stack[place]
        if frame.code.co_name in COMPREHENSION_FRAMES and scope is not None:
            continue  # it has the names of the function around
        here = scope_at(frame.file, frame.line)
        node = stack[place + 1].expression.node if scope is not None else None
        is_called = isinstance(node, ast.Call) and is_call_of(history, stack[place + 1], frame, node)
        if scope is not None and is_called and here.name == frame.code.co_name:
            assert isinstance(node, ast.Call)
            here = _called_scope(here, point_at(scope, node), is_module=stack[place + 1].module_call is not None)
        scope = here
    return scope


def _called_scope(scope: CallScope, call: Point, *, is_module: bool) -> CallScope:
    """The scope of a function with the call that runs it."""
    function = call.node.func  # type: ignore[attr-defined]
    receiver, instance = None, None
    if scope.owner is not None and scope.name == CONSTRUCTOR:
        instance = Instance(scope.owner, call)
    elif scope.owner is not None and isinstance(function, ast.Attribute) and not is_module:
        receiver = call.part(function.value)
    elif scope.owner is not None:
        receiver = call.part(function)
    return CallScope(
        scope.file, scope.function, scope.owner, call=call, receiver=receiver, instance=instance, outer=scope.outer
    )


def operand_start(failure: Failure, line: FailedLine, text: str) -> Point | None:
    """An expression on the line that failed, by its text."""
    stack = stack_at(failure, line.at)
    scope = stack_scope(failure.history, stack)
    if scope is None:
        return None
    node = _node_with(line.statement.expression.statement, text) or parse_expression(text, stack[0].line)
    if node is None:
        return None
    return point_at(scope, node)


def _node_with(statement: ast.AST, text: str) -> ast.expr | None:
    """The expression of a statement that has a text."""
    parsed = parse_expression(text, 0)
    if parsed is None:
        return None
    text = ast.unparse(parsed)  # quotes and spaces may differ
    for node in ast.walk(statement):
        is_read = isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store)
        if is_read and ast.unparse(node) == text:
            return node  # type: ignore[return-value]
    return None


def parse_expression(text: str, line: int) -> ast.expr | None:
    """An expression by its text, as if it was written on a line; None if the text is not an expression."""
    try:
        found = ast.parse(text, mode="eval").body
    except SyntaxError:  # the path of a parameter
        return None
    for node in ast.walk(found):
        if isinstance(node, ast.expr):
            node.lineno = node.end_lineno = line
    return found


def point_at(scope: CallScope, node: ast.expr) -> Point:
    """An expression in a scope; if it is a part of comprehensions, with their names."""
    for each in nodes_around(source_tree(scope.file), node.lineno, *COMPREHENSIONS):
        if each is not node and _is_within(node, each):
            scope = comprehension_scope(Point(scope, each), each)
    return Point(scope, node)


def _is_within(node: ast.AST, other: ast.AST) -> bool:
    line, end_line, start, end = position_of(node)
    first, last, left, right = position_of(other)
    return (first, left) <= (line, start) and (end_line, end) <= (last, right)


def call_start(history: FailureHistory, at: int | None) -> Point | None:
    """The expression of a recorded call in the user's source."""
    line = history.on_line(at)
    scope = stack_scope(history, stack_of(history, line)) if line is not None else None
    node = history.expression(line).node
    if scope is None or not isinstance(node, ast.expr):
        return None
    return point_at(scope, node)


def argument_start(history: FailureHistory, at: int | None, tensor: TensorToken) -> Point | None:
    """The expression of a tensor that went into a recorded call."""
    start, line = call_start(history, at), history.on_line(at)
    if start is None or line is None:
        return None
    pairs = argument_pairs(start.node, history.callee_facts(line).name, history.args(line), history.kwargs(line))
    for item, node in pairs:
        found = _node_of(item, node, tensor)
        if found is not None:
            return point_at(start.scope, found)
    return None


def _node_of(item: Any, node: ast.expr, tensor: TensorToken) -> ast.expr | None:
    """The expression of a tensor in an argument, which may be a list of several: `torch.cat([a, b])`."""
    if item is tensor:
        return node
    nodes = getattr(node, "elts", ())
    if not isinstance(item, (list, tuple)) or len(nodes) != len(item):
        return None
    inside = (_node_of(part, each, tensor) for part, each in zip(item, nodes, strict=True))
    return next((found for found in inside if found is not None), None)


def loop_start(history: FailureHistory, at: int | None) -> Point | None:
    """The items that a loop goes over, if the header of the loop made a recorded call."""
    line = history.on_line(at)
    node = history.expression(line).node
    scope = stack_scope(history, stack_of(history, line)) if line is not None else None
    if scope is None or not isinstance(node, (ast.For, ast.AsyncFor)):
        return None
    return Point(scope, node.iter, (None,))
