"""Graphviz: the calls of a step as boxes, the modules as frames around them, tensors as arrows."""

from __future__ import annotations

from collections.abc import Iterator

from insitu.trace.collector import collector_paused
from insitu.trace.event import Call, TensorFacts
from insitu.trace.trace import Trace
from insitu.view.export.graph import Graph, Layers, call_name, graphs
from insitu.view.missing_text import missing_text
from insitu.view.name import compact
from insitu.view.value import result, safe, short, tensor

MOST_NODES = 2000  # more than that no one can read, and `dot` takes minutes to place
MOST_TEXT = 80
# Escapes of labels, and the entities that Graphviz reads in them.
SIGNS = str.maketrans({"\\": "\\\\", '"': '\\"', "&": "&amp;", "<": "&lt;", ">": "&gt;"})


@collector_paused()
def to_dot(trace: Trace, *, most: int = MOST_NODES) -> str:
    """The trace in the language of Graphviz; identical steps are drawn once, and of `most` calls the others left out.

    >>> print(to_dot(Trace([Call(0, None, "function", "torch.ones", args=(3,))])).splitlines()[-2])
      n0 [label="torch.ones(3)"];
    """
    every = graphs(trace)
    count = sum(len(graph.calls) for graph in every)
    notes = [safe(str(trace.about["subject"]))] if "subject" in trace.about else []
    if (missing := trace.missing) is not None:
        notes.append(missing_text(missing))
    if count > most:
        notes.append(f"the first {most:,} of {count:,} calls; {count - most:,} are left out: .graph.json has them all")
    lines = [
        *(f"// {note}" for note in notes),
        "digraph insitu {",
        f"  graph [{_label(*notes)}, labelloc=t, fontname=monospace];" if notes else "  graph [fontname=monospace];",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname=monospace];',
        "  edge [fontname=monospace, fontsize=10];",
    ]
    layers = Layers(trace.calls)
    for number, graph in enumerate(every):
        if most <= 0:
            break
        graph.calls = graph.calls[:most]
        most -= len(graph.calls)
        lines += _step(graph, number, layers) if len(every) > 1 else _body(graph, number, layers, "  ")
    return "\n".join([*lines, "}", ""])


def _label(*lines: str) -> str:
    return 'label="' + "\\n".join(line.translate(SIGNS) for line in lines if line) + '"'


def _step(graph: Graph, number: int, layers: Layers) -> Iterator[str]:
    """One of several steps, in a frame of its own."""
    yield f"  subgraph cluster_{number} {{"
    yield f"    graph [{_label(graph.title)}];"
    yield from _body(graph, number, layers, "    ")
    yield "  }"


def _body(graph: Graph, number: int, layers: Layers, indent: str) -> Iterator[str]:
    yield from _Frames(graph.calls, number, layers).lines(indent)
    shown = {call.id for call in graph.calls}
    given: dict[int, TensorFacts] = {}
    arrows: dict[tuple[str, int], str] = {}
    for edge in graph.edges:
        if edge.target in shown and (edge.source is None or edge.source in shown):
            source = f"n{edge.source}" if edge.source is not None else f"given{number}_{edge.tensor.id}"
            if edge.source is None:
                given.setdefault(edge.tensor.id, edge.tensor)
            arrows.setdefault((source, edge.target), tensor(edge.tensor))
    for facts in given.values():
        yield f"{indent}given{number}_{facts.id} [{_label('given', tensor(facts))}, shape=oval];"
    for (source, target), text in arrows.items():
        yield f"{indent}{source} -> n{target} [{_label(text)}];"


class _Frames:
    """Calls in the frames of their modules, those of the backward pass in frames of their own."""

    def __init__(self, calls: list[Call], number: int, layers: Layers) -> None:
        self._layers = layers
        self._number = number
        self._calls: dict[tuple[str, ...], list[Call]] = {}
        self._inside: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
        for call in calls:
            key: tuple[str, ...] = ("forward",) if call.phase == "forward" else ("backward",)
            for path in layers.around(call.path) if call.module is not None else []:
                self._inside.setdefault(key, {})[key := (*key, path)] = None
            self._calls.setdefault(key, []).append(call)

    def lines(self, indent: str) -> Iterator[str]:
        """The boxes and the frames around them; a stack, because models nest deeper than Python."""
        count = 0
        waiting: list[tuple[tuple[str, ...] | None, str]] = [(("backward",), indent), (("forward",), indent)]
        while waiting:
            key, indent = waiting.pop()
            if key is None:
                yield f"{indent}}}"
                continue
            inner = indent
            if len(key) > 1:
                count += 1
                inner = indent + "  "
                yield f"{indent}subgraph cluster_{self._number}_{count} {{"
                yield f"{inner}graph [{_label(self._title(key))}];"
                waiting.append((None, indent))
            yield from (f"{inner}n{call.id} [{_box(call)}];" for call in self._calls.get(key, ()))
            waiting += [(deeper, inner) for deeper in reversed(self._inside.get(key, {}))]

    def _title(self, key: tuple[str, ...]) -> str:
        title = self._layers.title(key[-1])
        return f"{title}  backward" if key[0] == "backward" else title


def _box(call: Call) -> str:
    name = call_name(call) if call.kind in ("module", "aten") else compact(call)
    if call.raised is not None:
        return _label(short(name, MOST_TEXT), f"raised {safe(call.raised)}") + ", color=red"
    return _label(short(name, MOST_TEXT), result(call.result, MOST_TEXT))
