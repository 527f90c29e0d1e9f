"""keep: statistics against numpy, functions of the user, and nothing where there are no values."""

from __future__ import annotations

import math
from typing import Any

import numpy
import pytest
import torch
from tests.capture.oracle import troubles
from torch import Tensor, nn

import insitu
from insitu.capture.statistics import statistics, stats
from insitu.trace.event import Stats

NAN, INF = float("nan"), float("inf")
generator = torch.Generator().manual_seed(0)
normal = torch.randn(1000, generator=generator)

VALUES = {
    "normal": normal.tolist(),
    "empty": [],
    "one": [3.5],
    "constant": [2.25] * 100,
    "zeros": [0.0, -0.0, 0.0],
    "minus zero": [-0.0],
    "nan": [1.0, NAN, 2.0, NAN],
    "only nan": [NAN, NAN],
    "inf": [1.0, INF, -INF, -3.0],
    "only inf": [INF],
    "both infs and nan": [INF, -INF, NAN, 0.0],
    "mean far from zero": (normal * 1e-3 + 1000).tolist(),
    "one far away": [1e6, *[0.0] * 1000],
    "large count": [0.1] * 100_000,
}


def numbers(tensor: Tensor) -> numpy.ndarray[Any, Any]:
    """The elements as numpy has them, in the widest type."""
    if tensor.is_complex():
        tensor = tensor.to(torch.complex128).abs()
    return tensor.detach().to(torch.float64).reshape(-1).numpy()


def assert_right(found: Stats, tensor: Tensor, *, digits: float = 1e-5) -> None:
    """The statistics are those that numpy computes."""
    values = numbers(tensor)
    finite = values[numpy.isfinite(values)]
    assert (found.count, found.nan, found.inf) == (values.size, numpy.isnan(values).sum(), numpy.isinf(values).sum())
    assert found.zeros == (values == 0).sum()
    if finite.size == 0:
        assert (found.min, found.max, found.mean, found.std) == (None,) * 4
        assert sum(found.histogram) == 0
        return
    assert found.min == finite.min() and found.max == finite.max()
    scale = max(abs(finite).max(), 1e-300)
    spread = finite.std()
    assert found.mean == pytest.approx(finite.mean(), rel=digits, abs=scale * 1e-6)
    assert found.std == pytest.approx(spread, rel=1e-3, abs=scale * 1e-7)
    assert sum(found.histogram) == finite.size
    assert len(found.histogram) == 16


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_statistics_of_floats(name: str, dtype: torch.dtype) -> None:
    tensor = torch.tensor(VALUES[name], dtype=dtype)
    assert_right(statistics(tensor), tensor)


@pytest.mark.parametrize(
    "dtype", [torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64]
)
def test_statistics_of_ints(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    tensor = torch.tensor(
        [0, 1, 2, 100, info.max if dtype is not torch.uint64 else 2**52, max(info.min, -(2**52)), 7], dtype=dtype
    )
    assert_right(statistics(tensor), tensor)


@pytest.mark.parametrize("name", [n for n in dir(torch) if n.startswith("float8")])
def test_statistics_of_small_floats(name: str) -> None:
    tensor = torch.tensor([1.0, 2.0, 4.0, 0.5]).to(getattr(torch, name))
    assert_right(statistics(tensor), tensor.float())


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", [torch.complex32, torch.complex64, torch.complex128])
def test_statistics_of_complex_numbers(dtype: torch.dtype) -> None:
    tensor = torch.tensor([3 + 4j, 0, -1, 1j, complex(NAN, 0), complex(0, INF)]).to(dtype)
    assert_right(statistics(tensor), tensor.to(torch.complex128))


def test_statistics_of_bools() -> None:
    found = statistics(torch.tensor([True, False, True, True]))
    assert (found.count, found.min, found.max, found.mean, found.zeros) == (4, 0.0, 1.0, 0.75, 1)


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-30, 1e-22, 1e-15, 1e10, 1e15, 1e19, 1e25, 1e37])
@pytest.mark.parametrize("values", [[1.0, -1.0, 1.0, -1.0], [1.0, 2.0, 3.0], [0.0, 1.0, 9.0]])
def test_statistics_at_any_scale(scale: float, values: list[float]) -> None:
    tensor = torch.tensor(values, dtype=torch.float64).mul(scale).float()
    found, expected = statistics(tensor), numbers(tensor)
    assert found.min == expected.min() and found.max == expected.max()
    assert found.mean == pytest.approx(expected.mean(), rel=1e-5, abs=scale * 1e-6)
    assert found.std == pytest.approx(expected.std(), rel=1e-4, abs=0)


