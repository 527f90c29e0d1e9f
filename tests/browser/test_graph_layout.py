"""The layout of the graph, as pure functions in a blank page: boxes hold their nodes, nothing overlaps."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations, pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from insitu.view.html import SCRIPTS

pytestmark = pytest.mark.browser

LAYOUT = (
    *("graph_layers", "graph_order", "graph_place", "graph_layout"),
    *("graph_label_place", "graph_interior", "graph_nest"),
)
LABEL = {"text": "f32[2, 24, 96]", "width": 84, "isBad": False, "isGradient": False}


@dataclass(frozen=True)
class Box:
    """A rectangle of the picture."""

    x: float
    y: float
    width: float
    height: float

    def overlaps(self, other: Box) -> bool:
        beside = self.x + self.width <= other.x or other.x + other.width <= self.x
        above = self.y + self.height <= other.y or other.y + other.height <= self.y
        return not beside and not above

    def holds(self, other: Box) -> bool:
        across = self.x <= other.x and other.x + other.width <= self.x + self.width
        return across and self.y <= other.y and other.y + other.height <= self.y + self.height

    def has_inside(self, x: float, y: float) -> bool:
        """Whether a point is inside; the border, with what rounding adds to it, is not."""
        is_across = self.x + 0.01 < x < self.x + self.width - 0.01
        return is_across and self.y + 0.01 < y < self.y + self.height - 0.01


@dataclass(frozen=True)
class Picture:
    """A graph that was laid out."""

    boxes: list[Box]
    wires: list[dict[str, Any]]
    labels: list[Box]

    def points(self, wire: int) -> list[tuple[float, float]]:
        return [(point["x"], point["y"]) for point in self.wires[wire]["points"]]

    def wire(self, start: int | str, end: int | str) -> list[tuple[float, float]]:
        """The points of the wire between two ends."""
        [found] = [place for place, wire in enumerate(self.wires) if (wire["from"], wire["to"]) == (start, end)]
        return self.points(found)


@pytest.fixture(scope="module")
def blank(browser: Browser) -> Iterator[Page]:
    tab = browser.new_page()
    yield tab
    tab.close()


def run(blank: Page, script: str, *arguments: Any) -> Any:
    """What a script returns that knows the functions of the layout."""
    folder = files("insitu.view") / "page" / "web"
    source = "\n".join([(folder / f"{name}.js").read_text("utf-8") for name in LAYOUT])
    return blank.evaluate(f"(given) => {{ {source}\n return ({script})(...given); }}", list(arguments))


def node(parent: int = -1, *, is_open: bool = False, width: int = 90) -> dict[str, Any]:
    return {"parent": parent, "isOpen": is_open, "width": width, "height": 23}


def edges(*ends: tuple[int, int]) -> list[dict[str, int]]:
    return [{"from": start, "to": end} for start, end in ends]


def laid_out(
    blank: Page, nodes: list[dict[str, Any]], links: list[dict[str, int]], direction: str = "down", *, label: Any = None
) -> Picture:
    script = "(nodes, edges, label, direction) => nestedLayout(nodes, edges, () => label, direction)"
    found = run(blank, script, nodes, links, label or LABEL, direction)
    labels = [Box(item["x"], item["y"] - 6, item["label"]["width"], 12) for item in found["labels"]]
    return Picture([Box(**box) for box in found["boxes"]], found["wires"], labels)


def random_graph(seed: int, size: int) -> tuple[list[dict[str, Any]], list[dict[str, int]]]:
    """Nodes in the order of a program, some of them in boxes, and edges that lead forward."""
    source = random.Random(seed)
    nodes: list[dict[str, Any]] = []
    boxes = [-1]
    for number in range(size):
        is_open = source.random() < 0.12 and len(boxes) < 5
        nodes.append(node(boxes[-1], is_open=is_open, width=source.randrange(30, 200)))
        if is_open:
            boxes.append(number)
        elif len(boxes) > 1 and source.random() < 0.25:
            boxes.pop()
    leaves = [number for number, item in enumerate(nodes) if not item["isOpen"]]
    ends = set()
    for place, end in enumerate(leaves[1:], 1):
        for _ in range(source.choice((1, 1, 1, 2, 5))):
            ends.add((leaves[max(0, place - source.choice((1, 1, 1, 2, 3, 9)))], end))
    return nodes, edges(*sorted(ends))


RANDOM = [(seed, size) for seed in range(12) for size in (8, 40)]


@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize(("seed", "size"), RANDOM)
def test_boxes_hold_their_nodes_and_nothing_overlaps(blank: Page, seed: int, size: int, direction: str) -> None:
    nodes, links = random_graph(seed, size)
    picture = laid_out(blank, nodes, links, direction)
    for number, item in enumerate(nodes):
        if item["parent"] >= 0:
            assert picture.boxes[item["parent"]].holds(picture.boxes[number])
    siblings = [pair for pair in combinations(range(size), 2) if nodes[pair[0]]["parent"] == nodes[pair[1]]["parent"]]
    assert not [pair for pair in siblings if picture.boxes[pair[0]].overlaps(picture.boxes[pair[1]])]
    closed = [picture.boxes[number] for number, item in enumerate(nodes) if not item["isOpen"]]
    assert not [label for label in picture.labels if any(label.overlaps(box) for box in closed)]


@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize(("seed", "size"), RANDOM)
def test_edges_lead_forward_and_pass_no_node(blank: Page, seed: int, size: int, direction: str) -> None:
    nodes, links = random_graph(seed, size)
    picture = laid_out(blank, nodes, links, direction)
    closed = [picture.boxes[number] for number, item in enumerate(nodes) if not item["isOpen"]]
    along = 1 if direction == "down" else 0
    for place in range(len(picture.wires)):
        points = picture.points(place)
        assert all(after[along] >= before[along] for before, after in pairwise(points))
        assert points[-1][along] > points[0][along]
        straight = [pair for pair in pairwise(points) if pair[0][1 - along] == pair[1][1 - along]]
        middles = [((one[0] + two[0]) / 2, (one[1] + two[1]) / 2) for one, two in straight]
        assert not [spot for spot in middles if any(box.has_inside(*spot) for box in closed)]


@pytest.mark.parametrize(("seed", "size"), RANDOM)
def test_wires_join_their_nodes_through_the_borders_of_boxes(blank: Page, seed: int, size: int) -> None:
    nodes, links = random_graph(seed, size)
    picture = laid_out(blank, nodes, links)
    for place, wire in enumerate(picture.wires):
        first, *_, last = picture.points(place)
        above = picture.boxes[wire["inside"] if wire["from"] == "in" else wire["from"]]
        below = picture.boxes[wire["inside"] if wire["to"] == "out" else wire["to"]]
        assert first[1] == pytest.approx(above.y if wire["from"] == "in" else above.y + above.height)
        assert last[1] == pytest.approx(below.y + below.height if wire["to"] == "out" else below.y)
        assert above.x <= first[0] <= above.x + above.width and below.x <= last[0] <= below.x + below.width
    for place, wire in enumerate(picture.wires):
        if wire["from"] == "in":  # where a wire enters a box, another wire of the same source ends
            port = picture.points(place)[0]
            outer = [
                other for other in picture.wires if other["to"] == wire["inside"] and other["source"] == wire["source"]
            ]
            assert [pytest.approx(port)] == [tuple(other["points"][-1].values()) for other in outer]


def test_the_layout_is_the_same_each_time(blank: Page) -> None:
    nodes, links = random_graph(5, 60)
    assert laid_out(blank, nodes, links) == laid_out(blank, nodes, links)


def test_a_residual_is_drawn_beside_its_block(blank: Page) -> None:
    nodes = [node(), node(width=120), node(width=150), node(width=30), node()]
    picture = laid_out(blank, nodes, edges((0, 1), (1, 2), (2, 3), (0, 3), (3, 4)))
    middles = [box.x + box.width / 2 for box in picture.boxes]
    assert middles == [middles[0]] * 5  # the block is straight
    residual = picture.wire(0, 3)
    beside = [x for x, y in residual if picture.boxes[1].y <= y <= picture.boxes[2].y + 23]
    assert beside and all(x > picture.boxes[2].x + picture.boxes[2].width for x in beside)
    assert len(set(beside)) == 1  # and so is the residual, beside it


def test_a_residual_that_comes_from_outside_forks_inside_the_box(blank: Page) -> None:
    nodes = [node(), node(is_open=True), node(1), node(1), node(1, width=30)]
    picture = laid_out(blank, nodes, edges((0, 2), (2, 3), (3, 4), (0, 4)))
    outside = [wire for wire in picture.wires if wire["inside"] == -1]
    assert len(outside) == 1 and outside[0]["to"] == 1  # one wire for the tensor, up to the border
    assert picture.wire("in", 2)[0] == picture.wire("in", 4)[0] == picture.wire(0, 1)[-1]


def test_edges_of_one_source_share_their_line(blank: Page) -> None:
    nodes = [node() for _ in range(6)]
    chain = [(start, start + 1) for start in range(5)]
    picture = laid_out(blank, nodes, edges(*chain, (0, 2), (0, 3), (0, 5)))
    beside = [{x for x, y in picture.wire(0, end)[3:-2]} for end in (3, 5)]
    assert beside[0] & beside[1] and len(beside[1]) == 1


def test_a_tree_has_no_crossings(blank: Page) -> None:
    source = random.Random(3)
    links = edges(*[(source.randrange(max(0, end - 9), end), end) for end in range(1, 80)])
    nodes = [{"length": 20, "before": 30, "after": 30} for _ in range(80)]
    script = """(nodes, links) => {
        const chart = new Chart(nodes, links);
        reduceCrossings(chart);
        return countCrossings(chart);
    }"""
    assert run(blank, script, nodes, links) == 0


def test_crossings_are_counted_and_reduced(blank: Page) -> None:
    nodes = [{"length": 20, "before": 30, "after": 30} for _ in range(8)]
    links = edges((0, 7), (1, 6), (2, 5), (3, 4))
    script = """(nodes, links) => {
        const chart = new Chart(nodes, links);
        chart.layers = [[0, 1, 2, 3], [4, 5, 6, 7]];
        chart.number();
        const before = countCrossings(chart);
        reduceCrossings(chart);
        return [before, countCrossings(chart)];
    }"""
    assert run(blank, script, nodes, links) == [6, 0]


@pytest.mark.parametrize("seed", range(20))
def test_the_best_order_that_was_found_is_taken(blank: Page, seed: int) -> None:
    source = random.Random(seed)
    ends = {tuple(sorted(source.sample(range(30), 2))) for _ in range(60)}
    nodes = [{"length": 20, "before": 30, "after": 30} for _ in range(30)]
    script = """(nodes, links) => {
        const seen = [];
        const chart = new Chart(nodes, links);
        seen.push(countCrossings(chart));
        for (let sweep = 0; sweep < 4; sweep++) {
            sweepLayers(chart, sweep % 2 === 0);
            swapNeighbours(chart);
            seen.push(countCrossings(chart));
        }
        const other = new Chart(nodes, links);
        reduceCrossings(other);
        return [Math.min(...seen), countCrossings(other)];
    }"""
    least, reached = run(blank, script, nodes, edges(*sorted(ends)))
    assert reached <= least


def test_an_edge_against_the_order_of_the_program_closes_no_circle(blank: Page) -> None:
    picture = laid_out(blank, [node(), node(), node()], edges((0, 1), (1, 2), (2, 0)))
    assert [box.y for box in picture.boxes] == sorted(box.y for box in picture.boxes)
    first, *_, last = picture.wire(2, 0)
    assert first[1] == picture.boxes[2].y and last[1] == picture.boxes[0].y + picture.boxes[0].height


def test_a_source_is_next_to_its_consumer(blank: Page) -> None:
    picture = laid_out(blank, [node() for _ in range(5)], edges((0, 1), (1, 2), (2, 4), (3, 4)))
    assert picture.boxes[3].y == picture.boxes[2].y  # a mask, one layer before it is used


def test_500_nodes_are_laid_out(blank: Page) -> None:
    nodes, links = random_graph(7, 500)
    picture = laid_out(blank, nodes, links)
    assert len(picture.boxes) == 500 and all(wire["points"] for wire in picture.wires)


@pytest.mark.parametrize(("nodes", "links"), [([], []), ([node()], []), ([node(is_open=True)], [])])
def test_little_to_lay_out(blank: Page, nodes: list[dict[str, Any]], links: list[dict[str, int]]) -> None:
    assert len(laid_out(blank, nodes, links).boxes) == len(nodes)


def test_labels_that_differ_are_at_the_ends_of_their_edges(blank: Page) -> None:
    script = """(nodes, edges) => {
        const labelOf = ([edge]) => ({ text: `f32[${edge}]`, width: 40 });
        return nestedLayout(nodes, edges, labelOf, "down").labels;
    }"""
    labels = run(blank, script, [node(), node(), node()], edges((0, 1), (0, 2)))
    assert [label["label"]["text"] for label in labels] == ["f32[0]", "f32[1]"]
    same = laid_out(blank, [node(), node(), node()], edges((0, 1), (0, 2)))
    assert len(same.labels) == 1  # else the text is written once, where they begin


def test_the_layout_is_part_of_the_page() -> None:
    assert set(LAYOUT) <= set(SCRIPTS)
