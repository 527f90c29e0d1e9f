"""Where the source is not known: what an expression made a library do is a group, and so is what is repeated."""

from __future__ import annotations

from typing import Any

from insitu.trace import loops
from insitu.trace.arrange import arrange
from insitu.trace.event import Call, Mark, Site, Stats, TensorFacts
from insitu.trace.fold import fold
from insitu.trace.forest import Forest, Group, Node

LINES = {line: Site("train.py", line, "main", "    optimizer.step()  # sqrt", 4, 20) for line in range(40)}
POOL = Site("train.py", 50, "main", "    x = F.max_pool(x, 2)", 8, 24)


def call(name: str, line: int, *args: Any, size: int = 2, **more: Any) -> Call:
    made = TensorFacts(0, (size,), "f32", "cpu", stats=more.pop("stats", None))
    site = more.pop("site", LINES[line])
    return Call(0, None, "function", name, args=args, result=more.pop("result", made), site=site, **more)


def shape(events: list[Any]) -> list[Any]:
    """The groups as lists: ["expression" or "pass", …]; calls by their names."""
    forest = Forest()
    for id, event in enumerate(events):
        event.id = id
    roots = [root for event in events if (root := forest.add(event)) is not None]
    return [shape_of(node) for node in arrange([roots], None, forest)[0]]


def shape_of(node: Node) -> Any:
    if isinstance(node.event, Group):
        return [node.event.kind, *map(shape_of, node.event.nodes)]
    return node.event.name if isinstance(node.event, Call) else "#"


def adam(line: int, step: int = 0) -> list[Call]:
    return [call("mul_", line, 0.9), call("add_", line, step), call("sqrt", line)]


def test_calls_that_a_library_makes_for_one_expression_are_a_group() -> None:
    assert shape([call("randn", 1), *adam(2), call("sum", 3)]) == [
        "randn",
        ["expression", "mul_", "add_", "sqrt"],
        "sum",
    ]


def test_calls_that_the_expression_names_are_not_grouped() -> None:
    assert shape([call("F.max_pool", 1, size=size, site=POOL) for size in (8, 4, 2)]) == ["F.max_pool"] * 3
    assert shape([call("F.add_", 1, size=size) for size in (8, 4)]) == [["expression", "F.add_", "F.add_"]]


def test_python_operators_are_shown_in_the_line() -> None:
    names = ["torch.Tensor.gt", "torch.Tensor.__bool__"]
    assert shape([call(names[0], 1, operator=">"), call(names[1], 1)]) == [["line", *names]]


def test_calls_that_raised_or_produced_nan_are_not_hidden_among_others() -> None:
    nan = Stats(count=2, min=0.0, max=1.0, mean=0.5, std=0.5, nan=1)
    line = ["line", "div", ["rest", "mul_", "add_", "sqrt"]]
    assert shape([*adam(1), call("div", 1, raised="RuntimeError")]) == [line]
    assert shape([*adam(1), call("div", 1, stats=nan)]) == [line]
    assert shape([call("torch.empty", 1, stats=nan), *adam(1)]) == [
        ["expression", "torch.empty", "mul_", "add_", "sqrt"]
    ]


def test_passes_of_a_loop_are_groups_that_fold() -> None:
    events = [call("zeros", 1), *(call(name, line) for _ in range(5) for name, line in (("a", 2), ("b", 3), ("c", 4)))]
    assert shape(events) == ["zeros", *[["pass", "a", "b", "c"]] * 5]
    forest = Forest()
    (zeros, loop) = fold(arrange([[node for event in events if (node := forest.add(event))]], None, forest)[0])
    assert (zeros.count, loop.count) == (1, 5)
    assert [(item.event.name, len(item.nodes)) for item in loop.children()] == [("a", 5), ("b", 5), ("c", 5)]


