"""One step back in the source: the expressions that a name, an attribute, an item or a call of the user refers to."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from insitu.trace.explain.slices.attributes import behind_attribute
from insitu.trace.explain.slices.name_steps import behind_name, may_be_same
from insitu.trace.explain.slices.passed_arguments import self_name
from insitu.trace.explain.slices.points import ANY, CallScope, Instance, Key, Keys, Point, SourceSteps
from insitu.trace.explain.slices.reaching import constant_key
from insitu.trace.explain.slices.source_callees import bases, class_of
from insitu.trace.explain.slices.source_calls import behind_call, instance_items

MOST_ENDS = 40  # expressions that are looked at behind one name
MOST_KEYS = 6
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Resolver(SourceSteps):
    """Answers what an expression refers to. An expression that computes its value itself is an end."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], list[Point] | None] = {}
        self._points: list[Point] = []  # kept alive: a point is known by the ids of its nodes
        self._instances: dict[tuple[object, ...], list[Instance]] = {}
        self._steps: dict[type[ast.AST], Callable[[Point, Any], list[Point] | None]] = {
            ast.Name: lambda point, node: behind_name(point),
            ast.Attribute: lambda point, node: behind_attribute(self, point),
            ast.Call: lambda point, node: behind_call(self, point),
            ast.Subscript: self._item_of,
            ast.IfExp: lambda point, node: [point.at(node.body), point.at(node.orelse)],
            ast.BoolOp: lambda point, node: [point.at(each) for each in node.values],
            ast.Dict: _entry,
            **dict.fromkeys((ast.NamedExpr, ast.Starred, ast.Await, ast.YieldFrom), _inner),
            **dict.fromkeys((ast.Tuple, ast.List, ast.Set), _element),
            **dict.fromkeys((ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp), _comprehended),
            ast.BinOp: _repeated,
        }

    def behind(self, point: Point) -> list[Point] | None:
        """The expressions that a point only refers to; None if it computes its value itself."""
        key = point.identity
        if key not in self._known:
            self._points.append(point)
            self._known[key] = []  # what refers to itself has nothing behind it
            self._known[key] = self._behind(point)
        return self._known[key]

    def _behind(self, point: Point) -> list[Point] | None:
        step = self._steps.get(type(point.node))
        if step is None or len(point.keys) > MOST_KEYS:
            return None
        return step(point, point.node)

    def ends(self, point: Point) -> list[Point]:
        """The expressions that compute the value of a point, behind all names."""
        found, waiting, seen = [], [point], set[tuple[object, ...]]()
        while waiting and len(seen) < MOST_ENDS:
            here = waiting.pop(0)
            if here.identity in seen:
                continue
            seen.add(here.identity)
            behind = self.behind(here)
            if behind:
                waiting += behind
            else:
                found.append(here)
        return found

    def instances(self, point: Point) -> list[Instance]:
        """The objects of the user's classes that a point may refer to."""
        key = point.identity
        if key not in self._instances:
            self._instances[key] = []
            self._instances[key] = self._find_instances(point)
        return self._instances[key]

    def _find_instances(self, point: Point) -> list[Instance]:
        scope, node = point.scope, point.node
        is_self = isinstance(node, ast.Name) and node.id == self_name(scope) and not point.keys
        if is_self:
            return self._own_instances(scope)
        found = []
        for end in self.ends(point):
            place = class_of(end.part(end.node.func)) if isinstance(end.node, ast.Call) else None
            if place is not None and not end.keys:
                found.append(Instance(place, end))
            elif self._is_other_self(end, point):
                found += self.instances(end)
        return found or _annotated(point)

    def _is_other_self(self, end: Point, point: Point) -> bool:
        """Whether an expression is the `self` of another method."""
        is_name = isinstance(end.node, ast.Name) and end.node.id == self_name(end.scope)
        return is_name and not end.keys and end.identity != point.identity

    def _own_instances(self, scope: CallScope) -> list[Instance]:
        """The object whose method runs."""
        owner = scope.owner
        assert owner is not None
        if scope.instance is not None:
            return [scope.instance]
        called = self.instances(scope.receiver) if scope.receiver is not None else []
        fitting = [each for each in called if any(place.node is owner.node for place in bases(each.owner))]
        return fitting or [Instance(owner)]

    def item(self, point: Point) -> list[Point] | None:
        """The items of an object that is iterated or indexed; None if its class says nothing about them."""
        if not isinstance(point.node, ast.Call):
            return None
        place = class_of(point.part(point.node.func))
        if place is None:
            return None
        return instance_items(Instance(place, replace(point, keys=())), point) or None

    def _item_of(self, point: Point, node: ast.Subscript) -> list[Point]:
        """`x[key]`: a part of x. A slice of x has the items of x, and an index of several parts is one of an array."""
        if isinstance(node.slice, (ast.Slice, ast.Tuple)):
            return [point.at(node.value)]
        return [point.at(node.value, self._key(point, node.slice))]

    def _key(self, point: Point, node: ast.expr) -> Key:
        """The key that an expression is, or that the only constant behind a name is."""
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return constant_key(node)
        keys = {constant_key(end.node) for end in self.ends(point.part(node))}
        return keys.pop() if len(keys) == 1 else ANY


