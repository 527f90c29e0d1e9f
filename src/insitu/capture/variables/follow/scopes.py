"""Which names a function binds, takes, reads and loses: read from its syntax tree, as the compiler would."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Block = ast.FunctionDef | ast.AsyncFunctionDef | ast.Module
LAMBDA = "<lambda>"
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# Annotations and type parameters have scopes of their own, or are not evaluated at all.
UNSEEN = frozenset({"annotation", "returns", "type_params"})
# Python 3.12 and later have it; before, a class that no tree contains replaces it.
TYPE_ALIAS: type[ast.AST] = getattr(ast, "TypeAlias", ast.Interactive)


@dataclass(slots=True)
class Scope:
    """The names of one function, without those of nested functions."""

    parameters: list[str] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    # Unbound again somewhere: by `del`, or at the end of `except … as`.
    lost: set[str] = field(default_factory=set)
    # Declared global or nonlocal here, or bound from outside by a nested function that declares them so.
    shared: set[str] = field(default_factory=set)


def scope_of(function: Function | ast.Module) -> Scope:
    """The names of a function or a module."""
    body = [function.body] if isinstance(function, ast.Lambda) else function.body
    scope = names_in(body)
    if not isinstance(function, ast.Module):
        scope.parameters = parameters(function.args)
    return scope


def parameters(arguments: ast.arguments) -> list[str]:
    """The names of the parameters, in the order in which they are written."""
    positional = [*arguments.posonlyargs, *arguments.args, arguments.vararg]
    keyword = [*arguments.kwonlyargs, arguments.kwarg]
    return [argument.arg for argument in (*positional, *keyword) if argument is not None]


def first_line(node: Function) -> int:
    """The line at which the code of a function begins: that of its first decorator."""
    if isinstance(node, ast.Lambda):
        return node.lineno
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def names_in(nodes: Iterable[ast.AST]) -> Scope:
    """The names that these nodes bind, read and lose in the function around them."""
    scope = Scope()
    # Names that a comprehension binds for itself hide those of the function inside of it. An explicit stack: a deep
    # expression must not meet the recursion limit of the program that is traced.
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset()) for node in nodes]
    while waiting:
        node, hidden = waiting.pop()
        add_names(node, hidden, scope)
        if isinstance(node, COMPREHENSIONS):
            inside = hidden.union(targets_of(*(part.target for part in node.generators)))
            waiting.append((node.generators[0].iter, hidden))
            waiting += [(child, inside) for child in inner_parts(node)]
        else:
            waiting += [(child, hidden) for child in evaluated(node)]
    return scope


def add_names(node: ast.AST, hidden: frozenset[str], scope: Scope) -> None:
    """Add to a scope what one node does to the names of its function."""
    match node:
        case ast.Name(id=name):
            if name not in hidden:
                add_name(node, scope)
        case ast.ExceptHandler(name=str(name)):
            scope.bound.add(name)
            scope.lost.add(name)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            scope.shared.update(names)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            scope.bound.add(name)
            nested = [child for child in ast.walk(node) if isinstance(child, ast.Nonlocal | ast.Global)]
            scope.shared.update(name for declaration in nested for name in declaration.names)
        case _:
            scope.bound.update(captured(node))


def add_name(node: ast.Name, scope: Scope) -> None:
    """Add to a scope the name that a node reads, binds or deletes."""
    if isinstance(node.ctx, ast.Load):
        scope.read.add(node.id)
        return
    scope.bound.add(node.id)
    if isinstance(node.ctx, ast.Del):
        scope.lost.add(node.id)


def changed_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that these nodes bind, those whose attributes and items they set, and those whose methods they call.

    >>> sorted(changed_names(ast.parse("loss = model(x); self.total += loss; losses.append(loss)").body))
    ['loss', 'losses', 'self']
    """
    waiting = list(nodes)
    found = names_in(waiting).bound
    while waiting:
        node = waiting.pop()
        changed = changed_part(node)
        while isinstance(changed, ast.Attribute | ast.Subscript):
            changed = changed.value
        if isinstance(changed, ast.Name):
            found.add(changed.id)
        waiting += evaluated(node)
    return found


def changed_part(node: ast.AST) -> ast.AST | None:
    """The object that a node changes: of which it sets an attribute or item, or calls a method."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner)):
            return owner
        case ast.Attribute(value=owner, ctx=ast.Store()) | ast.Subscript(value=owner, ctx=ast.Store()):
            return owner
    return None


def captured(node: ast.AST) -> list[str]:
    """The names that a node binds without a `Name`: definitions, imports, patterns."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
    return []


def evaluated(node: ast.AST) -> Iterable[ast.AST]:
    """The children that are evaluated in the same scope as the node."""
    match node:
        case ast.Lambda():
            return defaults(node.args)
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return (*node.decorator_list, *defaults(node.args))
        case ast.ClassDef():
            if getattr(node, "type_params", None):
                return node.decorator_list
            return (*node.decorator_list, *node.bases, *node.keywords)
        case ast.AnnAssign(value=None, target=ast.Name()):
            return ()  # `x: int` alone binds nothing
    if isinstance(node, TYPE_ALIAS):
        return (node.name,)  # type: ignore[attr-defined]
    return children(node)


def defaults(arguments: ast.arguments) -> list[ast.expr]:
    """The default values, which are evaluated where the function is defined."""
    return [*arguments.defaults, *(value for value in arguments.kw_defaults if value is not None)]


def children(node: ast.AST) -> Iterator[ast.AST]:
    """All children but annotations and type parameters."""
    for name in node._fields:
        value = getattr(node, name, None)
        if name in UNSEEN:
            continue
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (child for child in value if isinstance(child, ast.AST))


def inner_parts(comprehension: Comprehension) -> Iterator[ast.AST]:
    """What a comprehension evaluates in its own scope: all but the first iterable."""
    first, *others = comprehension.generators
    yield from (child for child in children(comprehension) if not isinstance(child, ast.comprehension))
    yield from (first.target, *first.ifs)
    for part in others:
        yield from (part.iter, part.target, *part.ifs)


def targets_of(*targets: ast.AST | None) -> list[str]:
    """The plain names among assignment targets, in the order in which they are bound, each once."""
    found: dict[str, None] = {}
    waiting = [target for target in reversed(targets) if target is not None]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            found[node.id] = None
        elif isinstance(node, ast.Tuple | ast.List):
            waiting += reversed(node.elts)
        elif isinstance(node, ast.Starred):
            waiting.append(node.value)
    return list(found)
