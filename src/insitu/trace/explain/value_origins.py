"""The Python values that went into a call: sizes, shifts, lists, arrays. Where each was computed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain, islice

from insitu.trace.explain.call_stack import Stack, stack_at, stack_of
from insitu.trace.explain.explanation import Origin, OriginKind
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.messages import WRONG_NUMBERS
from insitu.trace.explain.python_values import value_sites
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import parse_expression, point_at, stack_scope
from insitu.trace.explain.slices.rules.size_rule import ANY_SIZE

MOST_VALUES = 3  # of one call
MOST_NUMBERS = 2  # places for one argument


def value_origins(history: FailureHistory, at: int | None) -> Iterator[Origin]:
    """Where the Python values that went into a recorded call were computed."""
    line = history.on_line(at)
    if line is None:
        return
    yield from islice(origins_of(history, stack_of(history, line), value_nodes(history, line)), MOST_VALUES)


def is_made_by_loop(history: FailureHistory, at: int) -> bool:
    """Whether the header of a loop made a call: what the loop goes over did, such as a DataLoader."""
    return isinstance(history.expression(history.on_line(at)).node, (ast.For, ast.AsyncFor))


def argument_origins(history: FailureHistory, at: int, tensor: TensorToken) -> Iterator[Origin]:
    """Where a tensor comes from that went into a call, and that no recorded call produced."""
    line = history.on_line(at)
    if line is None:
        return
    nodes = [node for item, node in history.arguments(line) if item is tensor]
    yield from islice(origins_of(history, stack_of(history, line), nodes), MOST_VALUES)


def operand_origins(failure: Failure, line: FailedLine, name: str) -> Iterator[Origin]:
    """Where an operand on the line that failed comes from, read from its expression: `self.places`."""
    stack = stack_at(failure, line.at)
    node = parse_expression(name, stack[0].line) if stack else None
    if node is not None:
        yield from islice(origins_of(failure.history, stack, [node]), MOST_VALUES)


def failed_value_origins(failure: Failure, line: FailedLine) -> Iterator[Origin]:
    """Where the Python values on the line that failed were computed, if one of them is at fault."""
    if not WRONG_NUMBERS.search(failure.message):
        return
    history, recorded = failure.history, failure.history.on_line(line.at)
    if failure.has_own_frame or recorded is None:
        nodes = argument_nodes(line.statement.expression.node)
    else:
        nodes = value_nodes(history, recorded)
    stack = stack_at(failure, line.at)
    sliced = list(_sliced_numbers(history, stack, nodes))
    yield from sliced
    if not sliced:
        yield from islice(origins_of(history, stack, nodes), MOST_VALUES)


def _sliced_numbers(history: FailureHistory, stack: Stack, nodes: list[ast.expr]) -> Iterator[Origin]:
    """Where the source computes the numbers on the line that failed."""
    scope = stack_scope(history, stack)
    if scope is None:
        return
    for node in nodes:
        yield from slice_origins([point_at(scope, node)], ANY_SIZE.number, ast.unparse(node), most=MOST_NUMBERS)


def origins_of(history: FailureHistory, stack: Stack, nodes: list[ast.expr]) -> Iterator[Origin]:
    """Where the values of some expressions of the innermost frame were computed."""
    sites = chain.from_iterable(value_sites(history, stack, node) for node in nodes)
    for found in sites:
        yield Origin(OriginKind.VALUE, found.site, found.name)


def value_nodes(history: FailureHistory, line: int) -> list[ast.expr]:
    """The expressions of the arguments of a call that are not tensors."""
    pairs = history.arguments(line)
    if pairs:
        return [argument for item, argument in pairs if not _is_torch_tensor(history, item)]
    # A constructor, or a function of the user inside of which torch calls another one.
    return argument_nodes(history.expression(line).node)


def argument_nodes(node: ast.AST) -> list[ast.expr]:
    """The expressions of the arguments of a call, or of an index."""
    if isinstance(node, ast.Call):
        return [*node.args, *(word.value for word in node.keywords)]
    if isinstance(node, ast.Subscript):
        return [node.slice]
    return []


def _is_torch_tensor(history: FailureHistory, item: object) -> bool:
    return any(not history.is_array(tensor) for tensor in history.tensors(item))
