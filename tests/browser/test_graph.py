"""The graph of modules in a real browser: what it shows, and how it and the tree follow each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Locator
from tests.browser.conftest import Opened
from tests.browser.runs import Program, hostile, large, training
from tests.view.build import Run, site, stats, tensor

from insitu.trace.compare.traces import compare_traces
from insitu.trace.event import Call, TensorFacts, Variable
from insitu.trace.trace import Trace
from insitu.view.html import page

pytestmark = pytest.mark.browser

Open = Callable[..., Opened]
DRAWN = "document.querySelectorAll('#graph .node').length"
TEXTS = "(name) => [...document.querySelectorAll(name)].map((text) => text.textContent)"


class Graph:
    """The graph of a page that is open."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        opened.until(DRAWN)

    def texts(self, selector: str) -> list[str]:
        return list(self.opened(TEXTS, f"#graph {selector}"))

    @property
    def nodes(self) -> list[str]:
        """What each node says; an open one begins with ▾."""
        script = """[...document.querySelectorAll('#graph .node')].map((node) =>
            (node.classList.contains("open") ? "▾ " : "") + node.getAttribute("aria-label"))"""
        return list(self.opened(script))

    @property
    def names(self) -> list[str]:
        """The first word of each node."""
        return [text.split(",")[0] for text in self.nodes]

    @property
    def edges(self) -> set[str]:
        """What the wires say: from where to where, and what."""
        return {line for text in self.texts(".wire > title") for line in text.splitlines()}

    @property
    def selected(self) -> str:
        script = "document.querySelector('#graph .node[aria-selected=true]')?.getAttribute('aria-label') ?? ''"
        return str(self.opened(script))

    def node(self, name: str) -> Locator:
        """A node by the beginning of what it says."""
        return self.opened.page.locator(f'#graph .node[aria-label^="{name}"]').first

    def until(self, condition: Callable[[], Any]) -> None:
        """Wait until the graph has followed."""
        end = time.monotonic() + 15
        while not condition():
            assert time.monotonic() < end, self.nodes
            time.sleep(0.02)

    def rest(self) -> None:
        """Wait until nothing moves."""
        place = "document.querySelector('#graph .canvas > g').getAttribute('transform')"
        script = f"new Promise((done) => {{ const before = {place}; setTimeout(() => done({place} === before), 60); }})"
        self.opened.until(script)


def shown(open_page: Open, trace: Trace, *keys: str, **options: Any) -> Graph:
    """The graph in its own view."""
    opened = open_page(page(trace), **options)
    opened.press("m", *keys)
    opened("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")  # it follows in a frame
    return Graph(opened)


def block(run: Run, number: int, x: TensorFacts) -> TensorFacts:
    """A block with a residual: norm, mlp, and the sum of both."""
    root = run.module(f"h.{number}", "Block", x, leaf=False)
    with run.inside(root):
        normal = produced(run, "module", "LayerNorm", x, path=f"h.{number}.ln")
        mlp = produced(run, "module", "Linear", normal, path=f"h.{number}.mlp")
        root.result = produced(run, "function", "torch.Tensor.add", x, mlp, operator="+")
    return root.result  # type: ignore[no-any-return]


def produced(run: Run, kind: Any, name: str, *inputs: TensorFacts, path: str | None = None, **more: Any) -> TensorFacts:
    """The tensor that a call makes."""
    shape = more.pop("shape", (2, 8))
    number = more.pop("id", 1000 + len(run.events))
    out = tensor(*shape, id=number, producer=len(run.events), stats=more.pop("stats", None))
    if path is None:
        run.call(kind, name, *inputs, out=out, **more)
    else:
        run.module(path, name, *inputs, out=out, **more)
    return out


def model(blocks: int = 3) -> Trace:
    """A model: an embedding, blocks that are alike, a norm."""
    run = Run()
    tokens = tensor(2, dtype="i64", id=1)
    root = run.module("", "Net", tokens, leaf=False)
    with run.inside(root):
        x = produced(run, "module", "Embedding", tokens, path="wte")
        for number in range(blocks):
            x = block(run, number, x)
        root.result = produced(run, "module", "LayerNorm", x, path="ln_f")
    return run.trace


