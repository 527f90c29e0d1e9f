"""Where the keys of a dict come from: what renames them, the model or the file whose dict it was."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.expression_parts import owner_of
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver, comprehension_scope
from insitu.trace.explain.slices.slice_walk import CERTAIN, POSSIBLE, Turn, Verdict

# Methods of a text that return another one.
RENAMING = frozenset(
    [
        *("replace", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "lower", "upper", "join", "format"),
        *("split", "rsplit", "partition", "rpartition", "translate", "sub"),
    ]
)
# Calls that return a dict with keys of its own: that of a model, or of a file.
OWN_KEYS = frozenset(("state_dict", "load", "load_file", "safe_open"))
PAIRS = frozenset(("items", "keys"))


def keys_rule(point: Point, resolver: Resolver) -> Verdict:
    """A dict whose keys matter, but not its values."""
    node = point.node
    turns = tuple(Turn(text_rule, key) for key in _keys(point))
    if not isinstance(node, ast.Call):
        return Verdict(0, (), turns)
    if called_name(node) in OWN_KEYS:
        return Verdict(POSSIBLE)
    return Verdict(0, point.parts(node.args), turns)


def _keys(point: Point) -> Iterator[Point]:
    """The expressions of the keys that a literal or a comprehension has, or that a function gives to a name."""
    node = point.node
    if isinstance(node, ast.DictComp):
        yield Point(comprehension_scope(point, node), node.key)
    elif isinstance(node, ast.GeneratorExp | ast.ListComp) and isinstance(node.elt, ast.Tuple):
        yield Point(comprehension_scope(point, node), node.elt.elts[0])
    elif isinstance(node, ast.Name) and point.scope.function is not None:
        yield from point.parts(_given_keys(point.scope.function, node.id))


def _given_keys(function: ast.AST, name: str) -> Iterator[ast.expr]:
    """The keys under which a function puts items into the dict of a name: `fresh[key] = value`."""
    for statement in ast.walk(function):
        for target in getattr(statement, "targets", ()):
            if isinstance(target, ast.Subscript) and getattr(target.value, "id", "") == name:
                yield target.slice


def text_rule(point: Point, resolver: Resolver) -> Verdict:
    """A key: what computes it from another one."""
    node, owner = point.node, owner_of(point.node)
    if owner is not None and called_name(node) in PAIRS:
        return Verdict(0, (), (Turn(keys_rule, point.part(owner)),))
    if owner is not None and called_name(node) in RENAMING:
        return Verdict(CERTAIN, (point.part(owner),))
    if isinstance(node, ast.JoinedStr):
        return Verdict(CERTAIN, point.parts(_formatted(node)))
    if isinstance(node, ast.BinOp):
        return Verdict(CERTAIN, (point.part(node.left), point.part(node.right)))
    return Verdict(CERTAIN * _cuts_text(node))


def _formatted(node: ast.JoinedStr) -> list[ast.expr]:
    """The values inside of an f-string."""
    return [each.value for each in node.values if isinstance(each, ast.FormattedValue)]


def _cuts_text(node: ast.expr) -> bool:
    """Whether an expression takes a part of a text: `key[7:]`."""
    return isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
