"""The loops and branches around a place in the source. Each file is parsed once, when its sites are decoded."""

from __future__ import annotations

import ast
import linecache
import opcode
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from types import CodeType
from typing import Any, ClassVar

from insitu.capture.variables.follow.definitions import quiet
from insitu.trace.event import Arm, Loop, Nesting

# A line, and a column in bytes.
Point = tuple[int, int]
# The first and the last line, the first and the last column, as `co_positions` gives them: any of them may be None.
CodePosition = tuple[int | None, ...]

JUMPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Before Python 3.12, each comprehension has a frame of its own; later only generators have.
WITH_OWN_FRAME = COMPREHENSIONS if sys.version_info < (3, 12) else (ast.GeneratorExp,)
OUTERMOST = Nesting(0)
MOST_FILES = 512  # whose regions are kept


class SourceRegion:
    """A part of the source. All in it has the same nesting, except for the regions `inside` it.

    Some instructions have another nesting than the text that they belong to:
    - one of the region as a `whole`, and not of a part: a comprehension is called from outside of its loop
    - one in the header of a loop that runs in each pass: it gets the next item (`each_pass`)
    - one in the header of a `with` or `while` block that runs after the `body` (`after`)
    - the test of a `while` loop, which Python compiles twice, before the first pass (`before`); if the loop has a
      `continue`, that leads there, too, and the test belongs to the pass
    """

    __slots__ = ("after", "before", "body", "each_pass", "end", "inside", "nesting", "start", "whole")

    def __init__(self, node: Any, nesting: Nesting) -> None:
        self.start: Point = (node.lineno, node.col_offset)
        self.end: Point = (node.end_lineno, node.end_col_offset)
        self.nesting = self.whole = nesting
        self.each_pass: Nesting | None = None
        self.body: Point | None = None
        self.before: Nesting | None = None
        self.after: Nesting | None = None
        self.inside: list[SourceRegion] = []


