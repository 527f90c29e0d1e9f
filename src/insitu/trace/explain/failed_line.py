"""The line that failed: its expression, its statement as it ran, the values under it."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from insitu.trace.explain.case import NamedOperand
from insitu.trace.explain.explanation import ExpressionSite, Underline
from insitu.trace.explain.expressions import expression_at
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken, site_of
from insitu.trace.explain.frame_reader import FrameReader
from insitu.trace.explain.statement import Statement, no_statement

MOST_UNDERLINES = 4  # under one line; of more, only those of the operands


@dataclass(slots=True, frozen=True)
class FailedLine:
    """The line of the user's code that failed. `at` is the call that raised, `frame` reads the user's frame."""

    at: int | None
    site: ExpressionSite | None
    statement: Statement
    frame: FrameReader

    @property
    def source(self) -> tuple[tuple[int, str], ...]:
        """The lines of the source that are shown, with their numbers."""
        if self.site is None:
            return ()
        first, last = self.statement.expression.lines
        found = []
        for line in range(first, last + 1) or [self.site.line]:
            text = linecache.getline(self.site.file, line).rstrip("\n")
            if text.strip():
                found.append((line, text))
        return tuple(found)

    def expression_of(self, tensor: TensorToken) -> str:
        """The expression on the line that a tensor came from."""
        found = self.statement.find(tensor)
        if found is None:
            return ""
        return found.text

    def tensors(self) -> list[NamedOperand]:
        """The tensors that have names on the line."""
        plain = self.statement.history.plain
        recorded = [NamedOperand(each.text, plain(each.tensor), each.tensor) for each in self.statement.tensors]
        return [*recorded, *self.frame.tensors()]

    def underlines(self, operands: Sequence[NamedOperand]) -> tuple[Underline, ...]:
        """The values on the line: those of the operands, and the others where there is room for them."""
        found = _by_position([*self.frame.underlines(), *self.statement.underlines()])
        own = self.statement.operand_underlines([operand.tensor for operand in operands])
        if own and _is_crowded(found.values()):
            found.clear()
        found |= _by_position(each for each in own if not _has_part_of(each, found.values()))
        first, last = self.statement.expression.lines
        return tuple(each for each in found.values() if first <= each.line <= last)


def _by_position(underlines: Iterable[Underline]) -> dict[tuple[int, int], Underline]:
    return {(each.line, each.start): each for each in underlines}


def _is_crowded(underlines: Iterable[Underline]) -> bool:
    lines = Counter(each.line for each in underlines)
    return max(lines.values(), default=0) > MOST_UNDERLINES


def _has_part_of(underline: Underline, others: Iterable[Underline]) -> bool:
    """Whether a part of an expression is underlined already."""
    return any(other.is_within(underline) for other in others)


def read_line(failure: Failure) -> FailedLine:
    """The line that failed: of the innermost frame of the user or, where only torch ran, of the recorded call."""
    history, own = failure.history, failure.own
    at = _function_around(history, failure.at)
    if failure.has_own_frame:
        statement = Statement(history, expression_at(own.code, own.lasti), parent=failure.at, end=failure.end)
        return FailedLine(at, site_of(own.code, own.lasti), statement, FrameReader(own, history, statement))
    statement = _statement_of_call(history, history.on_line(at))
    return FailedLine(at, history.site(at), statement, FrameReader(own, history, statement))


def _statement_of_call(history: FailureHistory, line: int | None) -> Statement:
    if line is None:
        return no_statement(history)
    return Statement(history, history.expression(line), parent=history.parent(line), end=history.after(line))


def _function_around(history: FailureHistory, at: int | None) -> int | None:
    """The torch function whose operator failed; the call itself if it is not an operator, or runs in backward."""
    if at is None or history.callee_facts(at).kind != "aten":
        return at
    parent = history.parent(at)
    if parent is None:
        return at
    callee = history.callee_facts(parent)
    if callee.kind == "function" and not callee.runs_backward:
        return parent
    return at
