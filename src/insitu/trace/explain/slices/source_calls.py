"""One step back from a call: what the function of the user returns, or what a well-known function passes on."""

from __future__ import annotations

import ast
from collections.abc import Callable

from insitu.trace.explain.bindings import FUNCTIONS
from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.passed_arguments import CONSTRUCTOR, default_of, parameter_names
from insitu.trace.explain.slices.points import ANY, CallScope, Instance, Keys, Point, SourceSteps
from insitu.trace.explain.slices.source_callees import Callee, callees, class_of, is_generator, method, results

MOST_DEPTH = 14  # calls in each other
ITEMS = ("__iter__", "__getitem__", "__next__")


def behind_call(steps: SourceSteps, point: Point) -> list[Point] | None:
    """The expressions whose value a call returns; None if a library computes it, or a new object is made."""
    node = point.node
    assert isinstance(node, ast.Call)
    place = class_of(point.part(node.func))
    if place is not None:
        return steps.item(point) if point.keys else None
    functions = list(callees(steps, point.part(node.func)))
    if functions:
        return [each for callee in functions for each in result_points(point, callee)]
    passing = PASSING.get(called_name(node))
    if passing is not None:
        return passing(steps, point, node)
    return None


def result_points(point: Point, callee: Callee) -> list[Point]:
    """What a function returns when it is called by the expression of a point."""
    scope = call_scope(point, callee)
    if scope.depth > MOST_DEPTH:
        return []
    keys = point.keys
    if is_generator(callee.function):
        keys = keys[1:]
    return [Point(scope, value, keys) for value in results(callee.function)]


def call_scope(call: Point, callee: Callee) -> CallScope:
    """The scope of a function that an expression calls."""
    return CallScope(
        callee.file,
        callee.function,
        callee.owner,
        call=Point(call.scope, call.node),
        instance=callee.instance,
        outer=callee.outer,
        depth=call.scope.depth + 1,
    )


def instance_items(instance: Instance, point: Point) -> list[Point]:
    """The items of an object of the user: what its `__iter__` yields, or its `__getitem__` returns."""
    for name in ITEMS:
        found = method(instance, name)
        if found is not None:
            scope = CallScope(found.file, found.function, found.owner, instance=instance, depth=point.scope.depth + 1)
            return [Point(scope, value, point.keys[1:]) for value in results(found.function)]
    return []


