"""Rewrites functions so that they report their variables: the fast way to follow a function.

`rewrite` takes the code of a function and gives back code that does the same on the same lines, and calls a reporter
with the value after each binding of a wanted name, and wherever the object a wanted name refers to may have changed.
The reporters are constants of the new code: nothing is added to globals, closures or locals.
"""

from __future__ import annotations

import ast
import builtins
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import CO_OPTIMIZED
from types import CodeType
from typing import Any

from insitu.capture.variables.follow.definitions import (
    FUNCTIONS,
    Definition,
    NoSource,
    bound_anywhere,
    clone,
    compiled,
    find,
    nested_codes,
    source_of,
)
from insitu.capture.variables.follow.instructions import dictionary_names, global_names, stored_names
from insitu.capture.variables.follow.nodes import ANY_ERROR, ENTRY, EXTEND, KIND, NAME_ERROR, TYPE, first_places
from insitu.capture.variables.follow.report_plan import NO_EXTRAS, Extras, Moment, Report, ReportPlan
from insitu.capture.variables.follow.scopes import Function, scope_of
from insitu.capture.variables.follow.statements import insert

__all__ = ["NoSource", "ReportPoint", "Reporter", "Shortcut", "bound_names", "known_names", "rewrite", "rewrite_module"]

Reporter = Callable[[Any], Any]
PRIVATE = re.compile(r"_.+?(__.*)", re.DOTALL)  # `_Class__name`
COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
TOO_DEEP = "too many statically nested blocks"


@dataclass(frozen=True, slots=True)
class ReportPoint:
    """Where a variable is reported, and why: it was given, bound or deleted, or its object may have changed.

    The name is the root: `self`, never `self.cache`. Before any other point of a call comes "entered", without a name:
    frames have the ids of others that are gone, so who keeps something by frame knows that a new one begins.
    """

    moment: Moment
    name: str
    line: int
    function: str
    file: str


@dataclass(frozen=True, slots=True)
class Shortcut:
    """For bindings of some names to values of some types: an entry and the value go to a list, without a reporter.

    Only in the function itself, not in those nested in it.
    """

    names: Callable[[str], bool]
    kinds: tuple[type, ...]
    extend: Callable[[tuple[Any, Any]], object]
    entry: Callable[[ReportPoint], Any]


def rewrite(
    code: CodeType,
    wanted: Callable[[str], bool],
    reporter: Callable[[ReportPoint], Reporter],
    shortcut: Shortcut | None = None,
    extras: Extras = NO_EXTRAS,
) -> CodeType:
    """Code that does the same and calls the reporter of each point with the value of the variable.

    A reporter takes one value and must not raise; what it returns is dropped, so that the `append` of a list is one.
    The same code comes back when there is nothing to report in it.

    >>> def area(width, height):
    ...     size = width * height
    ...     return size
    >>> seen = []
    >>> def reporter(point):
    ...     return lambda value: seen.append(f"{point.moment} {point.name} = {value}")
    >>> area.__code__ = rewrite(area.__code__, {"width", "size"}.__contains__, reporter)
    >>> area(3, 4), seen
    (12, ['entered  = None', 'given width = 3', 'bound size = 12'])
    """
    wanted = cache(wanted)
    if not extras.ends and not any(map(wanted, names_of(code))):
        return code
    definition = find(code)
    places = first_places((code, *nested_codes(code)))

    def with_reports(guards: int) -> CodeType:
        plan = ReportPlan(wanted, definition.source.is_builtin, guards, places, extras)
        if shortcut is not None:
            plan.shortcuts, plan.kinds = shortcut.names, len(shortcut.kinds)
        return _code_with_reports(definition, plan, reporter, shortcut)

    return _with_most_guards(code, with_reports)


def rewrite_module(
    code: CodeType,
    tree: ast.Module,
    wanted: Callable[[str], bool],
    reporter: Callable[[ReportPoint], Reporter],
    extras: Extras = NO_EXTRAS,
) -> CodeType:
    """The code of a module that reports its own variables, made from its tree; its functions stay as they are.

    >>> text, seen = "total = 0\\nfor part in (1, 2): total += part", []
    >>> code = compile(text, "sums.py", "exec")
    >>> def reporter(point):
    ...     return lambda value: seen.append(f"{point.moment} {value}")
    >>> exec(rewrite_module(code, ast.parse(text), {"total"}.__contains__, reporter, Extras(passes=True)), {})
    >>> seen
    ['entered None', 'bound 0', 'pass None', 'bound 1', 'pass None', 'bound 3']
    """
    bound = frozenset(bound_anywhere(tree))

    def is_builtin(name: str) -> bool:
        return name in vars(builtins) and name not in bound and "*" not in bound

    def is_wanted(name: str) -> bool:
        return name.isidentifier() and wanted(name)

    def with_reports(guards: int) -> CodeType:
        plan = ReportPlan(cache(is_wanted), is_builtin, guards, {}, extras, is_deep=False)
        module = clone(tree)
        insert(module, plan)
        return ConstantFiller(plan, reporter, None).filled(compiled(module, code), code.co_qualname)

    return _with_most_guards(code, with_reports)


def _with_most_guards(code: CodeType, with_reports: Callable[[int], CodeType]) -> CodeType:
    """The code with as many blocks around its statements as Python can nest."""
    for guards in (2, 1, 0):
        try:
            return with_reports(guards)
        except (SyntaxError, RecursionError) as error:
            failed = error
            if TOO_DEEP not in str(error):
                break
    raise NoSource(code, f"with reports it does not compile ({failed})") from failed


