"""What is inside compiled calls, as calls and marks of the trace, for the tree and the page.

A graph that ran is one call of the trace. Its kernels, and the calls of the graph that each computes, are known from
the compiler: they have facts and places, and neither values nor times. A graph that was also interpreted has them as
events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from insitu.trace.compiled.compiled_graph import (
    BEFORE_SESSION,
    CompiledGraph,
    GraphLine,
    GraphNode,
    Kernel,
    graphs_of,
)
from insitu.trace.compiled.expression import NodeReference, graph_call, tensor_facts
from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, TensorFacts, Word
from insitu.trace.trace import Trace

COMPILED_FUNCTION = "torch.compile."  # before the name of a compiled function that is not a module
_EARLIER = re.compile(r"^\d+/\d+: ")  # torch's number of the compilation whose guard failed
MOST_NAME = 44
MOST_LINES = 6  # that the row of a kernel names


def with_compiled_rows(trace: Trace, *, closed: bool = False) -> Trace:
    """The trace with rows for what is inside its compiled calls; the trace itself if there are none.

    With `closed`, kernels have rows, and the calls that they compute have none.
    """
    graphs = graphs_of(trace.about.get("compiled"))
    if not graphs:
        return trace
    return Trace(_Expansion(trace, graphs, closed=closed).events(), about=trace.about)


def kernel_name(kernel: Kernel) -> str:
    """The name of a kernel as a call: the beginning and the end of a long one, so that its lines have room.

    >>> kernel_name(Kernel("cpp_fused_add_embedding_native_layer_norm_native_layer_norm_backward_view_6"))
    'cpp_fused_add_embedding_n…backward_view_6'
    """
    name = kernel.name
    if len(name) <= MOST_NAME:
        return name
    return f"{name[:25]}…{name[-15:]}"


def kernel_arguments(graph: CompiledGraph, kernel: Kernel) -> dict[str, Any]:
    """What the row of a kernel says: the lines of the program that it fuses."""
    if not kernel.nodes:
        return {"fuses": Word("not known")}
    lines = lines_text(graph.sources(kernel))
    if not lines:
        return {}
    return {"fuses" if kernel.is_fused else "from": Word(lines)}


def lines_text(lines: Iterable[GraphLine]) -> str:
    """Lines of the program in a few words; of many the first ones.

    >>> lines_text([GraphLine("/a/net.py", 3, "f", ""), GraphLine("/a/net.py", 5, "f", "")])
    'net.py:3,5'
    """
    found = list(dict.fromkeys((_file(line), line.line) for line in lines))
    numbers: dict[str, list[str]] = {}
    for file, number in found[:MOST_LINES]:
        numbers.setdefault(file, []).append(str(number))
    texts = [f"{file}:{','.join(group)}" for file, group in numbers.items()]
    if len(found) > MOST_LINES:
        texts.append(f"and {len(found) - MOST_LINES} more")
    return " ".join(texts)


def node_call(node: GraphNode) -> tuple[str, str]:
    """The kind and the name of a call of a graph."""
    name = graph_call(node.code).name
    if name.startswith(("aten.", "prims.")):
        return "aten", name.removesuffix(".default")
    return "function", name


def is_shown(node: GraphNode) -> bool:
    """Whether a call of a graph has a row: taking one of several results has none."""
    return graph_call(node.code).name != "operator.getitem"


def module_facts(node: GraphNode, around: ModuleFacts | None) -> ModuleFacts | None:
    """The module of a call in a graph of a module, or of a function."""
    if not node.module:
        return around
    above = around.path if around is not None else ""
    return ModuleFacts(".".join(filter(None, (above, node.module))), node.module_type, leaf=False)


class RowOrder:
    """The kernels and the calls of a graph as rows: a call is below the first kernel that computes it."""

    def __init__(self, graph: CompiledGraph) -> None:
        self._graph = graph
        self._first: dict[str, int] = {}
        for number, kernel in enumerate(graph.kernels):
            for name in kernel.nodes:
                self._first.setdefault(name, number)

    def rows(self, *, closed: bool = False) -> Iterator[tuple[int | None, GraphNode | None]]:
        """The number of a kernel alone for its row, and each call with the number of its kernel, if it has one.

        Calls are in the order of the graph, so that each comes after those whose results it uses. With `closed`, only
        kernels have rows.
        """
        unseen = list(range(len(self._graph.kernels)))
        if closed and unseen:
            yield from ((number, None) for number in unseen)
            return
        for node in filter(is_shown, self._graph.nodes):
            number = self._first.get(node.name)
            while number in unseen:
                yield unseen.pop(0), None
            yield number, node
        yield from ((number, None) for number in unseen)


def _file(source: GraphLine) -> str:
    """The name of a file without its folder."""
    return re.split(r"[/\\]", source.file)[-1]


class _Expansion:
    """Puts rows below the graphs of a trace."""

    def __init__(self, trace: Trace, graphs: dict[str, CompiledGraph], *, closed: bool) -> None:
        self._trace, self._graphs, self._closed = trace, graphs, closed
        self._ids = count(max((event.id for event in trace.events), default=-1) + 1)
        self._tensor_ids = count(1 + max((item.id for call in trace.calls for item in _tensors(call)), default=-1))
        self._sites: dict[tuple[GraphLine, int], Site] = {}
        self._explained: set[str] = set()

    def events(self) -> list[Event]:
        """All events, with the rows."""
        found: list[Event] = []
        for event in self._trace.events:
            graph = self._graphs.get(event.name) if isinstance(event, Call) else None
            if graph is not None and isinstance(event, Call):
                found.append(replace(event, kwargs=_counts(graph)))
                found += self._inside(event, graph)
                continue
            found.append(event)
            if isinstance(event, Call) and self._is_unknown_region(event):
                found.append(self._mark(event, BEFORE_SESSION))
        return found

    def _is_unknown_region(self, call: Call) -> bool:
        """Whether a compiled call has no graph of which anything is known."""
        is_region = call.kind == "module" or call.name.startswith(COMPILED_FUNCTION)
        return is_region and call.mode == "compiled" and not self._trace.children(call)

    def _inside(self, call: Call, graph: CompiledGraph) -> Iterator[Event]:
        if graph.recompiled and graph.name not in self._explained:
            yield self._mark(call, f"compiled again: {_EARLIER.sub('', _first_line(graph.recompiled))}")
        self._explained.add(graph.name)
        if not any(isinstance(child, Call) and child.mode == "compiled" for child in self._trace.children(call)):
            yield from _GraphRows(self, call, graph, closed=self._closed).rows()
        if graph.ends_with is not None:
            source = graph.ends_with.source
            where = f" at {lines_text([source])}" if source is not None and source.file else ""
            yield self._mark(call, f"graph break{where}: {_first_line(graph.ends_with.reason)}")

    def _mark(self, call: Call, text: str) -> Mark:
        return Mark(next(self._ids), call.id, "note", text, call.start, call.thread, call.step, call.rank)

    def row(self, parent: Call, kind: Any, name: str) -> Call:
        """A new row below a call."""
        return Call(
            next(self._ids),
            parent.id,
            kind,
            name,
            module=parent.module,
            site=parent.site,
            start=parent.start,
            phase=parent.phase,
            thread=parent.thread,
            step=parent.step,
            rank=parent.rank,
            mode="compiled",
        )

    def facts(self, text: str, producer: int | None) -> TensorFacts | None:
        """The facts of a tensor of a graph."""
        return tensor_facts(text, next(self._tensor_ids), producer)

    def site(self, source: GraphLine | None, around: Site | None) -> Site | None:
        """The place of a call of a graph, below the place of the compiled call."""
        if source is None:
            return around
        key = (source, id(around))
        if key not in self._sites:
            self._sites[key] = Site(source.file, source.line, source.function, source.text, caller=around)
        return self._sites[key]


class _GraphRows:
    """The rows of one run of a graph."""

    def __init__(self, expansion: _Expansion, call: Call, graph: CompiledGraph, *, closed: bool) -> None:
        self._expansion, self._call, self._graph, self._closed = expansion, call, graph, closed
        self._results: dict[str, Any] = {item.name: expansion.facts(item.facts, None) for item in graph.inputs}

    def rows(self) -> Iterator[Event]:
        """Kernels, each with the calls that it computes, and the calls without a kernel."""
        self._fill_unseen()
        parents: dict[int | None, Call] = {None: self._call}
        for number, node in RowOrder(self._graph).rows(closed=self._closed):
            if node is not None:
                yield self._node_row(parents[number], node)
            elif number is not None:
                parents[number] = self._kernel_row(self._graph.kernels[number])
                yield parents[number]

    def _fill_unseen(self) -> None:
        """The facts of results that are taken out of several, which have no rows."""
        for node in self._graph.nodes:
            if not is_shown(node):
                self._results[node.name] = self._expansion.facts(node.facts, None)

    def _kernel_row(self, kernel: Kernel) -> Call:
        row = self._expansion.row(self._call, "function", kernel_name(kernel))
        row.kwargs = kernel_arguments(self._graph, kernel)
        named = [self._graph.node(output.node) for output in kernel.outputs]
        found = [self._expansion.facts(node.facts, row.id) for node in named if node is not None]
        known = tuple([facts for facts in found if facts is not None])
        row.result = known[0] if len(known) == 1 else known or None
        sources = self._graph.sources(kernel)
        row.site = self._expansion.site(sources[0] if sources else None, self._call.site)
        return row

    def _node_row(self, parent: Call, node: GraphNode) -> Call:
        kind, name = node_call(node)
        row = self._expansion.row(parent, kind, name)
        made = graph_call(node.code)
        row.args = tuple([self._plain(item) for item in made.args])
        row.kwargs = {key: self._plain(item) for key, item in made.kwargs}
        row.module = module_facts(node, self._call.module)
        row.site = self._expansion.site(node.source, self._call.site)
        row.result = self._results[node.name] = self._result(node, row.id)
        return row

    def _result(self, node: GraphNode, producer: int) -> Any:
        """The facts of the result; of several results, those that are taken out."""
        if node.facts:
            return self._expansion.facts(node.facts, producer)
        parts = [other for other in self._graph.nodes if graph_call(other.code).references[:1] == (node.name,)]
        found = [self._results.get(other.name) for other in parts if not is_shown(other)]
        for facts in found:
            if facts is not None:
                facts.producer = producer
        return tuple([facts for facts in found if facts is not None]) or None

    def _plain(self, item: Any) -> Any:
        if isinstance(item, NodeReference):
            return self._results.get(item.name) or Word(item.name)
        if isinstance(item, (list, tuple)):
            return type(item)([self._plain(part) for part in item])
        return item


def _counts(graph: CompiledGraph) -> dict[str, int]:
    """How much there is in a graph."""
    calls = {"calls": sum(map(is_shown, graph.nodes))}
    if not graph.kernels:
        return calls
    return {"kernels": len(graph.kernels), **calls}


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def _tensors(call: Call) -> Iterable[TensorFacts]:
    return (*call.inputs, *call.outputs)
