"""The exports that are graphs, read back: Model Explorer by its schema, DOT by its grammar, Mermaid by its lines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
from tests.view.build import Run, linear, tensor
from tests.view.hostile import STRINGS, hostile_trace, long_trace

from insitu.trace.event import Call, Event, ModuleFacts, TensorFacts
from insitu.trace.trace import Trace
from insitu.view.export import export_text
from insitu.view.value import safe


def to_dot(trace: Trace) -> str:
    return export_text(trace, ".dot")


def to_mermaid(trace: Trace) -> str:
    return export_text(trace, ".mmd")


def to_model_explorer(trace: Trace) -> str:
    return export_text(trace, ".graph.json")


def model(blocks: int = 2, steps: int = 1) -> Run:
    """A transformer in small, run for some steps: `blocks` of x = x + fc(x) between an embedding and a head."""
    run = Run()
    for run.step in range(steps):
        with run.inside(run.module("", "Net", leaf=False)):
            x = leaf(run, "embed", "Embedding", TensorFacts(1000, (2, 8), "f32", "cpu"))
            for number in range(blocks):
                with run.inside(run.module(f"h.{number}", "Block", x, leaf=False)):
                    y = leaf(run, f"h.{number}.fc", "Linear", x)
                    x = run.call("function", "torch.Tensor.add", x, y, out=made(run), operator="+").result
            leaf(run, "head", "Linear", x)
    return run


def made(run: Run) -> TensorFacts:
    """A tensor that the next call makes."""
    return TensorFacts(len(run.events), (2, 8), "f32", "cpu", producer=len(run.events))


def leaf(run: Run, path: str, type: str, x: TensorFacts) -> TensorFacts:
    """An innermost module and the function in it; returned is what they make."""
    weight = TensorFacts(2000, (8, 8), "f32", "cpu", type="Parameter")
    call = run.module(path, type, x)
    with run.inside(call):
        call.result = made(run)
        run.call("function", f"torch.nn.functional.{type.lower()}", x, weight, out=call.result)
    return call.result


def explored(text: str) -> list[dict[str, Any]]:
    """The graphs of a collection, if it has the form that Model Explorer documents."""
    whole = json.loads(text)
    assert set(whole) == {"label", "graphs"} and type(whole["label"]) is str
    for graph in whole["graphs"]:
        ids = [node["id"] for node in graph["nodes"]]
        assert len(set(ids)) == len(ids)
        known = {node["id"]: len(node["outputsMetadata"]) for node in graph["nodes"]}
        for node in graph["nodes"]:
            assert all(type(node[key]) is str for key in ("id", "label", "namespace")) and node["label"]
            assert all(set(pair) == {"key", "value"} and pair["value"] for pair in node.get("attrs", []))
            for edge in node.get("incomingEdges", []):
                assert int(edge["sourceNodeOutputId"]) < known[edge["sourceNodeId"]]
                assert edge["targetNodeInputId"].isdigit()
        spaces = {node["namespace"] for node in graph["nodes"]}
        assert graph["groupNodeAttributes"].keys() <= spaces
    graphs: list[dict[str, Any]] = whole["graphs"]
    return graphs


def test_model_explorer_has_a_node_for_each_operation_in_the_layers_of_its_modules() -> None:
    (graph,) = explored(to_model_explorer(model(blocks=1).trace))
    assert [(node["label"], node["namespace"]) for node in graph["nodes"]] == [
        ("given", ""),
        ("F.embedding", "Net/embed"),
        ("F.linear", "Net/h.0/fc"),
        ("+", "Net/h.0"),
        ("F.linear", "Net/head"),
    ]
    sources = [[edge["sourceNodeId"] for edge in node.get("incomingEdges", [])] for node in graph["nodes"]]
    assert sources == [[], ["given 1000"], ["2"], ["2", "5"], ["6"]]
    assert graph["nodes"][3]["outputsMetadata"][0]["attrs"][0] == {"key": "tensor_shape", "value": "f32[2, 8]"}


def test_model_explorer_has_identical_steps_once() -> None:
    (graph,) = explored(to_model_explorer(model(steps=3).trace))
    assert graph["id"] == "step 0 … 2, 3 alike"
    assert len(explored(to_model_explorer(long_trace(1000)))) == 4


def test_model_explorer_keeps_the_backward_pass_apart() -> None:
    run = model(blocks=1)
    facts = ModuleFacts("h.0", "Block", leaf=False)
    run.events.append(Call(99, None, "aten", "aten.mul", facts, phase="backward", forward=6, duration=1))
    (graph,) = explored(to_model_explorer(run.trace))
    assert (graph["nodes"][-1]["namespace"], graph["nodes"][-1]["label"]) == ("backward/Net/h.0", "aten.mul")


def test_model_explorer_takes_hostile_names() -> None:
    (graph,) = explored(to_model_explorer(hostile_trace()))
    spaces = {node["namespace"] for node in graph["nodes"]}
    assert all(space.count("/") <= 1 for space in spaces), "a slash in a name makes no layer"


TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|([A-Za-z_]\w*|\d+)|(->|[{}\[\];=,])|(//[^\n]*\n)|(\s+)', re.DOTALL)


class Drawing:
    """A graph in DOT, read by its grammar: boxes by id, arrows, and frames with their depth."""

    def __init__(self, text: str) -> None:
        self.boxes: dict[str, str] = {}
        self.arrows: list[tuple[str, str]] = []
        self.frames: list[tuple[int, str]] = []
        self.title = ""
        self._tokens = list(self._read(text))
        assert self._next() == "digraph" and self._next() == "insitu" and self._next() == "{"
        depth = 1
        while depth:
            depth += self._statement(depth)
        assert not self._tokens

    def _read(self, text: str) -> Any:
        at = 0
        while at < len(text):
            found = TOKEN.match(text, at)
            assert found, f"no DOT: {text[at : at + 40]!r}"
            at = found.end()
            if found[1] is not None:
                yield '"' + found[1]
            elif found[2] or found[3]:
                yield found[2] or found[3]

    def _next(self) -> str:
        token: str = self._tokens.pop(0)
        return token

    def _statement(self, depth: int) -> int:
        first = self._next()
        if first == "}":
            return -1
        if first == "subgraph":
            assert self._next().startswith("cluster_") and self._next() == "{"
            return 1
        assert re.fullmatch(r"\w+", first)
        target = None
        if self._tokens[0] == "->":
            self._next()
            target = self._next()
        options = self._options()
        if target is not None:
            self.arrows.append((first, target))
        elif first == "graph" and depth > 1:
            self.frames.append((depth - 1, options["label"]))
        elif first == "graph":
            self.title = options.get("label", "")
        elif first not in ("node", "edge"):
            assert first not in self.boxes
            self.boxes[first] = options["label"]
        return 0

    def _options(self) -> dict[str, str]:
        found: dict[str, str] = {}
        assert self._next() == "["
        while True:
            name, equals, item = self._next(), self._next(), self._next()
            assert equals == "="
            found[name] = item[1:] if item.startswith('"') else item
            end = self._next()
            if end == "]":
                assert self._next() == ";"
                return found
            assert end == ","


def shown(label: str) -> str:
    """What Graphviz writes for a label: its escapes and entities undone, `\\n` the end of a line."""
    text = re.sub(r"\\(.)", lambda sign: "\n" if sign[1] == "n" else sign[1], label)
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        text = text.replace(entity, sign)
    return text


def test_dot_draws_operations_in_the_frames_of_their_modules() -> None:
    drawing = Drawing(to_dot(model(blocks=1).trace))
    assert {name: shown(label) for name, label in drawing.boxes.items()} == {
        "n2": "F.embedding\nf32[2, 8]",
        "n5": "F.linear\nf32[2, 8]",
        "n6": "+\nf32[2, 8]",
        "n8": "F.linear\nf32[2, 8]",
        "given0_1000": "given\nf32[2, 8]",
    }
    assert set(drawing.arrows) == {("given0_1000", "n2"), ("n2", "n5"), ("n2", "n6"), ("n5", "n6"), ("n6", "n8")}
    assert drawing.frames == [
        *((1, "Net"), (2, "embed  Embedding"), (2, "h.0  Block"), (3, "fc  Linear"), (2, "head  Linear"))
    ]


def test_dot_draws_several_steps_in_frames_of_their_own() -> None:
    assert [title for depth, title in Drawing(to_dot(long_trace(500))).frames if depth == 1] == ["step 0", "step 1"]


def test_dot_names_the_calls_it_leaves_out() -> None:
    trace = long_trace(8000)
    drawing = Drawing(to_dot(trace))
    calls = [name for name in drawing.boxes if name.startswith("n")]
    assert len(calls) == 2000
    assert drawing.title == "the first 2,000 of 3,900 calls; 1,900 are left out: .graph.json has them all"
    assert {name for arrow in drawing.arrows for name in arrow} <= set(drawing.boxes)


def test_dot_shows_hostile_names_as_they_are() -> None:
    drawing = Drawing(to_dot(hostile_trace()))
    texts = [shown(label) for label in drawing.boxes.values()] + [shown(label) for _, label in drawing.frames]
    assert len(drawing.boxes) == len(STRINGS) + 1
    for text in STRINGS:
        assert any(safe(text) in found for found in texts), text
    assert "evil" not in drawing.boxes


if shutil.which("dot"):  # without Graphviz there is no test, rather than one that is skipped

    @pytest.mark.parametrize("trace", [model().trace, hostile_trace()], ids=["model", "hostile"])
    def test_graphviz_reads_the_dot_export(trace: Trace) -> None:
        done = subprocess.run(["dot", "-Tcanon"], input=to_dot(trace).encode(), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


BOX = re.compile(r'( *)(m\d+)(?:\["([^"]*)"\]|\(\("([^"]*)"\)\))')
FRAME = re.compile(r' *subgraph f\d+\["([^"]*)"\]')
ARROW = re.compile(r"  (m\d+) (-->|-\.->) (m\d+)")


def charted(text: str) -> tuple[dict[str, str], list[str], list[tuple[str, str]]]:
    """Boxes, frames and arrows of a flowchart; arrows between what is written in the boxes."""
    lines = text.splitlines()
    assert lines[0] == "flowchart TD" and text.endswith("\n")
    boxes: dict[str, str] = {}
    frames: list[str] = []
    arrows: list[tuple[str, str]] = []
    for line in lines[1:]:
        if box := BOX.fullmatch(line):
            boxes[box[2]] = (box[3] or box[4] or "").split("<br/>")[0]
        elif frame := FRAME.fullmatch(line):
            frames.append(frame[1])
        elif arrow := ARROW.fullmatch(line):
            arrows.append((boxes[arrow[1]], boxes[arrow[3]]))
        else:
            assert line.strip() == "end" or line.startswith("  note["), line
    assert sum(line.strip() == "end" for line in lines) == len(frames)
    return boxes, frames, arrows


def test_mermaid_draws_modules_and_where_their_outputs_meet() -> None:
    boxes, frames, arrows = charted(to_mermaid(model(blocks=1).trace))
    assert list(boxes.values()) == ["embed  Embedding", "head  Linear", "fc  Linear", "#43;"]
    assert frames == ["Net", "h.0  Block"]
    assert set(arrows) == {
        *(("embed  Embedding", "fc  Linear"), ("embed  Embedding", "#43;")),
        *(("fc  Linear", "#43;"), ("#43;", "head  Linear")),
    }


def test_mermaid_draws_identical_blocks_and_steps_once() -> None:
    boxes, frames, arrows = charted(to_mermaid(model(blocks=12, steps=3).trace))
    assert len(boxes) == 4
    assert frames == ["Net", "h.0 … h.11  × 12  Block"]
    assert ("#43;", "fc  Linear") in arrows, "the next block takes what the one before made"


def test_mermaid_does_not_show_one_output_of_a_module_as_all() -> None:
    run = Run()
    with run.inside(run.module("", "Net", tensor(2), leaf=False, out=tensor(2))):
        for size in (2, 3):
            linear(run, "fc", 4, 6, tensor(size, 4))
    assert "f32[2, 6] and others" in to_mermaid(run.trace)


def test_mermaid_does_not_look_into_the_innermost_modules() -> None:
    run, x = Run(), TensorFacts(1000, (2,), "f32", "cpu")
    for path in ("a", "b"):
        call = run.module(path, "Linear", x)
        with run.inside(call):
            x = run.call("aten", "aten.mm", x, out=made(run)).result
            x = call.result = run.call("aten", "aten.add", x, out=made(run)).result
    assert charted(to_mermaid(run.trace))[2] == [("a  Linear", "b  Linear")]


def test_mermaid_of_a_modules_trace_shows_the_order_of_calls() -> None:
    modules = [event for event in model(blocks=1).events if isinstance(event, Call) and event.kind == "module"]
    for call in modules:
        call.args = ()
    text = to_mermaid(Trace([*modules], about={"level": "modules"}))
    assert charted(text)[2] == [("embed  Embedding", "fc  Linear"), ("fc  Linear", "head  Linear")]
    assert "-.->" in text and "-->" not in text


def test_mermaid_stays_within_the_limits_of_mermaid() -> None:
    calls: list[Event] = []
    for number in range(600):
        module = ModuleFacts(f"layer{number}", "Linear", settings={"in_features": number, "out_features": 1})
        facts = TensorFacts(number, (number,), "f32", "cpu", producer=number)
        given = [call.result for call in calls[-3:] if isinstance(call, Call)]
        calls.append(Call(number, None, "module", "Linear", module, tuple(given), result=facts))
    text = to_mermaid(Trace(calls))
    boxes, _, arrows = charted(text)
    assert (len(boxes), len(arrows)) == (300, 450) and len(text) < 50_000
    assert "300 more modules and 1,344 arrows are left out" in text


def test_mermaid_takes_hostile_names() -> None:
    text = to_mermaid(hostile_trace())
    boxes, _, arrows = charted(text)
    assert len(boxes) == len(STRINGS) and len(arrows) == len(STRINGS) - 1
    labels = "".join(boxes.values())
    assert not set(re.sub(r"#\d+;", "", labels)) & set("\"`#%{}<>:;\\&'|")


def test_mermaid_without_modules_says_so() -> None:
    assert "no module was called" in to_mermaid(Trace([Call(0, None, "function", "torch.ones")]))
