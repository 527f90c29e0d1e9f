"""The definition of a function in its file: found from the code object, and checked against it."""

from __future__ import annotations

import ast
import builtins
import linecache
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from insitu.capture.scopes import Function, names_in
from insitu.errors import InsituError

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
MARKER = "\0insitu here"
# Filters of warnings are global; only one compilation at a time may set them.
_WARNINGS = threading.Lock()


class NoSource(InsituError):
    """The source of a function is not there, or is not what the function was made from."""

    def __init__(self, code: CodeType, reason: str) -> None:
        super().__init__(f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) cannot be rewritten: {reason}")


@dataclass(frozen=True, slots=True)
class Step:
    """One step down in a tree: the child of `node` in `field`, at `index` if the field is a list."""

    node: ast.AST
    field: str
    index: int | None


@dataclass(frozen=True, slots=True)
class Definition:
    """A function in its file."""

    code: CodeType
    node: Function
    steps: tuple[Step, ...]
    source: Source

    def compiled(self, node: Function) -> list[CodeType]:
        """Every code object with the name and place of this one, when `node` stands where the function stands."""
        child: ast.AST = node
        for step in reversed(self.steps):
            child = with_child(step, child)
        return [code for code in nested_codes(compiled(child, self.code.co_filename)) if self._is_like(code)]

    def _is_like(self, code: CodeType) -> bool:
        mine = self.code
        return (code.co_firstlineno, code.co_qualname) == (mine.co_firstlineno, mine.co_qualname)


class Source:
    """One file: its tree, and where its functions are."""

    def __init__(self, lines: list[str], filename: str) -> None:
        self.lines = lines
        with quiet():
            self.tree = ast.parse("".join(lines), filename)
        self.functions: dict[tuple[str, int], list[tuple[Function, tuple[Step, ...]]]] = {}
        for node, steps in functions_in(self.tree):
            self.functions.setdefault((name_of(node), first_line(node)), []).append((node, steps))
        self._names: frozenset[str] | None = None

    def is_builtin(self, name: str) -> bool:
        """Whether the name means a builtin in this file: nothing in the file ever binds it."""
        if self._names is None:
            self._names = frozenset(bound_anywhere(self.tree))
        return name in vars(builtins) and name not in self._names and "*" not in self._names


_SOURCES: dict[str, Source] = {}


def find(code: CodeType) -> Definition:
    """The definition of a function; NoSource when there is none, or when it would compile to something else."""
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        raise NoSource(code, f"a {code.co_name} is no function")
    source = source_of(code)
    definition = _matching(code, source)
    if definition is None:
        # The lines may have been read before the file was changed and imported again.
        linecache.checkcache(code.co_filename)
        definition = _matching(code, source_of(code))
    if definition is None:
        reason = "its lines compile to something else (the file was changed after it was imported, or its code was)"
        raise NoSource(code, reason)
    return definition


def source_of(code: CodeType) -> Source:
    """The parsed file of a code object."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        made = "it was made by exec or eval" if code.co_filename.startswith("<") else "its file cannot be read"
        raise NoSource(code, made)
    known = _SOURCES.get(code.co_filename)
    if known is None or known.lines is not lines:
        try:
            known = _SOURCES[code.co_filename] = Source(lines, code.co_filename)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise NoSource(code, f"its file cannot be parsed ({error})") from error
    return known


def _matching(code: CodeType, source: Source) -> Definition | None:
    candidates = source.functions.get((unmangled(code.co_name), code.co_firstlineno), [])
    for node, steps in candidates:
        definition = Definition(code, node, steps, source)
        compilations = definition.compiled(node)
        if len(candidates) > 1 and len(marked := definition.compiled(with_marker(node))) == len(compilations):
            # Several lambdas on a line: the one that is meant is where the marker turns up.
            compilations = [plain for plain, other in zip(compilations, marked, strict=True) if is_marked(other)]
        if any(is_same(code, other) for other in compilations):
            return definition
    return None


def unmangled(name: str) -> str:
    return name


def is_same(code: CodeType, other: CodeType) -> bool:
    """Whether two code objects do the same at the same lines, and the same columns where both know them."""
    if code != other or list(code.co_lines()) != list(other.co_lines()):
        return False
    mine, others = list(code.co_positions()), list(other.co_positions())
    if mine != others and any(place[2] is not None for place in mine):
        return False
    inner = zip(code.co_consts, other.co_consts, strict=True)
    return all(is_same(one, two) for one, two in inner if isinstance(one, CodeType))


def with_marker(node: Function) -> Function:
    """The same function with a constant inside that nothing else has."""
    copy = clone(node)
    mark = ast.copy_location(ast.Constant(value=MARKER), node)
    if isinstance(copy, ast.Lambda):
        both = ast.copy_location(ast.Tuple(elts=[copy.body, mark], ctx=ast.Load()), node)
        copy.body = both
    return copy


def is_marked(code: CodeType) -> bool:
    return MARKER in code.co_consts or any(
        MARKER in constant for constant in code.co_consts if isinstance(constant, tuple)
    )


def functions_in(tree: ast.AST) -> Iterator[tuple[Function, tuple[Step, ...]]]:
    """Every function of a tree, with the way down to it."""
    waiting: list[tuple[ast.AST, tuple[Step, ...]]] = [(tree, ())]
    while waiting:
        node, steps = waiting.pop()
        if isinstance(node, FUNCTIONS):
            yield node, steps
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.AST):
                waiting.append((value, (*steps, Step(node, name, None))))
            elif isinstance(value, list):
                inner = [(index, child) for index, child in enumerate(value) if isinstance(child, ast.AST)]
                waiting += [(child, (*steps, Step(node, name, index))) for index, child in inner]


def bound_anywhere(tree: ast.AST) -> Iterator[str]:
    """Every name that anything in the file binds, in whatever scope."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.stmt | ast.ExceptHandler | ast.pattern):
            yield from names_in([node]).bound if not isinstance(node, ast.stmt) else ()


def name_of(node: Function) -> str:
    """The name that the code of a function has."""
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def first_line(node: Function) -> int:
    """The line at which the code of a function begins: that of its first decorator."""
    return node.lineno if isinstance(node, ast.Lambda) else min([node.lineno, *(d.lineno for d in node.decorator_list)])


def with_child(step: Step, child: ast.AST) -> ast.AST:
    """A copy of the node with another child; modules and classes keep only this child, and the `__future__`."""
    copy = shallow(step.node)
    old = getattr(step.node, step.field)
    if step.index is None:
        setattr(copy, step.field, child)
    elif step.field == "body" and isinstance(step.node, ast.Module | ast.ClassDef):
        setattr(copy, step.field, [*filter(is_future, old), child])
    else:
        setattr(copy, step.field, [*old[: step.index], child, *old[step.index + 1 :]])
    return copy


def is_future(node: ast.AST) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def compiled(tree: Any, filename: str) -> CodeType:
    """The tree as code, without the warnings that were given when the program itself was compiled."""
    with quiet():
        code: CodeType = compile(tree, filename, "exec", dont_inherit=True)
    return code


class quiet(warnings.catch_warnings):
    """No warning is shown, and none becomes an error, while this lasts."""

    def __enter__(self) -> None:
        _WARNINGS.acquire()
        super().__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        _WARNINGS.release()


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """All code objects inside of this one, outer before inner."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from nested_codes(constant)


def shallow[Node: ast.AST](node: Node) -> Node: ...
