"""The line that gave a schedule of the learning rate its length, found by the number that the length is."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from insitu.trace.array_source import FUNCTIONS, bound_values, first_line, nodes_outside_functions
from insitu.trace.event import Site
from insitu.trace.explain.bindings import nodes_of, own_nodes
from insitu.trace.explain.expressions import tree_of


@dataclass(frozen=True, slots=True)
class NamedNumber:
    """A number that a name had where a schedule was made: in the function that begins at a line, or in the module."""

    file: str
    line: int
    function: str
    name: str
    number: float


def length_site(numbers: Iterable[NamedNumber], steps: int) -> Site | None:
    """The line that bound a name to a number of steps, give or take one; None if there is none."""
    near = [each for each in numbers if abs(each.number - steps) <= 1]
    near.sort(key=lambda each: abs(each.number - steps))  # stable: the nearest names remain first
    return next((site for each in near for site in binding_sites(each)), None)


def binding_sites(number: NamedNumber) -> Iterator[Site]:
    """The lines that bind a name in its function, or in one around it; a parameter is bound by the caller."""
    for node in nodes_around_number(number):
        if bound_values(node, number.name):
            line = getattr(node, "lineno", 0)
            text = linecache.getline(number.file, line).rstrip("\n")
            yield Site(number.file, line, number.function, text)


def nodes_around_number(number: NamedNumber) -> Iterator[ast.AST]:
    """The nodes of the functions around a number, the innermost first or, outside of functions, of the module."""
    tree = tree_of(number.file)
    if tree is None:
        return
    around = [node for node in nodes_of(tree, *FUNCTIONS) if covers_line(node, number.line)]
    for function in reversed(around):
        yield from own_nodes(function)
    if not around:
        yield from nodes_outside_functions(tree)


def covers_line(function: ast.AST, line: int) -> bool:
    """Whether a line is in a function, from its first decorator on."""
    return first_line(function) <= line <= (getattr(function, "end_lineno", 0) or 0)
