"""Expressions in the source: the one that an instruction belongs to, and those that its arguments came from."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

# First and last line, first and last column (in bytes).
Position = tuple[int, int, int, int]
MOST_LINES = 8  # of a statement that are shown


class Expression:
    """The expression, or the assignment, that an instruction of some code belongs to."""

    def __init__(self, file: str, node: ast.AST, statement: ast.AST) -> None:
        self.file, self.node = file, node
        self.statement = statement if not hasattr(statement, "body") else node
        self.position = position_of(node)

    @property
    def lines(self) -> tuple[int, int]:
        """The first and the last line of the statement, as far as it is shown."""
        first, last = getattr(self.statement, "lineno", 0), getattr(self.statement, "end_lineno", 0)
        if last - first >= MOST_LINES:
            first, last = self.position[0], min(self.position[1], self.position[0] + MOST_LINES - 1)
        return first, last

    @property
    def text(self) -> str:
        """The expression as it is written; where something is stored, all of the statement."""
        stores = isinstance(getattr(self.node, "ctx", None), ast.Store)
        return segment(self.file, self.statement if stores else self.node)


def expression_at(code: CodeType, lasti: int) -> Expression | None:
    """The expression of an instruction; None where there is no source, or it is another one by now."""
    position = instruction_position(code, lasti)
    tree = parsed("".join(linecache.getlines(code.co_filename)))
    if position is None or tree is None:
        return None
    found = _best(tree, position)
    return Expression(code.co_filename, *found) if found is not None else None


def instruction_position(code: CodeType, lasti: int) -> Position | None:
    """Where the text of an instruction stands."""
    line, end_line, start, end = _positions(code)[lasti // 2]
    if line is None or end_line is None or start is None or end is None:
        return None
    return line, end_line, start, end


def line_at(code: CodeType, lasti: int) -> int:
    """The line of an instruction."""
    return _positions(code)[lasti // 2][0] or code.co_firstlineno


@lru_cache(maxsize=64)
def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(code.co_positions())


@lru_cache(maxsize=16)
def parsed(source: str) -> ast.AST | None:
    """The tree of a source text; None if it is none."""
    try:
        return ast.parse(source) if source else None
    except (SyntaxError, ValueError):
        return None


def _best(tree: ast.AST, position: Position) -> tuple[ast.AST, ast.AST] | None:
    """The node that stands exactly there or, for the call of a method whose chain spans lines, ends there."""
    ending: tuple[ast.AST, ast.AST] | None = None
    exact: tuple[ast.AST, ast.AST] | None = None
    for node, statement in _around(tree, position):
        place = position_of(node)
        if place == position and not (exact is not None and isinstance(exact[0], ast.expr)):
            exact = (node, statement)
        elif ending is None and isinstance(node, ast.Call) and (place[1], place[3]) == (position[1], position[3]):
            ending = (node, statement)
    best = exact or ending
    return _whole(*best) if best is not None else None


def _whole(node: ast.AST, statement: ast.AST) -> tuple[ast.AST, ast.AST]:
    """Of `x[0] = y` all of it: what is stored is an argument, too."""
    stores = isinstance(statement, ast.Assign) and len(statement.targets) == 1 and statement.targets[0] is node
    return (statement if stores and isinstance(node, ast.Subscript) else node), statement


def _around(tree: ast.AST, position: Position) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Every node that the position lies in, from the outermost on, with the statement it is part of."""
    waiting: list[tuple[ast.AST, ast.AST]] = [(tree, tree)]
    first, last = (position[0], position[2]), (position[1], position[3])
    while waiting:
        node, statement = waiting.pop()
        if hasattr(node, "lineno"):
            line, end_line, start, end = position_of(node)
            if (line, start) > first or (end_line, end) < last:
                if not getattr(node, "decorator_list", None):
                    continue
            elif isinstance(node, ast.stmt):
                statement = node
            yield node, statement
        waiting += [(child, statement) for child in reversed(list(ast.iter_child_nodes(node)))]


