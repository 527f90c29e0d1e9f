"""What the source of a script says before it runs: its variables, and the functions that it defines."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from types import CodeType

from insitu.capture.values.loop_targets import own_names, variables_in
from insitu.capture.values.targets import join
from insitu.capture.variables.follow.code_variables import is_function_like
from insitu.capture.variables.follow.definitions import NoSource, nested_codes, quiet
from insitu.capture.variables.follow.line_meanings import statements_in
from insitu.capture.variables.follow.report_plan import Extras
from insitu.capture.variables.follow.rewrite import rewrite_module
from insitu.capture.variables.follow.scopes import captured
from insitu.capture.variables.reporters import make_thread_reporter
from insitu.errors import PatternError, tell
from insitu.trace.path import Pattern, suggestion

REPORTS = Extras(passes=True, definitions=True)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


def parsed(source: bytes, filename: str) -> ast.Module:
    """The tree of a script, without the warnings that Python gives when it compiles the script."""
    with quiet():
        return ast.parse(source, filename)


def with_reports(code: CodeType, tree: ast.Module, wanted: Collection[str]) -> CodeType:
    """The code of a script that reports the wanted variables, the passes of its loops, and what it defines."""
    try:
        return rewrite_module(code, tree, wanted.__contains__, make_thread_reporter(), REPORTS)
    except NoSource as error:
        tell(f"variables of the script are not recorded: {error}")
        return code


def definitions_in(tree: ast.Module) -> frozenset[str]:
    """The names of the functions and classes that a script defines itself, and of what it imports."""
    defined = [node for node in statements_in(tree.body) if isinstance(node, DEFINITIONS)]
    return frozenset(name for node in defined for name in captured(node))


def definitions_in_source(source: bytes, filename: str) -> frozenset[str]:
    """The names that a script defines or imports; none if it cannot be compiled: Python will say so when it runs."""
    try:
        return definitions_in(parsed(source, filename))
    except (SyntaxError, ValueError):
        return frozenset()


def check_patterns(patterns: Iterable[str], source: bytes, filename: str) -> None:
    """Raise, before the script runs, if a pattern names a variable that its function does not have.

    A pattern that the source does not know may name something in a model, or in a module that the script imports.
    """
    try:
        with quiet():
            code = compile(source, filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return  # Python will say so when the script runs
    functions = functions_in(code)
    for pattern in patterns:
        if is_unknown(pattern, code, functions):
            paths = paths_in(code, definitions_in_source(source, filename))
            raise PatternError(f"{filename} has no variable {pattern!r}{suggestion(pattern, paths)}")


def functions_in(code: CodeType) -> dict[str, CodeType]:
    """The functions that a script defines itself, by name."""
    return {each.co_qualname: each for each in nested_codes(code) if is_top_level_function(each)}


def is_top_level_function(code: CodeType) -> bool:
    """Whether code is that of a function that a script defines itself, and not in a class or another function."""
    return is_function_like(code) and code.co_qualname.isidentifier()


def is_unknown(pattern: str, code: CodeType, functions: dict[str, CodeType]) -> bool:
    """Whether a pattern means a variable that is not there: one of a function, or of the script itself."""
    first, *others = Pattern.of(pattern).segments
    if others:
        return first in functions and not variables_in(functions[first], others[0])
    is_own = bool(variables_in(code, first))
    return not is_own and any(first in own_names(each) for each in functions.values())


def paths_in(code: CodeType, definitions: frozenset[str]) -> Iterator[str]:
    """The paths of the variables of a script and of its functions; what the script defines is not a variable."""
    yield from own_names(code) - definitions
    for name, function in functions_in(code).items():
        yield from (join(name, each) for each in own_names(function) - definitions)
