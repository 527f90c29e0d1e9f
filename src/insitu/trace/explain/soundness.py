"""Whether a fix leaves a program that runs: the file compiles, and each name of the new code has a value there."""

from __future__ import annotations

import ast
import builtins
import linecache
import os
import symtable
from collections.abc import Iterator

from insitu.trace.advice import Fix

# Names that every module has, next to those of `builtins`.
OF_MODULES = frozenset({"__file__", "__name__", "__doc__", "__builtins__", "__spec__", "__package__", "__loader__"})
KNOWN = frozenset(dir(builtins)) | OF_MODULES


def is_sound(fix: Fix) -> bool:
    """Whether the source with a fix compiles, and has no name without a value that it did not have before."""
    source = "".join(linecache.getlines(fix.file))
    if not _compiles(source):
        return True  # nothing is known about a source that is not Python, or not there
    if not _compiles(fix.applied(source)):
        return False
    if not os.path.isfile(fix.file) or "import *" in source:
        return True  # other cells of a notebook, or other modules, may have the names
    return set(_undefined(_reading(fix).applied(source))) <= set(_undefined(source))


def _reading(fix: Fix) -> Fix:
    """The fix without its assignment: `h = h.detach()` as a line of its own must not give `h` its value itself."""
    if fix.action == "replace":
        return fix
    (statement,) = ast.parse(fix.code).body
    if isinstance(statement, ast.Assign):
        return Fix(fix.file, fix.line, ast.unparse(statement.value), fix.action)
    return fix


def _compiles(source: str) -> bool:
    try:
        compile(source, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return bool(source)


def _undefined(source: str) -> Iterator[str]:
    """The names that a source reads and nowhere gives a value."""
    module = symtable.symtable(source, "", "exec")
    known = KNOWN | {each.get_name() for each in module.get_symbols() if _has_value(each)}
    for table in _tables(module):
        known |= {each.get_name() for each in table.get_symbols() if each.is_declared_global()}
    for table in _tables(module):
        for symbol in table.get_symbols():
            is_of_module = symbol.is_global() or table is module
            is_missing = all((is_of_module, symbol.is_referenced(), symbol.get_name() not in known))
            if is_missing:
                yield symbol.get_name()


def _has_value(symbol: symtable.Symbol) -> bool:
    return any((symbol.is_assigned(), symbol.is_imported(), symbol.is_namespace()))


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """The table of a scope, and those of the scopes in it."""
    yield table
    for inner in table.get_children():
        yield from _tables(inner)
