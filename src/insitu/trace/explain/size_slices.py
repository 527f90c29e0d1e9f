"""Where the numbers behind a size come from in the source: arguments of calls, of layers, of their constructors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.explain.case import NamedOperand
from insitu.trace.explain.explanation import Origin
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory
from insitu.trace.explain.layer_arguments import weight_argument, window_arguments
from insitu.trace.explain.pairing import argument_pairs
from insitu.trace.explain.sizes.walk import SizeOrigin
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import argument_start, call_start, operand_start, point_at
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.rules.size_rule import SizeRules
from insitu.trace.explain.slices.slice_walk import POSSIBLE, REMOTE, Rule
from insitu.trace.explain.value_origins import value_nodes


@dataclass(slots=True, frozen=True)
class SizeStart:
    """The expressions where a slice begins, the rule for them, and the least score that says something."""

    points: list[Point | None]
    rule: Rule
    least: int = REMOTE


def sliced_sizes(failure: Failure, line: FailedLine, operand: NamedOperand, size: SizeOrigin) -> Iterator[Origin]:
    """Where the source computes the numbers that decided a size."""
    start = _start(failure, line, operand, size)
    yield from slice_origins(start.points, start.rule, f"the {size.start.size}", most=2, least=start.least)


def _start(failure: Failure, line: FailedLine, operand: NamedOperand, size: SizeOrigin) -> SizeStart:
    """The arguments of a layer or a call; a tensor from outside has the length of what it was made from."""
    history, rules = failure.history, SizeRules(size.start.size)
    argument = _layer_argument(failure, size)
    if argument is not None:
        return SizeStart([argument], rules.number)
    if size.call is not None:
        return SizeStart([*_call_starts(history, size)], rules.number)
    start = argument_start(history, size.receiver, size.start.tensor)
    return SizeStart([start or operand_start(failure, line, operand.name)], rules.length, POSSIBLE)


def _layer_argument(failure: Failure, size: SizeOrigin) -> Point | None:
    """The argument of the constructor of a layer that decided the size of its parameter."""
    if not failure.live.parameter_path(size.start.tensor):
        return None
    call = call_start(failure.history, failure.live.initializer(size.start.tensor))
    return None if call is None else weight_argument(call, size.start.dim)


def _inner_path(history: FailureHistory, at: int | None, line: int) -> list[str]:
    """The path of the module that made a call, from the module that the user's line calls."""
    outer = history.callee_facts(line).label
    modules = [history.callee_facts(each).label for each in history.ancestors(at)]
    inner = next((label for label in modules if label and label.startswith(f"{outer}.")), outer)
    return [name for name in inner.removeprefix(outer).split(".") if name]


def _call_starts(history: FailureHistory, size: SizeOrigin) -> Iterator[Point]:
    """The numbers that went into the call that introduced a size; for a layer, those of its constructor."""
    start, line = call_start(history, size.call), history.on_line(size.call)
    if start is None or line is None:
        return
    if history.callee_facts(line).kind == "module" and isinstance(start.node, ast.Call):
        yield from window_arguments(Resolver(), start.part(start.node.func), _inner_path(history, size.call, line))
        return
    pairs = argument_pairs(start.node, history.callee_facts(line).name, history.args(line), history.kwargs(line))
    exact = [node for item, node in pairs if type(item) is int and item == size.start.size]
    for node in exact or value_nodes(history, line):
        yield point_at(start.scope, node)
