"""Model Explorer: the calls of a step as nodes, the modules as the layers around them, tensors as edges."""

from __future__ import annotations

import json
from typing import Any

from insitu.trace.collector import pause_collector
from insitu.trace.event import Call, TensorFacts
from insitu.trace.trace import Trace
from insitu.view.export.graph import Edge, Layers, StepGraph, call_name, code_at, step_graphs
from insitu.view.name import compact
from insitu.view.number import call_time, spread
from insitu.view.value import arguments, safe, short, tensor

Item = dict[str, Any]
MOST_TEXT = 400


@pause_collector()
def pieces(trace: Trace) -> list[str]:
    """The trace as a collection of graphs, one for each step that is not like another.

    >>> graph = json.loads(*pieces(Trace([Call(0, None, "function", "torch.ones")])))["graphs"][0]
    >>> graph["id"], graph["nodes"][0]["label"]
    ('step 0', 'torch.ones')
    """
    layers = _Namespaces(trace.calls)
    every = [_graph(graph, layers) for graph in step_graphs(trace)]
    label = safe(str(trace.about.get("subject", "insitu")))
    return [json.dumps({"label": label, "graphs": every}, allow_nan=False, ensure_ascii=False, separators=(",", ":"))]


class _Namespaces(Layers):
    """The modules around a call as the viewer wants them, with slashes between."""

    def __init__(self, calls: list[Call]) -> None:
        super().__init__(calls)
        # A slash in a name would make one layer more.
        paths = {path: [self.name(above).replace("/", "∕") for above in self.around(path)] for path in self.modules}
        self._joined = {path: "/".join(names) for path, names in paths.items()}

    def of(self, call: Call) -> str:
        """The namespace of a call; the backward pass has its own."""
        namespace = ""
        if call.module is not None:
            namespace = self._joined[call.path]
        if call.phase != "forward":
            return f"backward/{namespace}".removesuffix("/")
        return namespace


def _graph(graph: StepGraph, layers: _Namespaces) -> Item:
    coming: dict[int, list[Item]] = {}
    outside: dict[int, TensorFacts] = {}
    for edge in graph.edges:
        coming.setdefault(edge.target, []).append(_edge(edge))
        if edge.source is None:
            outside.setdefault(edge.tensor.id, edge.tensor)
    nodes = [*map(_given, outside.values()), *(_node(call, layers, coming.get(call.id, [])) for call in graph.calls)]
    return {"id": graph.title, "nodes": nodes, "groupNodeAttributes": _groups(graph, layers)}


def _edge(edge: Edge) -> Item:
    source = f"given {edge.tensor.id}"
    if edge.source is not None:
        source = str(edge.source)
    return {
        "sourceNodeId": source,
        "sourceNodeOutputId": str(edge.output),
        "targetNodeInputId": str(edge.input),
    }


def _given(facts: TensorFacts) -> Item:
    """A tensor that comes from outside the step."""
    return {"id": f"given {facts.id}", "label": "given", "namespace": "", "outputsMetadata": [_output(0, facts)]}


def _node(call: Call, layers: _Namespaces, coming: list[Item]) -> Item:
    return {
        "id": str(call.id),
        "label": _label(call),
        "namespace": layers.of(call),
        "attrs": _shown(_attributes(call)),
        "incomingEdges": coming,
        "outputsMetadata": [_output(number, facts) for number, facts in enumerate(call.outputs)],
    }


def _label(call: Call) -> str:
    if call.operator is not None:
        return compact(call)
    return call_name(call)


def _shown(facts: dict[str, str]) -> list[Item]:
    """Facts as the viewer wants them, without those that are empty."""
    return [{"key": key, "value": text} for key, text in facts.items() if text]


def _attributes(call: Call) -> dict[str, str]:
    facts = {
        "call": str(call.id),
        "name": safe(call.name),
        "arguments": short(", ".join(arguments(call.args, call.kwargs)), MOST_TEXT),
        **code_at(call.site),
    }
    if call.duration is not None:
        facts["time"] = call_time(call.duration, is_launch=call.has_launch_time)
    if call.forward is not None:
        facts["gradient of"] = str(call.forward)
    if call.raised is not None:
        facts["raised"] = safe(call.raised)
    return facts


def _output(number: int, facts: TensorFacts) -> Item:
    """The facts about an output; the viewer writes `tensor_shape` beside the edge."""
    known = {"tensor_shape": tensor(facts), "device": safe(facts.device)}
    if facts.stats is not None:
        known["values"] = spread(facts.stats, facts.dtype)
    return {"id": str(number), "attrs": _shown(known)}


def _groups(graph: StepGraph, layers: _Namespaces) -> dict[str, dict[str, str]]:
    """The facts that the viewer shows for a selected layer."""
    found: dict[str, dict[str, str]] = {}
    for call in graph.calls:
        if call.module is None:
            continue
        namespace = layers.of(call)
        if namespace in found:
            continue
        known = found[namespace] = {"path": safe(call.path), "class": layers.title(call.path)}
        if call.module.parameters:
            known["parameters"] = f"{call.module.parameters:,}"
    return found
