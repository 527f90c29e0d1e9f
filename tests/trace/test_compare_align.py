"""Sequences put side by side."""

from __future__ import annotations

import itertools
import random

import pytest

from insitu.trace.compare.align import align


def longest(a: list[int], b: list[int]) -> int:
    """The length of the longest common subsequence, by the book."""
    row = [0] * (len(b) + 1)
    for x in a:
        before = row[:]
        for j, y in enumerate(b):
            row[j + 1] = before[j] + 1 if x == y else max(before[j + 1], row[j])
    return row[-1]


@pytest.mark.parametrize("seed", range(20))
def test_pairs_are_equal_ascend_and_are_nearly_all_there_can_be(seed: int) -> None:
    draw = random.Random(seed)
    found = possible = 0
    for _ in range(30):
        tokens = draw.choice((2, 4, 30))
        a = [draw.randrange(tokens) for _ in range(draw.randrange(50))]
        b = [token for token in a if draw.random() > 0.2]
        for _ in range(draw.randrange(6)):
            b.insert(draw.randrange(len(b) + 1), draw.randrange(tokens))
        pairs = align(a, b)
        assert all(a[i] == b[j] for i, j in pairs)
        assert all(one[0] < two[0] and one[1] < two[1] for one, two in itertools.pairwise(pairs))
        found, possible = found + len(pairs), possible + longest(a, b)
    assert found >= 0.95 * possible


@pytest.mark.parametrize(
    ("a", "b", "pairs"),
    [
        ("", "abc", []),
        ("abc", "abc", [(0, 0), (1, 1), (2, 2)]),
        ("abc", "xyz", []),
        ("abcd", "acd", [(0, 0), (2, 1), (3, 2)]),
        ("aaab", "aab", [(0, 0), (1, 1), (3, 2)]),
    ],
)
def test_small_ones(a: str, b: str, pairs: list[tuple[int, int]]) -> None:
    found = align(a, b)
    assert len(found) == len(pairs) and all(a[i] == b[j] for i, j in found)


def test_what_has_nothing_in_order_ends_soon() -> None:
    draw = random.Random(0)
    a = [draw.randrange(50) for _ in range(20_000)]
    assert len(align(a, a[::-1])) > 1000  # a quadratic search would take minutes
