"""An explanation survives as plain data; damaged data is no explanation."""

from __future__ import annotations

from typing import Any

import pytest

from insitu.trace.event import Fields, Opaque, TensorFacts, Word
from insitu.trace.explain.explanation import (
    Explanation,
    ExpressionSite,
    Misfit,
    Origin,
    OriginKind,
    RangeExit,
    ShapeRow,
    Underline,
)
from insitu.trace.explain.explanation_data import explanation_of, plain_explanation


def explanation(value: Any = None) -> Explanation:
    """One with everything in it; `value` is what the expression on the line had."""
    site = ExpressionSite("model.py", 4, "forward", "x @ w")
    return Explanation(
        "RuntimeError",
        "shapes do not fit",
        site,
        ("Net", "Net.fc"),
        ((4, "    return x @ w"),),
        (Underline(4, 11, 12, value),),
        (
            Misfit(
                "3 and 4 differ", (ShapeRow("left", (2, 3), "x"), ShapeRow("right", (4, "s0"))), -1, "transpose", ("w",)
            ),
        ),
        (
            Origin(OriginKind.PRODUCED, site, "w"),
            Origin(OriginKind.GRADIENT_LOST),
            Origin(OriginKind.RANGE, site, "rows", range_exit=RangeExit(72, is_above=True)),
            Origin(OriginKind.NAN_PRODUCED, site, count=0),
        ),
    )


VALUES = [
    TensorFacts(7, (2, "s0"), "bf16", "cuda:0", type="ndarray"),
    [TensorFacts(1, (2,), "f32", "cpu"), 3],
    {"a": (TensorFacts(1, (), "i64", "cpu"), Word("cpu"))},
    Fields("Output", {"logits": TensorFacts(1, (4,), "f32", "cpu")}),
    Opaque("Tokenizer"),
    "text",
    None,
    float("inf"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_plain_data_becomes_the_same_explanation(value: Any) -> None:
    before = explanation(value)
    after = explanation_of(plain_explanation(before))
    assert after is not None
    assert str(after) == str(before)
    assert (after.site, after.misfits, after.origins) == (before.site, before.misfits, before.origins)


def test_field_that_an_older_version_did_not_know_has_its_default() -> None:
    data = plain_explanation(explanation())
    for origin in data["origins"]:
        del origin["range_exit"], origin["count"]
    after = explanation_of(data)
    assert after is not None
    assert [each.site for each in after.origins] == [each.site for each in explanation().origins]


def damaged(name: str, value: Any) -> dict[str, Any]:
    return {**plain_explanation(explanation()), name: value}


@pytest.mark.parametrize(
    "data",
    [
        None,
        "text",
        {},
        damaged("error", 3),
        damaged("site", {"file": "a.py"}),
        damaged("source", ((1, 2),)),
        damaged("source", 7),
        damaged("underlines", ({"line": "4", "start": 0, "end": 1, "value": None},)),
        damaged("underlines", ({"line": 4, "start": 0, "end": 1, "value": Fields("TensorFacts", {})},)),
        damaged("origins", ({"kind": "invented", "site": None, "name": "", "receiver": ""},)),
        damaged("more", 1),
    ],
)
def test_other_data_is_not_an_explanation(data: Any) -> None:
    assert explanation_of(data) is None