def position_of(node: ast.AST) -> Position:
    """Where a node stands."""
    line, start = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return line, getattr(node, "end_lineno", line), start, getattr(node, "end_col_offset", start)


def columns(file: str, node: ast.AST) -> tuple[int, int, int]:
    """The line of a node and its first and last column in characters, on that line."""
    line, end_line, start, end = position_of(node)
    encoded = linecache.getline(file, line).rstrip("\n").encode()
    if end_line != line:
        end = len(encoded)
    return line, len(encoded[:start].decode(errors="ignore")), len(encoded[:end].decode(errors="ignore"))


def segment(file: str, node: ast.AST) -> str:
    """The source text of a node."""
    return ast.get_source_segment("".join(linecache.getlines(file)), node) or ""


# An argument, or a part of one, and the expression it came from.
Pair = tuple[Any, ast.expr]


def pairs(node: ast.AST, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Pair]:
    """The arguments of a call with the expressions they came from, as far as that is plain to see.

    `name` is that of the function, empty for a module.
    """
    nodes: list[ast.expr] = []
    if name.endswith("__bool__") and not isinstance(node, ast.Call):
        nodes = _asked(node)
    elif isinstance(node, ast.BinOp):
        nodes = [node.left, node.right]
        if isinstance(node.left, ast.Constant) and args and not isinstance(args[0], (int, float, complex)):
            nodes.reverse()  # `1 - x` is a method of x
    elif isinstance(node, ast.AugAssign):
        nodes = [node.target, node.value]
    elif isinstance(node, ast.Compare):
        nodes = [node.left, node.comparators[0]]
    elif isinstance(node, ast.UnaryOp):
        nodes = [node.operand]
    elif isinstance(node, ast.Subscript):
        nodes = [node.value, node.slice]
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        nodes = [node.targets[0].value, node.targets[0].slice, node.value]
    elif isinstance(node, ast.Attribute):
        nodes = [node.value]
    elif isinstance(node, ast.Call):
        if name and not _calls(node, name):
            return []  # torch has called it, inside of what is called here
        nodes = [*_receiver(node, name), *_plain(node.args)]
    found = [pair for item, part in zip(args, nodes, strict=False) for pair in _parts(item, part)]
    keywords = {word.arg: word.value for word in node.keywords} if isinstance(node, ast.Call) else {}
    return found + [pair for key, item in kwargs.items() if key in keywords for pair in _parts(item, keywords[key])]


def _asked(node: ast.AST) -> list[ast.expr]:
    """What is asked for its truth where an expression stands: of `not x` the x; of `a and b` it is not plain to see."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return [node.operand]
    if isinstance(node, ast.BoolOp) or (isinstance(node, ast.Compare) and len(node.comparators) > 1):
        return []
    return [node] if isinstance(node, ast.expr) else []


def _calls(node: ast.Call, name: str) -> bool:
    """Whether an expression calls a function of this name: `F.linear(x)`, `bool(x)`."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called.strip("_") == name.rpartition(".")[2].strip("_")


def _receiver(node: ast.Call, name: str) -> list[ast.expr]:
    """The object whose method is called, where that is a method of a tensor."""
    if not isinstance(node.func, ast.Attribute) or not name.startswith("torch.Tensor."):
        return []
    return [] if ast.unparse(node.func.value) in ("torch.Tensor", "Tensor") else [node.func.value]


def _plain(nodes: list[ast.expr]) -> list[ast.expr]:
    """The arguments up to the first that stands for several."""
    starred = next((index for index, node in enumerate(nodes) if isinstance(node, ast.Starred)), len(nodes))
    return nodes[:starred]


def _parts(item: Any, node: ast.expr) -> list[Pair]:
    """A container with the display it was written as, part by part."""
    if isinstance(item, (list, tuple)) and isinstance(node, (ast.List, ast.Tuple)):
        return [pair for part, inner in zip(item, _plain(node.elts), strict=False) for pair in _parts(part, inner)]
    return [(item, node)]