def _code_with_reports(
    definition: Definition, plan: ReportPlan, reporter: Callable[[ReportPoint], Reporter], shortcut: Shortcut | None
) -> CodeType:
    """The code of a definition with the reports of a plan; the same code if the plan has none for it."""
    node = clone(definition.node)
    insert(node, plan)
    if not plan.placeholders:
        return definition.code
    return ConstantFiller(plan, reporter, shortcut).find(definition, node)


class ConstantFiller:
    """Puts the reporters where their placeholders are."""

    def __init__(
        self, plan: ReportPlan, reporter: Callable[[ReportPoint], Reporter], shortcut: Shortcut | None
    ) -> None:
        self._reports = {placeholder: report for report, placeholder in plan.placeholders.items()}
        self._constants: dict[str, Any] = {NAME_ERROR: NameError, ANY_ERROR: BaseException, TYPE: type}
        self._reporter = reporter
        self._reporters: dict[tuple[Report, str], Reporter] = {}
        self._entries: dict[str, Report] = {}
        self._shortcut = shortcut
        if shortcut is not None:
            self._constants |= {KIND.format(index): kind for index, kind in enumerate(shortcut.kinds)}
            self._constants[EXTEND] = shortcut.extend
            self._entries = {ENTRY.format(placeholder): report for placeholder, report in self._reports.items()}

    def find(self, definition: Definition, node: Function) -> CodeType:
        """The code of a definition with `node` in its place: of several that look alike, the one with reports."""
        for code in definition.compiled(node):
            filled = self.filled(code, code.co_qualname)
            if filled is not code:
                return filled.replace(co_flags=definition.code.co_flags)
        raise NoSource(definition.code, "its definition was not found again")

    def filled(self, code: CodeType, function: str) -> CodeType:
        """The code, and all code nested in it, with the reporters in place; the same code if it has none."""
        # Up to Python 3.11, comprehensions are functions of their own; their reports name the function around them.
        owner = function if code.co_name in COMPREHENSIONS else code.co_qualname
        constants = tuple(self._filled(constant, code, owner) for constant in code.co_consts)
        is_same = all(map(operator.is_, constants, code.co_consts))
        if is_same:
            return code
        return code.replace(co_consts=constants)

    def _filled(self, constant: Any, code: CodeType, owner: str) -> Any:
        if isinstance(constant, CodeType):
            return self.filled(constant, owner)
        if type(constant) is not str:
            return constant
        if constant in self._reports:
            return self._reporter_of(self._reports[constant], owner, code.co_filename)
        if constant in self._entries and self._shortcut is not None:
            return self._shortcut.entry(ReportPoint(*self._entries[constant], owner, code.co_filename))
        return self._constants.get(constant, constant)

    def _reporter_of(self, report: Report, owner: str, file: str) -> Reporter:
        key = (report, owner)
        if key not in self._reporters:
            self._reporters[key] = self._reporter(ReportPoint(*report, owner, file))
        return self._reporters[key]


def names_of(code: CodeType) -> Iterator[str]:
    """Every name in a code object and its nested ones, attributes too; private names also as they are spelled."""
    for each in (code, *nested_codes(code)):
        for name in (*each.co_varnames, *each.co_cellvars, *each.co_freevars, *each.co_names):
            yield name
            private = PRIVATE.match(name)
            if private is not None:
                yield private[1]


def bound_names(code: CodeType) -> frozenset[str]:
    """Every name that a function, or one nested in it, can bind: what there is to follow.

    >>> def scale(factor):
    ...     for index in range(3):
    ...         total = index * factor
    >>> sorted(bound_names(scale.__code__))
    ['factor', 'index', 'total']
    """
    try:
        return frozenset(_bound_in(find(code).node))
    except NoSource:
        functions = filter(_is_function, (code, *nested_codes(code)))
        return frozenset(name for each in functions for name in (*each.co_varnames, *each.co_cellvars))


def _is_function(code: CodeType) -> bool:
    """Whether a code object is that of a function: not of a module, a class or a comprehension."""
    return bool(code.co_flags & CO_OPTIMIZED) and code.co_name not in COMPREHENSIONS


def known_names(code: CodeType) -> frozenset[str]:
    """Every name that means a variable in a function, module or class, or in the code nested in it.

    What it binds, and the globals and variables of others that it reads; no attributes, and no builtins unless the
    file defines them anew.

    >>> def scale(factor):
    ...     return [item * factor for item in SOURCE.items if len(item) > margin]
    >>> sorted(known_names(scale.__code__))
    ['SOURCE', 'factor', 'margin']
    """
    every = [code, *nested_codes(code)]
    found = {name for each in every for name in global_names(each)}.union(code.co_freevars)
    spaces = [each for each in every if not each.co_flags & CO_OPTIMIZED]  # modules and classes
    for each in spaces:
        attributes = frozenset() if each is code else stored_names(each)  # what a nested class binds
        found |= set(dictionary_names(each)) - attributes
    is_builtin = builtins_of(code)
    return bound_names(code).union(name for name in found if name.isidentifier() and not is_builtin(name))


def builtins_of(code: CodeType) -> Callable[[str], bool]:
    """A function that says whether a name means a builtin in the file of a code object."""
    try:
        return source_of(code).is_builtin
    except NoSource:
        return vars(builtins).__contains__


def _bound_in(function: Function) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, FUNCTIONS):
            scope = scope_of(node)
            yield from (*scope.parameters, *scope.bound)
