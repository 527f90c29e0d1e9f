"""Which assignment gave a name the value that it has on a line: answered only where the source leaves no doubt."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign


@dataclass(slots=True, frozen=True)
class EnclosingBlock:
    """A block of statements around a line, and its statement on that line."""

    block: list[ast.stmt]
    statement: ast.stmt


def scope_of(tree: ast.AST, line: int) -> ast.AST:
    """The innermost function or class around a line, or the module."""
    around = [node for node in ast.walk(tree) if isinstance(node, SCOPES) and _covers(node, line)]
    return max(around, key=lambda node: node.lineno, default=tree)


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, (*SCOPES, ast.Lambda)):
            yield from own_nodes(node)


def binding_of(tree: ast.AST, line: int, name: str) -> Assignment | None:
    """The assignment whose value a name has on a line; None if another one may have run after it.

    >>> source = "def f(a):\\n    b = a + 1\\n    if a:\\n        c = b\\n    else:\\n        c = a\\n    return b @ c"
    >>> binding_of(ast.parse(source), 7, "b").lineno, binding_of(ast.parse(source), 7, "c")
    (2, None)
    """
    scope = scope_of(tree, line)
    blocks = _enclosing_blocks(scope, line)
    if not blocks or _may_be_bound_elsewhere(tree, scope, name):
        return None
    bindings = [node for node in own_nodes(scope) if _binds(node, name)]
    last = _last_assignment(bindings, line, blocks[-1].statement)
    if last is None:
        return None
    if _is_local_with_one_binding(scope, bindings, name):
        return last if name not in _parameters(scope) else None
    return last if _certainly_ran(last, blocks, bindings) else None


def _last_assignment(bindings: list[ast.AST], line: int, here: ast.stmt) -> Assignment | None:
    """The last binding before a line, if it is an assignment that is alone on its line."""
    if any(isinstance(node, ast.NamedExpr) and _covers(node, line) for node in bindings):
        return None
    before = [node for node in bindings if _end(node) < line and node is not here]
    last = max(before, key=_end, default=None)
    if not isinstance(last, Assignment):
        return None
    return last if [_end(node) for node in before].count(_end(last)) == 1 else None


def _is_local_with_one_binding(scope: ast.AST, bindings: list[ast.AST], name: str) -> bool:
    return len(bindings) == 1 and name.isidentifier() and isinstance(scope, FUNCTIONS)


def _certainly_ran(last: Assignment, blocks: Sequence[EnclosingBlock], bindings: list[ast.AST]) -> bool:
    """Whether the assignment is in a block around the line, and no loop around both binds the name again."""
    depth = next((depth for depth, around in enumerate(blocks) if last in around.block), None)
    if depth is None:
        return False
    loops = [around.statement for around in blocks[depth:] if isinstance(around.statement, LOOPS)]
    return not any(node in bindings for loop in loops for node in own_nodes(loop))


def _no_targets(node: Any) -> list[ast.expr]:
    return []


def _assigned_targets(node: ast.Assign | ast.Delete) -> list[ast.expr]:
    return [part for target in node.targets for part in single_targets(target)]


def _annotated_targets(node: ast.AnnAssign) -> list[ast.expr]:
    return [node.target] if node.value is not None else []


def _context_targets(node: ast.withitem) -> list[ast.expr]:
    return single_targets(node.optional_vars) if node.optional_vars is not None else []


def _one_target(node: Any) -> list[ast.expr]:
    return single_targets(node.target)


TARGETS: dict[type[ast.AST], Callable[[Any], list[ast.expr]]] = {
    **dict.fromkeys((ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor), _one_target),
    **dict.fromkeys((ast.Assign, ast.Delete), _assigned_targets),
    ast.AnnAssign: _annotated_targets,
    ast.withitem: _context_targets,
}


def targets(node: ast.AST) -> list[ast.expr]:
    """What a statement, or a part of one, gives a value to."""
    return TARGETS.get(type(node), _no_targets)(node)


def single_targets(target: ast.expr) -> list[ast.expr]:
    """The single targets of one that may be a tuple of them."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for item in target.elts for part in single_targets(item)]
    return single_targets(target.value) if isinstance(target, ast.Starred) else [target]


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a node gives the name another value, in any way."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return any(_imported_name(alias) in (name, "*") for alias in node.names)
    if isinstance(node, (*SCOPES, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name == name
    return any(ast.unparse(part) == name for part in targets(node))


def _imported_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _may_be_bound_elsewhere(tree: ast.AST, scope: ast.AST, name: str) -> bool:
    """Whether code outside of a function may bind the name: for an attribute, any method but `__init__`."""
    if name.isidentifier():
        declarations = [node for node in ast.walk(tree) if isinstance(node, (ast.Global, ast.Nonlocal))]
        return any(name in node.names for node in declarations)
    attribute = name.rpartition(".")[2]
    others = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS) and node is not scope]
    inner = [node for other in others if other.name != "__init__" for node in own_nodes(other)]
    return any(getattr(part, "attr", "") == attribute for node in inner for part in targets(node))


def _enclosing_blocks(scope: ast.AST, line: int) -> list[EnclosingBlock]:
    """The blocks around a line, the outermost first; none if several statements are on the line."""
    found: list[EnclosingBlock] = []
    inner = _blocks_at(scope, line)
    while len(inner) == 1:
        found += inner
        inner = _blocks_at(inner[0].statement, line)
    return [] if inner else found


def _blocks_at(node: ast.AST, line: int) -> list[EnclosingBlock]:
    holders = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    blocks = [getattr(holder, part, None) for holder in holders for part in ("body", "orelse", "finalbody")]
    lists = [block for block in blocks if isinstance(block, list)]
    return [EnclosingBlock(block, each) for block in lists for each in block if _covers(each, line)]


def _parameters(scope: ast.AST) -> set[str]:
    return {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}


def _covers(node: ast.AST, line: int) -> bool:
    return bool(getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", 0))


def _end(node: ast.AST) -> int:
    """The last line of a binding, without the block that may follow it."""
    if isinstance(node, ast.withitem):
        return node.context_expr.end_lineno or 0
    if isinstance(node, (*SCOPES, *LOOPS, ast.ExceptHandler)):
        return int(getattr(node, "lineno", 0))
    return int(getattr(node, "end_lineno", 0) or 0)
