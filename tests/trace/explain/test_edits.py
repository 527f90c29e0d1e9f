"""Lines of a source that are rewritten at one expression."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from insitu.trace.explain.edits import expression_of, with_suffix, with_text
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import Expression

Find = Callable[[str, str, int], Expression | None]


@pytest.fixture
def find(tmp_path: Path) -> Iterator[Find]:
    """Finds an expression by its text and line in a source."""

    def found(source: str, text: str, line: int) -> Expression | None:
        path = tmp_path / "edited.py"
        path.write_text(source, "utf-8")
        linecache.checkcache(str(path))
        return expression_of(ExpressionSite(str(path), line, "", text))

    yield found
    linecache.clearcache()


SUFFIXED = [
    ("y = x", "x", "y = x.t()"),
    ("y = a + b", "a + b", "y = (a + b).t()"),
    ("y = (a + b) / 2", "a + b", "y = (a + b).t() / 2"),
    ("y = f(a + b)", "a + b", "y = f((a + b).t())"),
    ("y = x  # a comment", "x", "y = x.t()"),
    ("y = '形' + x", "x", "y = '形' + x.t()"),
    ("if x: y = 1", "x", "if x.t(): y = 1"),
    ("for x in xs:\n    pass", "xs", "for x in xs.t():"),
    ("a = 1; y = x", "x", "a = 1; y = x.t()"),
]


@pytest.mark.parametrize(("source", "text", "wanted"), SUFFIXED)
def test_a_method_is_called_on_an_expression(find: Find, source: str, text: str, wanted: str) -> None:
    expression = find(source, text, 1)
    assert expression is not None
    fix = with_suffix(expression, expression.node, ".t()")
    assert fix is not None and fix.code == wanted


def test_an_expression_that_is_there_twice_is_not_found(find: Find) -> None:
    assert find("y = f(x) + f(x)", "f(x)", 1) is None


def test_the_end_of_an_expression_over_lines_can_be_extended(find: Find) -> None:
    expression = find("y = f(\n    x,\n)", "f(\n    x,\n)", 1)
    assert expression is not None
    fix = with_suffix(expression, expression.node, ".t()")
    assert fix is not None and (fix.line, fix.code) == (3, ").t()")


def test_an_expression_over_lines_is_not_replaced(find: Find) -> None:
    expression = find("y = f(\n    x,\n)", "f(\n    x,\n)", 1)
    assert expression is not None and with_text(expression, expression.node, "g(x)") is None


def test_what_is_not_python_is_no_fix(find: Find) -> None:
    expression = find("y = x", "x", 1)
    assert expression is not None and with_text(expression, expression.node, "x)") is None
