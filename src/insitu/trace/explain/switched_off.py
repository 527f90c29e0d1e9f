"""The code that switched gradients off around a call: a `with` block, a decorator, or re-entrant checkpointing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from operator import attrgetter

from insitu.trace.explain.bindings import nodes_around, nodes_of, scope_of
from insitu.trace.explain.call_stack import StackFrame, stack_of
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import called_name, last_name, segment, source_tree
from insitu.trace.explain.failure_history import FailureHistory
from insitu.trace.explain.slices.passed_arguments import scope_at
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver

SWITCHES = frozenset(("no_grad", "inference_mode", "set_grad_enabled", "set_grad_mode"))
SETTERS = frozenset(("set_grad_enabled", "_set_grad_enabled"))
CHECKPOINTS = frozenset(("checkpoint", "checkpoint_sequential"))


def switch_site(history: FailureHistory, at: int) -> ExpressionSite | None:
    """What switched gradients off around a call, the innermost first; None if the source around it shows nothing."""
    for frame in stack_of(history, at):
        found = next(_switches(frame), None)
        if found is not None:
            return ExpressionSite(frame.file, found.lineno, frame.code.co_name, segment(frame.file, found))
    return None


def _switches(frame: StackFrame) -> Iterator[ast.expr]:
    """The expressions around the line of a frame that switch gradients off."""
    tree, node = source_tree(frame.file), frame.expression.node
    if called_name(node) in CHECKPOINTS and _is_reentrant(node):
        yield node  # type: ignore[misc]
    scope = scope_of(tree, frame.line)
    for block in reversed(nodes_around(scope, frame.line, ast.With)):
        if scope_of(tree, block.lineno) is scope:
            yield from filter(_is_switch, map(attrgetter("context_expr"), block.items))
    yield from filter(_is_switch, getattr(scope, "decorator_list", ()))


def _is_switch(node: ast.AST) -> bool:
    """Whether an expression is, or calls, one of the switches: `torch.no_grad`, `torch.no_grad()`."""
    return last_name(getattr(node, "func", node)) in SWITCHES


def _is_reentrant(node: ast.AST) -> bool:
    """Whether checkpointing is re-entrant: then the block runs without gradients. Without the word it may be."""
    words = {word.arg: word.value for word in getattr(node, "keywords", ())}
    asked = words.get("use_reentrant")
    return asked is None or not (isinstance(asked, ast.Constant) and asked.value is False)


def left_off_sites(history: FailureHistory, at: int) -> Iterator[ExpressionSite]:
    """Statements in the files around a call that can switch gradients off for everything after them."""
    files = dict.fromkeys(frame.file for frame in stack_of(history, at))
    for file in files:
        for statement in nodes_of(source_tree(file), ast.Expr):
            if _stays_off(statement.value):
                yield _statement_site(file, statement)
            else:
                yield from _passed_false(file, statement)


def _statement_site(file: str, statement: ast.AST) -> ExpressionSite:
    scope = scope_at(file, getattr(statement, "lineno", 0))
    return ExpressionSite(file, getattr(statement, "lineno", 0), scope.name, segment(file, statement))


def _stays_off(node: ast.expr) -> bool:
    """Whether an expression switches gradients off, and nothing switches them on again by itself."""
    if not isinstance(node, ast.Call):
        return False
    name = called_name(node)
    if name == "__enter__" and isinstance(node.func, ast.Attribute):
        return called_name(node.func.value) in SWITCHES
    if name == "enter_context":
        return any(called_name(each) in SWITCHES for each in node.args)
    return name in SETTERS and [getattr(each, "value", None) for each in node.args] == [False]


def _passed_false(file: str, statement: ast.Expr) -> Iterator[ExpressionSite]:
    """The calls that pass False to a function which calls `set_grad_enabled` with a parameter, and that function."""
    node = statement.value
    if not isinstance(node, ast.Call) or called_name(node) not in SETTERS or len(node.args) != 1:
        return
    start = Point(scope_at(file, statement.lineno), node.args[0])
    ends = [end for end in Resolver().ends(start) if getattr(end.node, "value", None) is False]
    for end in ends:
        around = nodes_around(source_tree(end.scope.file), end.node.lineno, ast.Expr)
        yield from (_statement_site(end.scope.file, each) for each in around[-1:])
    if ends:
        yield _statement_site(file, statement)
