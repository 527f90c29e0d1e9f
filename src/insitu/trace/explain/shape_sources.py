"""Sizes that a call was given from the shape of a tensor: `torch.zeros(x.shape[1])` has the size of x."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from insitu.trace.explain.call_stack import FORWARD, StackFrame, function_of, stack_of
from insitu.trace.explain.expressions import source_tree
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.pairing import argument_pairs
from insitu.trace.explain.value_definitions import ValueDefinition, definition_of
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
    for node in value_nodes(history, line):
        for reading in _readings(frame, node):
            tensor = _tensor_named(history, line, frame, reading.name)
            shape = history.plain(tensor).shape if tensor is not None else ()
            has_size = -len(shape) <= reading.dim < len(shape) and shape[reading.dim] == size
            if has_size:
                yield SizeSource(tensor, reading.dim % len(shape))


def _readings(frame: StackFrame, node: ast.expr) -> Iterator[ShapeReading]:
    """The sizes that an expression reads, itself or through a name: `b, n, _ = x.shape`."""
    tree = source_tree(frame.file)
    for part in ast.walk(node):
        reading = shape_reading(part)
        if reading is not None:
            yield reading
        elif isinstance(part, ast.Name):
            found = definition_of(tree, frame.line, part.id)
            if isinstance(found, ValueDefinition):
                yield from _unpacked(found, part.id)


def _unpacked(found: ValueDefinition, name: str) -> Iterator[ShapeReading]:
    reading = shape_reading(found.value)
    if reading is not None:
        yield reading
    elif isinstance(found.value, ast.Attribute) and found.value.attr == "shape":
        target = getattr(found.statement, "targets", [None])[0]
        names = [ast.unparse(each) for each in getattr(target, "elts", ())]
        if name in names and not any(each.startswith("*") for each in names):
            yield ShapeReading(ast.unparse(found.value.value), names.index(name))


def shape_reading(node: ast.AST) -> ShapeReading | None:
    """The size that an expression reads; None for any other expression.

    >>> shape_reading(ast.parse("x.shape[-1]", mode="eval").body)
    ShapeReading(name='x', dim=-1)
    """
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
        return _reading(node.value.value, node.slice)
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
    for at in islice(reversed(siblings), MOST_CALLS):
        here = history.frame(at)
        if here is None or here[0] is not frame.code:
            continue
        pairs = argument_pairs(
            history.expression(at).node, history.callee_facts(at).name, history.args(at), history.kwargs(at)
        )
        for item, node in pairs:
            if history.is_tensor(item) and ast.unparse(node) == name:
                return item
    return _input_of_module(history, parent, frame, name)


def _input_of_module(history: FailureHistory, parent: int | None, frame: StackFrame, name: str) -> TensorToken | None:
    """The tensor that the module around a call got for a parameter of its `forward`."""
    function = function_of(frame)
    is_forward = function is not None and function.name == FORWARD
    if parent is None or not is_forward or function is None or history.callee_facts(parent).kind != "module":
        return None
    given = dict(zip([each.arg for each in function.args.args[1:]], history.args(parent), strict=False))
    item = {**given, **history.kwargs(parent)}.get(name)
    if history.is_tensor(item):
        return item
    return None
