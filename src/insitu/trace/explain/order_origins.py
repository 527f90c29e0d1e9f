"""Where the order of elements comes from, if it is at fault: a sort in torch, in an index, or in Python."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.bindings import own_nodes, scope_of
from insitu.trace.explain.call_stack import stack_at
from insitu.trace.explain.explanation import ExpressionSite, Origin, OriginKind
from insitu.trace.explain.expressions import called_name, segment, source_tree
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.messages import WRONG_ORDER
from insitu.trace.explain.python_values import readings_behind
from insitu.trace.explain.range_origins import MOST_STEPS
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.value_origins import argument_nodes, value_origins

NAME = "the order"
ORDERING = frozenset(("sort", "argsort", "msort", "topk", "flip", "randperm", "roll", "unique"))
INDEXING = frozenset(("getitem", "index_select", "gather", "take_along_dim", "take"))
PYTHON_ORDERING = frozenset(("sort", "sorted", "reverse", "reversed", "shuffle"))


def order_origins(failure: Failure, line: FailedLine) -> Iterator[Origin]:
    """The calls that gave the operands on the failed line their order."""
    if not WRONG_ORDER.search(failure.message):
        return
    for operand in line.tensors():
        yield from _tensor_order(failure.history, operand.tensor)
    stack = stack_at(failure, line.at)
    for node in argument_nodes(line.statement.expression.node):
        for reading in readings_behind(failure.history, stack, node):
            yield from _python_order(reading)


def _tensor_order(history: FailureHistory, tensor: TensorToken) -> Iterator[Origin]:
    """The call behind a tensor, or behind the index that selects from it, that sorted or turned the elements."""
    at = history.producer(tensor)
    for _ in range(MOST_STEPS):
        if at is None:
            return
        known = history.operation(at)
        if known.base in ORDERING:
            yield Origin(OriginKind.VALUE, history.site(at), NAME)
            yield from value_origins(history, at)
            return
        if not known.is_move:
            return
        inputs = list(history.inputs(at))
        is_by_index = known.base in INDEXING and len(inputs) > 1
        source = inputs[1] if is_by_index else next(iter(inputs), None)
        at = history.producer(source) if source is not None else None


def _python_order(reading: Point) -> Iterator[Origin]:
    """The calls in the function around a name that put it in order: `batch.sort()`, `sorted(batch)`."""
    file, line = reading.scope.file, reading.node.lineno
    scope, name = scope_of(source_tree(file), line), ast.unparse(reading.node)
    for node in own_nodes(scope):
        if isinstance(node, ast.Call) and _orders(node, name) and node.lineno <= line:
            yield Origin(OriginKind.VALUE, ExpressionSite(file, node.lineno, "", segment(file, node)), NAME)


def _orders(call: ast.Call, name: str) -> bool:
    """Whether a call sorts a name, in place or as its first argument."""
    function = call.func
    if called_name(call) not in PYTHON_ORDERING:
        return False
    owners = [function.value] if isinstance(function, ast.Attribute) else []
    return name in map(ast.unparse, [*owners, *call.args[:1]])