def test_statistics_of_a_sum_that_overflows() -> None:
    tensor = torch.tensor([3e38, 3e38, -1e38])
    found = statistics(tensor)
    assert (found.nan, found.inf, found.max) == (0, 0, tensor.max().item())
    assert found.mean == pytest.approx(5e38 / 3, rel=1e-5)
    assert found.std == pytest.approx(numbers(tensor).std(), rel=1e-4)


def test_the_histogram_is_in_equal_bins() -> None:
    found = statistics(torch.arange(16.0).repeat(3))
    assert found.histogram == (3,) * 16
    assert statistics(torch.tensor([5.0] * 4)).histogram == (4, *[0] * 15)


def test_statistics_of_all_shapes_and_layouts() -> None:
    tensor = torch.arange(12.0).view(3, 4)
    for view in (tensor.T, tensor[:, ::2], tensor[0].expand(5, 4), tensor[1, 1], torch.conj(tensor * 1j).imag):
        assert_right(statistics(view), view.clone())
    coo, csr = torch.eye(3).to_sparse(), torch.eye(3).to_sparse(layout=torch.sparse_coo)
    assert (statistics(coo).max, statistics(csr).nan) == (1.0, 0)


def kept(run: Any, **options: Any) -> insitu.Trace:
    with insitu.record(keep="stats", **options) as trace:
        run()
    assert troubles(trace) == []
    return trace


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_every_new_tensor_has_statistics(level: str) -> None:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.randn(4, 3)
    trace = kept(lambda: model(x).sum().backward(), level=level)
    result = model(x)
    (relu,) = trace.find("1", kind="module")
    assert relu.outputs[0].stats is not None
    assert_right(relu.outputs[0].stats, result)
    assert all(facts.stats is not None for call in trace.calls for facts in call.outputs if facts.producer is not None)


def test_negative_and_conjugate_views_in_a_run() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    for level in ("functions", "aten"):
        trace = kept(lambda: z.conj().imag, level=level)
        found = trace.calls[-1].outputs[0].stats
        assert found is not None and (found.min, found.max) == (-2.0, 4.0)


def test_a_change_in_place_has_statistics_of_its_own() -> None:
    for level in ("functions", "aten"):
        trace = kept(lambda: torch.ones(3).mul_(5), level=level)
        ones, times = trace.find(kind="function")
        assert ones.outputs[0].stats.max == 1.0 and times.outputs[0].stats.max == 5.0  # type: ignore[union-attr]
        assert times.inputs[0].stats.max == 1.0  # type: ignore[union-attr]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensor_without_values_has_no_statistics() -> None:
    def run() -> None:
        torch.ones(3, device="meta") + 1
        with torch._subclasses.FakeTensorMode():
            torch.ones(3) + 1
        torch.func.vmap(torch.sin)(torch.ones(2, 2))
        torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]) * 2

    for level in ("functions", "aten"):
        kept(run, level=level)


def test_unreadable_tensor_does_not_turn_statistics_off_for_the_others() -> None:
    def run() -> None:
        torch.empty(4, dtype=torch.uint4)
        torch.ones(2).view(torch.float4_e2m1fn_x2)
        torch.ones(3).sin()

    for level in ("functions", "aten"):
        trace = kept(run, level=level)
        assert trace.find(name="sin", kind="function")[0].outputs[0].stats is not None


def test_statistics_of_inference_tensors_and_under_autocast() -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)

    def run() -> None:
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            results.append(model(x))

    results: list[Tensor] = []
    trace = kept(run, level="aten")
    (linear,) = trace.find(name="linear", kind="function")
    assert linear.outputs[0].dtype == "bf16"
    assert_right(linear.outputs[0].stats, results[0])  # type: ignore[arg-type]


