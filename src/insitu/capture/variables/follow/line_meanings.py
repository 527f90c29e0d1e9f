"""What the lines of a function do, read from its source: which begin a pass of a loop, and which bind a variable.

A function that is followed line by line shows only what has changed. This says more: that a pass begins, and that a
variable was bound to the value that it has already.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType

from insitu.capture.variables.follow.definitions import NoSource, find, source_of
from insitu.capture.variables.follow.scopes import Function, changed_names, evaluated, names_in
from insitu.capture.variables.follow.statements import bound_by

Loop = ast.For | ast.AsyncFor | ast.While
LOOPS = (ast.For, ast.AsyncFor, ast.While)
WITH_SUITES = (*LOOPS, ast.If, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


@dataclass(frozen=True, slots=True)
class LoopLines:
    """The lines of the body of a loop, and those of the first statement in it."""

    body: range
    first: range

    def begins(self, before: int, now: int) -> bool:
        """Whether a pass begins when one line has run and another one is next.

        It comes from the line of the loop or, if that line has nothing to do (`while True`), from the end of the body.

        >>> loop = LoopLines(range(2, 5), range(2, 3))
        >>> loop.begins(1, 2), loop.begins(2, 3), loop.begins(4, 2), loop.begins(4, 1), loop.begins(1, 5)
        (True, False, True, False, False)
        """
        if now not in self.body:
            return False
        is_from_end = now in self.first and before not in self.first
        return before not in self.body or is_from_end


@dataclass(frozen=True, slots=True)
class BindingLines:
    """The lines of a statement that binds variables; of a loop, its own lines, and then its body comes next."""

    names: frozenset[str]
    lines: range
    next_lines: range | None = None

    def has_run(self, before: int, now: int) -> bool:
        """Whether the statement has ended, unless it raised, when one line has run and another one is next."""
        if before not in self.lines or now in self.lines:
            return False
        return self.next_lines is None or now in self.next_lines


@dataclass(frozen=True, slots=True)
class LineMeanings:
    """The loops that change wanted variables, and the statements that bind them."""

    loops: tuple[LoopLines, ...] = ()
    bindings: tuple[BindingLines, ...] = ()

    def bound(self, before: int, now: int) -> set[str]:
        """The variables that a line has bound, unless it raised."""
        return {name for each in self.bindings if each.has_run(before, now) for name in each.names}


def line_meanings(code: CodeType, wanted: Callable[[str], bool]) -> LineMeanings:
    """What the lines of a function or module do to the wanted variables; nothing if its source is not known."""
    statements = statements_of(code)
    loops = [node for node in statements if isinstance(node, LOOPS) and any(map(wanted, changed_names([node])))]
    bindings = [binding for node in statements if (binding := binding_of(node, wanted)) is not None]
    return LineMeanings(tuple(map(lines_of, loops)), tuple(bindings))


def names_in_with(code: CodeType, line: int) -> frozenset[str] | None:
    """All names in the innermost `with` block that has this line; None if there is none, or no source."""
    blocks = [node for node in statements_of(code) if isinstance(node, ast.With | ast.AsyncWith)]
    around = [node for node in blocks if line in span(node, node.body[-1])]
    if not around:
        return None
    innermost = max(around, key=lambda node: node.lineno)
    return frozenset(node.id for node in ast.walk(innermost) if isinstance(node, ast.Name))


def statements_of(code: CodeType) -> list[ast.stmt]:
    """The statements of a function or module, without those of the functions in it; none if the source is not known."""
    block = definition_of(code)
    if block is None:
        return []
    return list(statements_in([block.body] if isinstance(block, ast.Lambda) else block.body))


def definition_of(code: CodeType) -> Function | ast.Module | None:
    """The function or module in its file, even if a tool has changed its code since; None if it is not found."""
    try:
        source = source_of(code)
    except NoSource:
        return None
    if code.co_name == "<module>":
        return source.tree
    try:
        return find(code).node
    except NoSource:
        candidates = source.candidates(code)
        return candidates[0][0] if len(candidates) == 1 else None


def statements_in(nodes: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.stmt]:
    """The statements among nodes and inside of them, without those of functions."""
    waiting: list[ast.AST] = [*nodes]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node
        waiting += evaluated(node)


def lines_of(loop: Loop) -> LoopLines:
    """The lines of a loop."""
    return LoopLines(span(loop.body[0], loop.body[-1]), span(loop.body[0], loop.body[0]))


def binding_of(node: ast.stmt, wanted: Callable[[str], bool]) -> BindingLines | None:
    """The lines of a statement that binds wanted variables; None for any other statement."""
    if isinstance(node, ast.For | ast.AsyncFor):
        names = frozenset(filter(wanted, bound_by(node)))
        own, body = span(node, node.iter), span(node.body[0], node.body[-1])
        return BindingLines(names, own, body) if names else None
    if isinstance(node, (*WITH_SUITES, ast.Delete)):
        return None  # what these bind themselves is seen if it changes
    names = frozenset(filter(wanted, (*bound_by(node), *names_in([node]).bound)))
    return BindingLines(names, span(node, node)) if names else None


def span(first: ast.stmt | ast.expr, last: ast.stmt | ast.expr) -> range:
    """The lines from one node to another."""
    return range(first.lineno, (last.end_lineno or last.lineno) + 1)
