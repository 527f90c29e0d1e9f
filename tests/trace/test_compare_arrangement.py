"""The same values in another order have a name."""

from __future__ import annotations

import numpy
import pytest

from insitu.trace.compare.arrangement import Arrangement, arrangement

X = numpy.random.default_rng(1).standard_normal((2, 4, 6, 8))


def found(b: numpy.ndarray, a: numpy.ndarray = X) -> Arrangement | None:
    return arrangement(a, b, 1e-6, 1e-6)


@pytest.mark.parametrize(
    ("b", "expected"),
    [
        (X[:, [0, 2, 1, 3]], Arrangement("swapped", 1, (1, 2), 4)),
        (X[..., [4, 5, 6, 7, 0, 1, 2, 3]], Arrangement("swapped", 3, (0, 1), 2, 4)),
        (X[:, :, ::-1], Arrangement("reversed", 2, (5, 4, 3, 2, 1, 0), 6)),
        (numpy.roll(X, 1, 2), Arrangement("shifted", 2, (5, 0, 1, 2, 3, 4), 6, 1, 1)),
        (X[..., [0, 4, 1, 5, 2, 6, 3, 7]], Arrangement("interleaved", 3, (0, 4, 1, 5, 2, 6, 3, 7), 2)),
        (X[..., [3, 1, 2, 0, 5, 4, 7, 6]], Arrangement("reordered", 3, (3, 1, 2, 0, 5, 4, 7, 6), 8)),
        (X.swapaxes(1, 2), Arrangement("transposed", items=(1, 2))),
        (X.transpose(3, 0, 1, 2), Arrangement("transposed", items=(3, 0, 1, 2))),
        (X.reshape(2, 24, 8), Arrangement("reshaped")),
        (X * 1.5, Arrangement("scaled", factor=1.5)),
    ],
    ids=lambda item: item.kind if isinstance(item, Arrangement) else "",
)
def test_order_is_named(b: numpy.ndarray, expected: Arrangement) -> None:
    assert found(b) == expected


def test_square_matrix_is_transposed_and_not_reordered() -> None:
    square = X[0, 0, :, :6]
    assert found(square.T, square) == Arrangement("transposed", items=(0, 1))


@pytest.mark.parametrize("offset", [1, -1])
def test_shift_may_lose_what_is_at_the_end(offset: int) -> None:
    b = numpy.roll(X, offset, 1).copy()
    b[:, 0 if offset > 0 else -1] = 0.0
    assert found(b) == Arrangement("shifted", 1, offset=offset)


@pytest.mark.parametrize(
    "b",
    [
        X,
        X + 1e-9,
        numpy.random.default_rng(2).permutation(X.ravel()).reshape(X.shape),
        numpy.random.default_rng(2).standard_normal(X.shape),
        numpy.where(X > 1, numpy.nan, X),
        numpy.zeros_like(X),
    ],
    ids=["same", "close", "any order", "other values", "NaN", "zeros"],
)
def test_other_values_have_no_order(b: numpy.ndarray) -> None:
    assert found(b) is None