# A function, what it makes of three ones, and what of the one zero that was given.
RESULTS = {
    "number": (lambda t: 1.5, 1.5, 1.5),
    "tensor of none": (lambda t: t.sum(), 3.0, 0.0),
    "text": (lambda t: str(tuple(t.shape)), "(3,)", "(1,)"),
    "list": (lambda t: [t.min(), t.max()], [1.0, 1.0], [0.0, 0.0]),
    "dict": (lambda t: {"n": t.numel(), "s": t.sum()}, {"n": 3, "s": 3.0}, {"n": 1, "s": 0.0}),
    "none": (lambda t: None, None, None),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_keep_function_of_the_user_is_called_with_each_tensor(name: str, level: str) -> None:
    function, made, given = RESULTS[name]
    model = nn.Identity()
    model.register_forward_hook(lambda *_: torch.ones(3))
    with insitu.record(model, level=level, keep=function) as trace:
        model(torch.zeros(1))
    assert troubles(trace) == []
    assert trace.calls[0].outputs[0].kept == made
    assert trace.calls[0].inputs[0].kept == given


def test_keep_function_may_return_an_array() -> None:
    for tensor in (torch.arange(3.0), torch.arange(3.0).bfloat16(), torch.arange(3)):
        with insitu.record(keep=lambda t: t) as trace:
            tensor.clone()
        found = trace.calls[0].outputs[0].kept
        assert isinstance(found, numpy.ndarray) and found.tolist() == [0, 1, 2]


def test_keep_function_sees_no_gradient_and_changes_nothing() -> None:
    seen: list[tuple[bool, bool]] = []

    def look(tensor: Tensor) -> float:
        seen.append((tensor.requires_grad, torch.is_grad_enabled()))
        return float((tensor * 2).sum())

    x = torch.ones(3, requires_grad=True)
    with insitu.record(level="aten", keep=look) as trace:
        x.sin().sum().backward()
    assert set(seen) == {(False, False)}
    assert "aten.mul.Tensor" not in [call.name for call in trace.calls if call.phase == "forward"]
    assert torch.equal(x.grad, x.detach().cos())  # type: ignore[arg-type]


@pytest.mark.parametrize("level", ["modules", "functions", "aten"])
def test_keep_function_that_raises_is_reported_once(level: str) -> None:
    calls: list[int] = []

    def refuse(tensor: Tensor) -> None:
        calls.append(1)
        raise LookupError("my own fault")

    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.ones(1, 3)
    expected = model(x)
    with (
        pytest.warns(insitu.InsituWarning, match="my own fault") as warned,
        insitu.record(level=level, keep=refuse) as trace,
    ):
        assert torch.equal(model(x), expected)
    assert len(warned) == 1 and len(troubles(trace)) == 1
    assert len(calls) == 1
    assert len(trace.find("**", kind="module")) == 3


@pytest.mark.parametrize("value", ["stat", "Meta", 3, None, ["stats"]])
def test_unknown_keep_raises_choice_error(value: Any) -> None:
    with pytest.raises(insitu.ChoiceError) as caught:
        insitu.record(keep=value)
    assert repr(value) in str(caught.value) and "'meta'" in str(caught.value) and "'stats'" in str(caught.value)
    if value == "stat":
        assert "did you mean 'stats'?" in str(caught.value)


def test_mean_of_very_large_values_is_finite() -> None:
    found = statistics(torch.tensor([1.7e308, 1.7e308], dtype=torch.float64))
    assert found.mean is not None and math.isfinite(found.mean)


def test_recorded_min_and_max_of_integers_are_integers() -> None:
    found = stats(torch.tensor([3, 131_073]))
    assert found is not None and (found["min"], found["max"]) == (3, 131_073)
    assert type(found["max"]) is int and type(found["mean"]) is float
    values = (torch.ones(2), torch.tensor([2**62]), torch.empty(0).long())
    floats, large, empty = map(stats, values)
    assert floats is not None and type(floats["max"]) is float
    assert large is not None and type(large["max"]) is float
    assert empty is not None and empty["max"] is None