def test_the_graph_is_beside_the_tree_and_shows_modules_and_tensors(open_page: Open) -> None:
    graph = Graph(open_page(page(model())))
    assert graph.names == ["input", "▾ Net", "wte", "▾ h.0 … h.2", "ln", "mlp", "+", "ln_f", "output"]
    assert graph.nodes[3] == "▾ h.0 … h.2, × 3 alike, Block, f32[2, 8]"
    assert graph.edges == {
        "input → wte Embedding: i64[2]",
        "wte Embedding → h.0.ln LayerNorm: f32[2, 8]",
        "wte Embedding → +: f32[2, 8]",
        "h.0.ln LayerNorm → h.0.mlp Linear: f32[2, 8]",
        "h.0.mlp Linear → +: f32[2, 8]",
        "+ → ln_f LayerNorm: f32[2, 8]",
        "ln_f LayerNorm → output: f32[2, 8]",
    }
    assert set(graph.texts(".label")) == {"i64[2]", "f32[2, 8]"}
    assert "each takes what the one before it returns" in graph.texts(".node > title")[3]


def test_blocks_that_are_folded_are_one_node_in_a_chain(open_page: Open) -> None:
    graph = shown(open_page, model(12))
    graph.node("h.0 … h.11").locator(".sign").click()
    graph.until(lambda: "h.0 … h.11" in graph.names)
    assert graph.names == ["input", "▾ Net", "wte", "h.0 … h.11", "ln_f", "output"]
    chain = {"wte Embedding → h.0 Block: f32[2, 8]", "h.0 Block → ln_f LayerNorm: f32[2, 8]"}
    assert chain <= graph.edges and len(graph.edges) == 4


def test_what_is_selected_in_the_tree_is_selected_in_the_graph(open_page: Open) -> None:
    graph = Graph(open_page(page(model())))
    graph.opened.press("j")
    graph.until(lambda: graph.selected.startswith("wte"))
    assert graph.opened("document.querySelector('.canvas').getAttribute('aria-activedescendant')") == "graph-node-2"
    near = {line for text in graph.texts(".wire.near > title") for line in text.splitlines()}
    assert {edge for edge in graph.edges if "wte" in edge} == near
    graph.opened.press("End")
    graph.until(lambda: graph.selected.startswith("ln_f"))


def test_a_click_in_the_graph_selects_in_the_tree(open_page: Open) -> None:
    graph = shown(open_page, model())
    graph.node("mlp").click()
    assert graph.opened("location.hash") == "#e=4" and graph.selected.startswith("mlp")
    assert "h.0.mlp" in graph.opened.details
    graph.node("output").click()
    graph.opened.press("t")
    assert graph.opened.selected == "▾ Net"


def test_opening_and_closing_are_the_same_in_both(open_page: Open) -> None:
    graph = Graph(open_page(page(model())))
    graph.node("h.0 … h.2").dblclick(position={"x": 30, "y": 12})
    graph.until(lambda: "h.0 … h.2" in graph.names)
    assert "▸ h.0 … h.2 × 3 alike Block" in graph.opened.rows
    graph.opened.press("Enter")  # the graph has the focus
    graph.until(lambda: "▾ h.0 … h.2" in graph.names)
    assert "▾ h.0 … h.2 × 3 alike Block" in graph.opened.rows
    graph.opened.page.locator("#grid").focus()
    graph.opened.press("h")
    graph.until(lambda: "h.0 … h.2" in graph.names)
    graph.opened.page.click("#fold")
    graph.until(lambda: graph.names == ["input", "Net", "output"])
    assert graph.opened.rows == ["▸ Net"]


def test_the_node_that_is_opened_stays_where_it_is(open_page: Open) -> None:
    run = Run()
    x = tensor(2, id=1)
    with run.inside(run.module("wide", "Wide", x, leaf=False)) as wide:
        mask = produced(run, "function", "torch.a_function_on_the_left", tensor(2, id=7))
        wide.result = produced(run, "function", "torch.exp", produced(run, "function", "torch.where", mask, x))
    graph = shown(open_page, run.trace, viewport={"width": 1100, "height": 900})
    closed = []
    for _ in range(2):
        graph.node("wide").locator(".sign").click()
        graph.until(lambda: len(graph.nodes) == len(closed) * 3 + 3)
        graph.rest()
        closed.append(graph.node("wide").bounding_box())
    before, after = closed  # of the node, then of the title of its box
    assert before is not None and after is not None
    assert abs(before["x"] - after["x"]) < 6 and abs(before["y"] - after["y"]) < 6


