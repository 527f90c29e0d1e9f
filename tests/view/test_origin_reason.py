"""Why NaN began in a call, for the details of the page."""

from __future__ import annotations

import numpy
import pytest
from tests.view.build import stats, tensor

from insitu.trace.event import Call, TensorFacts
from insitu.view.page.origin_reason import origin_reason

nan, inf = float("nan"), float("inf")


def reason(name: str, given: TensorFacts, out: TensorFacts) -> str:
    return origin_reason(Call(0, None, "function", f"torch.{name}", args=(given,), result=out))


def test_the_reason_is_known_from_statistics_and_from_kept_values() -> None:
    expected = "the logarithm of a number below 0 is NaN: the smallest input is -3"
    assert reason("log", tensor(2, stats=stats(-3, 1)), tensor(2, stats=stats(0, 0, nan=1))) == expected
    kept = tensor(2, kept=numpy.array([-3.0, 1.0]))
    assert reason("log", kept, tensor(2, kept=numpy.array([nan, 0.0]))) == expected


@pytest.mark.parametrize(("sign", "expected"), [(1, "a score is +inf"), (-1, "every score of a row is -inf")])
def test_the_sign_of_an_infinity_is_known_from_values_only(sign: int, expected: str) -> None:
    out = tensor(2, kept=numpy.array([nan, nan]))
    assert reason("softmax", tensor(2, kept=numpy.array([sign * inf, sign * inf])), out).startswith(expected)
    unknown = reason("softmax", tensor(2, stats=stats(0, 1, inf=2)), out)
    assert unknown == "every score of a row is -inf, or a score is +inf"


def test_a_tensor_that_the_call_changed_says_nothing_of_its_former_values() -> None:
    changed = tensor(2, stats=stats(5, 6, nan=1))
    assert "5" not in reason("Tensor.log_", changed, changed)


def test_finite_outputs_and_backward_calls_have_no_reason() -> None:
    given, out = tensor(2, stats=stats(-3, 1)), tensor(2, stats=stats(0, 1))
    assert reason("log", given, out) == ""
    bad = tensor(2, stats=stats(0, 1, nan=1))
    assert origin_reason(Call(0, None, "aten", "aten.log", args=(given,), result=bad, phase="backward")) == ""
