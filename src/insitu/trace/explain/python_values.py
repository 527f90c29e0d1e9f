"""Where a Python value comes from: from the expression of an argument back to the statement that computed it.

The walk reads the source of the user's frames. It goes through names that only repeat a value (`n = m`, `int(n)`,
`n.item()`), from a parameter to the argument of the caller, and from an attribute to its only assignment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from insitu.trace.explain.assignments import COMPREHENSIONS
from insitu.trace.explain.bindings import only_one, scope_of, single_targets
from insitu.trace.explain.call_stack import Stack
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import source_tree
from insitu.trace.explain.failure_history import FailureHistory
from insitu.trace.explain.slice_starts import stack_scope
from insitu.trace.explain.slices.passed_arguments import passed_argument, passed_by_library, scope_at
from insitu.trace.explain.slices.points import ANY, CallScope, Point
from insitu.trace.explain.slices.reaching import keys_in
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.source_callees import callees
from insitu.trace.explain.slices.source_calls import result_points
from insitu.trace.explain.value_definitions import Parameter, ValueDefinition, definition_of, filling_of

MOST_STEPS = 12
LEVELS = 2
# What only says something about an object that has other sizes or values of its own.
ABOUT_TENSORS = frozenset(("shape", "ndim", "dtype", "device"))
QUESTIONS = frozenset(("size", "dim", "numel", "stride"))
CONTAINERS = frozenset(("list", "dict", "set", "deque", "defaultdict", "OrderedDict"))
# Functions and methods that return their argument as a number.
CONVERSIONS = frozenset(("int", "float", "round", "abs", "item", "tolist"))


@dataclass(slots=True, frozen=True)
class NamedSite:
    """A place in the source that gave a name its value."""

    name: str
    site: ExpressionSite


@dataclass(slots=True, frozen=True)
class ValueStep:
    """A statement that computed a name, and the names that it read; a part of a statement has no site of its own."""

    name: str
    site: ExpressionSite | None
    behind: tuple[Point, ...] = ()


def value_sites(history: FailureHistory, stack: Stack, node: ast.expr) -> Iterator[NamedSite]:
    """The statements that computed the names in an expression of the innermost frame, the nearest first."""
    seen: set[ExpressionSite] = set()
    for step in _walk(history, stack, node):
        if step.site is not None and step.site not in seen:
            seen.add(step.site)
            yield NamedSite(step.name, step.site)


def readings_behind(history: FailureHistory, stack: Stack, node: ast.expr) -> Iterator[Point]:
    """The names that an expression of the innermost frame was computed from, as they are read on the way."""
    for step in _walk(history, stack, node):
        yield from step.behind


def _walk(history: FailureHistory, stack: Stack, node: ast.expr) -> Iterator[ValueStep]:
    """The statements behind an expression. A level is a statement that computes; the next has those for its names."""
    scope = stack_scope(history, stack)
    if scope is None:
        return
    resolver = Resolver()
    waiting = _readings(Point(scope, node))
    for _ in range(LEVELS):
        found = list(chain.from_iterable(_steps(resolver, reading, MOST_STEPS) for reading in waiting))
        yield from found
        waiting = tuple(chain.from_iterable(step.behind for step in found))


def names_read(node: ast.AST) -> list[ast.expr]:
    """The names in an expression that its value depends on, each once: `self.width`, `n`.

    >>> list(map(ast.unparse, names_read(ast.parse("torch.zeros(n + 1, self.width, x.shape[0])", mode="eval").body)))
    ['n', 'self.width']
    >>> list(map(ast.unparse, names_read(ast.parse("torch.zeros(len(), len(x), len(x + y))", mode="eval").body)))
    ['len()', 'len(x + y)', 'x', 'y']
    """
    own = _comprehension_names(node)
    found = {ast.unparse(each): each for each in _read(node)}
    calls = [each for each in found.values() if isinstance(each, ast.Call)]
    names = [each for text, each in found.items() if each not in calls and text.partition(".")[0] not in own]
    return [*calls, *names]


def _read(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, (ast.Name, ast.Attribute)):
        if _is_dotted(node):
            yield node
        return
    if isinstance(node, ast.Call):
        yield from _read_by_call(node)
        return
    is_about_tensor = isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") in ABOUT_TENSORS
    if is_about_tensor or isinstance(node, ast.Lambda):
        return
    for part in ast.iter_child_nodes(node):
        yield from _read(part)


def _read_by_call(node: ast.Call) -> Iterator[ast.expr]:
    """What a call depends on: its function, its arguments, and the object whose method is called."""
    if _asks_about_tensor(node):
        return
    if _may_be_in_file(node.func):
        yield node
    elif isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") not in MODULES:
        yield from _read(node.func.value)
    for part in (*node.args, *(word.value for word in node.keywords)):
        yield from _read(part)


def _asks_about_tensor(node: ast.Call) -> bool:
    """Whether a call only says something about an object that has a name: `x.size(0)`, `len(x)`."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr in QUESTIONS
    return _is_length(node, ast.Name)


