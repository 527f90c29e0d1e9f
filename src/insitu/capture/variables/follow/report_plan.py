"""The reports to put into a function, and those that were put in so far."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from insitu.capture.variables.follow.nodes import extending, reporting, unplaced
from insitu.capture.variables.follow.scopes import evaluated

Moment = Literal["entered", "given", "bound", "maybe", "deleted", "pass", "defined", "left"]
WITHOUT_VALUE = ("deleted", "entered", "pass", "defined", "left")
Report = tuple[Moment, str, int]

# Builtins that change none of their arguments, unless the program redefines them.
PURE = frozenset(
    {
        *("abs", "bool", "breakpoint", "callable", "chr", "complex", "divmod", "enumerate", "float", "id", "int"),
        *("isinstance", "issubclass", "len", "ord", "pow", "range", "reversed", "round", "slice", "type", "zip"),
    }
)
SUITES = (ast.stmt, ast.ExceptHandler, ast.match_case)
ALWAYS = (ast.AugAssign, ast.Import, ast.ImportFrom, ast.ClassDef, ast.With, ast.AsyncWith, ast.AsyncFor)
RUNS_OTHERS = (ast.Await, ast.Yield, ast.YieldFrom)


@dataclass(frozen=True, slots=True)
class Extras:
    """Reports without a variable: what else the code says of itself.

    `passes`: a pass begins, in a loop that changes a wanted variable. `ends`: the function has ended. `definitions`: a
    function or class was defined, or something imported.
    """

    passes: bool = False
    ends: bool = False
    definitions: bool = False


NO_EXTRAS = Extras()


@dataclass(slots=True)
class ReportPlan:
    """The reports for a function and its nested functions, and the placeholders that were put in so far."""

    wanted: Callable[[str], bool]
    is_builtin: Callable[[str], bool]
    # Python nests at most 20 blocks. 2: try … finally around every statement that may change something; 1: around
    # simple ones only; 0: around none, so that what a statement changed before it raised or returned goes unreported.
    guards: int
    # Where the functions begin, by name and first line.
    first_places: dict[tuple[str, int], ast.AST | None]
    extras: Extras = NO_EXTRAS
    placeholders: dict[Report, str] = field(default_factory=dict)
    # Names whose bindings in the outermost function go to a list where the value is of one of so many kinds.
    shortcuts: Callable[[str], bool] = lambda name: False
    kinds: int = 0
    # Whether reports are put into the functions that are defined in this one.
    is_deep: bool = True
    # Whether anything was put into the function that is at hand, and how deep it is nested.
    is_reported: bool = False
    depth: int = 0

    def select(self, names: Iterable[str]) -> list[str]:
        """The names among these that are to be reported."""
        return list(filter(self.wanted, names))

    def report(self, moment: Moment, name: str, line: int) -> ast.expr:
        """An expression that reports a name."""
        self.is_reported = True
        placeholder = self._placeholder(moment, name, line)
        if moment in WITHOUT_VALUE:
            return reporting(placeholder, None)
        return reporting(placeholder, name)

    def binding(self, name: str, line: int) -> ast.stmt:
        """A statement that reports a binding, by the shortcut if the name has one here."""
        if self.depth == 1 and self.shortcuts(name):
            self.is_reported = True
            return extending(self._placeholder("bound", name, line), name, self.kinds)
        return unplaced(ast.Expr(value=self.report("bound", name, line)))

    def _placeholder(self, moment: Moment, name: str, line: int) -> str:
        return self.placeholders.setdefault((moment, name, line), f"\0insitu {len(self.placeholders)}")

    def may_change(self, *nodes: ast.AST | None) -> bool:
        """Whether running these nodes, without the statements inside of them, may change an object."""
        waiting = [node for node in nodes if node is not None]
        while waiting:
            node = waiting.pop()
            if self._may_change_itself(node):
                return True
            waiting += (child for child in evaluated(node) if not isinstance(child, SUITES))
        return False

    def _may_change_itself(self, node: ast.AST) -> bool:
        """Whether a node, without its children, may change an object."""
        match node:
            case ast.Call():
                return not self._is_pure(node)
            case ast.Attribute() | ast.Subscript():
                return not isinstance(node.ctx, ast.Load)  # sets or deletes an attribute or an item
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return bool(node.decorator_list)
            case ast.comprehension():
                return bool(node.is_async)
        return isinstance(node, ALWAYS + RUNS_OTHERS)

    def _is_pure(self, call: ast.Call) -> bool:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "set_trace":
            return True  # a debugger would stop in the report that comes next, and not in the program
        if not isinstance(call.func, ast.Name) or call.keywords:
            return False
        return call.func.id in PURE and self.is_builtin(call.func.id)
