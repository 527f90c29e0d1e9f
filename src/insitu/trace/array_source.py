"""The lines that can have produced a NaN, an Inf or an absurd number in data, read from the source.

NumPy does not say where a number stopped being finite, and by the time torch meets it the array may be gone. So the
source is read backwards, from the expression that torch got: through assignments, attributes, loops, the functions and
methods that are called, and the callers. For NaN and Inf, every division and every function with a pole on that way is
a candidate; for an absurd number, every expression that is this number.
"""

from __future__ import annotations

import ast
import linecache
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isclose
from types import CodeType
from typing import Any, Protocol

from insitu.trace.event import Site
from insitu.trace.explain.bindings import covers, nodes_around
from insitu.trace.explain.expressions import columns, expression_at, tree_of

MOST_NODES = 400  # expressions that are read
MOST_CANDIDATES = 3
SINGLE = 1e-6  # the precision of float32
# Functions of NumPy that are not finite everywhere.
POLES = frozenset(
    (
        *("log", "log2", "log10", "log1p", "sqrt", "arccos", "arcsin", "arctanh", "arccosh", "tan", "power", "exp"),
        *("float_power", "divide", "true_divide", "reciprocal", "expm1", "exp2", "cosh", "sinh", "corrcoef", "logit"),
        *("average", "fmod", "remainder", "normalize", "zscore", "cov"),
    )
)
REPAIRS = frozenset(("nan_to_num", "nanmean", "nansum", "nanmedian", "isfinite", "isnan", "isinf"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class SourceScope(Protocol):
    """Where names are looked up: a function that runs, or one that can be called from there."""

    @property
    def code(self) -> CodeType:
        """The code of the function."""

    def is_data(self, name: str) -> bool:
        """Whether a dotted name can refer to data, and not to a function, a class, a module or a text."""

    def number(self, name: str) -> float | None:
        """The number that a dotted name refers to; None if it is not known, or is something else."""

    def methods(self, name: str) -> Sequence[SourceScope]:
        """The methods of this name in classes of the user that are visible: that of an object that is not known."""

    def called_by(self, name: str) -> Sequence[SourceScope]:
        """The functions of the user that may run where a dotted name is used: a function, or the methods of data."""


@dataclass(frozen=True, slots=True)
class RunningScope:
    """A function that runs, and the instruction that it executes."""

    scope: SourceScope
    instruction: int


@dataclass(frozen=True, slots=True)
class ReachedExpression:
    """An expression that was reached, in a scope. `depth` is the number of running functions further in."""

    node: ast.AST
    scope: SourceScope
    depth: int | None = None


Suspicion = Callable[[ReachedExpression], bool]


class ArraySearch:
    """Reads the source backwards; `stack` are the running functions, the innermost first.

    `is_suspect` says whether an expression can have produced what is looked for.
    """

    def __init__(self, stack: Sequence[RunningScope], is_suspect: Suspicion) -> None:
        self._stack, self._is_suspect = stack, is_suspect
        self._waiting: deque[ReachedExpression] = deque()
        self._met: set[tuple[str, int, int, int, int]] = set()
        self._names: set[tuple[CodeType, str]] = set()
        self._found: dict[tuple[str, int], Site] = {}

    def sites(self) -> list[Site]:
        """The places that can have produced it, the nearest first; empty where too many are possible."""
        self._read_statement(0)
        for _ in range(MOST_NODES):
            if not self._waiting:
                break
            self._read(self._waiting.popleft())
        found = list(self._found.values())
        if len(found) > MOST_CANDIDATES:
            return []
        return found

    def _read_statement(self, depth: int) -> None:
        """Read the expression that a running function evaluates."""
        if depth >= len(self._stack):
            return
        running = self._stack[depth]
        code = running.scope.code
        expression = expression_at(code, running.instruction)
        if expression.file:
            self._add(ReachedExpression(expression.node, running.scope, depth))

    def _add(self, reach: ReachedExpression) -> None:
        node = reach.node
        key = (reach.scope.code.co_filename, *position(node))
        if key not in self._met:
            self._met.add(key)
            self._waiting.append(reach)

    def _read(self, reach: ReachedExpression) -> None:
        node, scope = reach.node, reach.scope
        if is_repair(node) and self._is_suspect is is_risky:
            return
        if self._is_suspect(reach):
            site = site_of(scope.code, node)
            self._found.setdefault((site.file, site.line), site)
        if isinstance(node, ast.Call):
            self._read_method(node.func, scope)
        name = dotted(node)
        if name:
            self._read_name(name, reach)
            return
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, (ast.expr_context, ast.operator)):
                self._add(ReachedExpression(child, scope, reach.depth))

    def _read_method(self, function: ast.expr, scope: SourceScope) -> None:
        """Read a method of an object that is not known, as that of `Scaler().fit(x).apply(x)`."""
        if isinstance(function, ast.Attribute) and not scope.called_by(dotted(function)):
            for method in scope.methods(function.attr):
                self._read_results(method)

    def _read_name(self, name: str, reach: ReachedExpression) -> None:
        scope = reach.scope
        if (scope.code, name) in self._names:
            return
        self._names.add((scope.code, name))
        for function in scope.called_by(name):
            self._read_results(function)
        if not scope.is_data(name):
            if "." in name:  # a method: its object may be data
                self._read_name(name.rpartition(".")[0], reach)
            return
        tree = tree_of(scope.code.co_filename)
        if tree is not None:
            self._read_binding(tree, name.partition(".")[0], reach)
            self._read_attribute(tree, name, reach)

    def _read_attribute(self, tree: ast.AST, name: str, reach: ReachedExpression) -> None:
        """Read what the methods of a class assign to an attribute of their object."""
        owner, _, attribute = name.partition(".")
        function = function_at(tree, reach.scope.code)
        if function is None or owner not in first_parameter(function):
            return
        for kind in nodes_around(tree, getattr(function, "lineno", 0), ast.ClassDef)[-1:]:
            for value in attribute_values(kind, owner, attribute.partition(".")[0]):
                self._add(ReachedExpression(value, reach.scope))

    def _read_binding(self, tree: ast.AST, name: str, reach: ReachedExpression) -> None:
        """Read what a name is bound to, in the innermost function around it that binds it, or in the module."""
        for function in functions_around(tree, reach.scope.code):
            values = bindings(ast.walk(function), name)
            depth = self._depth_of(function, reach)
            scope = reach.scope if depth is None else self._stack[depth].scope
            for value in values:
                self._add(ReachedExpression(value, scope, depth))
            if name in parameters_of(function):
                if depth is not None:
                    self._read_statement(depth + 1)
                return
            if values:
                return
        for value in bindings(nodes_outside_functions(tree), name):
            self._add(ReachedExpression(value, reach.scope, reach.depth))

    def _depth_of(self, function: ast.AST, reach: ReachedExpression) -> int | None:
        """How many functions run inside a function; None if it does not run."""
        file = reach.scope.code.co_filename
        for depth, running in enumerate(self._stack):
            code = running.scope.code
            if code.co_filename == file and code.co_firstlineno == first_line(function):
                return depth
        return None

    def _read_results(self, scope: SourceScope) -> None:
        """Read what a function returns or yields."""
        tree = tree_of(scope.code.co_filename)
        function = function_at(tree, scope.code) if tree is not None else None
        if function is None:
            return
        if isinstance(function, ast.Lambda):
            self._add(ReachedExpression(function.body, scope))
            return
        for node in ast.walk(function):
            if isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) and node.value is not None:
                self._add(ReachedExpression(node.value, scope))