def test_what_the_user_opened_stays_open_when_it_does_not_fit(open_page: Open) -> None:
    graph = Graph(open_page(page(training(1, 3, bad_from=None)), viewport={"width": 1200, "height": 600}))
    assert "attn" in graph.names and "▾ attn Attention" in graph.opened.rows  # too large for the pane
    for name in ("attn", "ln_1"):
        graph.opened.page.click("#graph button[aria-label='Show the whole graph']")
        graph.node(name).locator(".sign").click()
        graph.until(lambda name=name: f"▾ {name}" in graph.names)  # type: ignore[misc]
        graph.rest()
    assert {"▾ attn Attention used by", "▾ ln_1 LayerNorm"} <= set(graph.opened.rows)
    graph.opened.press("Home", "m")
    graph.until(lambda: graph.opened("document.querySelector('#graph').clientWidth") > 700)
    graph.opened.press("t")
    graph.rest()
    assert {"▾ attn", "▾ ln_1"} <= set(graph.names)


def test_copies_are_shown_one_by_one(open_page: Open) -> None:
    graph = shown(open_page, model())
    graph.node("h.0 … h.2").click()
    graph.opened.press("u")
    graph.until(lambda: {"▾ h.0", "h.1", "h.2"} <= set(graph.names))
    assert "h.1 Block → h.2 Block: f32[2, 8]" in graph.edges
    graph.opened.press("u")
    graph.until(lambda: "▾ h.0 … h.2" in graph.names)


def test_the_path_of_nan_is_red(open_page: Open) -> None:
    graph = Graph(open_page(page(training(3, 3, bad_from=2))))
    graph.opened.press("Home")
    graph.until(lambda: graph.texts(".graph-title") == ["step 0"])
    assert not graph.texts(".bad > title")
    graph.opened.press("f")
    graph.until(lambda: "NaN begins" in graph.selected)
    graph.opened.press("m")
    graph.until(lambda: graph.texts(".graph-title") == ["step 2"])
    bad = graph.texts(".wire.bad > title")
    assert any(text.startswith("F.softmax(dim=-1) → +") for text in bad)
    assert any("h.2 Block → .backward" in text for text in bad), bad
    assert not any("wte" in text for text in bad)
    red = [text.splitlines()[0] for text in graph.texts(".node.bad > title")]
    assert "h.2 Block" in red and "h.0 Block" not in red


def test_nan_in_one_of_several_copies_makes_their_edge_red(open_page: Open) -> None:
    run = Run()
    x = tensor(2, id=1)
    root = run.module("", "Net", x, leaf=False)
    with run.inside(root):
        for number in range(3):
            bad = stats(0.0, 1.0, nan=int(number == 1)) if number < 2 else stats(0.0, 1.0)
            x = produced(run, "module", "Layer", x, path=f"h.{number}", stats=bad)
        root.result = produced(run, "module", "Last", x, path="last", stats=stats(0.0, 1.0))
    graph = shown(open_page, run.trace)
    assert "NaN begins" in " ".join(graph.nodes)


def test_a_call_that_raised_is_red_and_named(open_page: Open) -> None:
    run = Run()
    x = tensor(2, id=1)
    with run.inside(run.module("", "Net", x, leaf=False, raised="RuntimeError", message="too large")):
        y = produced(run, "module", "First", x, path="first")
        run.module("last", "Last", y, raised="RuntimeError", message="too large")
    graph = shown(open_page, run.trace)
    assert "last, Last, ✗ RuntimeError, ✗ raised RuntimeError" in graph.nodes
    assert [text.splitlines()[0] for text in graph.texts(".node.bad > title")] == ["Net", "last Last"]
    assert "first First → last Last: f32[2, 8]" in graph.edges


