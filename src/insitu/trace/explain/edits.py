"""One line of the source, rewritten: expressions in it are replaced, or a method is called on them.

An edit that would go over several lines, or whose result is not Python, is None: no advice is better than a wrong one.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from operator import attrgetter

from insitu.trace.advice import Fix
from insitu.trace.explain.case import before_dot
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import Expression, columns, nodes_on_line, position_of, segment, tree_of
from insitu.trace.explain.soundness import is_sound

MOST_CODE = 160  # characters of a line that is shown as a fix
# Expressions whose value is not a tensor: no method of a tensor can be called on them.
CONTAINERS = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp)


@dataclass(slots=True, frozen=True)
class TextChange:
    """A part of a line and its new text; `start` and `end` are columns in characters."""

    start: int
    end: int
    text: str


def expression_of(site: ExpressionSite | None) -> Expression | None:
    """The expression of a site in the source; None if it is not there, or is there more than once."""
    if site is None or not site.text:
        return None
    tree = tree_of(site.file)
    if tree is None:
        return None
    found: dict[tuple[int, ...], Expression] = {}
    for node, statement in nodes_on_line(tree, site.line):
        begins_here = position_of(node)[0] == site.line and not isinstance(node, ast.Expr)
        if begins_here and segment(site.file, node) == site.text:
            found.setdefault(position_of(node), Expression(site.file, node, statement))
    if len(found) == 1:
        return next(iter(found.values()))
    return None


def statement_at(file: str, line: int) -> ast.stmt | None:
    """The innermost statement that begins on a line."""
    tree = tree_of(file)
    if tree is None:
        return None
    statements = [node for node, _ in nodes_on_line(tree, line) if isinstance(node, ast.stmt)]
    return next((node for node in reversed(statements) if node.lineno == line), None)


def with_suffix(expression: Expression, node: ast.AST, suffix: str) -> Fix | None:
    """The line with a method called on an expression: `x` becomes `x.detach()`, `a + b` becomes `(a + b).detach()`."""
    text = segment(expression.file, node)
    if isinstance(node, CONTAINERS):
        return None
    if _is_in_brackets(expression.file, node):
        return _after_bracket(expression, node, suffix)
    return with_text(expression, node, f"{before_dot(text)}{suffix}")


def _is_in_brackets(file: str, node: ast.AST) -> bool:
    """Whether an expression has brackets of its own: not those of a call."""
    line, start, end = columns(file, node)
    text = linecache.getline(file, line)
    has_brackets = text[start - 1 : start] == "(" and text[end : end + 1] == ")"
    before = text[: start - 1].rstrip()[-1:]
    return has_brackets and not (before.isalnum() or before in ("_", ")", "]"))


def _after_bracket(expression: Expression, node: ast.AST, suffix: str) -> Fix | None:
    line, _, end = columns(expression.file, node)
    return _fix(expression, line, [TextChange(end + 1, end + 1, suffix)])


def with_value(expression: Expression, node: ast.AST, text: str) -> Fix | None:
    """The line with another expression in place of one, in brackets where it needs them: `a + 1`, `f(a + 1)`."""
    if _stands_alone(expression, node):
        return with_text(expression, node, text)
    return with_text(expression, node, before_dot(text))


def _stands_alone(expression: Expression, node: ast.AST) -> bool:
    """Whether an expression is a whole value, an argument or in brackets: nothing binds to a part of it."""
    if _is_in_brackets(expression.file, node):
        return True
    statement = expression.statement
    if getattr(statement, "value", None) is node:
        return True
    calls = [call for call in ast.walk(statement) if isinstance(call, ast.Call)]
    return any(node in (*call.args, *(word.value for word in call.keywords)) for call in calls)


def with_text(expression: Expression, node: ast.AST, text: str) -> Fix | None:
    """The line with another text in place of an expression."""
    line, end_line, *_ = position_of(node)
    if line != end_line:
        return _with_end(expression, node, text)
    return _fix(expression, line, [_change(expression.file, node, text)])


def _with_end(expression: Expression, node: ast.AST, text: str) -> Fix | None:
    """The last line of an expression over several lines, where only something is added to its end."""
    old = segment(expression.file, node)
    if not text.startswith(old):
        return None
    line = position_of(node)[1]
    source = linecache.getline(expression.file, line).rstrip("\n")
    column = len(source.encode()[: position_of(node)[3]].decode(errors="ignore"))
    return _fix(expression, line, [TextChange(column, column, text.removeprefix(old))])


def with_texts(expression: Expression, new: dict[ast.AST, str]) -> Fix | None:
    """The line with other texts in place of several expressions."""
    lines = {line for node in new for line in position_of(node)[:2]}
    if len(lines) != 1:
        return None
    return _fix(expression, lines.pop(), [_change(expression.file, node, text) for node, text in new.items()])


def new_line(file: str, line: int, code: str, action: str) -> Fix | None:
    """A new line before or after another one."""
    return _sound(Fix(file, line, code, action))


def _change(file: str, node: ast.AST, text: str) -> TextChange:
    _, start, end = columns(file, node)
    return TextChange(start, end, text)


def _fix(expression: Expression, line: int, changes: list[TextChange]) -> Fix | None:
    text = linecache.getline(expression.file, line).rstrip("\n")
    statement = statement_at(expression.file, line)
    if isinstance(statement, ast.stmt) and statement.end_lineno == line:
        text = text[: columns(expression.file, statement)[2]]  # without a comment
    for change in sorted(changes, key=attrgetter("start"), reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    code = text.strip()
    if len(code) > MOST_CODE:
        return None
    return _sound(Fix(expression.file, line, code))


def _sound(fix: Fix) -> Fix | None:
    """The fix, if the program can run with it."""
    if is_sound(fix):
        return fix
    return None
