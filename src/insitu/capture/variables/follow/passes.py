"""Passes of loops, as a function that is followed line by line shows them: which lines begin one."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType

from insitu.capture.variables.follow.definitions import NoSource, find, source_of
from insitu.capture.variables.follow.scopes import changed_names, evaluated

LOOPS = (ast.For, ast.AsyncFor, ast.While)


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


def loop_lines(code: CodeType, wanted: Callable[[str], bool]) -> list[LoopLines]:
    """The loops in a function or module that change a wanted variable; nothing if its source is not known."""
    try:
        block = source_of(code).tree if code.co_name == "<module>" else find(code).node
    except NoSource:
        return []
    body = [block.body] if isinstance(block, ast.Lambda) else block.body
    return [lines_of(loop) for loop in loops_in(body) if any(map(wanted, changed_names([loop])))]


def loops_in(nodes: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.For | ast.AsyncFor | ast.While]:
    """The loops of one function or module, without those of the functions in it."""
    waiting: list[ast.AST] = [*nodes]
    while waiting:
        node = waiting.pop()
        if isinstance(node, LOOPS):
            yield node
        waiting += evaluated(node)


def lines_of(loop: ast.For | ast.AsyncFor | ast.While) -> LoopLines:
    """The lines of a loop."""
    first, last = loop.body[0], loop.body[-1]
    begin, end = first.lineno, last.end_lineno or last.lineno
    return LoopLines(range(begin, end + 1), range(begin, (first.end_lineno or begin) + 1))