def _first(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    """A function that returns its first argument, or its items."""
    if not node.args:
        return None
    return [point.at(node.args[0])]


def _of_method(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    """A method that returns its object in another form; as a function, its first argument."""
    if isinstance(node.func, ast.Attribute) and not node.args:
        return [point.at(node.func.value)]
    return _first(steps, point, node)


def _next(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    if not node.args:
        return None
    return [point.at(node.args[0], ANY)]


def _enumerate(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    if point.keys[1:2] != (1,) or not node.args:
        return None
    return [Point(point.scope, node.args[0], (ANY, *point.keys[2:]))]


def _zip(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    keys = point.keys
    if len(node.args) == 1 and isinstance(node.args[0], ast.Starred):
        rows = node.args[0].value  # zip(*samples) swaps the two outer keys
        return [Point(point.scope, rows, (ANY, *keys[:1], *keys[2:]))] if keys else None
    if len(keys) < 2 or not isinstance(keys[1], int) or keys[1] >= len(node.args):
        return None
    return [Point(point.scope, node.args[keys[1]], (ANY, *keys[2:]))]


def _map(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    if len(node.args) < 2 or not point.keys:
        return None
    items = [Point(point.scope, each, (ANY,)) for each in node.args[1:]]
    return applied(steps, point.part(node.args[0]), items, point.keys[1:])


def applied(steps: SourceSteps, function: Point, arguments: list[Point], keys: Keys) -> list[Point] | None:
    """What a function of the user returns for arguments that a library passes."""
    found: list[Point] = []
    first, words = _bound_before(steps, function)
    for callee in callees(steps, function):
        names = [name for name in parameter_names(callee.function) if name not in ("self", "cls")]
        bound = {**dict(zip(names, [*first, *arguments], strict=False)), **words}
        scope = CallScope(
            callee.file, callee.function, callee.owner, instance=callee.instance, outer=callee.outer, bound=bound
        )
        found += [Point(scope, value, keys) for value in results(callee.function)]
    return found or None


def _bound_before(steps: SourceSteps, function: Point) -> tuple[list[Point], dict[str, Point]]:
    """The arguments that `functools.partial` has bound."""
    for end in [function, *steps.ends(function)]:
        if called_name(end.node) == "partial" and isinstance(end.node, ast.Call):
            words = {word.arg: end.part(word.value) for word in end.node.keywords if word.arg is not None}
            return list(end.parts(end.node.args[1:])), words
    return [], {}


def _loader(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    """A batch of a DataLoader: what its collate function returns for the samples of the dataset, else the samples."""
    words = {word.arg: word.value for word in node.keywords}
    dataset = node.args[0] if node.args else words.get("dataset")
    if dataset is None or not point.keys:
        return None
    collate = words.get("collate_fn")
    if collate is not None:
        found = applied(steps, point.part(collate), [point.part(dataset)], point.keys[1:])
        if found is not None:
            return found
    return [point.at(dataset)]


def _tensor_dataset(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    keys = point.keys
    if len(keys) < 2 or not isinstance(keys[1], int) or keys[1] >= len(node.args):
        return None
    return [Point(point.scope, node.args[keys[1]], (ANY, *keys[2:]))]


def _split(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    """Parts of a dataset: `random_split(data, sizes)`."""
    if not node.args or not point.keys:
        return None
    return [Point(point.scope, node.args[0], point.keys[1:])]


def _lookup(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    """`table.get(key, default)`: the item with this key, and the default."""
    if not isinstance(node.func, ast.Attribute):
        return None
    key = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else ANY
    found = [point.at(node.func.value, key)]  # type: ignore[arg-type]
    found += [point.at(each) for each in node.args[1:2]]
    return found


def _items(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    """`table.items()`: the second of each pair is the item."""
    if not isinstance(node.func, ast.Attribute) or point.keys[1:2] != (1,):
        return None
    return [Point(point.scope, node.func.value, (ANY, *point.keys[2:]))]


def _words(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    """`dict(width=3)`, `SimpleNamespace(width=3)`: the item with the key."""
    key = next(iter(point.keys), None)
    found = [Point(point.scope, word.value, point.keys[1:]) for word in node.keywords if word.arg == key]
    return found or _first(steps, point, node)


def _converted(steps: SourceSteps, point: Point, node: ast.Call) -> list[Point] | None:
    """`rows.tolist()`, `torch.tensor(rows)`: the items are those of the rows, in another form."""
    if not point.keys:
        return None
    if called_name(node) in CONVERTING_METHODS and isinstance(node.func, ast.Attribute):
        return [point.at(node.func.value)]
    return _first(steps, point, node)


Passing = Callable[[SourceSteps, Point, ast.Call], list[Point] | None]
FIRST = ("list", "tuple", "sorted", "iter", "reversed", "set", "tqdm", "trange", "islice", "cycle", "deque", "deepcopy")
FORMS = ("copy", "values", "result", "partial", "Subset", "prefetch", "pin_memory", "ModuleList", "ParameterList")
CONVERTING_METHODS = ("tolist", "numpy", "cpu", "detach", "clone")
CONVERTING = ("tensor", "as_tensor", "from_numpy", "array", "asarray", "LongTensor")
PASSING: dict[str, Passing] = {
    **dict.fromkeys((*CONVERTING_METHODS, *CONVERTING), _converted),
    **dict.fromkeys(FIRST, _first),
    **dict.fromkeys(FORMS, _of_method),
    **dict.fromkeys(("get", "pop", "setdefault"), _lookup),
    "next": _next,
    "enumerate": _enumerate,
    "zip": _zip,
    "map": _map,
    "DataLoader": _loader,
    "TensorDataset": _tensor_dataset,
    "random_split": _split,
    "items": _items,
    "dict": _words,
}


def may_return_nothing(function: ast.AST) -> bool:
    """Whether a function can end without a `return` that has a value; a generator and a constructor always do."""
    if not isinstance(function, FUNCTIONS) or is_generator(function) or function.name == CONSTRUCTOR:
        return False
    return not _always_ends(function.body)


def _always_ends(body: list[ast.stmt]) -> bool:
    """Whether the last statement of a block returns or raises on every way."""
    last = body[-1] if body else None
    if isinstance(last, (ast.Return, ast.Raise)):
        return True
    if isinstance(last, ast.If):
        return _always_ends(last.body) and _always_ends(last.orelse)
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return _always_ends(last.body)
    if isinstance(last, ast.Try):
        parts = [last.body, *(each.body for each in last.handlers)]
        return all(map(_always_ends, parts)) or _always_ends(last.finalbody)
    if isinstance(last, ast.Match):
        return all(_always_ends(case.body) for case in last.cases)
    return isinstance(last, ast.While) and isinstance(last.test, ast.Constant)


__all__ = ["applied", "behind_call", "call_scope", "default_of", "instance_items", "may_return_nothing"]
