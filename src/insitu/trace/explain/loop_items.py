"""What a loop goes over, read from the source: samples of a dataset, what a collate function or a generator returns."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from insitu.trace.explain.bindings import FUNCTIONS, function_named, nodes_of, only_one, own_nodes_of
from insitu.trace.explain.expressions import called_name, last_name

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
    result = only_one(_results(tree, source, resolve))
    if result is None:
        return None
    return LoopItem(_part(result, place))


def sample(tree: ast.AST, function: str, resolve: Resolve) -> ast.expr | None:
    """What the dataset of a file gives to its collate function for each sample; None where the source leaves doubt."""
    loaders = [call for call in nodes_of(tree, ast.Call) if called_name(call) == LOADER]
    loader = only_one(call for call in loaders if getattr(_collate_function(call), "id", "") == function)
    if loader is None:
        return None
    return only_one(_samples(tree, loader, resolve))


def _collate_function(loader: ast.Call) -> ast.expr | None:
    """The collate function of a DataLoader, as it is written."""
    return next((word.value for word in loader.keywords if word.arg == "collate_fn"), None)


def _samples(tree: ast.AST, loader: ast.Call, resolve: Resolve) -> Iterator[ast.expr]:
    """What the dataset of a DataLoader returns for an index."""
    dataset = _first_argument(loader, resolve)
    if dataset is not None:
        yield from _values_of(_method(tree, called_name(dataset), "__getitem__"), ast.Return)


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
        return _values_of(function_named(tree, name), ast.Yield)
    assert isinstance(source, ast.Call)
    collate = _collate_function(source)
    if collate is not None:
        return _values_of(function_named(tree, last_name(collate)), ast.Return)
    return _samples(tree, source, resolve)


def _values_of(function: ast.AST | None, kind: type[ast.Return] | type[ast.Yield]) -> Iterator[ast.expr]:
    """The values that a function returns or yields; none if the function is not known."""
    if function is None:
        return iter(())
    return filter(None, map(attrgetter("value"), own_nodes_of(function, kind)))


def _method(tree: ast.AST, owner: str, name: str) -> ast.AST | None:
    """A method of a class of the file."""
    scope = next((each for each in nodes_of(tree, ast.ClassDef) if each.name == owner), None)
    functions = [node for node in getattr(scope, "body", ()) if isinstance(node, FUNCTIONS)]
    return next((node for node in functions if node.name == name), None)
