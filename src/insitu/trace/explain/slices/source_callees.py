"""What an expression calls: a function, a method, a lambda or a class of the user's files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.explain.bindings import FUNCTIONS
from insitu.trace.explain.expressions import called_name, last_name
from insitu.trace.explain.slices.passed_arguments import self_name
from insitu.trace.explain.slices.points import CallScope, ClassPlace, Instance, Point, SourceSteps
from insitu.trace.explain.slices.user_file import Function, SourceFile, imported_file, source_file

MOST_BASES = 8
CALLED = ("forward", "__call__")


@dataclass(slots=True, frozen=True)
class Callee:
    """A function of the user, with the object whose method it is; `outer` is the scope that it was defined in."""

    file: str
    function: Function
    owner: ClassPlace | None = None
    instance: Instance | None = None
    outer: CallScope | None = None


def class_of(point: Point) -> ClassPlace | None:
    """The class that an expression names: `Vocab`, `text.Vocab`, `cls`."""
    node, scope = point.node, point.scope
    if isinstance(node, ast.Name) and scope.owner is not None and node.id == self_name(scope) == "cls":
        return scope.owner
    is_type = called_name(node) == "type" or getattr(node, "attr", "") == "__class__"
    if is_type and scope.owner is not None:
        return scope.owner
    found = _defined(point, node)
    return found if isinstance(found, ClassPlace) else None


def _defined(point: Point, node: ast.expr) -> ClassPlace | Callee | None:
    """The class or function of a module that a name means."""
    source = source_file(point.scope.file)
    if source is None:
        return None
    if isinstance(node, ast.Name):
        return defined_in(source, node.id)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        place = source.imports.get(node.value.id)
        other = imported_file(source.path, place) if place is not None else None
        if other is not None:
            return defined_in(other, node.attr)
    return None


def defined_in(source: SourceFile, name: str) -> ClassPlace | Callee | None:
    """The class or function with a name in a file, which may import it from another one."""
    if name in source.classes:
        return ClassPlace(source.path, source.classes[name])
    if name in source.functions:
        return Callee(source.path, source.functions[name])
    place = source.imports.get(name)
    other = imported_file(source.path, place) if place is not None and place.name else None
    if place is None or other is None or other is source:
        return None
    return defined_in(other, place.name)


def bases(owner: ClassPlace) -> list[ClassPlace]:
    """A class and its base classes in the user's files, the class itself first."""
    found = [owner]
    for each in found:
        if len(found) > MOST_BASES:
            break
        for base in each.node.bases:
            place = class_of(Point(CallScope(each.file), base))
            if place is not None and all(place.node is not other.node for other in found):
                found.append(place)
    return found


def method(instance: Instance, *names: str, after: ClassPlace | None = None) -> Callee | None:
    """The first method with one of the names in a class and its bases; with `after`, only in the bases behind it."""
    places = bases(instance.owner)
    if after is not None:
        nodes = [place.node for place in places]
        places = places[nodes.index(after.node) + 1 :] if after.node in nodes else bases(after)[1:]
    for place in places:
        for node in place.node.body:
            if isinstance(node, FUNCTIONS) and node.name in names:
                return Callee(place.file, node, place, instance)
    return None


def callees(steps: SourceSteps, point: Point) -> Iterator[Callee]:
    """The functions that the expression of a point may mean, if they are the user's."""
    node = point.node
    if isinstance(node, ast.Lambda):
        yield Callee(point.scope.file, node, outer=point.scope)
        return
    local = _local_function(point)
    if local is not None:
        yield local
        return
    found = _defined(point, node)
    if isinstance(found, Callee):
        yield found
    elif isinstance(node, ast.Attribute):
        yield from _methods(steps, point, node)
    elif found is None:
        yield from _values(steps, point)


def _local_function(point: Point) -> Callee | None:
    """A function that is defined in the function around."""
    node, scope = point.node, point.scope
    source = source_file(scope.file)
    if not isinstance(node, ast.Name) or source is None:
        return None
    while scope.function is not None:
        for function, home in source.homes.items():
            is_here = home.outer is scope.function and home.owner is None
            if is_here and getattr(function, "name", "") == node.id:
                return Callee(scope.file, function, outer=scope)  # type: ignore[arg-type]
        if scope.outer is None:
            return None
        scope = scope.outer
    return None


def _methods(steps: SourceSteps, point: Point, node: ast.Attribute) -> Iterator[Callee]:
    """The methods that `x.name` means, by the classes that x can have; else the callable that the attribute holds."""
    scope = point.scope
    if called_name(node.value) == "super" and scope.owner is not None:
        for instance in steps.instances(point.part(_self(scope, node))):
            found = method(instance, node.attr, after=scope.owner)
            if found is not None:
                yield found
        return
    place = class_of(point.part(node.value))
    owners = [Instance(place)] if place is not None else steps.instances(point.part(node.value))
    is_found = False
    for instance in owners:
        found = method(instance, node.attr)
        if found is not None:
            is_found = True
            yield found
    if not is_found:
        yield from _values(steps, point)


def _self(scope: CallScope, node: ast.expr) -> ast.Name:
    found = ast.Name(self_name(scope), ast.Load())
    return ast.copy_location(found, node)


def _values(steps: SourceSteps, point: Point) -> Iterator[Callee]:
    """The functions behind a name or an attribute that holds one; an object is called by its `forward`."""
    for end in steps.ends(point):
        if end.node is point.node:
            continue
        if isinstance(end.node, (ast.Lambda, ast.Name, ast.Attribute)):
            yield from callees(steps, end)
        elif called_name(end.node) == "partial" and end.node.args:  # type: ignore[attr-defined]
            yield from callees(steps, end.part(end.node.args[0]))  # type: ignore[attr-defined]
    for instance in steps.instances(point):
        found = method(instance, *CALLED)
        if found is not None:
            yield found


def results(function: Function) -> list[ast.expr]:
    """What a function returns or, if it is a generator, yields."""
    if isinstance(function, ast.Lambda):
        return [function.body]
    nodes = list(_own(function))
    yields = [node for node in nodes if isinstance(node, (ast.Yield, ast.YieldFrom))]
    returns = [node for node in nodes if isinstance(node, ast.Return)]
    return [node.value for node in (yields or returns) if node.value is not None]


def is_generator(function: Function) -> bool:
    """Whether a function yields."""
    if isinstance(function, ast.Lambda):
        return False
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in _own(function))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*FUNCTIONS, ast.Lambda, ast.ClassDef)):
            yield from _own(child)


__all__ = ["CALLED", "Callee", "bases", "callees", "class_of", "is_generator", "last_name", "method", "results"]
