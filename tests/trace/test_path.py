"""Path patterns."""

from __future__ import annotations

import pytest

from insitu.errors import PatternError
from insitu.trace.path import compiled, matches, require, suggestion

PATHS = [
    "",
    "encoder",
    "encoder.layers.0.attn",
    "encoder.layers.1.attn",
    "encoder.layers.10.mlp.fc1",
    "head",
    "h.0",
    "h.1",
]


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("encoder", "encoder", True),
        ("encoder", "encoder.layers", False),
        ("encoder", "encoders", False),
        ("encoder.*", "encoder.layers", True),
        ("encoder.*", "encoder", False),
        ("encoder.*", "encoder.layers.0", False),
        ("*", "encoder", True),
        ("*", "", False),
        ("**", "", True),
        ("**", "a.b.c", True),
        ("**.attn", "attn", True),
        ("**.attn", "a.b.attn", True),
        ("**.attn", "a.attn.b", False),
        ("a.**", "a", True),
        ("a.**", "a.b.c", True),
        ("a.**", "ab", False),
        ("a.**.z", "a.z", True),
        ("a.**.z", "a.b.c.z", True),
        ("a.**.z", "az", False),
        ("a.*.z", "a.z", False),
        ("layer*.attn", "layer12.attn", True),
        ("layer*.attn", "layer.attn", True),
        ("layer*.attn", "layer.1.attn", False),
        ("h.?", "h.1", True),
        ("h.?", "h.10", False),
        ("h.?", "h.", False),
        ("a+b.(c)", "a+b.(c)", True),
        ("a.b", "axb", False),
        ("Linear#2", "Linear#2", True),
        ("h.[01]", "h.0", False),
    ],
)
def test_matches(pattern: str, path: str, expected: bool) -> None:
    assert matches(pattern, path) is expected


def test_the_empty_pattern_is_the_root() -> None:
    assert matches("", "") and not matches("", "a")


@pytest.mark.parametrize("pattern", [".", "a..b", ".a", "a.", "**..a"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(PatternError, match="no path pattern") as caught:
        compiled(pattern)
    assert repr(pattern) in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("encodr", "encoder"),
        ("encoder.layer.*.attn", "encoder.layers.*.attn"),
        ("encoder.layers.*.atn", "encoder.layers.*.attn"),
        ("haed", "head"),
        ("**.atttn", "encoder.layers.0.attn"),
        ("zzzz", None),
    ],
)
def test_the_nearest(pattern: str, nearest: str | None) -> None:
    with pytest.raises(PatternError) as caught:
        require(pattern, PATHS)
    text = str(caught.value)
    assert f"no path matches {pattern!r}" in text
    if nearest is None:
        assert "did you mean" not in text
    elif "**" not in pattern:
        assert f"did you mean {nearest!r}?" in text


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [("loss", "forward.loss"), ("los", "forward.loss"), ("lsmt", "lstm"), ("forward.h", "forward.hn")],
)
def test_the_end_of_a_path_may_be_meant(pattern: str, nearest: str) -> None:
    paths = ["lstm", "lstm.weight", "forward.loss", "forward.hn", "decoder.forward.loss"]
    assert suggestion(pattern, paths) == f" (did you mean {nearest!r}?)"


def test_what_is_suggested_matches() -> None:
    for pattern in ("encoder.layer.*.attn", "encodr", "h.*.x", "**.atttn", "encoder.**.atn", "layers.*.attn"):
        hint = suggestion(pattern, PATHS)
        if hint:
            suggested = hint.split("'")[1]
            assert any(matches(suggested, path) for path in PATHS), suggested


@pytest.mark.parametrize("pattern", ["encoder", "encoder.**", "**.attn", "h.*", "**"])
def test_what_matches_is_let_through(pattern: str) -> None:
    require(pattern, PATHS)
