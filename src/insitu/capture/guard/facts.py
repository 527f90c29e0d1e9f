"""The facts of a finding: what went into a call, with names and statistics, and where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy
from torch import Tensor, nn

from insitu.capture.explain.reading import Reading, values
from insitu.capture.finite import is_finite
from insitu.capture.guard.labels import cut_labels
from insitu.capture.isolation import run_isolated
from insitu.capture.names import ModuleCallee, join
from insitu.capture.statistics import statistics
from insitu.capture.tensor_memory import has_values, local_part
from insitu.capture.tensors import Value, layout_of, short_dtype
from insitu.capture.torch_internals import BUFFERS, PARAMETERS, SAVED, DisableTorchFunction, saved_names
from insitu.capture.value_decoder import sizes
from insitu.trace.event import Call, Stats, TensorFacts
from insitu.trace.explain.expressions import segment
from insitu.trace.explain.pairing import argument_pairs
from insitu.trace.explain.range_origins import MOST_STEPS
from insitu.trace.findings import TensorOperand
from insitu.trace.operation import operation

if TYPE_CHECKING:
    from insitu.capture.probe import Probe


def alive(values: Iterable[Value]) -> list[Tensor]:
    """The tensors of some values that are still there."""
    return [tensor for value in values if (tensor := value()) is not None]


def holds_nonfinite(value: Value) -> bool:
    """Whether the tensor of a value is alive and not finite."""
    tensor = value()
    return tensor is not None and not is_finite(tensor)


def input_values(reading: Reading, at: int) -> list[Value]:
    """The tensors that were given to a call; arrays of NumPy are left out."""
    found = [*values(reading.args(at)), *values(reading.kwargs(at))]
    return [value for value in found if not isinstance(value(), numpy.ndarray)]


def operands(
    probe: Probe, reading: Reading, at: int, tensors: list[Tensor], changed: Tensor | None = None
) -> list[TensorOperand]:
    """What went into a call, with statistics of the tensors that are there, in the order of the arguments.

    The one that the call has changed is not what it was.
    """
    there = {id(tensor): tensor for tensor in tensors}
    written = names_at(reading, at)
    there.pop(id(changed), None)
    found = []
    for value in input_values(reading, at):
        tensor = value()
        facts = reading.plain(value)
        if id(tensor) in there:
            facts.stats = stats_of(there[id(tensor)])
        name = parameter_path(probe, tensor) or written.get(id(value), "")
        producer = reading.producer(value)
        cut = cut_labels(reading, at, value, facts)
        found.append(TensorOperand(facts, name, call_at(reading, producer), source_of(reading, producer), cut))
    return found


def call_at(reading: Reading, at: int | None) -> Call | None:
    """The call at an offset, if there is one."""
    if at is None:
        return None
    return reading.call(at)


def source_of(reading: Reading, at: int | None) -> Call | None:
    """The call that computed the numbers of a result, behind all calls that only move them, and `1 - x`."""
    for _ in range(MOST_STEPS):
        if at is None or reading.callee(at).kind != "function":
            return None
        if not operation("function", reading.callee(at).name).passes_on:
            return reading.call(at)
        at = next(map(reading.producer, values(reading.args(at))), None)
    return None


def names_at(reading: Reading, at: int) -> dict[int, str]:
    """The expressions that the arguments of a call, or of a module around it, came from, by the ids of the values."""
    names: dict[int, str] = {}
    for each in reading.ancestors(at):
        names = argument_names(reading, each) | names
    return names


def argument_names(reading: Reading, at: int) -> dict[int, str]:
    """The expressions that the arguments of a call came from, by the ids of the values; the first if there are two."""
    callee, expression = reading.callee(at), reading.expression(at)
    if expression is None:
        return {}
    name = "" if isinstance(callee, ModuleCallee) else callee.name
    pairs = list(argument_pairs(expression.node, name, reading.args(at), reading.kwargs(at)))
    return {id(item): segment(expression.file, node) for item, node in reversed(pairs) if isinstance(item, Value)}


def parameter_path(probe: Probe, tensor: Tensor | None) -> str:
    """The path of a parameter or buffer of a module that was called, or is in the model."""
    if tensor is None or not tensor.is_leaf:
        return ""
    return next((path for path, each in own_tensors(probe) if each is tensor), "")


def own_tensors(probe: Probe) -> Iterator[tuple[str, Tensor]]:
    """Every parameter and buffer of the modules that are known, with its path."""
    for callee in list(probe.names.callees.values()):
        module = callee.ref()
        tensors = {**getattr(module, PARAMETERS, {}), **getattr(module, BUFFERS, {})}
        for name, tensor in tensors.items():
            if tensor is not None:
                yield join(callee.path, name), tensor


def outermost_modules(probe: Probe) -> Iterator[tuple[str, nn.Module]]:
    """The modules that were called and are not known to be in another one, with their paths."""
    for callee in list(probe.names.callees.values()):
        module = callee.ref()
        if callee.anchor is None and module is not None:
            yield callee.path, module


def module_chain(reading: Reading, at: int) -> tuple[str, ...]:
    """The paths and classes of the modules around a call, the outermost first."""
    return tuple(map(title, reading.modules(at)))


def title(callee: ModuleCallee) -> str:
    """The path and class of a module."""
    if not callee.path:
        return callee.facts.type
    return f"{callee.path} ({callee.facts.type})"


def saved_operands(node: Any) -> list[TensorOperand]:
    """What a node has saved for itself, where the operands are gone."""
    return [TensorOperand(facts_of(tensor), f"{name} (saved)") for name, tensor in saved_tensors(node)]


def saved_tensors(node: Any) -> list[tuple[str, Tensor]]:
    """The tensors that a node has saved, by the names that autograd has for them."""
    values = {name.removeprefix(SAVED): saved_value(node, name) for name in saved_names(node)}
    return [(name, value) for name, value in values.items() if isinstance(value, Tensor)]


def saved_value(node: Any, name: str) -> Any:
    """One of the values that a node has saved; None if it was let go."""
    try:
        return getattr(node, name)
    except RuntimeError:
        return None


def facts_of(tensor: Tensor) -> TensorFacts:
    """The facts of a tensor that is on no tape, with its statistics."""
    with DisableTorchFunction():
        shape, dtype, device, *_ = layout_of(tensor)
        facts = TensorFacts(-1, sizes(shape or ()), short_dtype(dtype), str(device), tensor.requires_grad)
    facts.stats = stats_of(tensor)
    return facts


def stats_of(tensor: Tensor) -> Stats | None:
    """The statistics of a tensor, if it can be read."""
    tensor = local_part(tensor)
    if has_values(tensor):
        return run_isolated(lambda: statistics(Tensor.detach(tensor), bins=False))
    return None
