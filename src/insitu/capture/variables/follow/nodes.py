"""Nodes that are put into the syntax tree of a function, and their places in the source.

Such a node has the place where its statement begins, so that debuggers, coverage and tracebacks see the lines of the
program and nothing else. The blocks around statements have no place at all: the compiler leaves no trace of them.
"""

from __future__ import annotations

import ast
import opcode
from collections.abc import Iterable
from types import CodeType
from typing import Any, TypeVar

Unplaced = TypeVar("Unplaced", ast.expr, ast.stmt, ast.ExceptHandler, ast.pattern)

PLACED = (ast.expr, ast.stmt, ast.ExceptHandler, ast.pattern)

RESUME = opcode.opmap["RESUME"]

# Placeholders in the compiled code, until the real objects replace them; no program has text with a NUL.
NAME_ERROR = "\0insitu NameError"
ANY_ERROR = "\0insitu BaseException"
TYPE, KIND, EXTEND, ENTRY = "\0insitu type", "\0insitu kind {}", "\0insitu extend", "{} entry"


def reporting(placeholder: str, name: str | None) -> ast.expr:
    """An expression that reports a name, or None: a constant called with one argument."""
    value = ast.Constant(value=None) if name is None else ast.Name(id=name, ctx=ast.Load())
    return calling(placeholder, unplaced(value))


def extending(placeholder: str, name: str, kinds: int) -> ast.stmt:
    """A statement that puts an entry and the value into a list if the value is of one of so many kinds, or reports it.

    It is one step: nothing can come between the entry and the value.
    """
    value = unplaced(ast.Name(id=name, ctx=ast.Load()))
    tests = [is_of(KIND.format(index), name) for index in range(kinds)]
    pair = unplaced(ast.Tuple(elts=[unplaced(ast.Constant(value=ENTRY.format(placeholder))), value], ctx=ast.Load()))
    put = unplaced(ast.Expr(value=calling(EXTEND, pair)))
    other = unplaced(ast.Expr(value=reporting(placeholder, name)))
    test = unplaced(ast.BoolOp(op=ast.Or(), values=tests)) if kinds > 1 else tests[0]
    return unplaced(ast.If(test=test, body=[put], orelse=[other]))


def is_of(kind: str, name: str) -> ast.expr:
    """Compares the type of a variable by identity; a lookup in a set could run code of its metaclass."""
    value = unplaced(ast.Name(id=name, ctx=ast.Load()))
    wanted = unplaced(ast.Constant(value=kind))
    return unplaced(ast.Compare(left=calling(TYPE, value), ops=[ast.Is()], comparators=[wanted]))


def calling(function: str, argument: ast.expr) -> ast.expr:
    """A constant called with one argument."""
    return unplaced(ast.Call(func=unplaced(ast.Constant(value=function)), args=[argument], keywords=[]))


def in_sequence(
    before: list[ast.expr], value: ast.expr, after: list[ast.expr], place: ast.AST | None = None
) -> ast.expr:
    """The value, with other expressions evaluated before and after it; `place` is the place of those before."""
    put_at(place or value, *before)
    parts = ast.Tuple(elts=[*before, value, *after], ctx=ast.Load())
    whole = ast.Subscript(value=parts, slice=ast.Constant(value=len(before)), ctx=ast.Load())
    put_at(value, whole, parts, whole.slice, *after)
    return whole


def catching(error: str, body: list[ast.stmt]) -> ast.ExceptHandler:
    """`except` with a constant for the class, so that no name of the program is read."""
    return unplaced(ast.ExceptHandler(type=unplaced(ast.Constant(value=error)), name=None, body=body))


def unplaced(node: Unplaced) -> Unplaced:
    """The node, with no place in the source."""
    node.lineno = node.end_lineno = node.col_offset = node.end_col_offset = -1
    return node


def is_docstring(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, if it comes first."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def first_place(code: CodeType) -> ast.AST | None:
    """Where the first instruction of a function comes from: that is where a debugger stops first."""
    places = code.co_positions()
    for instruction, _ in zip(code.co_code[::2], places, strict=True):
        if instruction == RESUME:
            break
    line, column = next(((line, column or 0) for line, _end, column, _ in places if line), (None, 0))
    if line is None:
        return None
    return ast.Pass(lineno=line, col_offset=column)


def first_places(codes: Iterable[CodeType]) -> dict[tuple[str, int], ast.AST | None]:
    """Where functions begin, by name and line; None where several have both in common and begin in different lines."""
    found: dict[tuple[str, int], ast.AST | None] = {}
    for code in codes:
        key, place = (code.co_name, code.co_firstlineno), first_place(code)
        known = found.setdefault(key, place)
        if getattr(known, "lineno", None) != getattr(place, "lineno", None):
            found[key] = None
    return found


def place_of(node: Any) -> Any:
    """The part of a statement whose line surely has instructions: that of a mere `if (` has none."""
    match node:
        case ast.If(test=part) | ast.While(test=part) | ast.For(iter=part) | ast.AsyncFor(iter=part):
            return place_of(part)
        case ast.With(items=[item, *_]) | ast.AsyncWith(items=[item, *_]):
            return place_of(item.context_expr)
        case ast.Match(subject=part) | ast.Expr(value=part) | ast.Delete(targets=[part, *_]):
            return place_of(part)
        case ast.UnaryOp(op=ast.Not(), operand=part) | ast.IfExp(test=part):
            return place_of(part)
    return node


def put_at(node: ast.AST, *nodes: ast.AST) -> None:
    """Give nodes that have no place, and those inside of them, the place where another one begins."""
    place = place_of(node)
    waiting = list(nodes)
    while waiting:
        each = waiting.pop()
        if isinstance(each, PLACED) and getattr(each, "lineno", -1) == -1:
            each.lineno = each.end_lineno = place.lineno
            each.col_offset = each.end_col_offset = place.col_offset
            waiting += ast.iter_child_nodes(each)
