"""One step back from a name: its assignments, the arguments of the callers, the functions and modules around."""

from __future__ import annotations

import ast

from insitu.trace.explain.slices.passed_arguments import argument_points, module_scope, parameter_names
from insitu.trace.explain.slices.points import ANY, CallScope, Key, Point
from insitu.trace.explain.slices.reaching import ARGUMENT, ReachingValue, Values, final_values, reaching_values
from insitu.trace.explain.slices.user_file import imported_file, source_file


def behind_name(point: Point) -> list[Point]:
    """The values that a name can have."""
    assert isinstance(point.node, ast.Name)
    return _in_scope(point, point.scope, point.node.id, point.node.lineno)


def _in_scope(point: Point, scope: CallScope, name: str, line: int) -> list[Point]:
    """The values of a name in a scope, else in those around it."""
    bound = scope.bound.get(name)
    if bound is not None:
        return [bound.at(bound.node)] if not point.keys else [_with_keys(bound, point)]
    if scope.function is None:
        return _in_module(point, scope.file, name)
    values = _local_values(scope, name, line)
    if values:
        found = []
        for value in values:
            found += _arguments(point, scope, name) if value is ARGUMENT else _given(point, scope, value)
        return found
    if scope.outer is not None:
        return _in_scope(point, scope.outer, name, -1)
    return _in_module(point, scope.file, name)


def _with_keys(bound: Point, point: Point) -> Point:
    return Point(bound.scope, bound.node, (*bound.keys, *point.keys))


def _local_values(scope: CallScope, name: str, line: int) -> Values:
    function = scope.function
    assert function is not None
    initial = (ARGUMENT,) if name in parameter_names(function) else ()
    if isinstance(function, ast.Lambda):
        return initial
    return reaching_values(function.body, line, name, initial)


def _arguments(point: Point, scope: CallScope, name: str) -> list[Point]:
    return [_with_keys(argument, point) for argument in argument_points(scope, name)]


def _given(point: Point, scope: CallScope, value: ReachingValue) -> list[Point]:
    found = given_point(point, scope, value)
    return [] if found is None else [found]


def given_point(point: Point, scope: CallScope, value: ReachingValue) -> Point | None:
    """A value of a name as a point; None if the value is another item of the container than the one asked for."""
    if not value.is_filling:
        return Point(scope, value.value, (*value.keys, *point.keys))
    if not point.keys:
        return Point(scope, value.value, value.keys)
    if not may_be_same(value.fills, point.keys[0]):
        return None
    return Point(scope, value.value, (*value.keys, *point.keys[1:]))


def may_be_same(one: Key, other: Key) -> bool:
    """Whether two keys may mean the same item."""
    return one is ANY or other is ANY or one == other


def _in_module(point: Point, file: str, name: str) -> list[Point]:
    """The values of a name of a module, which may be imported from another file of the user."""
    source = source_file(file)
    if source is None:
        return []
    values = final_values(getattr(source.tree, "body", []), name)
    if values:
        scope = module_scope(file)
        found = [given_point(point, scope, value) for value in values]
        return [each for each in found if each is not None]
    place = source.imports.get(name)
    other = imported_file(file, place) if place is not None and place.name else None
    if place is None or other is None or other.path == file:
        return []
    return _in_module(point, other.path, place.name)
