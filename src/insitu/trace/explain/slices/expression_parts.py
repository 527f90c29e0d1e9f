"""The parts of an expression that its value is computed from."""

from __future__ import annotations

import ast

from insitu.trace.explain.bindings import nodes_of
from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import inside_comprehension
from insitu.trace.explain.slices.user_file import source_file

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def owner_of(node: ast.AST) -> ast.expr | None:
    """The object whose method an expression calls: x of `x.reshape(3)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.value
    return None


def arguments_of(node: ast.AST) -> list[ast.expr]:
    """The arguments of a call, with those that have names."""
    if not isinstance(node, ast.Call):
        return []
    return [*node.args, *(word.value for word in node.keywords)]


def parts_of(point: Point) -> tuple[Point, ...]:
    """Every part of an expression that its value is computed from."""
    node = point.node
    if isinstance(node, COMPREHENSIONS):
        inside = inside_comprehension(point, node)
        loops = [point.part(loop.iter) for loop in node.generators]
        return (inside, *loops)
    if isinstance(node, ast.Call):
        owner = owner_of(node)
        found = [*([owner] if owner is not None else []), *arguments_of(node)]
        return point.parts(map(_unstarred, found))
    if isinstance(node, (ast.Lambda, ast.Constant)):
        return ()
    children = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]
    return point.parts(map(_unstarred, children))


# Functions whose arguments are all values that go into the result.
COMBINING = frozenset(
    [
        *(
            "add",
            "sub",
            "subtract",
            "mul",
            "multiply",
            "where",
            "maximum",
            "minimum",
            "max",
            "min",
            "sum",
            "clamp",
            "clip",
        ),
        *("masked_fill", "masked_fill_", "fill_", "put", "scatter", "scatter_", "index_fill", "addcmul", "lerp"),
        *("floor_divide", "remainder", "divmod", "pow", "cat", "stack", "hstack", "vstack", "concatenate"),
    ]
)
FILLING = frozenset(("full", "full_like"))
USUAL_IMPORTS = frozenset(("np", "numpy", "torch", "F", "nn", "math", "random"))


def value_parts(point: Point, node: ast.Call) -> tuple[Point, ...]:
    """The parts of a call whose values go into its result; sizes, dimensions and modes do not."""
    name = called_name(node)
    if name in COMBINING:
        return parts_of(point)
    if name in FILLING:
        return point.parts(arguments_of(node)[1:2])
    owner = owner_of(node)
    if owner is not None and not is_imported(point, owner):
        return (point.part(owner),)
    return point.parts(map(_unstarred, arguments_of(node)[:1]))


def is_imported(point: Point, node: ast.expr) -> bool:
    """Whether an expression begins with the name of a module: `np.random`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    source = source_file(point.scope.file)
    imports = source.imports if source is not None else {}
    return isinstance(node, ast.Name) and (node.id in imports or node.id in USUAL_IMPORTS)


def _unstarred(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


def filter_around(point: Point) -> ast.expr | None:
    """The condition under which a list gets an item: `if text: rows.append(item)`."""
    function = point.scope.function
    if function is None:
        return None
    branches = nodes_of(function, ast.If)
    return next((branch.test for branch in branches if _fills_list(branch, point.node)), None)


def _fills_list(branch: ast.If, item: ast.expr) -> bool:
    """Whether a branch itself has a call with an item as its argument."""
    values = [getattr(statement, "value", None) for statement in branch.body]
    return any(item in arguments_of(value) for value in values if value is not None)


def is_number(node: ast.AST) -> bool:
    """Whether an expression is written as a number."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def number_of(node: ast.AST) -> float | None:
    """The number that an expression is written as."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number_of(node.operand)
        return None if inner is None else -inner
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value  # type: ignore[return-value]
    return None
