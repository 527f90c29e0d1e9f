"""A graph that runs, and whose inside is recorded: the outputs of its kernels, and its calls by an interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from insitu.capture.arguments import make_argument_writer
from insitu.capture.compiled_graphs.graph_interpreter import (
    NotInterpretable,
    Results,
    interpret,
    interpret_captured,
)
from insitu.capture.compiled_graphs.kernel_outputs import KernelOutputs
from insitu.capture.outline import outline
from insitu.capture.tape import ARGS, BACKWARD, COMPILED, new_record
from insitu.capture.tensors import guarded
from insitu.capture.torch_compiler_internals import inductor_globals
from insitu.trace.compiled.compiled_graph import CompiledGraph, GraphNode, Kernel
from insitu.trace.compiled.compiled_rows import RowOrder, kernel_arguments, kernel_name, node_call
from insitu.trace.compiled.expression import GraphCall, NodeReference, graph_call

if TYPE_CHECKING:
    from insitu.capture.compiled_graphs.graph_session import GraphCallee
    from insitu.capture.compiled_graphs.graph_sources import GraphSource
    from insitu.capture.probe import Probe


class InsideRun:
    """Interprets a graph before it runs, takes the outputs of its kernels while it runs, and records both after it."""

    def __init__(self, probe: Probe, source: GraphSource, graph: CompiledGraph, inputs: Sequence[Any]) -> None:
        self._probe, self._graph = probe, graph
        self._phase = BACKWARD if graph.direction == "backward" else COMPILED
        self._inputs = tuple(inputs)
        self._results = _results(source, list(inputs))
        self._outputs: KernelOutputs | None = None

    def write_inputs(self, record: list[Any]) -> None:
        """Add the inputs to the record of the graph."""
        record[ARGS] = len(self._inputs)
        self._write(record, self._inputs, {})
        self._inputs = ()

    def observe(self, compiled: Any) -> None:
        """Take the outputs of kernels from now on."""
        self._outputs = KernelOutputs(self._graph, inductor_globals(compiled))
        self._outputs.__enter__()

    def end(self) -> None:
        """Take no more outputs."""
        if self._outputs is not None:
            self._outputs.__exit__(None, None, None)

    def record(self, parent: int, new_callee: type[GraphCallee]) -> None:
        """Write the kernels and the calls below the record of the graph."""
        order = RowOrder(self._graph)
        places: dict[int, int] = {}
        for number, node in order.rows():
            if node is None:
                assert number is not None
                places[number] = self._record_kernel(parent, number, new_callee)
            else:
                around = parent if number is None else places[number]
                self._record_node(around, node, new_callee)

    def _record_kernel(self, parent: int, number: int, new_callee: type[GraphCallee]) -> int:
        probe, kernel = self._probe, self._graph.kernels[number]
        callee = new_callee("function", kernel_name(kernel), _place(self._graph, kernel))
        record = new_record(callee, parent, phase=self._phase)
        self._write(record, (), kernel_arguments(self._graph, kernel))
        at = probe.append(record)
        found = self._outputs.found.get(number, []) if self._outputs is not None else []
        self._finish(at, found[0] if len(found) == 1 else tuple(found) or None)
        return at

    def _record_node(self, parent: int, node: GraphNode, new_callee: type[GraphCallee]) -> None:
        kind, name = node_call(node)
        call = graph_call(node.code)
        record = new_record(new_callee(kind, name, node), parent, phase=self._phase, args=len(call.args))
        args, kwargs = self._arguments(call)
        self._write(record, args, kwargs)
        self._finish(self._probe.append(record), self._results.get(node.name))

    def _arguments(self, call: GraphCall) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args = tuple([self._value(item) for item in call.args])
        return args, {name: self._value(item) for name, item in call.kwargs}

    def _value(self, item: Any) -> Any:
        if isinstance(item, NodeReference):
            return self._results.get(item.name)
        if isinstance(item, (list, tuple)):
            return type(item)([self._value(part) for part in item])
        return item

    def _write(self, record: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        make_argument_writer(guarded(self._probe.values))(record, args, kwargs)

    def _finish(self, at: int, result: Any) -> None:
        probe = self._probe
        values = guarded(probe.values)
        found = outline(result, lambda tensor: values.fresh(tensor, at))
        probe.tape.finish(at, probe.tape.start(at), found)


def _results(source: GraphSource, inputs: list[Any]) -> Results:
    compilation = source.compilation
    has_operators = compilation is None or compilation.is_inductor or source.direction in compilation.aten
    if has_operators:
        content = source.content()
        return {**dict(zip([item.name for item in content.inputs], inputs, strict=False)), **interpret(content, inputs)}
    if compilation is None or compilation.graph is None:
        raise NotInterpretable("the graph is not there any more")
    return interpret_captured(compilation.graph, inputs)


def _place(graph: CompiledGraph, kernel: Kernel) -> GraphNode | None:
    """The first call of a kernel that has a place in the program."""
    wanted = set(kernel.nodes)
    return next((node for node in graph.nodes if node.name in wanted and node.source is not None), None)
