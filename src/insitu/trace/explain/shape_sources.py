"""Sizes that a call was given from the shape of a tensor: `torch.zeros(x.shape[1])` has the size of x."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter

from insitu.trace.explain.call_stack import FORWARD, StackFrame, function_of, stack_of
from insitu.trace.explain.expressions import source_tree
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.value_definitions import Parameter, ValueDefinition, definition_of
from insitu.trace.explain.value_origins import value_nodes

MOST_CALLS = 60  # of one function that are searched for a name


@dataclass(slots=True, frozen=True)
class ShapeReading:
    """An expression that reads a size of a tensor: `x.shape[1]`, `x.size(1)`, `len(x)`."""

    name: str
    dim: int


@dataclass(slots=True, frozen=True)
class SizeSource:
    """A tensor, and the dimension of it that gave a call a number."""

    tensor: TensorToken
    dim: int


def size_sources(history: FailureHistory, at: int, size: int | str) -> Iterator[SizeSource]:
    """The dimensions with a size from whose shape a recorded call got its numbers."""
    line = history.on_line(at)
    frame = next(iter(stack_of(history, line)), None)
    if line is None or frame is None:
        return
    for reading in chain.from_iterable(_readings(frame, node) for node in value_nodes(history, line)):
        tensor = _tensor_named(history, line, frame, reading.name)
        if tensor is None:
            continue
        shape = history.plain(tensor).shape
        if _size_at(shape, reading.dim) == size:
            yield SizeSource(tensor, reading.dim % len(shape))


def _size_at(shape: tuple[int | str, ...], dim: int) -> int | str | None:
    """The size of a dimension; None if the shape has no such dimension."""
    if -len(shape) <= dim < len(shape):
        return shape[dim]
    return None


def _readings(frame: StackFrame, node: ast.expr) -> Iterator[ShapeReading]:
    """The sizes that an expression reads, itself or through a name: `b, n, _ = x.shape`."""
    tree = source_tree(frame.file)
    for part in ast.walk(node):
        reading = shape_reading(part)
        if reading is None and isinstance(part, ast.Name):
            reading = _reading_of_name(definition_of(tree, frame.line, part.id), part.id)
        if reading is not None:
            yield reading


def _reading_of_name(found: ValueDefinition | Parameter | None, name: str) -> ShapeReading | None:
    """The size that a name was assigned; None if it is anything else."""
    if not isinstance(found, ValueDefinition):
        return None
    return shape_reading(found.value) or _unpacked(found, name)


def _unpacked(found: ValueDefinition, name: str) -> ShapeReading | None:
    """The size of a name in `b, n, _ = x.shape`."""
    if not is_shape(found.value):
        return None
    target = getattr(found.statement, "targets", [None])[0]
    names = list(map(ast.unparse, getattr(target, "elts", ())))
    if name not in names or "*" in "".join(names):
        return None
    return ShapeReading(ast.unparse(found.value.value), names.index(name))  # type: ignore[attr-defined]


def is_shape(node: ast.AST) -> bool:
    """Whether an expression is the shape of something: `x.shape`."""
    return isinstance(node, ast.Attribute) and node.attr == "shape"


def shape_reading(node: ast.AST) -> ShapeReading | None:
    """The size that an expression reads; None for any other expression.

    >>> shape_reading(ast.parse("x.shape[-1]", mode="eval").body)
    ShapeReading(name='x', dim=-1)
    """
    if isinstance(node, ast.Subscript) and is_shape(node.value):
        return _reading(node.value.value, node.slice)  # type: ignore[attr-defined]
    if not isinstance(node, ast.Call) or len(node.args) != 1:
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        return _reading(node.func.value, node.args[0])
    if isinstance(node.func, ast.Name) and node.func.id == "len":
        return ShapeReading(ast.unparse(node.args[0]), 0)
    return None


def _reading(owner: ast.expr, index: ast.expr) -> ShapeReading | None:
    try:
        dim = ast.literal_eval(index)
    except ValueError:
        return None
    if not isinstance(dim, int):
        return None
    return ShapeReading(ast.unparse(owner), dim)


def _tensor_named(history: FailureHistory, line: int, frame: StackFrame, name: str) -> TensorToken | None:
    """The tensor that a name of a frame refers to: what another call of the frame, or the frame itself, got."""
    parent = history.parent(line)
    siblings = [at for at in history.before(line) if history.parent(at) == parent]
    latest = islice(reversed(siblings), MOST_CALLS)
    arguments = chain.from_iterable(history.arguments(at) for at in latest if _is_in_frame(history, at, frame))
    tensors = (item for item, node in arguments if history.is_tensor(item) and ast.unparse(node) == name)
    found = next(tensors, None)
    if found is not None:
        return found
    return _input_of_module(history, parent, frame, name)


def _is_in_frame(history: FailureHistory, at: int, frame: StackFrame) -> bool:
    """Whether the code of a frame made a call."""
    here = history.frame(at)
    return here is not None and here[0] is frame.code


def _input_of_module(history: FailureHistory, parent: int | None, frame: StackFrame, name: str) -> TensorToken | None:
    """The tensor that the module around a call got for a parameter of its `forward`."""
    function = function_of(frame)
    if parent is None or function is None or function.name != FORWARD:
        return None
    if history.callee_facts(parent).kind != "module":
        return None
    names = map(attrgetter("arg"), function.args.args[1:])
    item = {**dict(zip(names, history.args(parent), strict=False)), **history.kwargs(parent)}.get(name)
    if history.is_tensor(item):
        return item
    return None