def test_a_call_that_returns_its_input_is_part_of_the_chain(open_page: Open) -> None:
    run = Run()
    x = tensor(2, id=1)
    root = run.module("", "Net", x, leaf=False)
    with run.inside(root):
        with run.inside(run.module("head", "Head", x, leaf=False)) as head:
            y = produced(run, "module", "Linear", x, path="head.linear")
            run.module("head.dropout", "Dropout", y, out=y)  # in evaluation
            head.result = y
        root.result = produced(run, "module", "Last", y, path="last")
    assert shown(open_page, run.trace).edges == {
        "input → head.linear Linear: f32[2]",
        "head.linear Linear → head.dropout Dropout: f32[2, 8]",
        "head.dropout Dropout → last Last: f32[2, 8]",
        "last Last → output: f32[2, 8]",
    }


def test_a_call_that_keeps_its_result_to_itself_hands_nothing_on(open_page: Open) -> None:
    run = Run()
    x = tensor(2, id=1)
    with run.inside(run.module("", "Net", x, leaf=False)):
        mask = produced(run, "function", "torch.ones")
        for name in ("a", "b"):
            with run.inside(run.module(name, "Layer", x, mask, leaf=False)) as layer:
                run.call("function", "torch.Tensor.to", mask, out=mask)  # it is of that type already
                layer.result = x = produced(run, "function", "torch.mul", x, mask)
    graph = shown(open_page, run.trace)
    assert "torch.ones() → torch.mul: f32[2, 8]" not in graph.edges  # it comes from the call inside
    assert ".to → .to: f32[2, 8]" not in graph.edges  # the second layer did not get it from the first
    assert {edge for edge in graph.edges if edge.startswith("torch.ones()")} == {"torch.ones() → .to: f32[2, 8]"}


def test_inputs_have_the_names_of_their_arguments_and_parameters_are_not_drawn(open_page: Open) -> None:
    run = Run()
    ids, mask = tensor(2, dtype="i64", id=1), tensor(2, dtype="b8", id=2)
    weight, buffer = tensor(8, 2, id=3, type="Parameter"), tensor(2, id=4)
    root = run.module("", "Net", kwargs={"input_ids": ids, "mask": mask}, leaf=False)
    with run.inside(root):
        root.result = produced(run, "function", "torch.nn.functional.linear", ids, mask, weight, buffer)
    graph = shown(open_page, run.trace)
    assert graph.names == ["input_ids", "mask", "▾ Net", "F.linear", "output"]
    assert graph.edges >= {"input_ids → F.linear: i64[2]", "mask → F.linear: b8[2]"} and len(graph.edges) == 3


def test_a_call_without_edges_is_left_out_and_counted(open_page: Open) -> None:
    run = Run()
    produced(run, "function", "torch.rand")
    weight = tensor(8, 2, id=3, type="Parameter", producer=1)
    run.call("function", "torch.nn.init.ones_", weight, out=weight)
    x = produced(run, "function", "torch.ones")
    produced(run, "function", "torch.nn.functional.linear", x, weight)  # what goes to weights is not drawn
    graph = shown(open_page, run.trace)
    assert graph.names == ["torch.ones()", "F.linear"]
    assert graph.texts(".graph-note") == ["not drawn: 2 calls without edges"]


def test_what_a_group_of_calls_takes_from_outside_is_one_node(open_page: Open) -> None:
    run = Run()
    weights = [tensor(8, id=number, type="Parameter") for number in range(10, 13)]
    place = site("opt.step()", 4, "train", file="train.py", mark="opt.step()")
    for number, weight in enumerate(weights):
        gradient = tensor(8, id=20 + number)
        run.call("function", "torch.Tensor.add_", weight, gradient, out=weight, site=place)
        run.call("function", "torch.Tensor.mul_", weight, 2.0, out=weight, site=place)
    graph = shown(open_page, run.trace)
    assert graph.names == ["3 tensors", "opt.step() · 6 calls"]
    assert graph.edges == {"3 tensors → opt.step() · 6 calls: 3 × f32[8]"}


