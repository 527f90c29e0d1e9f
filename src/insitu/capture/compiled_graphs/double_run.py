"""The graphs of a trace again, in double precision, from the inputs that the trace has kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from insitu.capture.compiled_graphs.graph_interpreter import NotInterpretable, hidden, run_call
from insitu.errors import SubjectError, tell
from insitu.trace.compare.fused_groups import DoubleResults
from insitu.trace.compiled.compiled_runs import CompiledRun, compiled_runs
from insitu.trace.compiled.expression import graph_call
from insitu.trace.event import TensorFacts
from insitu.trace.kept_values import has_all_values
from insitu.trace.trace import Trace

_REDUCED = (torch.float16, torch.bfloat16, torch.float32)
# Operators that draw numbers: the reference gets those that were drawn.
_DRAWING = ("rand", "bernoulli", "dropout", "normal", "uniform", "multinomial", "_seed")


def double_results(trace: Trace) -> DoubleResults:
    """The results of each graph that ran, in double precision, by the id of its call."""
    runs = compiled_runs(trace)
    if not runs:
        raise SubjectError(
            'reference="float64" runs the graphs of compiled code again: record one of the two with '
            'insitu.record(keep="values", inside_compiled=True), or give the trace of a run in float64'
        )
    return {run.call.id: _double_results(run) for run in runs}


def _double_results(run: CompiledRun) -> dict[str, Any]:
    try:
        return hidden(lambda: _run(run))
    except NotInterpretable as error:
        tell(f"{run.call.name} has no reference in double precision: {error}")
        return {}


def _run(run: CompiledRun) -> dict[str, Any]:
    """The results as arrays; draws of random numbers are those of the interpreter."""
    results = {item.name: value for item, value in zip(run.graph.inputs, map(_input, run.call.args), strict=False)}
    for node in run.graph.nodes:
        call = graph_call(node.code)
        if any(word in call.operator for word in _DRAWING):
            results[node.name] = _input(run.results.get(node.name))
        else:
            results[node.name] = run_call(call, results, to_double)
    named = {node.name for node in run.graph.nodes}
    return {name: item.numpy() for name, item in results.items() if name in named and isinstance(item, Tensor)}


def _input(item: Any) -> Any:
    """An input of a graph from what the trace has kept."""
    if not isinstance(item, TensorFacts):
        return item
    if not has_all_values(item):
        raise NotInterpretable('the trace has no values: record it with keep="values"')
    import numpy as np

    array = np.asarray(item.kept)
    is_known_to_torch = array.dtype.kind in "biuc" or array.dtype in (np.float32, np.float64)
    if not is_known_to_torch:
        array = array.astype(np.float64)
    return to_double(torch.from_numpy(array.copy()))


def to_double(item: Any) -> Any:
    """A tensor or a dtype in double precision; anything else as it is."""
    if isinstance(item, Tensor) and item.dtype in _REDUCED:
        return item.double()
    if isinstance(item, torch.dtype) and item in _REDUCED:
        return torch.float64
    if isinstance(item, torch.device):
        return torch.device("cpu")
    return item
