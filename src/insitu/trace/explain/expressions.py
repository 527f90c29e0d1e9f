"""Expressions in the source: the expression that an instruction belongs to, its text and its columns."""

from __future__ import annotations

import ast
import linecache
import warnings
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from itertools import takewhile
from operator import attrgetter
from types import CodeType
from typing import Any

from insitu.trace.collector import pause_collector

# First and last line, first and last column (in bytes).
Position = tuple[int, int, int, int]
# A node, and the statement that it is a part of.
NodeInStatement = tuple[ast.AST, ast.AST]
MOST_LINES = 8  # of a statement that are shown
MOST_FILES = 16  # whose trees are kept


class Expression:
    """The expression, or the assignment, that an instruction belongs to."""

    def __init__(self, file: str, node: ast.AST, statement: ast.AST) -> None:
        self.file, self.node = file, node
        self.statement = node if hasattr(statement, "body") else statement
        self.position = position_of(node)

    @property
    def lines(self) -> tuple[int, int]:
        """The first and the last line of the statement; those of the expression if the statement is too long."""
        first, last = getattr(self.statement, "lineno", 0), getattr(self.statement, "end_lineno", 0)
        if last - first < MOST_LINES:
            return first, last
        first, last = self.position[:2]
        return first, min(last, first + MOST_LINES - 1)

    @property
    def unpacks(self) -> bool:
        """Whether the instruction unpacks a value to several names."""
        return isinstance(self.node, (ast.Tuple, ast.List))

    @property
    def text(self) -> str:
        """The source text of the expression; of the whole statement if the expression is the target of it.

        A loop is shown without its body.
        """
        if isinstance(self.node, (ast.For, ast.AsyncFor)):
            return loop_text(self.file, self.node)
        is_target = isinstance(getattr(self.node, "ctx", None), ast.Store)
        return segment(self.file, self.statement if is_target else self.node)