def test_several_tensors_between_two_nodes_are_one_edge(open_page: Open) -> None:
    run = Run()
    x = tensor(2, id=1)
    with run.inside(run.module("", "Net", x, leaf=False)):
        parts = [tensor(2, 8, id=number, producer=len(run.events)) for number in (5, 6, 7)]
        run.call("function", "torch.chunk", x, out=parts)
        produced(run, "function", "torch.cat", *parts)
    assert "torch.chunk → torch.cat: 3 × f32[2, 8]" in shown(open_page, run.trace).edges


def test_what_goes_to_the_next_pass_of_a_loop_ends_at_the_border(open_page: Open) -> None:
    run = Run()
    x, state = tensor(2, 8, id=1), tensor(2, 8, id=2)
    with run.inside(run.python("train", given={"x": x, "state": state})):
        for number in range(4):
            with run.inside(run.module(f"cell.{number}", "Cell", x, state, leaf=False)) as cell:
                gate = produced(run, "function", "torch.sigmoid", x)
                state = produced(run, "function", "torch.mul", gate, state)
                cell.result = gate
    graph = shown(open_page, run.trace)
    assert "▾ cell.0 … cell.3" in graph.names
    assert "torch.mul → the next of cell.0 Cell: f32[2, 8]" in graph.edges
    assert "f32[2, 8] → next" in graph.texts(".label")


def test_modules_alone_are_joined_by_their_order(open_page: Open) -> None:
    run = Run()
    with run.inside(run.module("", "Net", tensor(2, id=1), leaf=False)):
        produced(run, "module", "First", tensor(2, id=1), path="first")
        produced(run, "module", "Last", tensor(2, id=9), path="last")  # what came between was not recorded
    trace = Trace(run.events, about={"level": "modules"})
    graph = shown(open_page, trace)
    assert graph.texts(".wire.order > title") == ["first First → last Last: order of calls"]
    assert "functions were not recorded" in graph.texts(".graph-note")[0]


def backward() -> Trace:
    """A forward pass, and a backward pass of two operators."""
    run = Run()
    x = tensor(2, id=1)
    with run.inside(run.module("", "Net", x, leaf=False)) as root:
        first = produced(run, "module", "Linear", x, path="first")
        last = produced(run, "module", "Linear", first, path="last", shape=(2,))
        frozen = produced(run, "module", "Frozen", x, path="frozen", shape=(2,))
        root.result = [last, frozen]
    first.grad = tensor(2, 8, id=50, stats=stats(-0.25, 0.5))
    last.grad = tensor(2, id=51, stats=stats(1.0, 1.0, nan=1))
    with run.inside(run.call("function", "torch.Tensor.backward", last)):
        one = produced(run, "aten", "aten.mul", last, phase="backward", forward=2)
        produced(run, "aten", "aten.mm", one, first, phase="backward", forward=1)
    return run.trace


def test_gradients_are_shown_on_request(open_page: Open) -> None:
    graph = shown(open_page, backward())
    assert not [text for text in graph.texts(".label") if "∇" in text]
    graph.opened.page.click("#graph [aria-pressed]")
    graph.until(lambda: "∇ -0.25 … 0.5" in graph.texts(".label.gradient"))
    assert graph.texts(".label.gradient.bad") == ["∇ ✗ 1 NaN"]
    frozen = graph.opened.page.locator(".wire", has_text="frozen Frozen → output")
    assert frozen.locator(".gradient").count() == 0  # the trace has no gradient of it
    graph.opened.page.click("#graph [aria-pressed]")
    graph.until(lambda: not graph.texts(".label.gradient"))


def test_a_trace_without_gradients_has_no_button_for_them(open_page: Open) -> None:
    assert not shown(open_page, model()).opened.page.locator("#graph [aria-pressed]").count()


def test_what_the_forward_pass_saved_is_not_drawn(open_page: Open) -> None:
    graph = shown(open_page, backward())
    graph.node(".backward").dblclick()
    graph.until(lambda: "▾ .backward" in graph.names)
    assert "aten.mul → aten.mm: f32[2, 8]" in graph.edges
    assert not [edge for edge in graph.edges if edge.startswith("first Linear → aten.mm")]
    assert "saved" in graph.texts(".graph-note")[0]
    assert len(graph.texts(".node.backward > title")) == 2 and len(graph.texts(".wire.backward > title")) == 1


