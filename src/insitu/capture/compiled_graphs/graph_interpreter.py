"""Runs a graph call by call, beside the compiled code, for the values inside.

The graph is the text that torch printed, so nothing of it runs but operators of torch. Random numbers, autograd,
autocast and the tensors of the program are left as they were.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, fx

from insitu.capture.isolation import run_isolated
from insitu.capture.torch_internals import OpOverload, schemas
from insitu.trace.compiled.expression import GraphCall, NodeReference, graph_call
from insitu.trace.compiled.graph_text import GraphText
from insitu.trace.event import Word

Results = dict[str, Any]
Convert = Callable[[Any], Any]
_OPERATORS: dict[str, Callable[..., Any]] = {
    f"operator.{name}": getattr(operator, name)
    for name in ("getitem", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
}
_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format)
# Operators that exchange data with other ranks: these take part once, with the program, and would be waited for.
_COLLECTIVES = frozenset(
    {"_c10d_functional", "_c10d_functional_autograd", "c10d", "c10d_functional", "_dtensor", "symm_mem"}
)


class NotInterpretable(Exception):
    """A graph cannot run call by call; the text says why."""


def interpret(graph: GraphText, inputs: Sequence[Any]) -> Results:
    """The results of all calls of a graph by their names, hidden from the program."""
    return hidden(lambda: run_calls(graph, inputs, _as_it_is))


def interpret_captured(graph: fx.GraphModule, inputs: Sequence[Any]) -> Results:
    """The results of all calls of a graph of dynamo, for a backend that runs no ATen operators."""
    return hidden(lambda: _CapturedRun(graph).results(inputs))


def hidden(run: Callable[[], Results]) -> Results:
    """Run calls so that random numbers, autograd, autocast, modes and profilers do not notice."""
    has_cuda = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = [torch.cuda.current_device()] if has_cuda else []
    with ExitStack() as undo:
        undo.enter_context(torch.random.fork_rng(devices=devices))
        undo.enter_context(torch.autocast("cpu", enabled=False))
        if devices:
            undo.enter_context(torch.autocast("cuda", enabled=False))
        return run_isolated(run)


def run_calls(graph: GraphText, inputs: Sequence[Any], convert: Convert) -> Results:
    """Run the calls of a graph on inputs; `convert` is applied to each input and to each constant."""
    if len(inputs) != len(graph.inputs):
        raise NotInterpretable(f"the graph has {len(graph.inputs)} inputs, and the call has {len(inputs)}")
    calls = {node.name: graph_call(node.code) for node in graph.nodes}
    if any(map(_writes, calls.values())):
        inputs = [item.clone() if isinstance(item, Tensor) else item for item in inputs]
    results = {item.name: convert(value) for item, value in zip(graph.inputs, inputs, strict=True)}
    for name, call in calls.items():
        results[name] = run_call(call, results, convert)
    return results


def _writes(call: GraphCall) -> bool:
    """Whether a call changes one of its arguments."""
    if call.name.startswith("operator."):
        return False
    return any(schema.is_mutable for schema in schemas(_operator(call.name)))


def run_call(call: GraphCall, results: Results, convert: Convert) -> Any:
    """The result of one call."""
    if call.name == "operator.identity":
        return _argument(call.args[0], results, convert)
    function = _OPERATORS.get(call.name) or _operator(call.name)
    args = [_argument(item, results, convert) for item in call.args]
    kwargs = {name: _argument(item, results, convert) for name, item in call.kwargs}
    return function(*args, **kwargs)


def _operator(name: str) -> Any:
    """The operator of torch with a name such as `aten.add.Tensor`, and nothing else that torch has."""
    namespace, _, rest = name.partition(".")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace, None), packet, None), overload or "default", None)
    if not isinstance(found, OpOverload):
        raise NotInterpretable(f"{name} is not an operator of torch")
    check_not_collective(name)
    return found


def check_not_collective(name: str) -> None:
    """Raise if an operator exchanges data with other ranks."""
    if name.partition(".")[0] in _COLLECTIVES:
        raise NotInterpretable(f"{name} waits for other ranks, and they run it once")


def _argument(item: Any, results: Results, convert: Convert) -> Any:
    if isinstance(item, NodeReference):
        if item.name not in results:
            raise NotInterpretable(f"{item.name} is not a result of this graph")
        return results[item.name]
    if isinstance(item, (list, tuple)):
        return type(item)([_argument(part, results, convert) for part in item])
    if isinstance(item, Word):
        return convert(_constant(item))
    return item


def _constant(word: str) -> Any:
    """A dtype, a layout, a memory format or a device from its name."""
    found = getattr(torch, word.removeprefix("torch."), None)
    if isinstance(found, _CONSTANTS):
        return found
    try:
        return torch.device(word)
    except RuntimeError:
        raise NotInterpretable(f"the argument {word} cannot be read") from None


def _as_it_is(item: Any) -> Any:
    return item


class _CapturedRun(fx.Interpreter):
    """Runs a graph of dynamo and keeps the result of each call."""

    def __init__(self, graph: fx.GraphModule) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self._found: Results = {}

    def results(self, inputs: Sequence[Any]) -> Results:
        """The results of all calls."""
        self.run(*[item.clone() if isinstance(item, Tensor) else item for item in inputs])
        return self._found

    def run_node(self, n: fx.Node) -> Any:
        """Keep the result of a call under its name."""
        check_not_collective(str(n.target))
        result = self._found[n.name] = super().run_node(n)
        return result
