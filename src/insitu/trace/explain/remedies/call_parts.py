"""The parts of a call in the source: its function, its arguments, its object; arguments are added and left out."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from insitu.trace.advice import Fix
from insitu.trace.explain.expressions import called_name, tree_of
from insitu.trace.explain.remedies.source_part import SourcePart, needed, require

MODULES = frozenset({"torch", "F", "nn", "np", "numpy", "functional"})


@dataclass(slots=True, frozen=True)
class NamedArgument:
    """An argument of some functions: its index and its name."""

    index: int
    name: str
    functions: tuple[str, ...]


def call_in(part: SourcePart) -> ast.Call:
    """The call that a part of the source is."""
    require(isinstance(part.node, ast.Call))
    assert isinstance(part.node, ast.Call)
    return part.node


def method_in(part: SourcePart, *names: str) -> ast.Attribute:
    """The function of a call with a dot in it: of a method, or of a module; with one of some names."""
    function = call_in(part).func
    require(isinstance(function, ast.Attribute))
    assert isinstance(function, ast.Attribute)
    require(not names or function.attr in names)
    return function


def argument(part: SourcePart, which: NamedArgument) -> SourcePart:
    """The expression of an argument in a call."""
    node = call_in(part)
    require(called_name(node) in which.functions, ast.Starred not in map(type, node.args))
    if which.index < len(node.args):
        return part.inner(node.args[which.index])
    return part.inner(needed(keyword(node, which.name)).value)


def sizes_in(part: SourcePart) -> list[ast.expr]:
    """The arguments of a call that takes sizes, one by one or as one tuple."""
    sizes = call_in(part).args
    if [type(size) for size in sizes] in ([ast.Tuple], [ast.List]):
        sizes = sizes[0].elts  # type: ignore[attr-defined]
    require(ast.Starred not in map(type, sizes))
    return sizes


def direct_arguments(node: ast.AST) -> list[ast.expr]:
    """What a call or an operator takes: the object of a method, the arguments, both sides of an operator."""
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if not isinstance(node, ast.Call):
        return []
    owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return [*owner, *node.args, *(word.value for word in node.keywords)]


def torch_in(file: str) -> str:
    """The name of torch in a file: `th` after `import torch as th`."""
    imports = [node for node in getattr(tree_of(file), "body", ()) if isinstance(node, ast.Import)]
    names = {alias.name: alias.asname for node in imports for alias in node.names}
    return names.get("torch") or "torch"


def keyword(node: ast.AST, name: str) -> ast.keyword | None:
    """A keyword argument of a call."""
    return next((word for word in getattr(node, "keywords", ()) if word.arg == name), None)


def with_keyword(part: SourcePart, name: str, value: str, index: int | None = None) -> Fix:
    """The line with a keyword argument more, or with another value for it.

    `index` is its place among the arguments of the function, where it may be given by its place.
    """
    node, known = call_in(part), keyword(part.node, name)
    if known is not None:
        return part.inner(known.value).with_text(value)
    require(ast.Starred not in map(type, node.args), None not in {word.arg for word in node.keywords})
    places = _places(node)
    if index is not None and index < len(places):
        return part.inner(needed(places[index])).with_text(value)
    require(part.text.endswith(")"))
    comma = ", " if direct_arguments_count(node) else ""
    return part.with_text(f"{part.text[:-1].rstrip(', ')}{comma}{name}={value})")


def _places(node: ast.Call) -> list[ast.expr | None]:
    """The arguments of a call without a name, as a function counts them: the object of a method is the first."""
    function = node.func
    is_method = isinstance(function, ast.Attribute) and not _is_module(function.value)
    return [*([None] * is_method), *node.args]


def direct_arguments_count(node: ast.Call) -> int:
    """How many arguments a call has."""
    return len(node.args) + len(node.keywords)


def without_keyword(part: SourcePart, name: str) -> Fix:
    """The line without a keyword argument."""
    node = needed(next((node for node in ast.walk(part.node) if keyword(node, name) is not None), None))
    call = part.inner(node)
    return call.with_text(_call_without(call, name))


def _call_without(part: SourcePart, name: str) -> str:
    """The text of a call without a keyword argument."""
    node = call_in(part)
    words = [word for word in node.keywords if word.arg != name]
    rest = [part.text_of(each) for each in [*node.args, *words]]
    return f"{part.text_of(node.func)}({', '.join(rest)})"


def receiver(part: SourcePart) -> SourcePart:
    """The tensor that a call or an index takes: the object of a method, the first argument, the indexed value."""
    node = part.node
    if isinstance(node, ast.Subscript):
        return part.inner(node.value)
    function = call_in(part).func
    if isinstance(function, ast.Attribute) and not _is_module(function.value):
        return part.inner(function.value)
    return part.inner(needed(next(iter(call_in(part).args), None)))


def _is_module(node: ast.AST) -> bool:
    """Whether an expression is the name of a Python module, such as `torch`, `F` or `nn.functional`."""
    return ast.unparse(node).partition(".")[0] in MODULES
