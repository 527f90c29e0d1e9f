"""Which assignment gave a name the value that it has on a line: answered only where the source leaves no doubt."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, dropwhile
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from insitu.trace.explain.expressions import nodes_on_line

T = TypeVar("T")
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
    return max(nodes_around(tree, line, *SCOPES), key=attrgetter("lineno"), default=tree)


def nodes_around(tree: ast.AST, line: int, *kinds: type[ast.AST]) -> list[Any]:
    """The nodes of some kinds that span a line, the outermost first."""
    nodes = chain([tree], map(itemgetter(0), nodes_on_line(tree, line)))
    return [node for node in nodes if isinstance(node, kinds) and covers(node, line)]


@lru_cache(maxsize=64)
def nodes_of(tree: ast.AST, *kinds: type[ast.AST]) -> tuple[Any, ...]:
    """Every node of some kinds in a tree."""
    return tuple(node for node in _all_nodes(tree) if isinstance(node, kinds))


def _all_nodes(tree: ast.AST) -> Iterable[ast.AST]:
    """Every node of a tree."""
    if isinstance(tree, ast.Module):
        return _nodes_of_file(tree)
    return ast.walk(tree)


@lru_cache(maxsize=4)
def _nodes_of_file(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a file: to walk a long file takes milliseconds."""
    return tuple(ast.walk(tree))


def only_one(items: Iterable[T]) -> T | None:
    """The only item; None if there are none, or several: then the source leaves doubt."""
    found = list(items)
    if len(found) == 1:
        return found[0]
    return None


def function_named(tree: ast.AST, name: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The only function or method of a file with a name; None if there are none, or several."""
    return only_one(node for node in nodes_of(tree, *FUNCTIONS) if node.name == name)


def own_nodes_of(scope: ast.AST, *kinds: type[ast.AST]) -> list[Any]:
    """The nodes of some kinds in a function, without those of the functions in it."""
    return [node for node in own_nodes(scope) if isinstance(node, kinds)]


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
    if not blocks or may_be_bound_elsewhere(tree, scope, name):
        return None
    bindings = [node for node in own_nodes(scope) if binds(node, name)]
    last = _last_assignment(bindings, line, blocks[-1].statement)
    if last is None:
        return None
    if _is_only_binding(scope, bindings, name) or _certainly_ran(last, blocks, bindings):
        return last
    return None


def _last_assignment(bindings: list[ast.AST], line: int, here: ast.stmt) -> Assignment | None:
    """The last binding before a line, if it is an assignment that is alone on its line."""
    if any(covers(node, line) for node in bindings if isinstance(node, ast.NamedExpr)):
        return None
    before = [node for node in bindings if node is not here and _end(node) < line]
    last = max(before, key=_end, default=None)
    if not isinstance(last, Assignment) or list(map(_end, before)).count(_end(last)) > 1:
        return None
    return last


def _is_only_binding(scope: ast.AST, bindings: list[ast.AST], name: str) -> bool:
    """Whether a local name of a function, which is not a parameter, has one binding."""
    if len(bindings) > 1 or not isinstance(scope, FUNCTIONS):
        return False
    return name.isidentifier() and name not in parameters_of(scope)


def _certainly_ran(last: Assignment, blocks: Sequence[EnclosingBlock], bindings: list[ast.AST]) -> bool:
    """Whether the assignment is in a block around the line, and no loop around both binds the name again."""
    inner = list(dropwhile(lambda around: last not in around.block, blocks))
    loops = [around.statement for around in inner if isinstance(around.statement, LOOPS)]
    repeated = chain.from_iterable(map(own_nodes, loops))
    return bool(inner) and not any(node in bindings for node in repeated)


def _no_targets(node: Any) -> list[ast.expr]:
    return []


def _assigned_targets(node: ast.Assign | ast.Delete) -> list[ast.expr]:
    return list(chain.from_iterable(map(single_targets, node.targets)))


def _annotated_targets(node: ast.AnnAssign) -> list[ast.expr]:
    if node.value is not None:
        return [node.target]
    return []


def _context_targets(node: ast.withitem) -> list[ast.expr]:
    if node.optional_vars is not None:
        return single_targets(node.optional_vars)
    return []


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
        return list(chain.from_iterable(map(single_targets, target.elts)))
    if isinstance(target, ast.Starred):
        return single_targets(target.value)
    return [target]


def _imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    return [alias.asname or alias.name.partition(".")[0] for alias in node.names]


def _own_name(node: Any) -> list[str]:
    return [node.name]


def _target_names(node: ast.AST) -> list[str]:
    return list(map(ast.unparse, targets(node)))


BOUND_NAMES: dict[type[ast.AST], Callable[[Any], list[str]]] = {
    **dict.fromkeys((ast.Import, ast.ImportFrom), _imported_names),
    **dict.fromkeys((*SCOPES, ast.ExceptHandler, ast.MatchAs, ast.MatchStar), _own_name),
}


def binds(node: ast.AST, name: str) -> bool:
    """Whether a node gives the name another value, in any way."""
    names = BOUND_NAMES.get(type(node), _target_names)(node)
    return name in names or "*" in names


def may_be_bound_elsewhere(tree: ast.AST, scope: ast.AST, name: str) -> bool:
    """Whether code outside of a function may bind the name."""
    if name.isidentifier():
        return any(name in node.names for node in nodes_of(tree, ast.Global, ast.Nonlocal))
    return _is_set_by_another_method(tree, scope, name.rpartition(".")[2])


def _is_set_by_another_method(tree: ast.AST, scope: ast.AST, attribute: str) -> bool:
    """Whether a function other than this one and `__init__` assigns an attribute of this name."""
    others = [node for node in nodes_of(tree, *FUNCTIONS) if node is not scope]
    methods = [node for node in others if node.name != "__init__"]
    parts = chain.from_iterable(map(targets, chain.from_iterable(map(own_nodes, methods))))
    return any(getattr(part, "attr", "") == attribute for part in parts)


def _enclosing_blocks(scope: ast.AST, line: int) -> list[EnclosingBlock]:
    """The blocks around a line, the outermost first; none if several statements are on the line."""
    found: list[EnclosingBlock] = []
    inner = _blocks_at(scope, line)
    while len(inner) == 1:
        found += inner
        inner = _blocks_at(inner[0].statement, line)
    if inner:
        return []
    return found


def _blocks_at(node: ast.AST, line: int) -> list[EnclosingBlock]:
    """The blocks of a statement that have a statement on the line, once for each such statement."""
    found = []
    for block in _blocks(node):
        found += [EnclosingBlock(block, each) for each in block if covers(each, line)]
    return found


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    """The blocks of a statement, with those of its `except` and `case` clauses."""
    found = []
    for holder in [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
        found += [getattr(holder, part, None) for part in ("body", "orelse", "finalbody")]
    return [block for block in found if isinstance(block, list)]


def parameters_of(scope: ast.AST) -> set[str]:
    """The names of the parameters of a function, and of the functions in it."""
    return {node.arg for node in nodes_of(scope, ast.arg)}


def covers(node: ast.AST, line: int) -> bool:
    """Whether a node spans a line."""
    return bool(getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", 0))


# The last line of a binding, without the block that may follow it.
LAST_LINES: dict[type[ast.AST], Callable[[Any], int]] = {
    **dict.fromkeys((*SCOPES, *LOOPS, ast.ExceptHandler), attrgetter("lineno")),
    ast.withitem: attrgetter("context_expr.end_lineno"),
}


def _end(node: ast.AST) -> int:
    return int(LAST_LINES.get(type(node), attrgetter("end_lineno"))(node))
