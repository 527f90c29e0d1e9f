"""Where a name got its value, by reading the source: for values that no recorded call has made."""

from __future__ import annotations

import ast
import linecache

from insitu.capture.explain.bindings import Assignment, binding_of, own, parts, scope_of
from insitu.capture.explain.expressions import parsed, segment
from insitu.trace.explanation import Place


def assigned(file: str, line: int, name: str) -> list[Place]:
    """The assignment that gave a name its value on a line of a function and, if that calls a function of the same file,
    what this one returns. Empty where it is a parameter, or where several ways lead to it."""
    tree = parsed("".join(linecache.getlines(file)))
    if tree is None or name in _bound_on(tree, line):
        return []
    found = binding_of(tree, line, name)
    value = _part(found, name) if found is not None else None
    return (
        [_place(file, found, value), *_returned(tree, file, value)] if found is not None and value is not None else []
    )


def returned(file: str, line: int, index: int) -> list[Place]:
    """What the function at a line returns and, where that is several things by name, where one of them was assigned."""
    tree = parsed("".join(linecache.getlines(file)))
    results = [node for node in own(scope_of(tree, line)) if isinstance(node, ast.Return)] if tree is not None else []
    if len(results) != 1 or results[0].value is None:
        return []
    value = results[0].value
    found = [_place(file, results[0], value)]
    part = value.elts[index] if isinstance(value, ast.Tuple) and index < len(value.elts) else value
    if isinstance(part, ast.Name):
        found += assigned(file, results[0].lineno, part.id)[:1]
    return found


def _bound_on(tree: ast.AST, line: int) -> set[str]:
    """The names that comprehensions on a line have for themselves, and those of lambdas, which run who knows when."""
    around = [node for node in ast.walk(tree) if getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", 0)]
    lambdas = {ast.unparse(part) for node in around if isinstance(node, ast.Lambda) for part in ast.walk(node.body)}
    loops = [each for node in around for each in getattr(node, "generators", ())]
    return lambdas | {ast.unparse(part) for each in loops for part in parts(each.target)}


def _part(node: Assignment, name: str) -> ast.expr | None:
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
    plain = len(named) == 1 and not named[0].decorator_list
    results = [node for node in own(named[0]) if isinstance(node, ast.Return)] if plain else []
    if len(results) != 1 or results[0].value is None:
        return []
    return [_place(file, results[0], results[0].value)]


def _place(file: str, node: ast.stmt, value: ast.expr) -> Place:
    return Place(file, node.lineno, "", segment(file, node if isinstance(node, ast.AugAssign) else value))
