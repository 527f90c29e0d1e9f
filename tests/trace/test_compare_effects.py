"""What a cause does to the result, through which calls, and how far both runs are from a reference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import insitu
from insitu.errors import ChoiceError
from insitu.trace.diff import Diff
from insitu.trace.event import Call


class Net(nn.Module):
    def __init__(self, eps: float = 1e-5, scale: float = 1.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.norm, self.scale = nn.LayerNorm(8, eps=eps), scale

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = x + F.gelu(layer(x))
        side: Tensor = self.norm(x)
        return side + x * self.scale


def trace(keep: Any = "values", dtype: torch.dtype = torch.float32, **options: float) -> insitu.Trace:
    torch.manual_seed(0)
    model, x = Net(**options), torch.randn(4, 8)
    model.to(dtype)
    with insitu.record(model, keep=keep) as found:
        model(x.to(dtype))
    return found


def both(keep: Any = "values") -> Diff:
    return insitu.compare(trace(keep), trace(keep, eps=1e-3, scale=1.5))


def test_causes_are_a_tuple_ordered_by_the_error_they_introduce() -> None:
    diff = both()
    assert isinstance(diff.causes, tuple) and len(diff.causes) == 2
    sizes = [cause.relative.size for cause in diff.causes if cause.relative is not None]
    assert sizes == sorted(sizes, reverse=True) and len(sizes) == 2
    assert diff.first is not None and isinstance(diff.first.a, Call) and diff.first.a.name.endswith("mul")
    assert str(diff).startswith("✗ largest difference: ")


def test_shares_of_several_causes_add_up_and_are_estimates() -> None:
    shares = [cause.result.share for cause in both().causes if cause.result is not None]
    assert len(shares) == 2 and all(share is not None and 0 < share < 1 for share in shares)
    assert sum(filter(None, shares)) == pytest.approx(1)
    assert "% of it from this cause" in str(both())


def test_only_cause_explains_the_whole_result() -> None:
    diff = insitu.compare(trace(), trace(eps=1e-3))
    (cause,) = diff.causes
    assert cause.result is not None and cause.result.share == 1 and cause.result.relative is not None
    assert "in the result, +: " in str(diff)


def test_share_is_not_known_without_values() -> None:
    diff = both(keep="meta")
    assert diff.causes and all(cause.result is None or cause.result.share is None for cause in diff.causes[:1])


def test_because_leads_from_a_result_to_its_cause() -> None:
    diff = insitu.compare(trace(), trace(eps=1e-3))
    (cause,) = diff.causes
    assert cause.result is not None and cause.result.a is not None
    chain = diff.because(cause.result.a)
    assert chain[0].a is cause.result.a and chain[-1].a is cause.a
    assert [row.cause for row in chain] == [0] * len(chain)
    assert diff.because(chain[0]) == chain and diff.because(cause.result.b or chain[0]) == chain
    assert "because of norm F.layer_norm" in str(diff)


def test_because_of_a_call_that_agrees_is_nothing() -> None:
    diff = insitu.compare(trace(), trace(eps=1e-3))
    assert diff.differences[0].status == "same" and diff.because(diff.differences[0]) == ()


def test_because_refuses_a_call_of_another_diff() -> None:
    stranger = trace().events[0]
    assert isinstance(stranger, Call)
    with pytest.raises(ChoiceError, match="is not a call of this diff"):
        both().because(stranger)


@pytest.mark.parametrize("keep", ["stats", "values"])
def test_reference_in_float64_says_which_run_is_wrong(keep: str) -> None:
    good, bad = trace(keep), trace(keep, eps=1e-2)
    reference = trace(keep, torch.float64)
    for a, b, wrong in ((good, bad, "b"), (bad, good, "a")):
        diff = insitu.compare(a, b, reference=reference)
        assert diff.distance is not None and diff.distance.wrong == wrong
        assert diff.first is not None and diff.first.distance is not None and diff.first.distance.wrong == wrong
        assert "from the reference, b " in str(diff) and f": {wrong} is wrong" in str(diff)
    diff = insitu.compare(good, good, reference=reference)
    assert diff.distance is not None and diff.distance.wrong == "neither"
    diff = insitu.compare(bad, trace(keep, eps=3e-2), reference=reference)
    assert diff.distance is not None and diff.distance.wrong == "both"


def test_reference_without_values_says_that_nothing_is_known() -> None:
    diff = insitu.compare(trace("meta"), trace("meta", eps=1e-2), reference=trace("meta"))
    assert diff.first is not None and diff.first.distance is not None and diff.first.distance.wrong == "unknown"


@pytest.mark.parametrize("keep", ["stats", "values"])
def test_weight_that_differs_is_a_cause_even_after_another_one(keep: str) -> None:
    def run(first: float, last: float) -> insitu.Trace:
        torch.manual_seed(0)
        model, x = (
            nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)),
            torch.randn(4, 8),
        )
        with torch.no_grad():
            model[0].weight.mul_(first)
            model[4].weight.mul_(last)
        with insitu.record(model, keep=keep) as found:
            model(x)
        return found

    diff = insitu.compare(run(1.0, 1.0), run(1.1, 1.2))
    assert [cause.a.path for cause in diff.causes if isinstance(cause.a, Call)] == ["0", "4"]
    assert [cause.kind for cause in diff.causes] == ["input", "input"]
    assert diff.causes[0].relative is not None and diff.causes[1].relative is None
    assert all(cause.result is not None and cause.result.share is None for cause in diff.causes)
    assert "its share of that is not known" in str(diff)
