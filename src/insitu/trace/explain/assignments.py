"""Where a name got its value, read from the source: for values that no recorded call produced."""

from __future__ import annotations

import ast

from insitu.trace.explain.bindings import Assignment, binding_of, own_nodes, scope_of, single_targets
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import segment, tree_of


def assignment_sites(file: str, line: int, name: str) -> list[ExpressionSite]:
    """The assignment that gave a name its value on a line and, if it calls a function of the same file, the `return`
    of that function. Empty for a parameter, and where several assignments are possible."""
    tree = tree_of(file)
    if tree is None or name in _names_with_own_scope(tree, line):
        return []
    binding = binding_of(tree, line, name)
    value = _value_for(binding, name) if binding is not None else None
    if binding is None or value is None:
        return []
    return [_site(file, binding, value), *_return_sites(tree, file, value)]


def return_sites(file: str, line: int, index: int) -> list[ExpressionSite]:
    """The `return` of the function at a line and, if it returns names, the assignment of the item with this index."""
    tree = tree_of(file)
    result = _only_return(scope_of(tree, line)) if tree is not None else None
    if result is None or result.value is None:
        return []
    found = [_site(file, result, result.value)]
    item = _item(result.value, index)
    if isinstance(item, ast.Name):
        found += assignment_sites(file, result.lineno, item.id)[:1]
    return found


def _item(value: ast.expr, index: int) -> ast.expr:
    """The item of a tuple; a value that is not a tuple counts as a whole."""
    if isinstance(value, ast.Tuple) and index < len(value.elts):
        return value.elts[index]
    return value


def _only_return(scope: ast.AST) -> ast.Return | None:
    """The `return` of a function that has one only."""
    results = [node for node in own_nodes(scope) if isinstance(node, ast.Return)]
    return results[0] if len(results) == 1 else None


def _names_with_own_scope(tree: ast.AST, line: int) -> set[str]:
    """The names of comprehensions on a line, and of lambdas, whose bodies may run at any time."""
    around = [node for node in ast.walk(tree) if getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", 0)]
    lambdas = {ast.unparse(part) for node in around if isinstance(node, ast.Lambda) for part in ast.walk(node.body)}
    loops = [each for node in around for each in getattr(node, "generators", ())]
    return lambdas | {ast.unparse(part) for each in loops for part in single_targets(each.target)}


def _value_for(node: Assignment, name: str) -> ast.expr | None:
    """The value that an assignment gives to a name: of `a, b = x, y` the one at the same index."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    if not isinstance(target, ast.Tuple) or not isinstance(node.value, ast.Tuple):
        return node.value
    if len(target.elts) != len(node.value.elts):
        return node.value
    values = {ast.unparse(to): value for to, value in zip(target.elts, node.value.elts, strict=True)}
    return values.get(name, node.value)


def _return_sites(tree: ast.AST, file: str, value: ast.expr) -> list[ExpressionSite]:
    """The `return` of the function of the same file that an expression calls, if the function has one only."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return []
    name = value.func.id
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name]
    if len(functions) != 1 or functions[0].decorator_list:
        return []
    result = _only_return(functions[0])
    if result is None or result.value is None:
        return []
    return [_site(file, result, result.value)]


def _site(file: str, node: ast.stmt, value: ast.expr) -> ExpressionSite:
    return ExpressionSite(file, node.lineno, "", segment(file, node if isinstance(node, ast.AugAssign) else value))