def is_risky(reach: ReachedExpression) -> bool:
    """Whether an expression can be NaN or Inf for finite numbers: a division, or a function with a pole."""
    node = reach.node
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        divisor = node.right if isinstance(node, ast.BinOp) else node.value
        return isinstance(node.op, ast.Div) and not isinstance(divisor, ast.Constant)
    return isinstance(node, ast.Call) and last_name(node.func) in POLES


def is_repair(node: ast.AST) -> bool:
    """Whether an expression is finite for any numbers."""
    return isinstance(node, ast.Call) and last_name(node.func) in REPAIRS


def is_number(wanted: float) -> Suspicion:
    """The suspicion that an expression is a number, written down or by its name."""

    def is_suspect(reach: ReachedExpression) -> bool:
        number = written_number(reach.node)
        if number is None and (name := dotted(reach.node)):
            number = reach.scope.number(name)
        return number is not None and isclose(number, wanted, rel_tol=SINGLE)

    return is_suspect


def written_number(node: ast.AST) -> float | None:
    """The number that a constant is, with its sign; None for other expressions."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = written_number(node.operand)
        return None if number is None else -number
    value = getattr(node, "value", None)
    is_plain = isinstance(node, ast.Constant) and type(value) in (int, float)
    return float(value) if is_plain else None  # type: ignore[arg-type]


def first_parameter(function: ast.AST) -> list[str]:
    """The name of the first parameter of a function, which is the object in a method; empty if it has none."""
    arguments: ast.arguments = function.args  # type: ignore[attr-defined]
    return [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)[:1]]


def attribute_values(kind: ast.AST, owner: str, attribute: str) -> Iterator[ast.AST]:
    """What the methods of a class assign to an attribute, and to parts of it."""
    wanted = f"{owner}.{attribute}"
    for node in ast.walk(kind):
        for kinds, targets, value in BINDERS:
            if isinstance(node, kinds) and any(assigns(target, wanted) for target in targets(node)):
                found = value(node)
                yield from [] if found is None else [found]


def assigns(target: ast.AST, name: str) -> bool:
    """Whether a target of an assignment is a dotted name, a part of it, or contains it."""
    if isinstance(target, ast.Subscript):
        return assigns(target.value, name)
    if isinstance(target, (ast.Tuple, ast.List, ast.Starred)):
        return any(assigns(child, name) for child in ast.iter_child_nodes(target))
    return dotted(target) == name


def last_name(function: ast.expr) -> str:
    """The last part of the name of a function."""
    return dotted(function).rpartition(".")[2] or getattr(function, "attr", "")


def dotted(node: ast.AST) -> str:
    """A name with its attributes, as `self.data`; nothing for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return ""


