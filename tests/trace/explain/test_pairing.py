"""Arguments and the expressions that they came from."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from insitu.trace.explain.pairing import argument_pairs


def pairs(text: str, name: str, *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    statement = ast.parse(text).body[0]
    node = statement.value if isinstance(statement, ast.Expr) else statement
    return [(item, ast.unparse(part)) for item, part in argument_pairs(node, name, args, kwargs)]


@pytest.mark.parametrize(
    ("text", "name", "args", "expected"),
    [
        ("a + b", "torch.Tensor.add", "AB", [("A", "a"), ("B", "b")]),
        ("1 - x", "torch.Tensor.rsub", "X1", [("X", "x"), ("1", "1")]),
        ("x += y", "torch.Tensor.add_", "XY", [("X", "x"), ("Y", "y")]),
        ("x[0] = y", "torch.Tensor.__setitem__", "X0Y", [("X", "x"), ("0", "0"), ("Y", "y")]),
        ("x[i]", "torch.Tensor.__getitem__", "XI", [("X", "x"), ("I", "i")]),
        ("-x", "torch.Tensor.neg", "X", [("X", "x")]),
        ("x.T", "torch.Tensor.T", "X", [("X", "x")]),
        ("not x", "torch.Tensor.__bool__", "X", [("X", "x")]),
        ("a and b", "torch.Tensor.__bool__", "X", []),
        ("x.view(n)", "torch.Tensor.view", "XN", [("X", "x"), ("N", "n")]),
        ("torch.Tensor.view(x, n)", "torch.Tensor.view", "XN", [("X", "x"), ("N", "n")]),
        ("F.relu(x)", "torch.relu", "X", [("X", "x")]),
        ("net(x)", "", "X", [("X", "x")]),
        ("net(x)", "torch.relu", "X", []),
        ("f(x, *more)", "", "XY", [("X", "x")]),
    ],
)
def test_arguments_are_paired_with_their_expressions(
    text: str, name: str, args: str, expected: list[tuple[str, str]]
) -> None:
    assert pairs(text, name, *args) == expected


def test_items_of_a_written_list_are_paired_one_by_one() -> None:
    assert pairs("torch.cat([a, b], dim=d)", "torch.cat", ["A", "B"], dim=1) == [("A", "a"), ("B", "b"), (1, "d")]
