"""The code that switched gradients off around a call: a `with` block, a decorator, or re-entrant checkpointing."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.bindings import FUNCTIONS, covers, nodes_of, scope_of
from insitu.trace.explain.call_stack import StackFrame, stack_of
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.expressions import called_name, segment, source_tree
from insitu.trace.explain.failure_history import FailureHistory

SWITCHES = frozenset(("no_grad", "inference_mode", "set_grad_enabled", "set_grad_mode"))
CHECKPOINTS = frozenset(("checkpoint", "checkpoint_sequential"))


def switch_site(history: FailureHistory, at: int) -> ExpressionSite | None:
    """What switched gradients off around a call, the innermost first; None if the source around it shows nothing."""
    for frame in stack_of(history, at):
        found = next(_switches(frame), None)
        if found is not None:
            return ExpressionSite(frame.file, found.lineno, frame.code.co_name, segment(frame.file, found))
    return _statement_site({frame.file for frame in stack_of(history, at)})


def _statement_site(files: set[str]) -> ExpressionSite | None:
    """The only statement in some files that switches gradients off for all that follows."""
    found = []
    for file in files:
        statements = nodes_of(source_tree(file), ast.Expr)
        found += [(file, each.value) for each in statements if _switches_off(each.value)]
    if len(found) != 1:
        return None
    file, node = found[0]
    return ExpressionSite(file, node.lineno, "", segment(file, node))


def _switches_off(node: ast.expr) -> bool:
    """Whether an expression is `torch.set_grad_enabled(False)`."""
    if not isinstance(node, ast.Call) or called_name(node) != "set_grad_enabled":
        return False
    return not any(isinstance(part, ast.Constant) and part.value is True for part in node.args)


def _switches(frame: StackFrame) -> Iterator[ast.expr]:
    """The expressions around the line of a frame that switch gradients off."""
    tree, node = source_tree(frame.file), frame.expression.node
    if called_name(node) in CHECKPOINTS and _is_reentrant(node):
        yield node  # type: ignore[misc]
    scope = scope_of(tree, frame.line)
    blocks = [block for block in nodes_of(tree, ast.With) if covers(block, frame.line)]
    for block in reversed(blocks):
        if scope_of(tree, block.lineno) is scope:
            yield from (item.context_expr for item in block.items if _name_called(item.context_expr) in SWITCHES)
    if isinstance(scope, FUNCTIONS):
        yield from (each for each in scope.decorator_list if _name_called(each) in SWITCHES)


def _name_called(node: ast.AST) -> str:
    """The last part of the name that an expression calls, or is: of `torch.no_grad()` it is no_grad."""
    if isinstance(node, ast.Call):
        node = node.func
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _is_reentrant(node: ast.AST) -> bool:
    """Whether checkpointing is re-entrant: then the block runs without gradients. Without the word it may be."""
    words = {word.arg: word.value for word in getattr(node, "keywords", ())}
    asked = words.get("use_reentrant")
    return asked is None or not (isinstance(asked, ast.Constant) and asked.value is False)
