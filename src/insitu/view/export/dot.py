"""Graphviz: the calls of a step as boxes, the modules as frames around them, tensors as arrows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from insitu.trace.collector import pause_collector
from insitu.trace.event import Call, TensorFacts
from insitu.trace.trace import Trace
from insitu.view.export.graph import Edge, Layers, StepGraph, call_name, step_graphs
from insitu.view.export.nested_frames import Frames
from insitu.view.missing_text import missing_text
from insitu.view.name import compact
from insitu.view.value import result, safe, short, tensor

MOST_NODES = 2000  # more than that no one can read, and `dot` takes minutes to place
MOST_TEXT = 80
# Escapes of labels, and the entities that Graphviz reads in them.
SIGNS = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;", "<": "&lt;", ">": "&gt;"})


@pause_collector()
def pieces(trace: Trace, *, most: int = MOST_NODES) -> list[str]:
    """The trace in the language of Graphviz. Identical steps are drawn once; calls after the first `most` are left out.

    >>> print("".join(pieces(Trace([Call(0, None, "function", "torch.ones", args=(3,))]))).splitlines()[-2])
      n0 [label="torch.ones(3)"];
    """
    graphs = step_graphs(trace)
    notes = _notes(trace, sum(len(graph.calls) for graph in graphs), most)
    title = ""
    if notes:
        title = f"{_label(*notes)}, labelloc=t, "
    lines = [
        *(f"// {note}" for note in notes),
        "digraph insitu {",
        f"  graph [{title}fontname=monospace];",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=monospace];',
        "  edge [fontname=monospace, fontsize=10];",
    ]
    layers = Layers(trace.calls)
    for number, graph in enumerate(graphs):
        if most <= 0:
            break
        graph.calls = graph.calls[:most]
        most -= len(graph.calls)
        drawing = _Drawing(graph, number, layers)
        if len(graphs) == 1:
            lines += drawing.lines("  ")
        else:
            lines += drawing.framed()
    lines.append("}")
    return [f"{line}\n" for line in lines]


def _notes(trace: Trace, calls: int, most: int) -> list[str]:
    """The lines above the drawing: the subject of the trace, and the calls that are left out."""
    notes: list[str] = []
    if "subject" in trace.about:
        notes.append(safe(str(trace.about["subject"])))
    missing = trace.missing
    if missing is not None:
        notes.append(missing_text(missing))
    if calls > most:
        notes.append(f"the first {most:,} of {calls:,} calls; {calls - most:,} are left out: .graph.json has them all")
    return notes


def _label(*lines: str) -> str:
    return 'label="' + "\\n".join(line.translate(SIGNS) for line in lines if line) + '"'


class _Drawing:
    """One step as lines: boxes in frames, tensors that come from outside, arrows."""

    def __init__(self, graph: StepGraph, number: int, layers: Layers) -> None:
        self._graph = graph
        self._number = number
        self._layers = layers
        self._clusters = count(1)

    def framed(self) -> Iterator[str]:
        """One of several steps, in a frame of its own."""
        yield f"  subgraph cluster_{self._number} {{"
        yield f"    graph [{_label(self._graph.title)}];"
        yield from self.lines("    ")
        yield "  }"

    def lines(self, indent: str) -> Iterator[str]:
        """The boxes in their frames, the backward pass after the forward pass, then the arrows."""
        forward = Frames()
        backward = Frames()
        for call in self._graph.calls:
            around: list[str] = []
            if call.module is not None:
                around = self._layers.around(call.path)
            frames = backward
            if call.phase == "forward":
                frames = forward
            frames.add(around, f"n{call.id} [{_box(call)}];")
        yield from forward.lines(lambda path, indent: self._frame(path, "", indent), "}", indent)
        yield from backward.lines(lambda path, indent: self._frame(path, "  backward", indent), "}", indent)
        yield from (indent + line for line in self._arrows())

    def _frame(self, path: str, phase: str, indent: str) -> tuple[str, str]:
        return (
            f"{indent}subgraph cluster_{self._number}_{next(self._clusters)} {{",
            f"{indent}  graph [{_label(self._layers.title(path) + phase)}];",
        )

    def _arrows(self) -> Iterator[str]:
        """The tensors from outside as ovals, then one arrow from each source to each target."""
        shown: set[int | None] = {None, *(call.id for call in self._graph.calls)}
        edges = [edge for edge in self._graph.edges if {edge.source, edge.target} <= shown]
        outside: dict[int, TensorFacts] = {}
        arrows: dict[tuple[str, int], str] = {}
        for edge in edges:
            if edge.source is None:
                outside.setdefault(edge.tensor.id, edge.tensor)
            arrows.setdefault((self._source(edge), edge.target), tensor(edge.tensor))
        for id, facts in outside.items():
            yield f"given{self._number}_{id} [{_label('given', tensor(facts))}, shape=oval];"
        for (source, target), text in arrows.items():
            yield f"{source} -> n{target} [{_label(text)}];"

    def _source(self, edge: Edge) -> str:
        if edge.source is not None:
            return f"n{edge.source}"
        return f"given{self._number}_{edge.tensor.id}"


def _name(call: Call) -> str:
    if call.kind in ("module", "aten"):
        return call_name(call)
    return compact(call)


def _box(call: Call) -> str:
    name = short(_name(call), MOST_TEXT)
    if call.raised is not None:
        return _label(name, f"raised {safe(call.raised)}") + ", color=red"
    return _label(name, result(call.result, MOST_TEXT))