def expression_at(code: CodeType, lasti: int) -> Expression:
    """The expression of an instruction; NO_EXPRESSION if the source is missing or has changed."""
    position = _positions(code)[lasti // 2]
    tree = tree_of(code.co_filename)
    if tree is None or None in position:
        return NO_EXPRESSION
    found = _node_at(tree, position)
    if found is None:
        return NO_EXPRESSION
    return Expression(code.co_filename, *found)


def line_at(code: CodeType, lasti: int) -> int:
    """The line of an instruction."""
    return _positions(code)[lasti // 2][0] or code.co_firstlineno


@lru_cache(maxsize=64)
def _positions(code: CodeType) -> list[Any]:
    """The position of each instruction; a part of it may be None."""
    return list(code.co_positions())


class SourceTrees:
    """The syntax trees of some files. Each file is parsed once, until `linecache` has other lines for it."""

    def __init__(self) -> None:
        self._trees: dict[str, tuple[list[str], ast.AST | None]] = {}

    def find(self, file: str) -> ast.AST | None:
        """The tree of a file; None if it cannot be read or parsed."""
        lines = linecache.getlines(file)
        known, tree = self._trees.get(file, (None, None))
        if known is lines:
            return tree
        if len(self._trees) == MOST_FILES:
            self._trees.clear()
        tree = _parse("".join(lines))
        self._trees[file] = (lines, tree)
        return tree


_TREES = SourceTrees()


def tree_of(file: str) -> ast.AST | None:
    """The syntax tree of a file; None if it cannot be read or parsed."""
    return _TREES.find(file)


def _parse(source: str) -> ast.AST | None:
    if not source:
        return None
    try:
        with pause_collector(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python gave its warnings when it compiled the file
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


# The tree of a source that cannot be read: nothing is found in it.
_NO_TREE = ast.Module(body=[], type_ignores=[])


def source_tree(file: str) -> ast.AST:
    """The syntax tree of a file; an empty one if it cannot be read or parsed."""
    return tree_of(file) or _NO_TREE


def called_name(node: ast.AST) -> str:
    """The last part of the name that an expression calls; empty for other expressions.

    >>> called_name(ast.parse("nn.Linear(2, 3)", mode="eval").body)
    'Linear'
    """
    return last_name(getattr(node, "func", None))


def last_name(node: ast.AST | None) -> str:
    """The last part of a name with dots: of `torch.no_grad` it is no_grad; empty for other expressions."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _node_at(tree: ast.AST, position: Position) -> NodeInStatement | None:
    """The node with exactly this position, or the call of a method that ends there (its chain may span lines)."""
    around = list(_around(tree, position))
    found = _exact(around, position) or _call_that_ends(around, position)
    if found is not None:
        return _with_stored_value(*found)
    return None


def _exact(around: list[NodeInStatement], position: Position) -> NodeInStatement | None:
    """The node with this position: the outermost expression, else the innermost node."""
    exact = [each for each in around if position_of(each[0]) == position]
    expressions = [each for each in exact if isinstance(each[0], ast.expr)]
    return next(iter(expressions or exact[::-1]), None)


def _call_that_ends(around: list[NodeInStatement], position: Position) -> NodeInStatement | None:
    calls = [each for each in around if isinstance(each[0], ast.Call)]
    return next((each for each in calls if position_of(each[0])[1::2] == position[1::2]), None)


def _with_stored_value(node: ast.AST, statement: ast.AST) -> NodeInStatement:
    """For `x[0] = y` the whole assignment: the stored value is an argument of the call, too."""
    if isinstance(node, ast.Subscript) and getattr(statement, "targets", ()) == [node]:
        return statement, statement
    return node, statement


def _around(tree: ast.AST, position: Position) -> Iterator[NodeInStatement]:
    """Every node around the position, the outermost first, with the statement that it is a part of."""
    for node, statement in nodes_on_line(tree, position[0]):
        if _contains(node, position):
            yield node, statement


def nodes_on_line(tree: ast.AST, line: int) -> Iterator[NodeInStatement]:
    """Every node that spans a line, the outermost first, with the statement that it is a part of.

    The decorators of a function or class belong to it. The rest of a long file is not looked at.
    """
    return _nodes_inside(tree, tree, line)


def _nodes_inside(node: ast.AST, around: ast.AST, line: int) -> Iterator[NodeInStatement]:
    """The same for the nodes inside of one, which is a part of a statement."""
    for child in _children_on_line(node, line):
        statement = child if isinstance(child, ast.stmt) else around
        yield child, statement
        yield from _nodes_inside(child, statement, line)


def _children_on_line(node: ast.AST, line: int) -> Iterator[ast.AST]:
    """The children of a node that span a line; those that have no lines, such as the arguments of a function, too."""
    for _, field in ast.iter_fields(node):
        if isinstance(field, ast.AST):
            candidates: list[Any] = [field]
        elif isinstance(field, list):
            candidates = _up_to_line(field, line)
        else:
            continue
        yield from (child for child in candidates if _spans(child, line))


def _up_to_line(children: list[Any], line: int) -> list[Any]:
    """The children that may span a line: of statements, which are in order, only those around it."""
    if not children or not isinstance(children[0], ast.stmt):
        return children
    first = bisect_left(children, line, key=attrgetter("end_lineno"))
    return list(takewhile(lambda child: first_line(child) <= line, children[first:]))


def _spans(child: Any, line: int) -> bool:
    """Whether a child of a node spans a line, with its decorators; some children have no lines, or are not nodes."""
    if not isinstance(child, ast.AST):
        return False
    if not hasattr(child, "lineno"):
        return True
    return bool(first_line(child) <= line <= child.end_lineno)  # type: ignore[attr-defined]


def first_line(node: ast.AST) -> int:
    """The first line of a node, or of its first decorator."""
    decorators = getattr(node, "decorator_list", None)
    return int((decorators or [node])[0].lineno)


def _contains(node: ast.AST, position: Position) -> bool:
    line, end_line, start, end = position_of(node)
    return (line, start) <= position[0::2] and position[1::2] <= (end_line, end)


def position_of(node: ast.AST) -> Position:
    """The position of a node."""
    line, start = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return line, getattr(node, "end_lineno", line), start, getattr(node, "end_col_offset", start)


def columns(file: str, node: ast.AST) -> tuple[int, int, int]:
    """The line of a node, and its first and last column on that line, in characters."""
    line, end_line, start, end = position_of(node)
    encoded = linecache.getline(file, line).rstrip("\n").encode()
    if end_line != line:
        end = len(encoded)
    return line, len(encoded[:start].decode(errors="ignore")), len(encoded[:end].decode(errors="ignore"))


def segment(file: str, node: ast.AST) -> str:
    """The source text of a node; empty if the source is missing."""
    line, end_line, start, end = position_of(node)
    encoded = [each.encode() for each in linecache.getlines(file)[line - 1 : end_line]]
    if not encoded or not line:
        return ""
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    return b"".join(encoded).decode(errors="replace")


def loop_text(file: str, loop: ast.For | ast.AsyncFor) -> str:
    """The first line of a loop."""
    return f"for {segment(file, loop.target)} in {segment(file, loop.iter)}"


# The expression of an instruction whose source is missing or has changed.
_NOTHING = ast.Pass(lineno=0, end_lineno=-1, col_offset=0, end_col_offset=0)
NO_EXPRESSION = Expression("", _NOTHING, _NOTHING)
