"""Where a Python value comes from: from the expression of an argument back to the statement that computed it.

The walk reads the source of the user's frames. It goes through names that only repeat a value (`n = m`, `int(n)`,
`n.item()`), from a parameter to the argument of the caller, and from an attribute to its only assignment.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from insitu.trace.explain.assignments import COMPREHENSIONS, function_result
from insitu.trace.explain.bindings import scope_of, single_targets
from insitu.trace.explain.call_stack import Stack, StackFrame, passed_argument
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import segment, source_tree
from insitu.trace.explain.failure_history import FailureHistory
from insitu.trace.explain.loop_items import loop_item, sample
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
class NameReading:
    """An expression that a frame reads on a line; the frames around it are the rest of the stack."""

    stack: Stack
    line: int
    node: ast.expr

    @property
    def frame(self) -> StackFrame:
        """The frame that reads the expression."""
        return self.stack[0]


@dataclass(slots=True, frozen=True)
class ValueStep:
    """A statement that computed a name, and the names that it read; a part of a statement has no site of its own."""

    name: str
    site: ExpressionSite | None
    behind: tuple[NameReading, ...] = ()


def value_sites(history: FailureHistory, stack: Stack, node: ast.expr) -> Iterator[NamedSite]:
    """The statements that computed the names in an expression of the innermost frame, the nearest first."""
    seen: set[ExpressionSite] = set()
    for step in _walk(history, stack, node):
        if step.site is not None and step.site not in seen:
            seen.add(step.site)
            yield NamedSite(step.name, step.site)


def readings_behind(history: FailureHistory, stack: Stack, node: ast.expr) -> Iterator[NameReading]:
    """The names that an expression of the innermost frame was computed from, as they are read on the way."""
    for step in _walk(history, stack, node):
        yield from step.behind


def _walk(history: FailureHistory, stack: Stack, node: ast.expr) -> Iterator[ValueStep]:
    """The statements behind an expression. A level is a statement that computes; the next has those for its names."""
    if not stack:
        return
    waiting = [NameReading(stack, stack[0].line, name) for name in names_read(node)]
    for _ in range(LEVELS):
        found = list(chain.from_iterable(_steps(history, reading, MOST_STEPS) for reading in waiting))
        yield from found
        waiting = list(chain.from_iterable(step.behind for step in found))


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


def _steps(history: FailureHistory, reading: NameReading, most: int) -> Iterator[ValueStep]:
    """The statements that computed one name."""
    tree = source_tree(reading.frame.file)
    name = ast.unparse(reading.node)
    if not most:
        return
    if isinstance(reading.node, ast.Call):
        yield from _result_steps(history, reading, ast.unparse(reading.node.func), most)
        return
    found = definition_of(tree, reading.line, name)
    if isinstance(found, Parameter):
        yield from _argument_steps(history, reading, name, most)
    elif found is not None:
        yield from _definition_steps(history, reading, name, found, most)


def _argument_steps(history: FailureHistory, reading: NameReading, name: str, most: int) -> Iterator[ValueStep]:
    """Where the argument for a parameter was computed; the call itself if the argument is an expression."""
    argument = passed_argument(history, reading.stack, name)
    if argument is None:
        yield from _sample_steps(history, reading, name)
        return
    if _says_little(argument):
        return
    caller = NameReading(reading.stack[1:], argument.lineno, argument)
    repeated = repeated_value(argument)
    if repeated is not None:
        yield from _steps(history, NameReading(caller.stack, caller.line, repeated), most - 1)
        return
    file = caller.frame.file
    site = ExpressionSite(file, argument.lineno, "", segment(file, argument))
    yield ValueStep(name, site, _readings(caller, argument))


def _sample_steps(history: FailureHistory, reading: NameReading, name: str) -> Iterator[ValueStep]:
    """The samples that a collate function got: what the dataset returns."""
    file = reading.frame.file
    if len(reading.stack) < 2:
        return
    around = NameReading(reading.stack[1:], reading.stack[1].line, reading.node)
    item = sample(source_tree(file), reading.frame.code.co_name, lambda node: _meaning(history, around, node))
    if item is not None:
        inside = NameReading(reading.stack[:1], item.lineno, item)
        yield ValueStep(name, ExpressionSite(file, item.lineno, "", segment(file, item)), _readings(inside, item))


def _definition_steps(
    history: FailureHistory, reading: NameReading, name: str, found: ValueDefinition, most: int
) -> Iterator[ValueStep]:
    """The statement that gave a name its value, or the one behind it that computed the value."""
    here, site = _at(reading, found), found.site(reading.frame.file)
    if isinstance(found.statement, ast.comprehension):
        yield ValueStep(name, None, _readings(here, found.value))
    elif isinstance(found.statement, (ast.For, ast.AsyncFor)):
        items = list(_item_steps(history, here, name, found.statement, most))
        yield from items or [ValueStep(name, site, _readings(here, found.value))]
    elif found.is_plain and repeated_value(found.value) is not None:
        yield from _repetition_steps(history, here, ValueStep(name, site), most)
    elif found.is_plain and _is_empty_container(found.value):
        yield from _filling_steps(history, reading, name, most)
    elif not found.is_plain or not _says_little(found.value):
        yield from _result_steps(history, here, name, most)
        yield ValueStep(name, site, _readings(here, found.value, is_resolved=True))


def _repetition_steps(history: FailureHistory, here: NameReading, step: ValueStep, most: int) -> Iterator[ValueStep]:
    """Where the value was computed that an assignment only repeats; of an attribute, the assignment as well."""
    repeated = repeated_value(here.node)
    if repeated is None:
        return
    yield from _steps(history, NameReading(here.stack, here.line, repeated), most - 1)
    if isinstance(repeated, ast.Attribute):  # the line that hands over what an object keeps
        yield step


def _item_steps(
    history: FailureHistory, loop: NameReading, name: str, statement: ast.For | ast.AsyncFor, most: int
) -> Iterator[ValueStep]:
    """Where the items of a loop were computed: in the dataset, the collate function or the generator behind it."""
    file = loop.frame.file
    item = loop_item(source_tree(file), statement, name, lambda node: _meaning(history, loop, node))
    if item is None:
        return
    inside = NameReading(loop.stack[:1], item.value.lineno, item.value)
    repeated = repeated_value(item.value)
    if repeated is not None:
        yield from _steps(history, NameReading(inside.stack, inside.line, repeated), most - 1)
        return
    site = ExpressionSite(file, inside.line, "", segment(file, item.value))
    yield ValueStep(name, site, _readings(inside, item.value))


def _meaning(history: FailureHistory, reading: NameReading, node: ast.expr) -> ast.expr | None:
    """The expression that a name stands for: its assignment, or the argument of the caller."""
    for _ in range(MOST_STEPS):
        if repeated_value(node) is not node:
            return node
        found = definition_of(source_tree(reading.frame.file), reading.line, ast.unparse(node))
        if isinstance(found, ValueDefinition):
            reading, node = _at(reading, found), found.value
            continue
        argument = passed_argument(history, reading.stack, ast.unparse(node)) if found is not None else None
        if argument is None:
            return None
        reading, node = NameReading(reading.stack[1:], argument.lineno, argument), argument
    return None


def _is_empty_container(node: ast.expr) -> bool:
    """Whether a value is a container that is filled later: `[]`, `{}`, `list()`, `deque(maxlen=3)`."""
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", getattr(node.func, "attr", "")) in CONTAINERS and not node.args
    items = getattr(node, "elts", getattr(node, "keys", None))
    return items == []


def _filling_steps(history: FailureHistory, reading: NameReading, name: str, most: int) -> Iterator[ValueStep]:
    """The only statement that fills a container, and what it puts in."""
    file = reading.frame.file
    found = filling_of(source_tree(file), reading.line, name)
    if found is None:
        return
    here = _at(reading, found)
    repeated = repeated_value(found.value)
    if repeated is not None:
        yield from _steps(history, NameReading(here.stack, here.line, repeated), most - 1)
    yield ValueStep(name, found.site(file), _readings(here, found.value))


def _result_steps(history: FailureHistory, call: NameReading, name: str, most: int) -> Iterator[ValueStep]:
    """What the function of the same file that an expression calls returns: where that was computed."""
    file = call.frame.file
    result = function_result(source_tree(file), call.node)
    if result is None or result.value is None:
        return
    inside = NameReading(call.stack[:1], result.lineno, result.value)
    repeated = repeated_value(result.value)
    if repeated is not None:
        yield from _steps(history, NameReading(inside.stack, inside.line, repeated), most - 1)
        return
    site = ExpressionSite(file, result.lineno, "", segment(file, result.value))
    yield ValueStep(name, site, _readings(inside, result.value))


def _says_little(node: ast.expr) -> bool:
    """Whether a value is a constant, the shape of a tensor, or the length of something that has a name."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Call):
        return _is_length(node, ast.Name, ast.Attribute) or getattr(node.func, "attr", "") in QUESTIONS
    return isinstance(node, ast.Constant) or getattr(node, "attr", "") in ABOUT_TENSORS


def _readings(around: NameReading, node: ast.expr, *, is_resolved: bool = False) -> tuple[NameReading, ...]:
    """The names in an expression, as they are read there; `is_resolved` leaves out the function that it calls."""
    names = [name for name in names_read(node) if not (is_resolved and name is node)]
    return tuple(NameReading(around.stack, around.line, name) for name in names)


def _at(reading: NameReading, found: ValueDefinition) -> NameReading:
    """The statement that gave a name its value. In another function, the caller is not known."""
    line, stack = found.line, reading.stack
    tree = source_tree(reading.frame.file)
    is_elsewhere = scope_of(tree, line) is not scope_of(tree, reading.line)
    if is_elsewhere:
        stack = stack[:1]
    return NameReading(stack, line, found.value)


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
