"""What one file of the user defines: functions, classes, imports, and where each function is called."""

from __future__ import annotations

import ast
import os
from dataclasses import dataclass, field
from functools import lru_cache

from insitu.trace.explain.bindings import FUNCTIONS, covers
from insitu.trace.explain.expressions import called_name, tree_of
from insitu.trace.explain.failure import LIBRARIES

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
MOST_PARENTS = 4  # folders above a file that an import may begin in


@dataclass(slots=True, frozen=True)
class ImportedName:
    """A name from another module: `from data.text import Vocab` has the module `data.text` and the name `Vocab`."""

    module: str
    name: str
    level: int = 0


@dataclass(slots=True, frozen=True)
class FunctionHome:
    """The class whose method a function is, and the function around it."""

    owner: ast.ClassDef | None
    outer: ast.FunctionDef | ast.AsyncFunctionDef | None


@dataclass(slots=True)
class SourceFile:
    """The index of one file."""

    path: str
    tree: ast.AST
    functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    imports: dict[str, ImportedName] = field(default_factory=dict)
    calls: dict[str, list[ast.Call]] = field(default_factory=dict)
    homes: dict[ast.AST, FunctionHome] = field(default_factory=dict)

    def function_around(self, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """The innermost function around a line."""
        around = [node for node in self.homes if isinstance(node, FUNCTIONS) and covers(node, line)]
        return max(around, key=lambda node: node.lineno, default=None)


def keyword_of(node: ast.AST, *names: str) -> ast.expr | None:
    """The argument of a call with one of some names."""
    for word in getattr(node, "keywords", ()):
        if word.arg in names:
            return word.value  # type: ignore[no-any-return]
    return None


def source_file(path: str) -> SourceFile | None:
    """The index of a file; None if it is a library's, or cannot be read."""
    if path.startswith(LIBRARIES):
        return None
    tree = tree_of(path)
    if tree is None:
        return None
    return _index(path, tree)


@lru_cache(maxsize=16)
def _index(path: str, tree: ast.AST) -> SourceFile:
    found = SourceFile(path, tree)
    _collect(found, tree, FunctionHome(None, None), is_module=True)
    return found


def _collect(found: SourceFile, node: ast.AST, home: FunctionHome, *, is_module: bool) -> None:
    for child in ast.iter_child_nodes(node):
        inner, inner_is_module = home, is_module
        if isinstance(child, FUNCTIONS):
            found.homes[child] = home
            if is_module and home.owner is None:
                found.functions[child.name] = child
            inner, inner_is_module = FunctionHome(None, child), False
        elif isinstance(child, ast.ClassDef):
            found.classes.setdefault(child.name, child)
            inner = FunctionHome(child, home.outer)
        else:
            _collect_use(found, child)
        _collect(found, child, inner, is_module=inner_is_module)


def _collect_use(found: SourceFile, node: ast.AST) -> None:
    if isinstance(node, ast.Call):
        found.calls.setdefault(called_name(node), []).append(node)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            place = ImportedName(node.module or "", alias.name, node.level)
            found.imports.setdefault(alias.asname or alias.name, place)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            found.imports.setdefault(alias.asname or alias.name, ImportedName(alias.name, ""))


def imported_file(path: str, place: ImportedName) -> SourceFile | None:
    """The file of the user that an import in a file refers to; None for a library."""
    folder = os.path.dirname(path)
    for _ in range(max(0, place.level - 1)):
        folder = os.path.dirname(folder)
    parts = place.module.split(".") if place.module else []
    for _ in range(1 if place.level else MOST_PARENTS):
        base = os.path.join(folder, *parts)
        for candidate in (base + ".py", os.path.join(base, "__init__.py")):
            if os.path.isfile(candidate):
                return source_file(candidate)
        folder = os.path.dirname(folder)
    return None