def function_at(tree: ast.AST, code: CodeType) -> ast.AST | None:
    """The function that a code object belongs to; None for the code of a module."""
    if code.co_name == "<module>":
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    wanted = [node for node in functions if first_line(node) == code.co_firstlineno]
    named = [node for node in wanted if getattr(node, "name", "<lambda>") == code.co_name]
    return next(iter(named), None)


def first_line(node: ast.AST) -> int:
    """The line of the first decorator of a function, or of the function."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    lines: list[int] = [getattr(node, "lineno", 0), *(decorator.lineno for decorator in decorators)]
    return min(lines)


def parameters_of(function: ast.AST) -> set[str]:
    """The names of the parameters of a function."""
    arguments: ast.arguments = function.args  # type: ignore[attr-defined]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {argument.arg for argument in every if argument is not None}


def functions_around(tree: ast.AST, code: CodeType) -> list[ast.AST]:
    """The function that a code object belongs to, and those around it, the innermost first."""
    function = function_at(tree, code)
    if function is None:
        return []
    line = getattr(function, "lineno", 0)
    around = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS) and covers(node, line)]
    return [function, *(node for node in reversed(around) if node is not function)]


def bindings(nodes: Iterable[ast.AST], name: str) -> list[ast.AST]:
    """What some nodes bind to a name."""
    return [value for node in nodes for value in bound_values(node, name)]


def nodes_outside_functions(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module that are in no function."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, FUNCTIONS):
            yield from nodes_outside_functions(child)


def bound_values(node: ast.AST, name: str) -> list[ast.AST]:
    """What a statement, a loop or a comprehension binds to a name."""
    for kinds, targets, value in BINDERS:
        if isinstance(node, kinds) and any(names_in(target, name) for target in targets(node)):
            found = value(node)
            return [found] if found is not None else []
    return []


# The nodes that bind names: their targets, and what they bind to them. `a /= b` also keeps what was there.
BINDERS: tuple[tuple[Any, Callable[[Any], list[ast.AST]], Callable[[Any], ast.AST | None]], ...] = (
    (ast.Assign, lambda node: node.targets, lambda node: node.value),
    (ast.AugAssign, lambda node: [node.target], lambda node: node),
    ((ast.AnnAssign, ast.NamedExpr), lambda node: [node.target], lambda node: node.value),
    ((ast.For, ast.AsyncFor, ast.comprehension), lambda node: [node.target], lambda node: node.iter),
)


def names_in(target: ast.AST, name: str) -> bool:
    """Whether a target of an assignment is a name, a part of it, or contains it."""
    if isinstance(target, (ast.Subscript, ast.Attribute)):
        return dotted(target.value).partition(".")[0] == name
    if isinstance(target, ast.Name):
        return target.id == name
    return any(names_in(child, name) for child in ast.iter_child_nodes(target))


def position(node: ast.AST) -> tuple[int, int, int, int]:
    """Where a node is in its file, with its kind of context left out."""
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return line, column, getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or id(node)


def site_of(code: CodeType, node: ast.AST) -> Site:
    """The place of an expression."""
    line, start, end = columns(code.co_filename, node)
    text = linecache.getline(code.co_filename, line).rstrip("\n")
    return Site(code.co_filename, line, code.co_name, text, start, end)