def _annotated(point: Point) -> list[Instance]:
    """The class that the annotation of a parameter names."""
    function = point.scope.function
    if function is None or not isinstance(point.node, ast.Name) or isinstance(function, ast.Lambda):
        return []
    for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        if each.arg == point.node.id and each.annotation is not None:
            place = class_of(point.part(each.annotation))
            return [] if place is None else [Instance(place)]
    return []


def _inner(point: Point, node: Any) -> list[Point]:
    return [point.at(node.value)]


def _element(point: Point, node: ast.Tuple | ast.List | ast.Set) -> list[Point] | None:
    if not point.keys:
        return None
    chosen = _chosen(point, node.elts) if isinstance(point.keys[0], int) else None
    if chosen is not None:
        return chosen
    return [_item_of_literal(point, each, ANY) for each in node.elts]


def _chosen(point: Point, elements: list[ast.expr]) -> list[Point] | None:
    """The element with an index; None if it is not known because of a star before it: `image, *boxes`."""
    index = point.keys[0]
    assert isinstance(index, int)
    star = next((place for place, each in enumerate(elements) if isinstance(each, ast.Starred)), None)
    if star is None:
        found = elements[index : index + 1 or None] if index >= -len(elements) else []
        return [_item_of_literal(point, each, ANY) for each in found]
    if 0 <= index < star:
        return [_item_of_literal(point, elements[index], ANY)]
    if index >= star == len(elements) - 1:
        return [_item_of_literal(point, elements[star], index - star)]
    return None


def _item_of_literal(point: Point, element: ast.expr, key: Key) -> Point:
    """An element of a literal; of one with a star, its item with a key."""
    rest = point.keys[1:]
    if isinstance(element, ast.Starred):
        return Point(point.scope, element.value, (key, *rest))
    return Point(point.scope, element, rest)


def _entry(point: Point, node: ast.Dict) -> list[Point] | None:
    if not point.keys:
        return None
    key, rest = point.keys[0], point.keys[1:]
    found = []
    for name, value in zip(node.keys, node.values, strict=True):
        if name is None:
            found.append(point.at(value))
        elif may_be_same(constant_key(name), key):
            found.append(Point(point.scope, value, rest))
    return found


def _comprehended(point: Point, node: Comprehension) -> list[Point] | None:
    if not point.keys:
        return None
    return [inside_comprehension(point, node, point.keys)]


def inside_comprehension(point: Point, node: Comprehension, keys: Keys = (ANY,)) -> Point:
    """The element that a comprehension makes, in a scope that has the names of its loops."""
    key = keys[0]
    if isinstance(node, ast.DictComp) or len(node.generators) > 1:
        key = ANY
    element = node.value if isinstance(node, ast.DictComp) else node.elt
    return Point(comprehension_scope(point, node, key), element, keys[1:])


def comprehension_scope(point: Point, node: Comprehension, key: Any = ANY) -> CallScope:
    """The scope inside of a comprehension."""
    scope = point.scope
    for loop in node.generators:
        bound = dict(_bound(loop.target, Point(scope, loop.iter, (key,))))
        scope = replace(scope, bound={**scope.bound, **bound})
    return scope


def _bound(target: ast.expr, value: Point) -> list[tuple[str, Point]]:
    """The names of a target, each with its part of a value."""
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    found = []
    for index, part in enumerate(getattr(target, "elts", ())):
        inner = part.value if isinstance(part, ast.Starred) else part
        found += _bound(inner, Point(value.scope, value.node, (*value.keys, index)))
    return found


def _repeated(point: Point, node: ast.BinOp) -> list[Point] | None:
    """`[x] * n` and `a + b` as lists: the items are those of the lists."""
    if not point.keys or not isinstance(node.op, (ast.Add, ast.Mult)):
        return None
    sides = [side for side in (node.left, node.right) if _may_be_list(side)]
    has_list = any(isinstance(side, (ast.List, ast.Tuple, ast.ListComp)) for side in sides)
    has_list = has_list or any(isinstance(getattr(side, "left", None), (ast.List, ast.Tuple)) for side in sides)
    if not has_list:
        return None
    return [Point(point.scope, side, (ANY, *point.keys[1:])) for side in sides]


def _may_be_list(node: ast.expr) -> bool:
    return not isinstance(node, ast.Constant)