def test_too_many_siblings_are_shown_around_the_selected_one(open_page: Open) -> None:
    run = Run()
    x = tensor(2, id=1)
    for number in range(300):
        x = produced(run, "function", f"torch.f{number}", x)
    graph = shown(open_page, run.trace)
    assert len(graph.nodes) <= 48 and graph.nodes[-1] == "… 256 calls more"
    assert "torch.f43 → torch.f44: f32[2, 8]" in graph.edges  # the first of the rest
    graph.opened.page.click("#graph button[aria-label='Show the whole graph']")
    graph.node("… 256 calls more").click()
    graph.until(lambda: "torch.f44" in graph.names and "… 22 calls more" in graph.names)
    assert graph.selected.startswith("torch.f44") and graph.opened("location.hash") == "#e=44"


def test_the_graph_follows_the_step_of_the_selected_row(open_page: Open) -> None:
    graph = shown(open_page, training(4, 3, bad_from=2), "Home")
    graph.until(lambda: graph.texts(".graph-title") == ["step 0"])
    graph.opened.press("f")
    graph.until(lambda: graph.texts(".graph-title") == ["step 2"])
    assert "NaN begins" in graph.selected


def test_the_keys_of_the_graph(open_page: Open) -> None:
    graph = shown(open_page, model())
    graph.opened.page.locator("#graph .canvas").focus()
    names = []
    graph.node("wte").click()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        graph.opened.press(key)
        names.append(graph.selected.split(",")[0])
    assert names == ["ln", "mlp", "+", "mlp"]
    assert graph.opened.selected == "" or graph.opened("location.hash") == "#e=4"
    zoom = "Number(/scale\\(([^)]*)/.exec(document.querySelector('.canvas > g').getAttribute('transform'))[1])"
    before = graph.opened(zoom)
    graph.opened.press("+", "+")
    assert graph.opened(zoom) == pytest.approx(before * 1.69)
    graph.opened.press("-")
    assert graph.opened(zoom) == pytest.approx(before * 1.3)
    graph.opened.press("0")
    assert graph.opened(zoom) == pytest.approx(before)
    graph.opened.press("j")  # the keys of the page still work
    graph.until(lambda: graph.selected.startswith("+"))


def test_pan_and_zoom(open_page: Open) -> None:
    graph = shown(open_page, model())
    graph.rest()
    mouse = graph.opened.page.mouse
    before = graph.node("mlp").bounding_box()
    assert before is not None
    mouse.move(30, 300)
    mouse.down()
    mouse.move(70, 320, steps=4)
    mouse.up()
    moved = graph.node("mlp").bounding_box()
    assert moved is not None
    assert (moved["x"] - before["x"], moved["y"] - before["y"]) == (pytest.approx(40), pytest.approx(20))
    assert graph.selected.startswith("Net")  # a drag selects nothing
    mouse.move(moved["x"], moved["y"])
    mouse.wheel(0, -200)
    graph.opened.until("document.querySelector('.canvas > g').getAttribute('transform').includes('scale(1)') === false")
    zoomed = graph.node("mlp").bounding_box()
    assert zoomed is not None and zoomed["width"] > 1.2 * moved["width"]
    assert (zoomed["x"], zoomed["y"]) == (pytest.approx(moved["x"], abs=3), pytest.approx(moved["y"], abs=3))
    graph.opened.page.click("#graph button[aria-label='Show the whole graph']")
    again = graph.node("mlp").bounding_box()
    assert again is not None and again["x"] == pytest.approx(before["x"], abs=1)
    graph.opened.page.click("#graph button[aria-label='Zoom out']")
    graph.opened.page.click("#graph button[aria-label='Zoom out']")
    graph.opened.page.click("#graph button[aria-label='Zoom out']")
    graph.opened.until("getComputedStyle(document.querySelector('#graph .labels')).visibility === 'hidden'")


def test_hovering_shows_the_edges_of_a_node(open_page: Open) -> None:
    graph = shown(open_page, model())
    graph.node("mlp").hover()
    assert sorted(graph.texts(".wire.lit > title")) == [
        "h.0.ln LayerNorm → h.0.mlp Linear: f32[2, 8]",
        "h.0.mlp Linear → +: f32[2, 8]",
    ]
    graph.opened.page.mouse.move(3, 3)
    assert not graph.texts(".wire.lit > title")


