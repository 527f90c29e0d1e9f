"""Order, selection and folding of events."""

from __future__ import annotations

from typing import Any

import pytest

from insitu.errors import PatternError
from insitu.trace.analysis import Forest, Node, completed, fold, frozen, select
from insitu.trace.event import Call, Event, Mark, ModuleFacts, TensorFacts, Word


def module(id: int, parent: int | None, path: str, type: str = "Block", **more: Any) -> Call:
    return Call(id, parent, "module", type, ModuleFacts(path, type), **more)


def tensor(*shape: int, dtype: str = "f32") -> TensorFacts:
    return TensorFacts(0, shape, dtype, "cpu")


def roots(events: list[Event]) -> list[Node]:
    forest = Forest()
    return [node for event in completed(events) if (node := forest.add(event)) is not None]


def model(*shapes: TensorFacts) -> list[Event]:
    events: list[Event] = [module(0, None, "")]
    for index, shape in enumerate(shapes):
        events.append(module(len(events), 0, f"h.{index}"))
        events.append(module(len(events), len(events) - 1, f"h.{index}.fc", "Linear", result=shape))
    return events


def test_completed_is_children_first_and_marks_in_place() -> None:
    events = [module(0, None, ""), module(1, 0, "a"), Mark(2, 1, "note", ""), module(3, 0, "b"), module(4, 99, "lost")]
    assert [event.id for event in completed(events)] == [2, 1, 3, 0, 4]


def test_select_keeps_what_is_inside_and_what_is_around() -> None:
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
def test_blocks_fold_when_all_below_is_alike(shapes: list[TensorFacts], counts: list[int]) -> None:
    (root,) = fold(roots(model(*shapes)))
    assert [item.count for item in root.children()] == counts


def test_what_lies_in_a_fold_stands_for_all_of_it() -> None:
    (root,) = fold(roots(model(*[tensor(2)] * 3)))
    (blocks,) = root.children()
    (layer,) = blocks.children()
    assert (layer.count, [node.event.path for node in layer.nodes]) == (1, ["h.0.fc", "h.1.fc", "h.2.fc"])


def test_settings_and_arguments_tell_blocks_apart() -> None:
    first, second = module(1, 0, "h.0"), module(2, 0, "h.1")
    second.module.settings["p"] = 0.5  # type: ignore[union-attr]
    (root,) = fold(roots([module(0, None, ""), first, second]))
    assert len(root.children()) == 2
    calls: list[Event] = [Call(index, None, "function", "f", args=(item,)) for index, item in enumerate((1, True, 1.0))]
    assert len(fold(roots(calls))) == 3


def test_threads_may_end_out_of_order() -> None:
    forest = Forest()
    for event in (module(2, 0, "b"), module(1, 0, "a")):
        assert forest.add(event) is None
    root = forest.add(module(0, None, ""))
    assert root is not None and [node.event.id for node in root.children] == [1, 2]


def test_frozen_compares_by_value() -> None:
    assert frozen([tensor(2), {"a": float("nan")}, Word("x")]) == frozen([tensor(2), {"a": float("nan")}, Word("x")])
    assert frozen((1,)) != frozen([1])
    assert hash(frozen({"a": [object()]})) == hash(frozen({"a": [object()]}))
