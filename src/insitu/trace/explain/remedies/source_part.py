"""A part of the source that a fix changes, and the ways to change it; a way that does not work raises NoAdvice."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from insitu.trace.advice import Advice, Fix
from insitu.trace.explain.edits import expression_of, with_suffix, with_text, with_texts, with_value
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import Expression, segment

T = TypeVar("T")


class NoAdvice(Exception):
    """A remedy does not apply."""


def needed(item: T | None) -> T:
    """The item; NoAdvice without it."""
    if item is None:
        raise NoAdvice
    return item


def require(*conditions: object) -> None:
    """Raise NoAdvice unless all conditions hold."""
    if not all(conditions):
        raise NoAdvice


def only(items: Iterable[T]) -> T:
    """The only item; NoAdvice if there are none, or more."""
    found = list(items)
    require(len(found) == 1)
    return found[0]


def attempt(remedy: Callable[[T], Advice], item: T) -> Advice | None:
    """The advice of a remedy; None if it does not apply. The source may be odd: a remedy that raises has no advice."""
    try:
        return remedy(item)
    except Exception:
        return None


def first_advice(item: T, *remedies: Callable[[T], Advice]) -> Advice:
    """The advice of the first remedy that applies."""
    found = filter(None, (attempt(remedy, item) for remedy in remedies))
    return needed(next(found, None))


@dataclass(slots=True, frozen=True)
class SourcePart:
    """An expression in the source, and the part of it that a fix changes."""

    expression: Expression
    node: ast.AST

    @property
    def file(self) -> str:
        """The file of the source."""
        return self.expression.file

    @property
    def text(self) -> str:
        """The source text of the part."""
        return segment(self.file, self.node)

    def inner(self, node: ast.AST) -> SourcePart:
        """Another part of the same expression."""
        return replace(self, node=node)

    def text_of(self, node: ast.AST) -> str:
        """The source text of another part of the same file."""
        return segment(self.file, node)

    def with_suffix(self, suffix: str) -> Fix:
        """The line with a method called on the part."""
        return needed(with_suffix(self.expression, self.node, suffix))

    def with_text(self, text: str) -> Fix:
        """The line with another text in place of the part."""
        return needed(with_text(self.expression, self.node, text))

    def with_value(self, text: str) -> Fix:
        """The line with another expression in place of the part, in brackets where it needs them."""
        return needed(with_value(self.expression, self.node, text))

    def with_texts(self, new: dict[ast.AST, str]) -> Fix:
        """The line with other texts in place of several expressions."""
        return needed(with_texts(self.expression, new))


def part_at(site: ExpressionSite | None) -> SourcePart:
    """The expression of a site in the source."""
    expression = needed(expression_of(site))
    return SourcePart(expression, expression.node)
