"""What a loop goes over, read from the source: samples of a dataset, what a collate function or a generator returns."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from insitu.trace.explain.bindings import FUNCTIONS, nodes_of, own_nodes
from insitu.trace.explain.expressions import called_name

# Functions that go over their first argument and change nothing about its items.
WRAPPERS = frozenset(("iter", "tqdm", "trange", "islice", "reversed", "sorted", "cycle", "prefetch", "list", "tuple"))
LOADER = "DataLoader"
# What an expression that is only a name means, and the expressions behind it.
Resolve = Callable[[ast.expr], ast.expr | None]


@dataclass(slots=True, frozen=True)
class LoopItem:
    """The expression in a function of the same file that becomes the value of a name of the loop."""

    value: ast.expr


def loop_item(tree: ast.AST, loop: ast.For | ast.AsyncFor, name: str, resolve: Resolve) -> LoopItem | None:
    """The value that a loop gives to a name; None where the source leaves doubt.

    `resolve` gives the expression that a name stands for.
    """
    place = _place(loop.target, name)
    if place is None:
        return None
    source: ast.expr | None = resolve(loop.iter) or loop.iter
    if source is not None and called_name(source) == "enumerate" and place[:1] == (1,):
        place, source = place[1:], _first_argument(source, resolve)
    while source is not None and called_name(source) in WRAPPERS:
        source = _first_argument(source, resolve)
    if source is None:
        return None
    results = list(_results(tree, source, resolve))
    if len(results) != 1:
        return None
    return LoopItem(_part(results[0], place))


def sample(tree: ast.AST, function: str, resolve: Resolve) -> ast.expr | None:
    """What the dataset of a file gives to its collate function for each sample; None where the source leaves doubt."""
    loaders = [call for call in nodes_of(tree, ast.Call) if called_name(call) == LOADER and _collates(call, function)]
    if len(loaders) != 1:
        return None
    dataset = _first_argument(loaders[0], resolve)
    if dataset is None:
        return None
    results = list(_values_of(_method(tree, called_name(dataset), "__getitem__"), ast.Return))
    return results[0] if len(results) == 1 else None


def _collates(loader: ast.Call, function: str) -> bool:
    return any(word.arg == "collate_fn" and getattr(word.value, "id", "") == function for word in loader.keywords)


def _first_argument(call: ast.expr, resolve: Resolve) -> ast.expr | None:
    if not isinstance(call, ast.Call) or not call.args:
        return None
    return resolve(call.args[0]) or call.args[0]


def _place(target: ast.expr, name: str) -> tuple[int, ...] | None:
    """Where a name is in the target of a loop: () for `for x in`, (1,) for `for i, x in`."""
    if ast.unparse(target) == name:
        return ()
    for index, part in enumerate(getattr(target, "elts", ())):
        inner = _place(part, name)
        if inner is not None:
            return (index, *inner)
    return None


def _part(value: ast.expr, place: tuple[int, ...]) -> ast.expr:
    """The part of a tuple at a place; the whole value if it is not written as a tuple."""
    for index in place:
        items = getattr(value, "elts", ())
        if index >= len(items):
            return value
        value = items[index]
    return value


def _results(tree: ast.AST, source: ast.expr, resolve: Resolve) -> Iterator[ast.expr]:
    """What the function that makes the items returns or yields."""
    name = called_name(source)
    if name != LOADER:
        yield from _values_of(_function(tree, name), ast.Yield)
        return
    assert isinstance(source, ast.Call)
    collate = next((word.value for word in source.keywords if word.arg == "collate_fn"), None)
    if collate is not None:
        yield from _values_of(_function(tree, getattr(collate, "attr", getattr(collate, "id", ""))), ast.Return)
        return
    dataset = _first_argument(source, resolve)
    if dataset is not None:
        yield from _values_of(_method(tree, called_name(dataset), "__getitem__"), ast.Return)


def _values_of(function: ast.AST | None, kind: type[ast.Return] | type[ast.Yield]) -> Iterator[ast.expr]:
    if function is None:
        return
    for node in own_nodes(function):
        if isinstance(node, kind) and node.value is not None:
            yield node.value


def _function(tree: ast.AST, name: str) -> ast.AST | None:
    found = [node for node in nodes_of(tree, *FUNCTIONS) if node.name == name]
    return found[0] if len(found) == 1 else None


def _method(tree: ast.AST, owner: str, name: str) -> ast.AST | None:
    """A method of a class of the file."""
    for scope in nodes_of(tree, ast.ClassDef):
        if scope.name == owner:
            return next((node for node in scope.body if isinstance(node, FUNCTIONS) and node.name == name), None)
    return None
