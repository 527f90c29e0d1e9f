"""Where a name got its value, by reading the source: for values that no recorded call has made."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator

from insitu.capture.explain.expressions import parsed, segment
from insitu.trace.explanation import Place


def assigned(file: str, line: int, name: str) -> list[Place]:
    """The last assignment to a name before a line of a function and, if that calls a function of the same file, what
    this one returns. Empty where it is a parameter, or where several ways lead to it."""
    tree = parsed("".join(linecache.getlines(file)))
    if tree is None:
        return []
    scope = _scope(tree, line)
    if name in _bound_on(tree, line):
        return []
    before = [node for node in _bindings(scope, name) if node.lineno < line]
    if not before:
        return []
    last = max(before, key=lambda node: node.lineno)
    value = _part(last, name)
    return [_place(file, last, value), *_returned(tree, file, value)] if value is not None else []


def returned(file: str, line: int, index: int) -> list[Place]:
    """What the function at a line returns and, where that is several things by name, where one of them was assigned."""
    tree = parsed("".join(linecache.getlines(file)))
    results = [node for node in _own(_scope(tree, line)) if isinstance(node, ast.Return)] if tree is not None else []
    if not results or results[-1].value is None:
        return []
    value = results[-1].value
    found = [_place(file, results[-1], value)]
    part = value.elts[index] if isinstance(value, ast.Tuple) and index < len(value.elts) else value
    if isinstance(part, ast.Name):
        found += assigned(file, results[-1].lineno, part.id)[:1]
    return found


def _scope(tree: ast.AST, line: int) -> ast.AST:
    """The innermost function around a line, or the module."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=tree)


def _bound_on(tree: ast.AST, line: int) -> set[str]:
    """The names that lambdas and comprehensions on a line have for themselves."""
    around = [node for node in ast.walk(tree) if getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", 0)]
    lambdas = {argument.arg for node in around if isinstance(node, ast.Lambda) for argument in node.args.args}
    loops = [each for node in around for each in getattr(node, "generators", ())]
    return lambdas | {ast.unparse(part) for each in loops for part in _parts(each.target)}


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            yield from _own(node)


Binding = ast.Assign | ast.AnnAssign | ast.AugAssign


def _bindings(scope: ast.AST, name: str) -> Iterator[Binding]:
    for node in _own(scope):
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(ast.unparse(part) == name for target in targets for part in _parts(target)):
                yield node


def _parts(target: ast.expr) -> list[ast.expr]:
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for item in target.elts for part in _parts(item)]
    return [target]


def _part(node: Binding, name: str) -> ast.expr | None:
    """What is assigned to one of several names: of `a, b = x, y` the one that stands at its place."""
    target, value = node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return value
    return next((one for one, to in zip(value.elts, target.elts, strict=True) if ast.unparse(to) == name), value)


def _returned(tree: ast.AST, file: str, value: ast.expr) -> list[Place]:
    """What a function of the same file returns, if it does so in one place only."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return []
    named = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == value.func.id]
    results = [node for node in _own(named[0]) if isinstance(node, ast.Return)] if len(named) == 1 else []
    if len(results) != 1 or results[0].value is None:
        return []
    return [_place(file, results[0], results[0].value)]


def _place(file: str, node: ast.stmt, value: ast.expr) -> Place:
    return Place(file, node.lineno, "", segment(file, value))
