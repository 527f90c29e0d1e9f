"""Order, selection and folding of events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from insitu.errors import PatternError
from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, TensorFacts, Variable, Word
from insitu.trace.fold import fold
from insitu.trace.forest import Forest, Node, value_key
from insitu.trace.order import completion_order, moments
from insitu.trace.selection import select


def module(id: int, parent: int | None, path: str, type: str = "Block", **more: Any) -> Call:
    return Call(id, parent, "module", type, ModuleFacts(path, type), **more)


def tensor(*shape: int, dtype: str = "f32") -> TensorFacts:
    return TensorFacts(0, shape, dtype, "cpu")


def roots(events: list[Event]) -> list[Node]:
    forest = Forest()
    return [node for event in completion_order(events) if (node := forest.add(event)) is not None]


def model(*shapes: TensorFacts) -> list[Event]:
    events: list[Event] = [module(0, None, "")]
    for index, shape in enumerate(shapes):
        events.append(module(len(events), 0, f"h.{index}"))
        events.append(module(len(events), len(events) - 1, f"h.{index}.fc", "Linear", result=shape))
    return events


def test_completion_order_has_children_before_parents_and_keeps_marks_in_place() -> None:
    events = [module(0, None, ""), module(1, 0, "a"), Mark(2, 1, "note", ""), module(3, 0, "b"), module(4, 99, "lost")]
    assert [event.id for event in completion_order(events)] == [2, 1, 3, 0, 4]


def test_select_keeps_events_inside_and_around_the_matching_modules() -> None:
    events = model(tensor(1), tensor(2), tensor(3))
    assert [event.id for event in select(events, "h.1")] == [0, 3, 4]
    assert [event.id for event in select(events, ["h.0.fc", "h.2"])] == [0, 1, 2, 5, 6]
    assert select(events, None) == events


def test_select_names_the_nearest_path() -> None:
    with pytest.raises(PatternError, match=r"did you mean 'h\.\*\.fc'"):
        select(model(tensor(1)), "h.*.fd")


@pytest.mark.parametrize(
    ("shapes", "counts"),
    [
        ([tensor(2)] * 4, [4]),
        ([tensor(2), tensor(2), tensor(3), tensor(3)], [2, 2]),
        ([tensor(2), tensor(2, dtype="f16")], [1, 1]),
    ],
)
def test_blocks_fold_if_all_events_inside_are_identical(shapes: list[TensorFacts], counts: list[int]) -> None:
    (root,) = fold(roots(model(*shapes)))
    assert [item.count for item in root.children()] == counts


def test_children_of_a_fold_are_those_of_all_its_nodes() -> None:
    (root,) = fold(roots(model(*[tensor(2)] * 3)))
    (blocks,) = root.children()
    (layer,) = blocks.children()
    assert (layer.count, [node.event.path for node in layer.nodes]) == (1, ["h.0.fc", "h.1.fc", "h.2.fc"])


def test_blocks_with_different_settings_or_arguments_do_not_fold() -> None:
    first, second = module(1, 0, "h.0"), module(2, 0, "h.1")
    second.module.settings["p"] = 0.5  # type: ignore[union-attr]
    (root,) = fold(roots([module(0, None, ""), first, second]))
    assert len(root.children()) == 2
    calls: list[Event] = [Call(index, None, "function", "f", args=(item,)) for index, item in enumerate((1, True, 1.0))]
    assert len(fold(roots(calls))) == 3


def test_children_that_end_out_of_order_are_sorted_by_their_beginning() -> None:
    forest = Forest()
    for event in (module(2, 0, "b"), module(1, 0, "a")):
        assert forest.add(event) is None
    root = forest.add(module(0, None, ""))
    assert root is not None and [node.event.id for node in root.children] == [1, 2]


def test_keys_of_equal_values_are_equal() -> None:
    value = [tensor(2), {"a": float("nan")}, Word("x")]
    copy = [tensor(2), {"a": float("nan")}, Word("x")]
    assert value_key(value) == value_key(copy)
    assert value_key((1,)) != value_key([1])
    assert hash(value_key({"a": [object()]})) == hash(value_key({"a": [object()]}))


def change(id: int, parent: int | None, name: str, value: Any, *changes: Any, site: Site | None = None) -> Variable:
    return Variable(id, parent, name, value, changes, site)


def python(id: int, parent: int | None = None, start: int = 0, duration: int | None = None, **more: Any) -> Call:
    return Call(id, parent, "python", f"f{id}", start=start, duration=duration, **more)


def order(events: list[Event]) -> list[str]:
    """The ids of the events as they come, the beginning of a call with a +."""
    return [f"{'+' if begins else ''}{event.id}" for event, begins in moments(events)]


def test_changes_of_a_variable_on_one_line_fold() -> None:
    loop, other = Site("a.py", 3, "f"), Site("a.py", 4, "f")
    events: list[Event] = [python(0)]
    for value, place in ((0, loop), (1, loop), (tensor(3), loop), (3, other), (4, loop)):
        events.append(change(len(events), 0, "x", value, "values" if value else "new", site=place))
    events.append(change(6, 0, "y", 4, "values", site=loop))
    (root,) = fold(roots(events))
    assert [item.count for item in root.children()] == [3, 1, 1, 1]
    unfolded = Forest(folding=False)
    (node,) = [node for event in completion_order(events) if (node := unfolded.add(event)) is not None]
    assert len(fold(node.children)) == 6


@pytest.mark.parametrize(
    ("first", "second", "alike"),
    [
        ((tensor(2), "new"), (tensor(2), "new"), True),
        ((0.5, "values"), (0.75, "values"), True),
        ((tensor(2), "new"), (tensor(3), "new"), False),
        ((tensor(2), "new"), (tensor(2), "values"), False),
        ((0.5, "values"), (1, "values"), False),
        (("a", "values"), ("b", "values"), False),
    ],
)
def test_blocks_whose_variables_differ_do_not_fold(first: Any, second: Any, alike: bool) -> None:
    events: list[Event] = [module(0, None, "")]
    for index, (value, what) in enumerate((first, second)):
        events += [module(1 + 2 * index, 0, f"h.{index}"), change(2 + 2 * index, 1 + 2 * index, "x", value, what)]
    (root,) = fold(roots(events))
    assert len(root.children()) == (1 if alike else 2)


def test_select_by_the_name_of_a_variable() -> None:
    events: list[Event] = [*model(tensor(1)), python(3, 1), change(4, 3, "state.x", 1), change(5, 3, "y", 1), python(6)]
    assert [event.id for event in select(events, "state.*")] == [0, 1, 3, 4]
    assert [event.id for event in select(events, "h.0")] == [0, 1, 2, 3, 4, 5]
    with pytest.raises(PatternError, match=r"no path matches 'stat\.\*' \(did you mean 'state\.\*'"):
        select(events, "stat.*")


def test_moments_of_nested_calls_end_the_inner_call_first() -> None:
    events: list[Event] = [python(0), change(1, 0, "x", 1), module(2, 0, "m"), python(3, 2), Mark(4, 3, "note", "")]
    events += [change(5, 0, "x", 2), python(6), python(7, 99)]
    assert order(events) == ["+0", "1", "+3", "4", "3", "2", "5", "0", "+6", "6", "+7", "7"]
    assert order([]) == []


def test_moments_end_a_waiting_generator_by_the_clock() -> None:
    """It is open while its consumer does other things, and ends after them."""
    events: list[Event] = [
        python(0, None, 0, 100),
        python(1, 0, 10, 70),
        Variable(2, 1, "g", 1, ("yielded",), None, 20),
    ]
    events += [python(3, 0, 30, 10), Variable(4, 1, "g", 2, ("yielded",), None, 50), python(5, 0, 60, 5)]
    assert order(events) == ["+0", "+1", "2", "+3", "3", "4", "+5", "5", "1", "0"]


def test_moments_of_a_generator_that_outlives_the_next_call() -> None:
    assert order([python(0, None, 0, 100), python(1, 0, 10, 70), python(2, 0, 30, 60)]) == [
        "+0",
        "+1",
        "+2",
        "1",
        "2",
        "0",
    ]


def test_moments_of_two_threads_end_by_the_clock() -> None:
    events: list[Event] = [python(0, None, 0, 50), python(1, None, 10, 20, thread=1)]
    events += [Variable(2, 0, "x", 1, ("new",), None, 20), Variable(3, 0, "x", 2, ("values",), None, 40)]
    events += [python(4, None, 60, 10, thread=1)]
    assert order(events) == ["+0", "+1", "2", "1", "3", "0", "+4", "4"]


def test_every_call_begins_once_and_ends_once_whatever_the_clock_says() -> None:
    dice = random.Random(0)
    for _ in range(200):
        events: list[Event] = []
        for id in range(30):
            parent = dice.choice([None, *range(id)]) if id else None
            times = {"start": dice.randrange(50), "duration": dice.choice([None, dice.randrange(50)])}
            events.append(python(id, parent, thread=dice.randrange(2), **times))  # type: ignore[arg-type]
        opened: list[int] = []
        for event, begins in moments(events):
            if begins:
                assert event.parent is None or event.parent in opened
                opened.append(event.id)
            else:
                opened.remove(event.id)
        assert opened == []


def test_backward_calls_are_selected_with_their_forward_calls() -> None:
    module = ModuleFacts("fc", "Linear")
    events = [
        Call(0, None, "module", "Linear", module),
        Call(1, 0, "function", "torch.nn.functional.linear", module),
        Call(2, None, "function", "torch.relu"),
        Call(3, None, "function", "torch.Tensor.backward"),
        Call(4, 3, "aten", "aten.threshold_backward", phase="backward", forward=2),
        Call(5, 3, "aten", "aten.mm", module, phase="backward", forward=1),
    ]
    assert [event.id for event in select(events, "fc")] == [0, 1, 3, 5]