def test_a_pass_begins_where_the_loop_does_in_the_source() -> None:
    first = [call("a", 2), call("b", 3), *adam(4)[:2], call("zeros_like", 4), call("item", 5)]
    rest = [item for step in range(3) for item in (call("a", 2), call("b", 3), *adam(4, step), call("item", 5))]
    found = shape([*first, *rest])
    assert found[3:] == ["item", *[["pass", "a", "b", ["expression", "mul_", "add_", "sqrt"], "item"]] * 3]


def test_passes_that_return_different_numbers_fold() -> None:
    events = [item for loss in (0.3, 0.2, 0.1) for item in (call("a", 2), call("b", 3), call("item", 4, result=loss))]
    assert shape(events) == [["pass", "a", "b", "item"]] * 3


def test_loop_inside_a_loop_is_grouped() -> None:
    names = [*["b", "c"] * 3, "d"] * 3
    assert shape([call(name, "bcd".index(name)) for name in names]) == [["pass", *[["pass", "b", "c"]] * 3, "d"]] * 3


def test_function_defined_above_the_loop_does_not_begin_a_pass() -> None:
    outer = {line: Site("train.py", line, "main") for line in (20, 21)}
    inner = Site("train.py", 3, "loss_of", caller=outer[21])
    body = (("a", outer[20]), ("mse", inner), ("b", outer[21]))
    found = shape([call(name, 0, site=site) for _ in range(4) for name, site in body][:-1])
    assert found[0] == ["pass", "a", ["line", ["function", ["pass", "mse"]], ["rest", "b"]]]


def test_passes_that_return_different_lists_fold() -> None:
    order = [[2, 0, 1], [1, 2, 0], [0, 1, 2]]
    events = [item for each in order for item in (call("a", 2), call("b", 3), call("tolist", 4, result=each))]
    assert shape(events) == [["pass", "a", "b", "tolist"]] * 3


def test_call_with_a_child_that_produced_nan_is_not_hidden_among_others() -> None:
    nan = Stats(count=2, min=0.0, max=1.0, mean=0.5, std=0.5, nan=1)
    forest = Forest()
    child = call("aten.div", 1, stats=nan)
    child.id, child.parent = 1, 0
    parents = [call(name, 1) for name in ("div", "mul_", "add_")]
    forest.add(child)
    for id, event in zip((0, 2, 3), parents, strict=True):
        event.id = id
    roots = [root for event in parents if (root := forest.add(event)) is not None]
    assert [shape_of(node) for node in arrange([roots], None, forest)[0]] == [["line", "div", ["rest", "mul_", "add_"]]]


def test_passes_that_differ_are_not_grouped() -> None:
    sizes = [call(name, line, size=size) for size in (8, 4, 2) for name, line in (("a", 2), ("b", 3), ("c", 4))]
    assert shape(sizes) == ["a", "b", "c"] * 3
    places = [call("a", line) for line in range(9)]
    assert shape(places) == ["a"] * 9


def test_marks_are_not_grouped() -> None:
    events = [item for _ in range(3) for item in (call("a", 2), call("b", 3), Mark(0, None, "note", "here"))]
    assert shape(events) == ["a", "b", "#"] * 3


def test_hundred_thousand_different_calls_are_read_once() -> None:
    # Every other call is the same: all lengths of a pass look possible, and none is.
    events = [call("a", 1) if at % 2 else call("b", 2, at) for at in range(100_000)]
    assert len(shape(events)) == len(events)


def test_long_passes_that_are_nearly_the_same_are_compared_once() -> None:
    compared = 0

    class Counted(list):  # type: ignore[type-arg]
        def __getitem__(self, place: Any) -> Any:
            nonlocal compared
            compared += len(range(*place.indices(len(self)))) if isinstance(place, slice) else 1
            return super().__getitem__(place)

    keys = Counted(place if place != 9_000 else 10_000 + turn for turn in range(10) for place in range(10_000))
    assert loops._shortest_pass(keys) is None
    assert compared < 10 * len(keys)
