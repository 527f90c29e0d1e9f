"""The line that failed: its expression, its statement as it ran, the values under it."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from insitu.trace.explain.case import NamedOperand
from insitu.trace.explain.explanation import ExpressionSite, Underline
from insitu.trace.explain.expressions import Expression, expression_at
from insitu.trace.explain.failure import Failure, FrameSnapshot
from insitu.trace.explain.frames import FrameReader
from insitu.trace.explain.history import History, TensorToken, site_of
from insitu.trace.explain.statement import Statement

MOST_UNDERLINES = 4  # under one line; of more, only those of the operands


@dataclass(slots=True, frozen=True)
class FailedLine:
    """The line of the user's code that failed. `at` is the call that raised, `frame` reads the user's frame."""

    at: int | None = None
    site: ExpressionSite | None = None
    expression: Expression | None = None
    statement: Statement | None = None
    frame: FrameReader | None = None

    @property
    def source(self) -> tuple[tuple[int, str], ...]:
        """The lines of the source that are shown, with their numbers."""
        if self.site is None:
            return ()
        first, last = self.expression.lines if self.expression is not None else (self.site.line, self.site.line)
        lines = [(line, linecache.getline(self.site.file, line).rstrip("\n")) for line in range(first, last + 1)]
        return tuple((line, text) for line, text in lines if text.strip())

    def is_result(self, tensor: TensorToken) -> bool:
        """Whether a call on the line produced a tensor."""
        return self.statement is not None and self.statement.is_result(tensor)

    def expression_of(self, tensor: TensorToken) -> str:
        """The expression on the line that a tensor came from."""
        found = self.statement.find(tensor) if self.statement is not None else None
        return found.text if found is not None else ""

    def name_of(self, tensor: TensorToken) -> str:
        """A name of the user's frame that refers to a tensor."""
        return self.frame.name_of(tensor) if self.frame is not None else ""

    def tensors(self) -> list[NamedOperand]:
        """The tensors that have names on the line."""
        return [*self._recorded_tensors(), *(self.frame.tensors() if self.frame is not None else [])]

    def _recorded_tensors(self) -> list[NamedOperand]:
        if self.statement is None:
            return []
        plain = self.statement.history.plain
        return [NamedOperand(each.text, plain(each.tensor), each.tensor) for each in self.statement.tensors]

    def underlines(self, operands: Sequence[NamedOperand]) -> tuple[Underline, ...]:
        """The values on the line: those of the operands, and the others where there is room for them."""
        if self.expression is None:
            return ()
        first, last = self.expression.lines
        found = {(each.line, each.start): each for each in self._value_underlines()}
        mine = self._operand_underlines(operands)
        if mine and _is_crowded(found.values()):
            found.clear()
        for each in mine:
            if not any(other.is_within(each) for other in found.values()):  # else its parts are underlined
                found[each.line, each.start] = each
        return tuple(each for each in found.values() if first <= each.line <= last)

    def _operand_underlines(self, operands: Sequence[NamedOperand]) -> list[Underline]:
        if self.statement is None:
            return []
        return self.statement.operand_underlines([operand.tensor for operand in operands])

    def _value_underlines(self) -> Iterator[Underline]:
        if self.frame is not None:
            yield from self.frame.underlines()
        if self.statement is not None:
            yield from self.statement.underlines()


def _is_crowded(underlines: Iterable[Underline]) -> bool:
    lines = Counter(each.line for each in underlines)
    return max(lines.values(), default=0) > MOST_UNDERLINES


def read_line(failure: Failure) -> FailedLine:
    """The line that failed: of the innermost frame of the user or, where only torch ran, of the recorded call."""
    at = _function_around(failure.history, failure.at)
    if failure.own is not None:
        return _line_of_frame(failure, at, failure.own)
    return _line_of_call(failure.history, at)


def _function_around(history: History, at: int | None) -> int | None:
    """The torch function whose operator failed; the call itself if it is not an operator, or runs in backward."""
    parent = history.parent(at) if at is not None and history.callee_facts(at).kind == "aten" else None
    if parent is None:
        return at
    callee = history.callee_facts(parent)
    return parent if callee.kind == "function" and not callee.runs_backward else at


def _line_of_frame(failure: Failure, at: int | None, frame: FrameSnapshot) -> FailedLine:
    expression = expression_at(frame.code, frame.lasti)
    statement = None
    if expression is not None:
        statement = Statement(failure.history, expression, parent=failure.at, end=failure.end)
    reader = FrameReader(frame, failure.history, statement)
    return FailedLine(at, site_of(frame.code, frame.lasti), expression, statement, reader)


def _line_of_call(history: History, at: int | None) -> FailedLine:
    line = history.on_line(at)
    expression = history.expression(line)
    if line is None or expression is None:
        return FailedLine(at, history.site(line))
    statement = Statement(history, expression, parent=history.parent(line), end=history.after(line))
    return FailedLine(at, history.site(line), expression, statement)
