"""Path patterns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from insitu.errors import PatternError
from insitu.trace.path import Pattern, fits, suggestion

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


# Pattern, path, and whether the pattern matches it. tests/browser/test_page.py asks the page the same.
CASES = json.loads((Path(__file__).parent / "path_cases.json").read_text())


@pytest.mark.parametrize(("pattern", "path", "expected"), CASES)
def test_pattern_matches_as_the_shared_cases_say(pattern: str, path: str, expected: bool) -> None:
    assert Pattern.of(pattern).match(path) is expected


@pytest.mark.parametrize(("pattern", "path", "expected"), CASES)
def test_rests_and_begin_agree_with_match(pattern: str, path: str, expected: bool) -> None:
    """A pattern matches a path when nothing is left of it, and begins a path when it matches a part from the left."""
    assert (() in Pattern.of(pattern).rests(path)) is expected
    names = path.split(".")
    parts = [".".join(names[:count]) for count in range(len(names) + 1)]
    assert Pattern.of(pattern).covers(path) is any(Pattern.of(pattern).match(part) for part in parts)


def test_segments_match_as_paths_of_one_segment_do() -> None:
    for pattern, path, expected in CASES:
        if pattern and path and "." not in pattern + path:
            assert fits(pattern, path) is expected, (pattern, path)


def test_the_empty_pattern_names_the_root() -> None:
    assert Pattern.of("").match("") and not Pattern.of("").match("a")


@pytest.mark.parametrize("pattern", [".", "a..b", ".a", "a.", "**..a"])
def test_empty_segments_are_refused(pattern: str) -> None:
    with pytest.raises(PatternError, match="not a path pattern") as caught:
        Pattern.of(pattern)
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
def test_a_pattern_without_a_match_names_the_nearest_path(pattern: str, nearest: str | None) -> None:
    with pytest.raises(PatternError) as caught:
        Pattern.of(pattern).require(PATHS)
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
def test_suggestions_look_at_the_end_of_paths(pattern: str, nearest: str) -> None:
    paths = ["lstm", "lstm.weight", "forward.loss", "forward.hn", "decoder.forward.loss"]
    assert suggestion(pattern, paths) == f" (did you mean {nearest!r}?)"


def test_suggestions_match_a_path() -> None:
    for pattern in ("encoder.layer.*.attn", "encodr", "h.*.x", "**.atttn", "encoder.**.atn", "layers.*.attn"):
        hint = suggestion(pattern, PATHS)
        if hint:
            suggested = hint.split("'")[1]
            assert any(Pattern.of(suggested).match(path) for path in PATHS), suggested


@pytest.mark.parametrize("pattern", ["encoder", "encoder.**", "**.attn", "h.*", "**"])
def test_pattern_with_a_match_does_not_raise(pattern: str) -> None:
    Pattern.of(pattern).require(PATHS)