def _is_length(node: ast.Call, *kinds: type[ast.expr]) -> bool:
    """Whether a call is `len(x)` of an expression of some kinds."""
    return getattr(node.func, "id", "") == "len" and isinstance(next(iter(node.args), None), kinds)


def _may_be_in_file(function: ast.expr) -> bool:
    """Whether a call may be one of a function, or of a method of the same object, in the same file."""
    if isinstance(function, ast.Attribute):
        return getattr(function.value, "id", "") == "self"
    return isinstance(function, ast.Name)


# How programs name the modules whose functions they call.
MODULES = frozenset(("torch", "np", "numpy", "math", "F", "nn", "random", "os", "itertools", "self"))


def _is_dotted(node: ast.expr) -> bool:
    """Whether an expression is a name, or attributes of a name, and not the shape of a tensor."""
    if getattr(node, "attr", "") in ABOUT_TENSORS:
        return False
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id not in MODULES - {"self"}


def _comprehension_names(node: ast.AST) -> set[str]:
    found: set[str] = set()
    for each in ast.walk(node):
        if isinstance(each, COMPREHENSIONS):
            for loop in each.generators:
                found |= set(map(ast.unparse, single_targets(loop.target)))
    return found


def _steps(resolver: Resolver, reading: Point, most: int) -> Iterator[ValueStep]:
    """The statements that computed one name."""
    if not most:
        return
    name = ast.unparse(reading.node)
    if isinstance(reading.node, ast.Call):
        yield from _result_steps(resolver, reading, ast.unparse(reading.node.func), most)
        return
    found = definition_of(source_tree(reading.scope.file), reading.node.lineno, name)
    if isinstance(found, Parameter):
        yield from _argument_steps(resolver, reading, name, most)
    elif found is not None:
        yield from _definition_steps(resolver, reading, name, found, most)


def _argument_steps(resolver: Resolver, reading: Point, name: str, most: int) -> Iterator[ValueStep]:
    """Where the argument for a parameter was computed; the call itself if the argument is an expression."""
    argument = passed_argument(reading.scope, name)
    if argument is None:
        yield from _sample_steps(resolver, reading, name)
    elif not _says_little(argument.node):
        yield from _computing_steps(resolver, argument, name, most)


def _computing_steps(resolver: Resolver, point: Point, name: str, most: int) -> Iterator[ValueStep]:
    """An expression that gave a name its value; if it only repeats another value, the statements behind that."""
    repeated = repeated_value(point.node)
    if repeated is not None:
        yield from _steps(resolver, point.part(repeated), most - 1)
        return
    yield ValueStep(name, replace(point.site, function=""), _readings(point))


def _sample_steps(resolver: Resolver, reading: Point, name: str) -> Iterator[ValueStep]:
    """What a library passes to a function of the user: the samples of a dataset, or the items of `map`."""
    passed = only_one(passed_by_library(reading.scope, name))
    if passed is None:
        return
    if not passed.keys:  # a dataset; `map` passes one item at a time
        passed = passed.at(passed.node, ANY)
    item = _result_behind(resolver, passed)
    if item is not None:
        yield ValueStep(name, replace(item.site, function=""), _readings(item))


def _definition_steps(
    resolver: Resolver, reading: Point, name: str, found: ValueDefinition, most: int
) -> Iterator[ValueStep]:
    """The statement that gave a name its value, or the one behind it that computed the value."""
    here, site = _at(reading, found), found.site(reading.scope.file)
    if isinstance(found.statement, ast.comprehension):
        yield ValueStep(name, None, _readings(here))
    elif isinstance(found.statement, (ast.For, ast.AsyncFor)):
        items = list(_item_steps(resolver, here, name, found.statement, most))
        yield from items or [ValueStep(name, site, _readings(here))]
    elif found.is_plain and repeated_value(found.value) is not None:
        yield from _repetition_steps(resolver, here, ValueStep(name, site), most)
    elif found.is_plain and _is_empty_container(found.value):
        yield from _filling_steps(resolver, reading, name, most)
    elif not found.is_plain or not _says_little(found.value):
        yield from _result_steps(resolver, here, name, most)
        yield ValueStep(name, site, _readings(here, is_resolved=True))


