"""The statement that keeps a result for later: `self.state = h`, `cache[name] = h`, `buffer.append((x, h))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.bindings import (
    FUNCTIONS,
    LOOPS,
    covers,
    nodes_of,
    own_nodes,
    parameters_of,
    scope_of,
    single_targets,
)
from insitu.trace.explain.call_stack import StackFrame, stack_of
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import called_name, segment, source_tree
from insitu.trace.explain.failure_history import FailureHistory
from insitu.trace.explain.value_definitions import FILLING

Storage = ast.Assign | ast.AugAssign | ast.Call


def storage_site(history: FailureHistory, at: int) -> ExpressionSite | None:
    """Where the result of a call is stored: in the function that made the call, else in one that got it returned."""
    for frame in stack_of(history, at):
        statement = frame.expression.statement
        if isinstance(statement, ast.Return):
            continue
        storage = _storage(frame, statement)
        if storage is not None:
            storage = _storage_inside(frame, storage) or storage
            return ExpressionSite(frame.file, storage.lineno, frame.code.co_name, segment(frame.file, storage))
        if not _is_returned(frame, statement):
            return None
    return None


def _storage(frame: StackFrame, statement: ast.AST) -> Storage | None:
    """The statement that stores a value: the one that computed it, else the first after it that stores its name."""
    if _is_storage(statement):
        return statement  # type: ignore[return-value]
    call = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(call, ast.Call) and _fills_container(call):
        return call
    names = _names_of(statement)
    later = [node for node in _nodes(frame) if node.lineno > getattr(statement, "lineno", 0)]
    storage = next((node for node in later if _stores(node, names)), None)
    if storage is None and isinstance(statement, ast.Assign) and _is_read_by_next_pass(frame, statement, names):
        return statement
    return storage


def _is_read_by_next_pass(frame: StackFrame, statement: ast.Assign, names: set[str]) -> bool:
    """Whether a loop around an assignment reads the name again before it is assigned: `out, h = model(x, h)`."""
    loops = [loop for loop in nodes_of(source_tree(frame.file), *LOOPS) if covers(loop, statement.lineno)]
    if not loops:
        return False
    reads = [node for node in nodes_of(loops[-1], ast.Name) if isinstance(node.ctx, ast.Load) and node.id in names]
    return any(node.lineno <= statement.lineno for node in reads)


def _storage_inside(frame: StackFrame, call: Storage) -> Storage | None:
    """The statement in a method of the same file that stores its parameter, where a call of it stores a value."""
    name = called_name(call)
    methods = [node for node in nodes_of(source_tree(frame.file), *FUNCTIONS) if node.name == name]
    if len(methods) != 1:
        return None
    names = parameters_of(methods[0]) - {"self"}
    found = [node for node in own_nodes(methods[0]) if isinstance(node, Storage) and _stores(node, names)]
    return min(found, key=lambda node: node.lineno, default=None)


def _nodes(frame: StackFrame) -> list[Storage]:
    scope = scope_of(source_tree(frame.file), frame.line)
    found = [node for node in own_nodes(scope) if isinstance(node, Storage)]
    return sorted(found, key=lambda node: node.lineno)


def _names_of(statement: ast.AST) -> set[str]:
    """The plain names that a statement assigns."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    singles = [single for target in targets if target is not None for single in single_targets(target)]
    return {target.id for target in singles if isinstance(target, ast.Name)}


def _is_storage(node: ast.AST) -> bool:
    """Whether a statement assigns to an attribute or an item."""
    if not isinstance(node, (ast.Assign, ast.AugAssign)):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    singles = [single for target in targets for single in single_targets(target)]
    return any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in singles)


def _fills_container(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in FILLING


def _stores(node: ast.AST, names: set[str]) -> bool:
    """Whether a statement stores one of some names as it is, alone or in a tuple."""
    if isinstance(node, ast.Call):
        return _fills_container(node) and any(_is_kept(part, names) for part in node.args)
    return _is_storage(node) and _is_kept(node.value, names)  # type: ignore[attr-defined]


def _is_kept(value: ast.expr, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in _kept_parts(value))


def _kept_parts(value: ast.expr) -> Iterator[ast.expr]:
    """The parts of a value that is stored, without what a call computes from others."""
    yield value
    if not isinstance(value, ast.Call):
        for part in ast.iter_child_nodes(value):
            if isinstance(part, ast.expr):
                yield from _kept_parts(part)


def _is_returned(frame: StackFrame, statement: ast.AST) -> bool:
    """Whether the function of a frame returns a name that a statement assigns."""
    names, scope = _names_of(statement), scope_of(source_tree(frame.file), frame.line)
    results = [node for node in own_nodes(scope) if isinstance(node, ast.Return)]
    return any(result.value is not None and _is_kept(result.value, names) for result in results)
