"""Which assignment gave a name the value it had on a line: only where the source leaves no doubt."""

from __future__ import annotations

import ast
from collections.abc import Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (*FUNCTIONS, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign


def scope_of(tree: ast.AST, line: int) -> ast.AST:
    """The innermost function or class around a line, or the module."""
    around = [node for node in ast.walk(tree) if isinstance(node, SCOPES) and _covers(node, line)]
    return max(around, key=lambda node: node.lineno, default=tree)


def own(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, without those of the functions in it."""
    for node in ast.iter_child_nodes(scope):
        yield node
        if not isinstance(node, (*SCOPES, ast.Lambda)):
            yield from own(node)


def binding_of(tree: ast.AST, line: int, name: str) -> Assignment | None:
    """The assignment whose value a name has on a line; None if another one may have run after it.

    >>> source = "def f(a):\\n    b = a + 1\\n    if a:\\n        c = b\\n    else:\\n        c = a\\n    return b @ c"
    >>> binding_of(ast.parse(source), 7, "b").lineno, binding_of(ast.parse(source), 7, "c")
    (2, None)
    """
    scope = scope_of(tree, line)
    blocks = list(_blocks(scope, line))
    here = blocks[-1][1] if blocks else None
    if here is None or _is_elsewhere(tree, scope, name):
        return None
    found = [node for node in own(scope) if _binds(node, name)]
    before = [node for node in found if _end(node) < line and node is not here]
    last = max(before, key=_end, default=None)
    on_line = any(node.lineno <= line <= _end(node) for node in found if isinstance(node, ast.NamedExpr))
    if not isinstance(last, Assignment) or on_line or [_end(node) for node in before].count(_end(last)) > 1:
        return None
    if len(found) == 1 and name.isidentifier() and isinstance(scope, FUNCTIONS):
        return last if name not in _parameters(scope) else None
    depth = next((depth for depth, (block, _) in enumerate(blocks) if last in block), None)
    if depth is None:
        return None
    loops = [node for _, node in blocks[depth:] if isinstance(node, LOOPS)]
    again = [node for loop in loops for node in own(loop) if node in found]
    return None if again else last


def targets(node: ast.AST) -> list[ast.expr]:
    """What a statement, or a part of one, gives a value to."""
    if isinstance(node, ast.Assign):
        return [part for target in node.targets for part in parts(target)]
    if isinstance(node, ast.AnnAssign):
        return [node.target] if node.value is not None else []
    if isinstance(node, (ast.AugAssign, ast.NamedExpr, ast.For, ast.AsyncFor)):
        return parts(node.target)
    if isinstance(node, ast.withitem):
        return parts(node.optional_vars) if node.optional_vars is not None else []
    return parts(ast.Tuple(node.targets)) if isinstance(node, ast.Delete) else []


def parts(target: ast.expr) -> list[ast.expr]:
    """The single targets of one that may be a tuple of them."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return [part for item in target.elts for part in parts(item)]
    return parts(target.value) if isinstance(target, ast.Starred) else [target]


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a node gives the name another value, in whatever way."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return any((alias.asname or alias.name.partition(".")[0]) in (name, "*") for alias in node.names)
    if isinstance(node, (*SCOPES, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        return node.name == name
    return any(ast.unparse(part) == name for part in targets(node))


def _is_elsewhere(tree: ast.AST, scope: ast.AST, name: str) -> bool:
    """Whether code outside of a function may give the name a value: of an attribute, any but where it is set up."""
    if name.isidentifier():
        declared = (node.names for node in ast.walk(tree) if isinstance(node, (ast.Global, ast.Nonlocal)))
        return any(name in names for names in declared)
    attribute = name.rpartition(".")[2]
    others = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS) and node is not scope]
    inner = [node for other in others if other.name != "__init__" for node in own(other)]
    return any(getattr(part, "attr", "") == attribute for node in inner for part in targets(node))


def _blocks(scope: ast.AST, line: int) -> Iterator[tuple[list[ast.stmt], ast.stmt]]:
    """The blocks around a line from the outermost on, each with its statement there; none if a line has several."""
    node = scope
    found: list[tuple[list[ast.stmt], ast.stmt]] = []
    while True:
        inner = [(block, each) for block in _own_blocks(node) for each in block if _covers(each, line)]
        if not inner:
            break
        if len(inner) > 1:
            return
        found += inner
        node = inner[0][1]
    yield from found


def _own_blocks(node: ast.AST) -> list[list[ast.stmt]]:
    holders = [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]
    named = [getattr(holder, part, None) for holder in holders for part in ("body", "orelse", "finalbody")]
    return [block for block in named if isinstance(block, list)]


def _parameters(scope: ast.AST) -> set[str]:
    return {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}


def _covers(node: ast.AST, line: int) -> bool:
    return bool(getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", 0))


def _end(node: ast.AST) -> int:
    """The last line of a binding, without the block that it may have."""
    if isinstance(node, ast.withitem):
        return node.context_expr.end_lineno or 0
    if isinstance(node, (*SCOPES, *LOOPS, ast.ExceptHandler)):
        return int(getattr(node, "lineno", 0))
    return int(getattr(node, "end_lineno", 0) or 0)
