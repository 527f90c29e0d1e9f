"""Where the numbers behind a size come from in the source: arguments of calls, of layers, of their constructors."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.explanation import Origin
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory
from insitu.trace.explain.layer_arguments import weight_argument, window_arguments
from insitu.trace.explain.pairing import argument_pairs
from insitu.trace.explain.sizes.walk import SizeOrigin
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import argument_start, call_start, point_at
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.rules.size_rule import length_rule, rule_for_size
from insitu.trace.explain.slices.slice_walk import Rule
from insitu.trace.explain.value_origins import value_nodes


def sliced_sizes(failure: Failure, size: SizeOrigin) -> Iterator[Origin]:
    """Where the source computes the numbers that decided a size."""
    yield from slice_origins(_starts(failure, size), _rule(failure, size), f"the {size.start.size}", most=2)


def _rule(failure: Failure, size: SizeOrigin) -> Rule:
    """A tensor from outside has the length of what it was made from; everything else begins with numbers."""
    is_outside = size.call is None and not failure.live.parameter_path(size.start.tensor)
    return length_rule if is_outside else rule_for_size(size.start.size)


def _starts(failure: Failure, size: SizeOrigin) -> list[Point]:
    history = failure.history
    if failure.live.parameter_path(size.start.tensor):
        call = call_start(history, failure.live.initializer(size.start.tensor))
        argument = weight_argument(call, size.start.dim) if call is not None else None
        if argument is not None:
            return [argument]
    if size.call is not None:
        return list(_call_starts(history, size))
    start = argument_start(history, size.receiver, size.start.tensor)
    return [] if start is None else [start]


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
