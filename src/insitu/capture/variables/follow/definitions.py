"""The definition of a function in its file: found from its code object, and checked against it."""

from __future__ import annotations
import __future__

import ast
import builtins
import linecache
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from inspect import CO_ITERABLE_COROUTINE
from itertools import product
from operator import or_
from types import CodeType
from typing import Any, NamedTuple, TypeVar

from insitu.capture.variables.follow.scopes import LAMBDA, Function, captured, first_line
from insitu.errors import InsituError

Node = TypeVar("Node", bound=ast.AST)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
FUTURE = reduce(or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
# `types.coroutine` sets it on the code of a generator.
FLAGS_SET_LATER = CO_ITERABLE_COROUTINE
MARKER = "\0insitu here"
# The filters of warnings are global: one compilation at a time may set them.
_QUIET = threading.RLock()


class NoSource(InsituError):
    """The source of a function cannot be found, or compiles to another function."""

    def __init__(self, code: CodeType, reason: str) -> None:
        super().__init__(f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) cannot be rewritten: {reason}")


class Ancestor(NamedTuple):
    """One level up from a node: it is the child of `parent` in `field`, at `position` if the field is a list."""

    parent: ast.AST
    field: str
    position: int | None
    above: Ancestor | None


@dataclass(frozen=True, slots=True)
class Definition:
    """A function in its file."""

    code: CodeType
    node: Function
    up: Ancestor | None
    source: Source
    # Whether the rest of its file is needed to compile it.
    whole: bool

    def compiled(self, node: Function) -> list[CodeType]:
        """Every code object with the name and line of this one, if `node` replaces the function in its file."""
        tree: ast.AST = node
        imports = None if self.whole else self.source.imports
        up = self.up
        while up is not None:
            tree, up = with_child(up, tree, imports), up.above
        return [code for code in nested_codes(compiled(tree, self.code)) if self._is_like(code)]

    def _is_like(self, code: CodeType) -> bool:
        mine = self.code
        return (code.co_firstlineno, code.co_qualname) == (mine.co_firstlineno, mine.co_qualname)


class Source:
    """One file: its tree, and where its functions are."""

    def __init__(self, lines: list[str], filename: str) -> None:
        self.lines = lines
        with quiet():
            self.tree = ast.parse("".join(lines), filename)

    def candidates(self, code: CodeType) -> list[tuple[Function, Ancestor | None]]:
        """The functions that begin on the line and have the name of the code."""
        index = self._lambdas if code.co_name == LAMBDA else self._functions
        return index.get((code.co_name, code.co_firstlineno), [])

    def is_builtin(self, name: str) -> bool:
        """Whether a name always means a builtin in this file: nothing in the file binds it."""
        return name in vars(builtins) and name not in self._bound and "*" not in self._bound

    @cached_property
    def _functions(self) -> dict[tuple[str, int], list[tuple[Function, Ancestor | None]]]:
        return self._index(deep=False)

    @cached_property
    def _lambdas(self) -> dict[tuple[str, int], list[tuple[Function, Ancestor | None]]]:
        return self._index(deep=True)

    def _index(self, *, deep: bool) -> dict[tuple[str, int], list[tuple[Function, Ancestor | None]]]:
        index: dict[tuple[str, int], list[tuple[Function, Ancestor | None]]] = {}
        for node, up in functions_in(self.tree, deep=deep):
            name = LAMBDA if isinstance(node, ast.Lambda) else node.name
            index.setdefault((name, first_line(node)), []).append((node, up))
        return index

    @cached_property
    def imports(self) -> list[ast.stmt]:
        """The imports of the module: the compiler loads attributes of imported names in another way."""
        return list(imports_in(self.tree))

    @cached_property
    def _bound(self) -> frozenset[str]:
        return frozenset(bound_anywhere(self.tree))


# Only the files that were used last: trees are large.
_SOURCES: dict[str, Source] = {}
KEPT_SOURCES = 32


def find(code: CodeType) -> Definition:
    """The definition of a function; NoSource when there is none, or when it would compile to something else."""
    if code.co_name.startswith("<") and code.co_name != LAMBDA:
        raise NoSource(code, f"a {code.co_name} is not a function")
    try:
        definition = _matching(code, source_of(code))
        if definition is None:
            # The lines may come from before the file was changed and imported again.
            linecache.checkcache(code.co_filename)
            definition = _matching(code, source_of(code))
    except (SyntaxError, RecursionError) as error:
        raise NoSource(code, f"its definition cannot be compiled ({error})") from error
    if definition is None:
        reason = "its lines compile to something else (the file was changed since, or a tool rewrote the function)"
        raise NoSource(code, reason)
    return definition


def source_of(code: CodeType) -> Source:
    """The parsed file of a code object."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        is_generated = code.co_filename.startswith("<")
        raise NoSource(code, "exec or eval made it from text" if is_generated else "its file cannot be read")
    known = _SOURCES.pop(code.co_filename, None)
    if known is None or known.lines is not lines:
        try:
            known = Source(lines, code.co_filename)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise NoSource(code, f"its file cannot be parsed ({error})") from error
    _SOURCES[code.co_filename] = known
    for oldest in list(_SOURCES)[:-KEPT_SOURCES]:
        _SOURCES.pop(oldest, None)
    return known


def _matching(code: CodeType, source: Source) -> Definition | None:
    candidates = source.candidates(code)
    # To compile without the rest of the file is faster, and nearly always gives the same code.
    for (node, up), whole in product(candidates, (False, True)):
        definition = Definition(code, node, up, source, whole)
        found = definition.compiled(node)
        if len(candidates) > 1 and len(marked := definition.compiled(with_marker(node))) == len(found):
            # Several lambdas are on the line: the code with the marker is that of this node.
            found = [plain for plain, other in zip(found, marked, strict=True) if is_marked(other)]
        if any(is_same(code, other) for other in found):
            return definition
    return None


def is_same(code: CodeType, other: CodeType) -> bool:
    """Whether two code objects do the same on the same lines, and in the same columns if these are known."""
    if code != other.replace(co_flags=code.co_flags & FLAGS_SET_LATER | other.co_flags):
        return False
    if list(code.co_lines()) != list(other.co_lines()) or not has_same_columns(code, other):
        return False
    inner = zip(code.co_consts, other.co_consts, strict=True)
    return all(is_same(one, two) for one, two in inner if isinstance(one, CodeType))


def has_same_columns(code: CodeType, other: CodeType) -> bool:
    """Whether the instructions have the same columns; True if the columns of the first are not known."""
    places = list(code.co_positions())
    is_known = any(place[2] is not None for place in places)
    return not is_known or places == list(other.co_positions())


def with_marker(node: Function) -> Function:
    """The function with a marker among its own constants, not among those of nested functions."""
    copy = shallow(node)
    if isinstance(copy, ast.Lambda):
        mark = ast.copy_location(ast.Constant(value=MARKER), node)
        copy.body = ast.copy_location(ast.List(elts=[copy.body, mark], ctx=ast.Load()), node)
    return copy


def is_marked(code: CodeType) -> bool:
    """Whether the marker is among the constants of the code itself."""
    return any(constant == MARKER or constant == (MARKER,) for constant in code.co_consts)


def functions_in(tree: ast.AST, *, deep: bool) -> Iterator[tuple[Function, Ancestor | None]]:
    """Every function of a tree with the way up from it; lambdas, which are in expressions, only if `deep`."""
    waiting: list[tuple[ast.AST, Ancestor | None]] = [(tree, None)]
    while waiting:
        node, up = waiting.pop()
        if isinstance(node, FUNCTIONS):
            yield node, up
        for name, position, child in fields_of(node):
            if deep or may_hold_statements(child, position):
                waiting.append((child, Ancestor(node, name, position, up)))


def fields_of(node: ast.AST) -> Iterator[tuple[str, int | None, ast.AST]]:
    """The children of a node: the field, the position if the field is a list, and the child."""
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield name, None, value
        elif isinstance(value, list):
            yield from ((name, index, each) for index, each in enumerate(value) if isinstance(each, ast.AST))


def may_hold_statements(child: ast.AST, position: int | None) -> bool:
    """Whether a child may be a statement, or contain some: these are always in lists."""
    return position is not None and not isinstance(child, ast.expr)


def imports_in(tree: ast.Module) -> Iterator[ast.stmt]:
    """Every import statement of a module that is not in a function or a class, in order."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not isinstance(node, (ast.expr, ast.ClassDef, *FUNCTIONS)):
            waiting += reversed(list(ast.iter_child_nodes(node)))


def bound_anywhere(tree: ast.AST) -> Iterator[str]:
    """Every name that anything in the file binds, in any scope; `*` if the names are not known."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ExceptHandler(name=str(name)):
                yield name
            case _:
                yield from captured(node)


def with_child(ancestor: Ancestor, child: ast.AST, imports: list[ast.stmt] | None) -> ast.AST:
    """A copy of the parent with another child; with imports, modules and classes keep only these and the child."""
    copy = shallow(ancestor.parent)
    setattr(copy, ancestor.field, field_with_child(ancestor, child, imports))
    return copy


def field_with_child(ancestor: Ancestor, child: ast.AST, imports: list[ast.stmt] | None) -> Any:
    """The value of the field that contains the child, with another child."""
    if ancestor.position is None:
        return child
    if imports is not None and isinstance(ancestor.parent, ast.Module):
        return [*imports, child]
    if imports is not None and isinstance(ancestor.parent, ast.ClassDef) and ancestor.field == "body":
        return [child]
    siblings = list(getattr(ancestor.parent, ancestor.field))
    siblings[ancestor.position] = child
    return siblings


def compiled(tree: Any, like: CodeType) -> CodeType:
    """The tree as code, without the warnings that Python gave when it compiled the program.

    What was imported from `__future__` is in the flags of the code; in a notebook it stood in another cell.
    """
    with quiet():
        code: CodeType = compile(tree, like.co_filename, "exec", like.co_flags & FUTURE, dont_inherit=True)
    return code


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings: none is shown and none becomes an error."""
    with _QUIET, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """All code objects inside of this one, outer before inner."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from nested_codes(constant)


def shallow(node: Node) -> Node:
    """A copy of one node, with the same children."""
    copy = type(node).__new__(type(node))
    copy.__dict__.update(node.__dict__)
    return copy


def clone(root: Node) -> Node:
    """A copy of a whole tree, made without recursion: expressions may be deep."""
    copy = shallow(root)
    waiting: list[ast.AST] = [copy]
    while waiting:
        node = waiting.pop()
        for name, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(node, name, list(value))
        for name, position, child in list(fields_of(node)):
            inner = shallow(child)
            waiting.append(inner)
            if position is None:
                setattr(node, name, inner)
            else:
                getattr(node, name)[position] = inner
    return copy
