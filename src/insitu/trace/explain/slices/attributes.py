"""One step back from an attribute: its assignments in the class, its field, its property, its buffer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.bindings import FUNCTIONS, nodes_of
from insitu.trace.explain.expressions import called_name, last_name
from insitu.trace.explain.slices.name_steps import given_point
from insitu.trace.explain.slices.passed_arguments import CONSTRUCTOR, module_scope, scope_at, self_name
from insitu.trace.explain.slices.points import CallScope, ClassPlace, Instance, Point, SourceSteps
from insitu.trace.explain.slices.reaching import reaching_values, values_given
from insitu.trace.explain.slices.source_callees import bases, class_of, results
from insitu.trace.explain.slices.user_file import imported_file, keyword_of, source_file
from insitu.trace.explain.value_definitions import REGISTRATIONS

PROPERTIES = frozenset(("property", "cached_property"))


def behind_attribute(steps: SourceSteps, point: Point) -> list[Point] | None:
    """The values that an attribute can have; None if the object is not one of the user's classes."""
    node = point.node
    assert isinstance(node, ast.Attribute)
    place = class_of(point.part(node.value))
    owners = [Instance(place)] if place is not None else steps.instances(point.part(node.value))
    found = [each for instance in owners for each in member_points(point, instance, node.attr)]
    return found or _dotted(point, node) or _of_module(point, node) or None


def member_points(point: Point, instance: Instance, attribute: str) -> list[Point]:
    """The values of an attribute of an object, with the keys of a point."""
    found: list[Point] = []
    for place in bases(instance.owner):
        found += _assigned(point, instance, place, attribute)
        found += _property(point, instance, place, attribute)
        if not found:
            found += _field(point, instance, place, attribute)
    return found


def _assigned(point: Point, instance: Instance, place: ClassPlace, attribute: str) -> Iterator[Point]:
    """What the methods of a class assign to an attribute, or put into it."""
    for function in place.node.body:
        if not isinstance(function, FUNCTIONS):
            continue
        scope = method_scope(instance, place, function)
        target = f"{self_name(scope)}.{attribute}"
        for statement in ast.walk(function):
            for value in values_given(statement, target):
                found = given_point(point, scope, value)
                if found is not None:
                    yield found
            registered = _registered(statement, attribute)
            if registered is not None:
                yield Point(scope, registered, point.keys)


def _registered(statement: ast.AST, attribute: str) -> ast.expr | None:
    """The value of `self.register_buffer("name", value)` and `setattr(self, "name", value)`."""
    if not isinstance(statement, ast.Call) or called_name(statement) not in (*REGISTRATIONS, "setattr"):
        return None
    words = [each.value if isinstance(each, ast.Constant) else None for each in statement.args[:-1]]
    if attribute in words:
        return statement.args[words.index(attribute) + 1]
    return None


def method_scope(instance: Instance, place: ClassPlace, function: ast.FunctionDef | ast.AsyncFunctionDef) -> CallScope:
    """The scope of a method of an object. Only the call of the constructor is known."""
    call = None
    if getattr(function, "name", "") == CONSTRUCTOR:
        call = _constructor_call(instance, place)
    return CallScope(place.file, function, place, call=call, instance=instance)


def _constructor_call(instance: Instance, place: ClassPlace) -> Point | None:
    """The call that ran the `__init__` of a class: of a base class, the call in the class that is derived from it."""
    if place.node is instance.owner.node:
        return instance.origin
    for derived in bases(instance.owner):
        for function in derived.node.body:
            if isinstance(function, FUNCTIONS) and function.name == CONSTRUCTOR and derived.node is not place.node:
                scope = method_scope(instance, derived, function)
                for node in ast.walk(function):
                    if called_name(node) == CONSTRUCTOR:
                        return Point(scope, node)  # type: ignore[arg-type]
    return instance.origin


def _property(point: Point, instance: Instance, place: ClassPlace, attribute: str) -> Iterator[Point]:
    for function in place.node.body:
        if isinstance(function, FUNCTIONS) and function.name == attribute and _is_property(function):
            scope = method_scope(instance, place, function)
            for value in results(function):
                yield Point(scope, value, point.keys)


def _is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(last_name(each) in PROPERTIES for each in function.decorator_list)


def _field(point: Point, instance: Instance, place: ClassPlace, attribute: str) -> Iterator[Point]:
    """The argument for a field of a dataclass, else its default; an attribute of the class."""
    passed = _passed_field(instance, _field_names(place.node), attribute)
    if passed is not None:
        yield Point(passed.scope, passed.node, point.keys)
        return
    for statement in place.node.body:
        for value in values_given(statement, attribute):
            found = given_point(point, module_scope(place.file), value)
            if found is not None:
                yield found


def _field_names(node: ast.ClassDef) -> list[str]:
    """The fields of a dataclass, in order."""
    annotated = [each.target for each in node.body if isinstance(each, ast.AnnAssign)]
    return [target.id for target in annotated if isinstance(target, ast.Name)]


def _passed_field(instance: Instance, names: list[str], attribute: str) -> Point | None:
    """What the constructor got for a field."""
    call = instance.origin
    if call is None or attribute not in names:
        return None
    passed = keyword_of(call.node, attribute)
    args = getattr(call.node, "args", [])[names.index(attribute) :]
    if passed is None and args:
        passed = args[0]
    return None if passed is None else call.part(passed)


def _dotted(point: Point, node: ast.Attribute) -> list[Point]:
    """What the function around, or the file, assigns to an attribute of an object whose class is not known."""
    scope, text = point.scope, ast.unparse(node)
    body = getattr(scope.function, "body", None)
    if isinstance(body, list):
        values = reaching_values(body, node.lineno, text)
        found = [given_point(point, scope, value) for value in values]
        if found:
            return [each for each in found if each is not None]
    return list(_assigned_in_file(point, node))


def _assigned_in_file(point: Point, node: ast.Attribute) -> Iterator[Point]:
    """The assignments of an attribute in other functions of the file: `model.depth = 3`."""
    source = source_file(point.scope.file)
    name = getattr(node.value, "id", "")
    if source is None or not name:
        return
    if name in ("self", "cls"):
        return
    for statement in nodes_of(source.tree, ast.Assign):
        for value in values_given(statement, f"{name}.{node.attr}"):
            found = given_point(point, scope_at(source.path, statement.lineno), value)
            if found is not None:
                yield found


def _of_module(point: Point, node: ast.Attribute) -> list[Point]:
    """The value of a name of an imported module of the user."""
    source = source_file(point.scope.file)
    place = source.imports.get(getattr(node.value, "id", "")) if source is not None else None
    other = imported_file(point.scope.file, place) if place is not None else None
    if other is None:
        return []
    name = ast.copy_location(ast.Name(node.attr, ast.Load()), node)
    return [Point(module_scope(other.path), name, point.keys)]
