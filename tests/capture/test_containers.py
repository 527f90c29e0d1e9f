"""Containers: their children are found without running code of their classes, and every walk ends."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, deque, namedtuple
from typing import Any

import pytest
import torch
from torch import nn

from insitu.capture.containers import MISSING, MOST_DEPTH, child, children, items_of, leaves, select, tensors_in
from insitu.capture.outline import outline
from insitu.trace.event import Fields, Opaque

Pair = namedtuple("Pair", "left right")


class Slots:
    __slots__ = ("first", "unset")

    def __init__(self) -> None:
        self.first = 1


@dataclasses.dataclass
class Point:
    x: int
    y: int = 2


class Hostile(dict[str, Any]):
    """A dict whose own methods must not be called."""

    def __iter__(self) -> Any:
        raise AssertionError("code of the class ran")

    values = items = keys = __getitem__ = __len__ = __contains__ = __iter__  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1, 2: "b"}, {"a": 1, "2": "b"}),
        ({1: "int", "1": "text"}, {"1": "int", "1'": "text"}),
        ([3, 4], {"0": 3, "1": 4}),
        (Pair(1, 2), {"left": 1, "right": 2}),
        (Slots(), {"first": 1}),
        (Point(1), {"x": 1, "y": 2}),
        (OrderedDict(a=1), {"a": 1}),
        (Hostile(a=1), {"a": 1}),
        (torch.ones(2), {}),
        (5, {}),
    ],
)
def test_children_by_name(value: Any, expected: dict[str, Any]) -> None:
    assert dict(children(value)) == expected


def test_children_of_a_module_are_its_parameters_buffers_and_submodules() -> None:
    norm = nn.BatchNorm1d(2)
    names = dict(children(norm))
    assert names["weight"] is norm.weight and names["running_mean"] is norm.running_mean
    assert dict(children(nn.Sequential(norm)))["0"] is norm


@pytest.mark.parametrize(
    ("value", "name", "expected"),
    [
        ({"a": 1}, "a", 1),
        ({"a": 1}, "b", MISSING),
        ([1, 2], "-1", 2),
        ([1, 2], "5", MISSING),
        (Point(1), "y", 2),
        (Hostile(a=1), "a", 1),
    ],
)
def test_child_of_a_name(value: Any, name: str, expected: Any) -> None:
    assert child(value, name) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], [1, 2]),
        ({"a": 1}, [1]),
        ({3}, [3]),
        (frozenset({3}), [3]),
        (deque([1, 2]), [1, 2]),
        (Point(1), [1, 2]),
        (Hostile(a=1), [1]),
        ("text", None),
        (object(), None),
    ],
)
def test_items_of_containers(value: Any, expected: list[Any] | None) -> None:
    assert items_of(value) == expected


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("walk", [lambda value: list(leaves(value)), lambda value: list(select("v", value, ("**",)))])
def test_walks_end_in_a_list_that_contains_itself_often(walk: Any) -> None:
    value: list[Any] = [1]
    value += [value] * 3
    assert walk(value)


def test_walks_share_one_depth_limit() -> None:
    assert list(leaves(nested(MOST_DEPTH))) == [1]
    assert list(leaves(nested(MOST_DEPTH + 1))) == []
    assert "1" in repr(outline(nested(MOST_DEPTH), lambda tensor: tensor))
    assert "1" not in repr(outline(nested(MOST_DEPTH + 1), lambda tensor: tensor))
    path = ("0",) * MOST_DEPTH
    assert [item for _, item in select("v", nested(MOST_DEPTH), path)] == [1]
    assert list(select("v", nested(MOST_DEPTH + 1), (*path, "0"))) == []


def test_tensors_in_keeps_the_order_of_the_items() -> None:
    one, two, three = torch.ones(1), torch.ones(2), torch.ones(3)
    assert [tensor.numel() for tensor in tensors_in([one, {"a": (two, 5)}, Pair(three, "x")])] == [1, 2, 3]


def test_outline_cuts_long_lists_unless_they_hold_tensors() -> None:
    def leaf(tensor: Any) -> str:
        return "T"

    assert outline([torch.ones(1)] * 100, leaf) == ["T"] * 100
    assert outline([(torch.ones(1), 0)] * 100, leaf) == [("T", 0)] * 100
    assert str(outline(["a"] * 100, leaf)[-1]) == "… 36 more"
    assert str(outline({str(index): index for index in range(100)}, leaf)["…"]) == "… 36 more"


def test_outline_of_objects() -> None:
    assert outline(Point(1), repr) == Fields("Point", {"x": 1, "y": 2})
    assert outline(Pair(1, 2), repr) == Fields("Pair", {"left": 1, "right": 2})
    assert outline(Hostile(a=1), repr) == Fields("Hostile", {"a": 1})
    assert outline(Slots(), repr) == Opaque("Slots")
