"""Where a name got its value, read from the source: for values that no recorded call produced."""

from __future__ import annotations

import ast
from itertools import chain

from insitu.trace.explain.bindings import (
    Assignment,
    binding_of,
    nodes_around,
    nodes_of,
    only_one,
    own_nodes_of,
    scope_of,
    single_targets,
)
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import segment, tree_of
from insitu.trace.explain.failure_history import FailureHistory, TensorToken

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def assignment_sites(site: ExpressionSite | None, name: str) -> list[ExpressionSite]:
    """The assignment that gave a name its value at a site and, if it calls a function of the same file, the `return`
    of that function. Empty for a parameter, and if several assignments are possible."""
    if site is None:
        return []
    tree = tree_of(site.file)
    if tree is None or name in names_with_own_scope(tree, site.line):
        return []
    binding = binding_of(tree, site.line, name)
    if binding is None:
        return []
    value = value_for(binding, name)
    if value is None:
        return []
    return [_site(site.file, binding, value), *_return_sites(tree, site.file, value)]


def return_sites(file: str, line: int, index: int) -> list[ExpressionSite]:
    """The `return` of the function at a line and, if it returns names, the assignment of the item with this index."""
    tree = tree_of(file)
    if tree is None:
        return []
    result = only_return(scope_of(tree, line))
    if result is None or result.value is None:
        return []
    site = _site(file, result, result.value)
    item = _item(result.value, index)
    if not isinstance(item, ast.Name):
        return [site]
    return [site, *assignment_sites(site, item.id)[:1]]


def _item(value: ast.expr, index: int) -> ast.expr:
    """The item of a tuple; a value that is not a tuple counts as a whole."""
    if isinstance(value, ast.Tuple) and index < len(value.elts):
        return value.elts[index]
    return value


def only_return(scope: ast.AST) -> ast.Return | None:
    """The `return` of a function that has one only."""
    return only_one(own_nodes_of(scope, ast.Return))


def names_with_own_scope(tree: ast.AST, line: int) -> set[str]:
    """The names of comprehensions on a line, and of lambdas, whose bodies may run at any time."""
    around = nodes_around(tree, line, ast.Lambda, *COMPREHENSIONS)
    return set(chain.from_iterable(map(_own_scope_names, around)))


def _own_scope_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Lambda):
        return list(map(ast.unparse, ast.walk(node.body)))
    targets = [single_targets(loop.target) for loop in node.generators]  # type: ignore[attr-defined]
    return list(map(ast.unparse, chain.from_iterable(targets)))


def value_for(node: Assignment, name: str) -> ast.expr | None:
    """The value that an assignment gives to a name: of `a, b = x, y` the one at the same index."""
    target = node.targets[0] if isinstance(node, ast.Assign) else node.target
    names, values = getattr(target, "elts", []), getattr(node.value, "elts", [])
    if len(names) != len(values):
        return node.value
    by_name = dict(zip(map(ast.unparse, names), values, strict=True))
    return by_name.get(name, node.value)


def _return_sites(tree: ast.AST, file: str, value: ast.expr) -> list[ExpressionSite]:
    """The `return` of the function of the same file that an expression calls, if the function has one only."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Name):
        return []
    result = _result_of(tree, value.func.id)
    if result is None or result.value is None:
        return []
    return [_site(file, result, result.value)]


def _result_of(tree: ast.AST, name: str) -> ast.Return | None:
    """The only `return` of the only function with a name."""
    function = only_one(node for node in nodes_of(tree, ast.FunctionDef) if node.name == name)
    if function is None or function.decorator_list:
        return None
    return only_return(function)


def _site(file: str, node: ast.stmt, value: ast.expr) -> ExpressionSite:
    shown = node if isinstance(node, ast.AugAssign) else value
    return ExpressionSite(file, node.lineno, "", segment(file, shown))


def outside_site(history: FailureHistory, receiver: int | None, tensor: TensorToken) -> ExpressionSite | None:
    """Where a tensor comes from that no recorded call produced: the assignment of its name where a call received it.

    If a function of the same file made it, the `return` of that function.
    """
    here = history.site(receiver)
    if receiver is None or here is None:
        return None
    name = history.name_in(receiver, tensor)
    if not name:
        return None
    sites = assignment_sites(here, name) or _sites_of_call(here, name)
    return next(reversed(sites), None)


def _sites_of_call(here: ExpressionSite, text: str) -> list[ExpressionSite]:
    """The `return` of the function of the same file that an expression calls."""
    tree = tree_of(here.file)
    if tree is None:
        return []
    try:
        value = ast.parse(text, mode="eval").body
    except SyntaxError:
        return []
    return _return_sites(tree, here.file, value)
