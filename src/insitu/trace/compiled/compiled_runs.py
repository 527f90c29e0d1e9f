"""The runs of compiled graphs in a trace that was recorded with `inside_compiled=True`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.compiled.compiled_graph import CompiledGraph, Kernel, graphs_of
from insitu.trace.compiled.compiled_rows import RowOrder, is_shown
from insitu.trace.compiled.expression import NodeReference, graph_call
from insitu.trace.event import Call, Event, TensorFacts
from insitu.trace.trace import Trace

# Operators whose numbers inductor draws in another way than an interpreter.
RANDOM = frozenset({"inductor_random", "inductor_randint"})


@dataclass(frozen=True, slots=True, eq=False)
class KernelRun:
    """A kernel that ran: its call, what it is, and the results that it wrote beside those of the interpreter."""

    call: Call
    kernel: Kernel
    outputs: tuple[tuple[str, TensorFacts], ...]


@dataclass(frozen=True, slots=True, eq=False)
class CompiledRun:
    """A graph that ran: its call, the graph, its kernels in the order in which they ran, and interpreted results."""

    call: Call
    graph: CompiledGraph
    kernels: tuple[KernelRun, ...]
    results: dict[str, TensorFacts]

    @property
    def random(self) -> frozenset[str]:
        """The results that depend on random numbers which the interpreter draws in another way."""
        found: set[str] = set()
        for node in self.graph.nodes:
            call = graph_call(node.code)
            if call.operator in RANDOM or found.intersection(call.references):
                found.add(node.name)
        return frozenset(found)


def compiled_runs(trace: Trace) -> list[CompiledRun]:
    """The graphs of a trace that ran and were interpreted, in order."""
    graphs = graphs_of(trace.about.get("compiled")) or {}
    found = []
    for call in trace.calls:
        graph = graphs.get(call.name)
        inside = list(_inside(trace, call)) if graph is not None else []
        if graph is not None and inside:
            found.append(_run(call, graph, inside))
    return found


def without_graphs(trace: Trace) -> Trace:
    """The trace without what is inside its compiled calls: each is one call."""
    graphs = graphs_of(trace.about.get("compiled"))
    if not graphs:
        return trace
    hidden: set[int] = set()
    kept: list[Event] = []
    for event in trace.events:
        is_graph = isinstance(event, Call) and event.name in graphs
        if is_graph or event.parent in hidden:
            hidden.add(event.id)
        else:
            kept.append(event)
    return Trace(kept, about=trace.about)


def _inside(trace: Trace, call: Call) -> Iterator[Call]:
    """The kernels and the interpreted calls of a graph, in the order in which they were recorded."""
    for child in trace.children(call):
        if isinstance(child, Call) and child.mode == "compiled":
            yield child
            yield from _inside(trace, child)


def _run(call: Call, graph: CompiledGraph, inside: list[Call]) -> CompiledRun:
    results: dict[str, TensorFacts] = {}
    parts: dict[str, tuple[TensorFacts, ...]] = {}
    kernels: dict[int, Call] = {}
    for (number, node), event in zip(RowOrder(graph).rows(), inside, strict=False):
        if node is not None:
            parts[node.name] = event.outputs
        elif number is not None:
            kernels[number] = event
    results = {name: found[0] for name, found in parts.items() if len(found) == 1}
    results |= dict(_taken_parts(graph, parts))
    runs = [_kernel_run(graph.kernels[number], kernels[number]) for number in sorted(kernels)]
    return CompiledRun(call, graph, tuple(runs), results)


def _taken_parts(graph: CompiledGraph, parts: dict[str, tuple[TensorFacts, ...]]) -> Iterator[tuple[str, TensorFacts]]:
    """The results that are taken out of several."""
    for node in graph.nodes:
        args = graph_call(node.code).args
        is_part = not is_shown(node) and isinstance(args[0], NodeReference) and isinstance(args[1], int)
        whole = parts.get(args[0].name, ()) if is_part else ()
        if is_part and args[1] < len(whole):
            yield node.name, whole[args[1]]


def _kernel_run(kernel: Kernel, call: Call) -> KernelRun:
    names = [output.node for output in kernel.outputs]
    outputs = call.outputs
    if len(outputs) != len(names):
        return KernelRun(call, kernel, ())
    return KernelRun(call, kernel, tuple(zip(names, outputs, strict=True)))
