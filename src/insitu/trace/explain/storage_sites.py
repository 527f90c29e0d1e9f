"""The statement that keeps a result for later: `self.state = h`, `cache[name] = h`, `buffer.append((x, h))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from operator import attrgetter

from insitu.trace.explain.bindings import (
    LOOPS,
    function_named,
    nodes_around,
    nodes_of,
    own_nodes_of,
    parameters_of,
    scope_of,
    targets,
)
from insitu.trace.explain.call_stack import StackFrame, stack_of
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import called_name, segment, source_tree
from insitu.trace.explain.failure_history import FailureHistory
from insitu.trace.explain.value_definitions import fills_container

Storage = ast.Assign | ast.AugAssign | ast.Call
STORAGES = (ast.Assign, ast.AugAssign, ast.Call)


def storage_site(history: FailureHistory, at: int) -> ExpressionSite | None:
    """Where the result of a call is stored: in the function that made the call, else in one that got it returned."""
    for frame in stack_of(history, at):
        statement = frame.expression.statement
        if isinstance(statement, ast.Return):
            continue
        storage = _storage(frame, statement)
        if storage is not None:
            return _site(frame, _storage_inside(frame, storage) or storage)
        if not _is_returned(frame, statement):
            return None
    return None


def _site(frame: StackFrame, storage: Storage) -> ExpressionSite:
    return ExpressionSite(frame.file, storage.lineno, frame.code.co_name, segment(frame.file, storage))


def _storage(frame: StackFrame, statement: ast.AST) -> Storage | None:
    """The statement that stores a value: the one that computed it, else one that stores its name."""
    if _is_storage(statement):
        return statement  # type: ignore[return-value]
    call = _call_of(statement)
    if call is not None and fills_container(call):
        return call
    return _later_storage(frame, statement) or _storage_for_next_pass(frame, statement)


def _call_of(statement: ast.AST) -> ast.Call | None:
    """The call that a statement is; None for any other statement."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return statement.value
    return None


def _later_storage(frame: StackFrame, statement: ast.AST) -> Storage | None:
    """The first statement after one that stores a name which that one assigns."""
    names, line = _names_of(statement), getattr(statement, "lineno", 0)
    return _first_storage(scope_of(source_tree(frame.file), frame.line), names, line)


def _first_storage(scope: ast.AST, names: set[str], line: int) -> Storage | None:
    """The first statement of a function after a line that stores one of some names."""
    later = [node for node in own_nodes_of(scope, *STORAGES) if node.lineno > line]
    storages = [node for node in later if _stores(node, names)]
    return min(storages, key=attrgetter("lineno"), default=None)


def _storage_for_next_pass(frame: StackFrame, statement: ast.AST) -> ast.Assign | None:
    """An assignment in a loop whose next pass reads the name before it is assigned: `out, h = model(x, h)`."""
    if not isinstance(statement, ast.Assign):
        return None
    names = _names_of(statement)
    for loop in nodes_around(source_tree(frame.file), statement.lineno, *LOOPS)[-1:]:
        until = [node for node in nodes_of(loop, ast.Name) if node.lineno <= statement.lineno]
        if names & {node.id for node in until if isinstance(node.ctx, ast.Load)}:
            return statement
    return None


def _storage_inside(frame: StackFrame, call: Storage) -> Storage | None:
    """The statement in a method of the same file that stores its parameter, where a call of it stores a value."""
    method = function_named(source_tree(frame.file), called_name(call))
    if method is None:
        return None
    return _first_storage(method, parameters_of(method) - {"self"}, 0)


def _names_of(statement: ast.AST) -> set[str]:
    """The plain names that a statement assigns."""
    return {target.id for target in targets(statement) if isinstance(target, ast.Name)}


def _is_storage(node: ast.AST) -> bool:
    """Whether a statement assigns to an attribute or an item."""
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return False
    return any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in targets(node))


def _stores(node: ast.AST, names: set[str]) -> bool:
    """Whether a statement stores one of some names as it is, alone or in a tuple."""
    if isinstance(node, ast.Call):
        return fills_container(node) and any(_is_kept(part, names) for part in node.args)
    return _is_storage(node) and _is_kept(node.value, names)  # type: ignore[attr-defined]


def _is_kept(value: ast.expr, names: set[str]) -> bool:
    """Whether a value that is stored has one of some names in it."""
    return not names.isdisjoint(getattr(part, "id", "") for part in _kept_parts(value))


def _kept_parts(value: ast.expr) -> Iterator[ast.expr]:
    """The parts of a value that is stored, without what a call computes from others."""
    yield value
    if not isinstance(value, ast.Call):
        for part in ast.iter_child_nodes(value):
            if isinstance(part, ast.expr):
                yield from _kept_parts(part)


def _is_returned(frame: StackFrame, statement: ast.AST) -> bool:
    """Whether the function of a frame returns a name that a statement assigns."""
    results = own_nodes_of(scope_of(source_tree(frame.file), frame.line), ast.Return)
    values = filter(None, map(attrgetter("value"), results))
    return any(_is_kept(value, _names_of(statement)) for value in values)
