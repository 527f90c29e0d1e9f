"""The expressions that callers pass for a parameter of a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.bindings import FUNCTIONS
from insitu.trace.explain.expressions import called_name, last_name
from insitu.trace.explain.slices.points import ANY, CallScope, ClassPlace, Point
from insitu.trace.explain.slices.user_file import Function, keyword_of, source_file

MOST_CALLERS = 3  # of a function whose caller is not known
CONSTRUCTOR = "__init__"
STATIC = "staticmethod"


def parameter_names(function: Function) -> list[str]:
    """The names of all parameters."""
    args = function.args
    extra = [each for each in (args.vararg, args.kwarg) if each is not None]
    return [each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs, *extra)]


def self_name(scope: CallScope) -> str:
    """The first parameter of a method; empty for other functions."""
    function = scope.function
    if scope.owner is None or not isinstance(function, FUNCTIONS):
        return ""
    if any(getattr(each, "id", "") == STATIC for each in function.decorator_list):
        return ""
    return next(iter(parameter_names(function)), "")


def argument_points(scope: CallScope, name: str) -> list[Point]:
    """What callers pass for a parameter; its default where a caller passes nothing."""
    if scope.function is None:
        return []
    calls = [scope.call] if scope.call is not None else list(callers(scope))
    found = [point for call in calls for point in _passed(scope, call, name)]
    is_missing = len(found) < len(calls) or not calls
    default = default_of(scope.function, name)
    if not calls:
        found += passed_by_library(scope, name)
    if is_missing and default is not None:
        found.append(Point(module_scope(scope.file), default))
    return found


def passed_argument(scope: CallScope, name: str) -> Point | None:
    """What the call of a scope passes for a parameter; None if the call is not known, or passes nothing by itself."""
    passed = _passed(scope, scope.call, name) if scope.call is not None else []
    return next((point for point in passed if not point.keys), None)


def passed_by_library(scope: CallScope, name: str) -> Iterator[Point]:
    """What `map(function, items)` and a DataLoader with `collate_fn=function` pass for the first parameter."""
    source = source_file(scope.file)
    names = [each for each in parameter_names(scope.function) if each not in ("self", "cls")] if scope.function else []
    if source is None or names[:1] != [name]:
        return
    for call in source.calls.get("map", []):
        if len(call.args) > 1 and last_name(call.args[0]) == scope.name:
            yield Point(scope_at(scope.file, call.lineno), call.args[1], (ANY,))
    for call in source.calls.get("DataLoader", []):
        collate = keyword_of(call, "collate_fn")
        if collate is not None and call.args and last_name(collate) == scope.name:
            yield Point(scope_at(scope.file, call.lineno), call.args[0])


def module_scope(file: str) -> CallScope:
    """The scope of a module."""
    return CallScope(file)


def scope_at(file: str, line: int) -> CallScope:
    """The scope of a line, whose caller is not known."""
    source = source_file(file)
    function = source.function_around(line) if source is not None else None
    if source is None or function is None:
        return CallScope(file)
    return scope_of_function(file, function)


def scope_of_function(file: str, function: Function) -> CallScope:
    """The scope of a function, whose caller is not known."""
    source = source_file(file)
    home = source.homes.get(function) if source is not None else None
    if home is None:
        return CallScope(file, function)
    owner = ClassPlace(file, home.owner) if home.owner is not None else None
    outer = scope_of_function(file, home.outer) if home.outer is not None else None
    return CallScope(file, function, owner, outer=outer)


def callers(scope: CallScope) -> Iterator[Point]:
    """The calls of a function in its own file, by its name; none if there are too many to tell."""
    source, name = source_file(scope.file), scope.name
    if source is None or not name:
        return
    if name == CONSTRUCTOR and scope.owner is not None:
        name = scope.owner.node.name
    calls = source.calls.get(name, [])
    if len(calls) <= MOST_CALLERS:
        for call in calls:
            yield Point(scope_at(scope.file, call.lineno), call)


def _passed(scope: CallScope, call: Point, name: str) -> list[Point]:
    """The argument of one call; for `*args` and `**kwargs` all that go there."""
    node = call.node
    if not isinstance(node, ast.Call) or scope.function is None:
        return []
    for word in node.keywords:
        if word.arg == name:
            return [call.part(word.value)]
    place = _place(scope, name)
    if place is None:
        return _spread(call, name)
    before = node.args[: place + 1]
    for index, each in enumerate(before):
        if isinstance(each, ast.Starred):
            return [call.part(each.value).at(each.value, place - index)]
    if len(before) > place:
        return [call.part(before[place])]
    return _spread(call, name)


def _spread(call: Point, name: str) -> list[Point]:
    """The dict behind `**options`, if a call has one."""
    assert isinstance(call.node, ast.Call)
    return [call.part(word.value).at(word.value, name) for word in call.node.keywords if word.arg is None]


def _place(scope: CallScope, name: str) -> int | None:
    """The position of a parameter in a call."""
    assert scope.function is not None
    args = scope.function.args
    names = [each.arg for each in (*args.posonlyargs, *args.args)]
    if self_name(scope) and not isinstance(scope.function, ast.Lambda):
        names = names[1:]
    if name in names:
        return names.index(name)
    return None


def default_of(function: Function, name: str) -> ast.expr | None:
    """The default of a parameter."""
    args = function.args
    names = [each.arg for each in (*args.posonlyargs, *args.args)]
    by_name = dict(zip(reversed(names), reversed(args.defaults), strict=False))
    found = by_name.get(name)
    if found is not None:
        return found
    words = zip(args.kwonlyargs, args.kw_defaults, strict=True)
    return next((default for each, default in words if each.arg == name), None)


def is_call_of(node: ast.AST, name: str) -> bool:
    """Whether an expression calls a function or a method with a name."""
    return called_name(node) == name
