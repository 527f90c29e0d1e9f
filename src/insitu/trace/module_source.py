"""Where a module was made, read from the source: the one call of its class in the class or the file around it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from insitu.trace.explain.expressions import tree_of


@dataclass(frozen=True, slots=True)
class SourceClass:
    """A class that the user wrote, and its file."""

    file: str
    name: str


@dataclass(frozen=True, slots=True)
class ModuleSource:
    """What is known about a module whose source is looked for.

    `kind` is the name of its class, `name` that of the attribute that holds it. `siblings` are the classes of all parts
    of the `nn.Sequential` that it is in, and `index` is its place there. `classes` are those around it, the innermost
    first, and `files` are those of the user's code that ran.
    """

    kind: str
    name: str = ""
    siblings: tuple[str, ...] = ()
    index: int = 0
    classes: tuple[SourceClass, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of a file."""

    file: str
    line: int


def construction(source: ModuleSource) -> SourceLine | None:
    """The line that makes a module; None if it is not known, or could be several."""
    for classes in (source.classes[:1], source.classes[1:]):
        found = _only_construction(source, list(_class_scopes(classes)), is_enough=True)
        if found is not None:
            return found
    return _only_construction(source, list(_file_scopes(source.files)), is_enough=not source.classes)


def attribute_assignment(classes: Iterable[SourceClass], name: str) -> SourceLine | None:
    """The line of the first class that assigns an attribute, `self.layers = []`; None if it is not known."""
    for file, scope in _class_scopes(classes):
        statements = [node for node in ast.walk(scope) if isinstance(node, ast.Assign | ast.AnnAssign)]
        lines = [node.lineno for node in statements if _sets_attribute(node, name)]
        if lines:
            return SourceLine(file, min(lines))
    return None


def _sets_attribute(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    """Whether a statement assigns an attribute of `self`; an annotation alone assigns nothing."""
    if node.value is None:
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    attributes = [target for target in targets if isinstance(target, ast.Attribute)]
    return any(each.attr == name and _name(each.value) == "self" for each in attributes)


def _only_construction(
    source: ModuleSource, scopes: Sequence[tuple[str, ast.AST]], *, is_enough: bool
) -> SourceLine | None:
    """The only call in some scopes, if that `is_enough`, or the only one at the place of the module."""
    calls = [(file, call) for file, scope in scopes for call in _calls(scope, source.kind)]
    parts = [(file, call) for file, call in calls if _is_part(source, scopes, call)]
    for found in (calls if is_enough else [], parts):
        if len(found) == 1:
            file, call = found[0]
            return SourceLine(file, call.lineno)
    return None


def _class_scopes(classes: Iterable[SourceClass]) -> Iterator[tuple[str, ast.AST]]:
    for each in classes:
        for file, tree in _file_scopes([each.file]):
            definitions = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
            yield from ((file, node) for node in definitions if node.name == each.name)


def _file_scopes(files: Iterable[str]) -> Iterator[tuple[str, ast.AST]]:
    for file in files:
        tree = tree_of(file)
        if tree is not None:
            yield file, tree


def _calls(scope: ast.AST, kind: str) -> Iterator[ast.Call]:
    """Every call of a class, by its last name."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Call) and _name(node.func) == kind:
            yield node


def _is_part(source: ModuleSource, scopes: Sequence[tuple[str, ast.AST]], call: ast.Call) -> bool:
    """Whether a call makes the part of a sequence with these siblings, or is assigned to the attribute of the name."""
    if source.siblings:
        return any(_has_part(source, sequence, call) for _, scope in scopes for sequence in _calls(scope, "Sequential"))
    nodes = [node for _, scope in scopes for node in ast.walk(scope)]
    return any(_assigns(node, call, source.name) for node in nodes)


def _assigns(node: ast.AST, call: ast.Call, name: str) -> bool:
    """Whether a node assigns a call to a name or attribute."""
    if not isinstance(node, ast.Assign) or node.value is not call:
        return False
    return _name(node.targets[0]) == name


def _has_part(source: ModuleSource, sequence: ast.Call, call: ast.Call) -> bool:
    if len(sequence.args) != len(source.siblings) or sequence.args[source.index] is not call:
        return False
    pairs = zip(sequence.args, source.siblings, strict=True)
    return all(not isinstance(item, ast.Call) or _name(item.func) == kind for item, kind in pairs)


def _name(node: ast.AST) -> str:
    """The last part of a name."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Name):
        return node.id
    return ""