def test_the_graph_folds_until_it_fits(open_page: Open) -> None:
    small = Graph(open_page(page(training(1, 3, bad_from=None))))
    beside = len(small.nodes)
    small.opened.press("m")
    small.until(lambda: len(small.nodes) > beside)
    assert (
        "▾ attn" in small.names and small.opened("document.querySelector('.canvas').classList.contains('far')") is False
    )


def test_a_narrow_page_draws_no_graph_until_its_view_is_chosen(open_page: Open) -> None:
    opened = open_page(page(model()), viewport={"width": 1000, "height": 700})
    assert opened(DRAWN) == 0
    opened.press("m")
    graph = Graph(opened)
    graph.until(lambda: len(graph.nodes) == 9)


def test_a_wide_pane_has_a_graph_from_left_to_right(open_page: Open) -> None:
    graph = shown(open_page, model(), viewport={"width": 1900, "height": 360})
    first, last = graph.node("input").bounding_box(), graph.node("output").bounding_box()
    assert first is not None and last is not None
    assert last["x"] - first["x"] > 400 and abs(last["y"] - first["y"]) < 100


def test_on_a_phone_the_graph_is_above_the_details(open_page: Open) -> None:
    graph = shown(open_page, model(), viewport={"width": 390, "height": 844})
    above, below = (
        graph.opened.page.locator("#graph").bounding_box(),
        graph.opened.page.locator("#details").bounding_box(),
    )
    assert above is not None and below is not None
    assert above["width"] == below["width"] == 390 and above["y"] + above["height"] <= below["y"] + 1
    assert graph.opened("document.body.scrollWidth") <= 390


def test_a_page_without_tensors_or_with_a_comparison_has_no_graph(open_page: Open) -> None:
    variables = [Variable(number, None, "loss", 1.0, ("values",), step=number) for number in range(3)]
    calls = Trace([Call(0, None, "function", "torch.manual_seed")])
    diff = compare_traces(model(), model(4))
    for subject in (Trace(variables), calls, diff, Trace()):
        opened = open_page(page(subject))
        assert opened("document.body.classList.contains('no-graph')")
        assert opened("document.querySelector('#views [data-view=graph]').hidden")
        assert opened(DRAWN) == 0


def test_hostile_names_are_text(open_page: Open) -> None:
    opened = open_page(page(hostile()))
    opened.press("m", "e", "e")
    graph = Graph(opened)
    graph.until(lambda: "<img" in " ".join(graph.texts(".node > title")))
    assert opened("window.pwned") is None and len(opened.requests) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("trace", [training(4, 3), backward()], ids=["training", "backward"])
def test_axe_finds_no_accessibility_violations_in_the_graph(open_page: Open, trace: Trace, scheme: str) -> None:
    graph = shown(open_page, trace, color_scheme=scheme, bypass_csp=True)
    if graph.opened.page.locator("#graph [aria-pressed]").count():
        graph.opened.page.click("#graph [aria-pressed]")
    graph.opened((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
    for keys in ((), ("f",), ("e",)):
        graph.opened.press(*keys)
        graph.rest()
        found = graph.opened("axe.run().then((result) => result.violations)")
        assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []


def test_the_graph_of_100000_events_is_small(open_page: Open) -> None:
    opened = open_page(page(large(100_000)))
    graph = Graph(opened)
    assert opened("performance.getEntriesByName('graph').length")  # for those who measure
    assert 5 < len(graph.nodes) <= 60
    graph.node("h.0 … h.39").dblclick(position={"x": 30, "y": 12})
    graph.until(lambda: "h.0 … h.39" in graph.names)


def test_100000_calls_in_one_scope_are_a_window(open_page: Open) -> None:
    program = Program()
    x = program.tensor(2, 3)
    for number in range(100_000):
        x = program.end(program.call("function", f"torch.f{number % 9973}", None, x))
    opened = open_page(page(Trace(program.events)))
    assert len(Graph(opened).nodes) <= 48