def _repetition_steps(resolver: Resolver, here: Point, step: ValueStep, most: int) -> Iterator[ValueStep]:
    """Where the value was computed that an assignment only repeats; of an attribute, the assignment as well."""
    repeated = repeated_value(here.node)
    if repeated is None:
        return
    yield from _steps(resolver, here.part(repeated), most - 1)
    if isinstance(repeated, ast.Attribute):  # the line that hands over what an object keeps
        yield step


def _item_steps(
    resolver: Resolver, loop: Point, name: str, statement: ast.For | ast.AsyncFor, most: int
) -> Iterator[ValueStep]:
    """Where the items of a loop were computed: in the dataset, the collate function or the generator behind it."""
    keys = keys_in(statement.target, name)
    if keys is None:
        return
    item = _result_behind(resolver, loop.at(statement.iter, ANY, *keys))
    if item is not None:
        yield from _computing_steps(resolver, item, name, most)


def _result_behind(resolver: Resolver, start: Point) -> Point | None:
    """The expression in the function that makes a value, if that is another function; None if there are several."""
    here: Point | None = start
    for _ in range(MOST_STEPS):
        if here is None:
            return None
        is_inside = not _is_running(here.scope, start.scope)
        behind = resolver.behind(here)
        if is_inside and (behind is None or not isinstance(here.node, ast.Tuple)):
            return here
        here = only_one(behind or ())
    return None


def _is_running(scope: CallScope, inner: CallScope) -> bool:
    """Whether a function is that of the inner scope, or one of its callers; a module counts as one."""
    if scope.function is None or scope.function is inner.function:
        return True
    return inner.call is not None and _is_running(scope, inner.call.scope)


def _is_empty_container(node: ast.expr) -> bool:
    """Whether a value is a container that is filled later: `[]`, `{}`, `list()`, `deque(maxlen=3)`."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", getattr(node.func, "attr", "")) in CONTAINERS and not node.args
    items = getattr(node, "elts", getattr(node, "keys", None))
    return items == []


def _filling_steps(resolver: Resolver, reading: Point, name: str, most: int) -> Iterator[ValueStep]:
    """The only statement that fills a container, and what it puts in."""
    file = reading.scope.file
    found = filling_of(source_tree(file), reading.node.lineno, name)
    if found is None:
        return
    here = _at(reading, found)
    repeated = repeated_value(found.value)
    if repeated is not None:
        yield from _steps(resolver, here.part(repeated), most - 1)
    yield ValueStep(name, found.site(file), _readings(here))


def _result_steps(resolver: Resolver, call: Point, name: str, most: int) -> Iterator[ValueStep]:
    """What the function of the user that an expression calls returns: where that was computed."""
    node = getattr(call.node, "elt", call.node)  # of a comprehension: what makes one item
    if not isinstance(node, ast.Call):
        return
    functions = callees(resolver, call.part(node.func))
    result = only_one(point for callee in functions for point in result_points(call.part(node), callee))
    if result is not None:
        yield from _computing_steps(resolver, result, name, most)


def _says_little(node: ast.expr) -> bool:
    """Whether a value is a constant, the shape of a tensor, or the length of something that has a name."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return _is_length(node, ast.Name, ast.Attribute) or getattr(node.func, "attr", "") in QUESTIONS
    return isinstance(node, ast.Constant) or getattr(node, "attr", "") in ABOUT_TENSORS


def _readings(point: Point, *, is_resolved: bool = False) -> tuple[Point, ...]:
    """The names in an expression, as they are read there; `is_resolved` leaves out the function that it calls."""
    names = names_read(point.node)
    return point.parts(name for name in names if not (is_resolved and name is point.node))


def _at(reading: Point, found: ValueDefinition) -> Point:
    """The statement that gave a name its value. In another function, the caller is not known."""
    scope = reading.scope
    tree = source_tree(scope.file)
    is_elsewhere = scope_of(tree, found.line) is not scope_of(tree, reading.node.lineno)
    if is_elsewhere:
        scope = scope_at(scope.file, found.line)
    return Point(scope, found.value)


def repeated_value(node: ast.expr) -> ast.expr | None:
    """The name whose value an expression only repeats: of `int(n)` and `n.item()` the n; None if it computes."""
    if isinstance(node, (ast.Name, ast.Attribute)) and _is_dotted(node):
        return node
    if not isinstance(node, ast.Call):
        return None
    function = node.func
    if isinstance(function, ast.Name) and function.id in CONVERSIONS and len(node.args) == 1:
        return repeated_value(node.args[0])
    if isinstance(function, ast.Attribute) and function.attr in CONVERSIONS and not node.args:
        return repeated_value(function.value)
    return None
