"""What a variable holds, in a few words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.view.build import stats, tensor

from insitu.trace.event import Fields, Opaque, Stats, Variable, Word
from insitu.view.variables import Variables


def held(value: Any) -> str:
    """How a variable with this value is shown."""
    view = Variables()
    (line,) = view(Variable(0, None, "x", value, ("new",)))
    return str(line).removeprefix("├─ x → ").removesuffix("  new")


HELD: list[tuple[Any, str]] = [
    *(
        (None, "None"),
        (3, "3"),
        (0.5, "0.5"),
        (True, "True"),
        (float("nan"), "nan"),
        ("a\nb", r"'a\nb'"),
        ("", "''"),
    ),
    *(
        (10**5000, "<int of 16610 bits>"),
        ([10**5000], "[<int of 16610 bits>]"),
        ({10**5000: 1}, "{<int of 16610 bits>: 1}"),
        (Word("torch.f16"), "torch.f16"),
        (Opaque("a\x1b"), r"<a\x1b>"),
        (1j, "1j"),
    ),
    *(
        ([], "list, len 0"),
        ((1,), "(1,)"),
        ({}, "dict, len 0"),
        ({"a": 1, "b\n": 2}, r"{a: 1, b\n: 2}"),
    ),
    ([*range(64), Word("… 1936 more")], "list, len 2,000"),
    ([*range(64), Word("… many more")], "list, len 65"),
    ([tensor(2)] * 3, "list, len 3: 3 × f32[2]"),
    ((tensor(2), None, [tensor(1)], {"a": 1}), "tuple, len 4: f32[2], None, list, len 1, dict"),
    ({"x": tensor(2), 7: 1}, "dict, len 2: x f32[2], 7"),
    ({str(n): n for n in range(20)}, "dict, len 20: 0, 1, 2, 3, 4, 5, 6, 7, … 12 more"),
    (Fields("Out\n", {"loss": tensor(), "n": 1}), r"Out\n, 2 fields: loss f32[], n"),
    (tensor(2, 0), "f32[2, 0] cpu"),
    (tensor("s0", 2, device="cuda:0", type="Parameter"), "f32[s0, 2] cuda:0 Parameter"),
    (tensor(3, dtype="f64", type="ndarray"), "np f64[3]"),
    (tensor(2, 2, kept=np.array([[1, 2], [3, 4]])), "f32[2, 2] cpu  [[1, 2], [3, 4]]"),
    (tensor(kept=np.array(0.123456)), "f32[] cpu  0.1235"),
    (tensor(2, kept=np.array([np.nan, -np.inf])), "f32[2] cpu  [nan, -inf]"),
    (tensor(1, kept=np.array([1 + 2j])), "f32[1] cpu  [1+2j]"),
    (tensor(1, kept=np.array(["a\n"])), r"f32[1] cpu  [a\n]"),
    (tensor(0, kept=np.zeros((0, 3))), "f32[0] cpu  []"),
    (tensor(9, kept=np.zeros(100_000)), "f32[9] cpu"),
    (tensor(9, kept=np.zeros(100_000), stats=stats(0.0, 0.0)), "f32[9] cpu  0  mean 0"),
    (tensor(2, kept="what\nI kept"), r"f32[2] cpu  what\nI kept"),
    (tensor(2, stats=Stats(count=2, nan=1, inf=1)), "f32[2] cpu  ✗ 1 NaN, 1 Inf"),
    (tensor(0, stats=Stats(count=0)), "f32[0] cpu"),
    (tensor(2, dtype="odd\x07", device="d\n"), r"odd\x07[2] d\n"),
    (object(), "<object>"),
]


@pytest.mark.parametrize(("value", "text"), HELD, ids=range(len(HELD)))
def test_describe_shows_tensors_numbers_and_containers(value: Any, text: str) -> None:
    assert held(value) == text


def test_hostile_and_deep_values_are_cut() -> None:
    class Rude:
        def __str__(self) -> str:
            raise RuntimeError

    assert held(tensor(2, kept=Rude())) == "f32[2] cpu  <Rude: RuntimeError>"
    nested: Any = tensor(1)
    for _ in range(5000):
        nested = [tensor(1), nested]
    assert held(nested) == "list, len 2: f32[1], list, len 2"
    assert len(held("x" * 10_000)) < 100 and len(held({"k" * 5000: 1})) < 100