class Nestings:
    """Finds the nesting of instructions and of lines; None where the source is not known.

    The regions of a file are kept for all sessions, until `linecache` has other lines for the file.
    """

    _files: ClassVar[dict[str, tuple[list[str], list[SourceRegion]]]] = {}

    def of_instruction(self, code: CodeType, lasti: int, positions: Sequence[CodePosition]) -> Nesting | None:
        """The nesting of an instruction of a code object; `positions` are those of all its instructions."""
        line, end_line, start, end = positions[lasti // 2]
        if line is None or end_line is None or start is None or end is None:
            return None
        begin, close = (line, start), (end_line, end)
        region = self._region(code.co_filename, begin, close)
        if region is None:
            return None
        if region.each_pass is not None and opcode.opname[code.co_code[lasti]] == "FOR_ITER":
            return region.each_pass
        if region.body is not None and _is_after(region.body, positions[: lasti // 2]):
            return region.after
        if region.before is not None and positions[lasti // 2] in positions[lasti // 2 + 1 :]:
            return region.before
        if (begin, close) == (region.start, region.end):
            return region.whole
        return region.nesting

    def of_line(self, file: str, line: int) -> Nesting | None:
        """The nesting of a line where no instruction is known: the header of a loop is part of each pass."""
        text = linecache.getline(file, line)
        begin = (line, len(text) - len(text.lstrip()))
        region = self._region(file, begin, begin)
        if region is None:
            return None
        return region.each_pass or region.nesting

    def _region(self, file: str, begin: Point, end: Point) -> SourceRegion | None:
        """The innermost region around a part of the source."""
        found = None
        inside = self._regions(file)
        while inside:
            at = bisect_right(inside, begin, key=_start) - 1
            if at < 0 or end > inside[at].end:
                break
            found = inside[at]
            inside = found.inside
        return found

    def _regions(self, file: str) -> list[SourceRegion]:
        """The outermost regions of a file; they are found again if the lines of the file were read again."""
        lines = linecache.getlines(file)
        known, regions = self._files.get(file, (None, []))
        if known is not lines:
            regions = _regions(lines)
            if len(self._files) == MOST_FILES:
                self._files.clear()
            self._files[file] = (lines, regions)
        return regions


class NoNestings(Nestings):
    """Finds nothing: for frames whose surroundings do not matter, no file is read."""

    def _regions(self, file: str) -> list[SourceRegion]:
        return []


def _start(region: SourceRegion) -> Point:
    return region.start


def _is_after(body: Point, earlier: Sequence[CodePosition]) -> bool:
    """Whether one of the earlier instructions belongs to a body that begins at this point."""
    line, column = body
    return any((first or 0, start or 0) >= (line, column) for first, _, start, _ in earlier)


def _regions(lines: list[str]) -> list[SourceRegion]:
    """The regions of a file; none if it cannot be read or parsed."""
    try:
        with quiet():  # Python gave its warnings when it compiled the file
            tree = ast.parse("".join(lines))
        return list(_Builder(lines).block(tree.body, OUTERMOST))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


class _Builder:
    """Makes the regions of one file."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def block(self, statements: Iterable[ast.stmt], around: Nesting) -> Iterator[SourceRegion]:
        """The regions of statements that follow each other."""
        for statement in statements:
            nesting = replace(around, statement=statement.lineno, text=self._line(statement))
            region = SourceRegion(statement, nesting)
            region.inside = list(self._inside(statement)(self, statement, region))
            yield region
            if isinstance(statement, ast.If):
                around = _nesting_after(statement, around)

    def _inside(self, statement: ast.stmt) -> Callable[..., Iterable[SourceRegion]]:
        """The method that finds the regions in a statement of this kind."""
        return STATEMENTS.get(type(statement), _Builder._simple)

    def _simple(self, node: ast.stmt, region: SourceRegion) -> Iterable[SourceRegion]:
        """A statement without a body."""
        return self._parts([node], region.nesting)

    def _definition(self, node: Any, region: SourceRegion) -> Iterable[SourceRegion]:
        """A function or class: its body has frames of its own. Its decorators come before its first line."""
        region.start = min([region.start, *((each.lineno, each.col_offset) for each in node.decorator_list)])
        return self.block(node.body, OUTERMOST)

    def _with(self, node: Any, region: SourceRegion) -> Iterable[SourceRegion]:
        """A `with` block, whose header runs again when the block is left."""
        nesting = region.nesting
        region.body = _first_point(node.body)
        region.after = replace(nesting, statement=node.end_lineno, is_end=True)
        return chain(self._parts(node.items, nesting), self.block(node.body, nesting))

    def _if(self, node: ast.If, region: SourceRegion) -> Iterable[SourceRegion]:
        """A condition: one of its two branches runs."""
        arms = self._arms(node.lineno, [node.body, node.orelse], region.nesting)
        return chain(self._parts([node.test], region.nesting), arms)

    def _match(self, node: ast.Match, region: SourceRegion) -> Iterable[SourceRegion]:
        """A `match` block: one of its cases runs."""
        arms = self._arms(node.lineno, [case.body for case in node.cases], region.nesting)
        return chain(self._parts([node.subject], region.nesting), arms)

    def _try(self, node: Any, region: SourceRegion) -> Iterable[SourceRegion]:
        """A `try` block: at most one of its handlers runs, and all the rest may."""
        nesting = region.nesting
        handlers = self._arms(node.lineno, [handler.body for handler in node.handlers], nesting)
        rest = (self.block(node.orelse, nesting), self.block(node.finalbody, nesting))
        return chain(self.block(node.body, nesting), handlers, *rest)

    def _for(self, node: Any, region: SourceRegion) -> Iterable[SourceRegion]:
        """A loop that evaluates what it goes through only once."""
        before = region.nesting
        prefix = {ast.AsyncFor: "async for"}.get(type(node), "for")
        loop = Loop(node.lineno, f"{prefix} {self._text(node.target)} in {self._text(node.iter)}:")
        inside = replace(before, loops=(*before.loops, loop))
        region.each_pass = replace(inside, text=loop.text)
        return chain(self._parts([node.iter], before), self.block(node.body, inside), self.block(node.orelse, before))

    def _while(self, node: ast.While, region: SourceRegion) -> Iterable[SourceRegion]:
        """A loop whose test runs in each pass."""
        before = region.nesting
        loop = Loop(node.lineno, f"while {self._text(node.test)}:")
        inside = replace(before, loops=(*before.loops, loop))
        region.nesting = region.whole = inside
        region.before, region.body = before if not _has_continue(node) else None, _first_point(node.body)
        region.after = replace(inside, statement=_last_line(node.body), is_end=True)
        return chain(self._parts([node.test], inside), self.block(node.body, inside), self.block(node.orelse, before))

    def _arms(self, line: int, arms: Iterable[list[ast.stmt]], nesting: Nesting) -> Iterator[SourceRegion]:
        """The regions of blocks of which only one runs."""
        for number, statements in enumerate(arms):
            yield from self.block(statements, replace(nesting, arms=(*nesting.arms, Arm(line, number))))

    def _parts(self, nodes: Iterable[ast.AST], nesting: Nesting) -> Iterator[SourceRegion]:
        """The regions in expressions: lambdas and comprehensions, in the order of the source."""
        found: list[SourceRegion] = []
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Lambda):
                found.append(self._lambda(node))
            elif isinstance(node, COMPREHENSIONS):
                found.append(self._comprehension(node, nesting))
            else:
                waiting += ast.iter_child_nodes(node)
        yield from sorted(found, key=_start)

    def _lambda(self, node: ast.Lambda) -> SourceRegion:
        """The region of a lambda, which has a frame of its own."""
        inside = replace(OUTERMOST, statement=node.lineno, text=self._line(node))
        region = SourceRegion(node, inside)
        region.inside = list(self._parts([node.body], inside))
        return region

    def _comprehension(self, node: Any, outer: Nesting) -> SourceRegion:
        """The region of a comprehension; the first iterable is evaluated outside of it."""
        nesting = outer
        if isinstance(node, WITH_OWN_FRAME):
            nesting = replace(OUTERMOST, statement=outer.statement, text=outer.text)
        parts: list[SourceRegion] = []
        region = SourceRegion(node, nesting)
        for number, generator in enumerate(node.generators):
            iterable = SourceRegion(generator.iter, outer if number == 0 else nesting)
            iterable.inside = list(self._parts([generator.iter], iterable.nesting))
            loop = Loop(node.lineno, f"for {self._text(generator.target)} in {self._text(generator.iter)}")
            nesting = replace(nesting, loops=(*nesting.loops, loop))
            iterable.each_pass = nesting
            region.each_pass = region.each_pass or nesting
            parts += [iterable, *self._parts(generator.ifs, nesting)]
        region.nesting, region.whole = nesting, outer
        elements = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        region.inside = sorted([*self._parts(elements, nesting), *parts], key=_start)
        return region

    def _line(self, node: Any) -> str:
        """The line on which a node begins."""
        line: str = self._lines[node.lineno - 1]
        return line.strip()

    def _text(self, node: Any) -> str:
        """The source text of a node, in one line."""
        lines = [line.encode() for line in self._lines[node.lineno - 1 : node.end_lineno]]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        text: str = b"".join(lines).decode(errors="replace")
        return " ".join(text.split())


STATEMENTS: dict[type[ast.stmt], Callable[..., Iterable[SourceRegion]]] = {
    **dict.fromkeys((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef), _Builder._definition),
    **dict.fromkeys((ast.For, ast.AsyncFor), _Builder._for),
    **dict.fromkeys((ast.With, ast.AsyncWith), _Builder._with),
    **dict.fromkeys((ast.Try, ast.TryStar), _Builder._try),
    ast.While: _Builder._while,
    ast.If: _Builder._if,
    ast.Match: _Builder._match,
}


def _first_point(statements: list[ast.stmt]) -> Point:
    return statements[0].lineno, statements[0].col_offset


def _has_continue(loop: ast.While) -> bool:
    """Whether a `continue` goes on with the next pass of this loop, and not of one inside it."""
    waiting: list[ast.AST] = [*loop.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Continue):
            return True
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            waiting += node.orelse
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.expr):
            waiting += ast.iter_child_nodes(node)
    return False


def _last_line(statements: list[ast.stmt]) -> int:
    return statements[-1].end_lineno or statements[-1].lineno


def _nesting_after(condition: ast.If, nesting: Nesting) -> Nesting:
    """The nesting of what follows a condition: if one of its branches jumps away, it belongs to the other one."""
    for branch, statements in ((1, condition.body), (0, condition.orelse)):
        jump = statements[-1:]
        if jump and isinstance(jump[0], JUMPS):
            arm = Arm(condition.lineno, branch, isinstance(jump[0], ast.Continue))
            return replace(nesting, arms=(*nesting.arms, arm))
    return nesting
