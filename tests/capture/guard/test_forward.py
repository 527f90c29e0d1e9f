"""Which call produced NaN or Inf, forward and backward, and what is not a finding."""

from __future__ import annotations

import gc
import math
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import insitu
from insitu.capture.finite import finiteness_of, first_bad, total
from insitu.capture.guard.check import LATE, SOON
from insitu.trace.findings import Finding, NonFiniteInput, NonFiniteResult

NAN, INF = math.nan, math.inf
LEAST = torch.finfo(torch.float32).min


def found(run: Callable[[], object], *subject: nn.Module, **options: Any) -> list[tuple[str, str, str]]:
    """What a guard finds: kind, phase and the last part of the name."""
    with insitu.guard(*subject, action="record", **options) as guard:
        kept = run()
    del kept
    return [(each.kind, each.phase, last_name(each)) for each in guard.findings]


def last_name(finding: Finding) -> str:
    if finding.call is None:
        return str(getattr(finding, "node", finding.path))
    return finding.call.name.rpartition(".")[2]


def zeros() -> Tensor:
    return torch.zeros(3, requires_grad=True)


class Doubled(torch.autograd.Function):
    """Its backward divides by what went in."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad.div(x)


class Broken(Doubled):
    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        raise RuntimeError("of the user")


PRODUCED: dict[str, tuple[Callable[[], object], tuple[str, str, str]]] = {
    "log": (lambda: torch.zeros(3).log(), ("inf", "forward", "log")),
    "quotient": (lambda: torch.zeros(3) / torch.zeros(3), ("nan", "forward", "div")),
    "in place": (lambda: torch.ones(3).div_(0), ("inf", "forward", "div_")),
    "out": (lambda: torch.div(torch.ones(3), torch.zeros(3), out=torch.empty(3)), ("inf", "forward", "div")),
    "several results": (lambda: torch.linalg.slogdet(torch.zeros(2, 2)), ("inf", "forward", "slogdet")),
    "half": (lambda: torch.full((3,), 300.0).half() * 300, ("inf", "forward", "mul")),
    "complex": (lambda: torch.zeros(2, dtype=torch.complex64).log(), ("inf", "forward", "log")),
    "nothing by a written infinity": (lambda: (1 - torch.ones(3, 3).tril()) * -INF, ("nan", "forward", "mul")),
    "the same with a gradient": (lambda: (zeros() * -INF).exp(), ("nan", "forward", "mul")),
    "gradient at a mask": (
        lambda: torch.full((3,), -INF, requires_grad=True).logsumexp(0).clamp(min=-1).backward(),
        ("nan", "backward", "logsumexp"),
    ),
    "sparse": (lambda: torch.eye(2).to_sparse() / 0, ("inf", "forward", "div")),
    "masked row": (lambda: torch.full((2, 3), -INF).softmax(-1), ("nan", "forward", "softmax")),
    "overflow": (lambda: torch.ones(3) * 3e38 * 10, ("inf", "forward", "mul")),
    "under inference": (lambda: torch.inference_mode()(lambda: torch.zeros(2).log())(), ("inf", "forward", "log")),
    "backward": (lambda: zeros().sqrt().sum().backward(), ("inf", "backward", "sqrt")),
    "several nodes": (
        lambda: F.local_response_norm(zeros().view(1, 1, 3), 1, alpha=1, beta=-0.5, k=0).sum().backward(),
        ("nan", "backward", "local_response_norm"),
    ),
    "of a gradient": (
        lambda: torch.autograd.grad((z := zeros()).pow(1.5).sum(), z, create_graph=True)[0].sum().backward(),
        ("inf", "backward", "grad"),
    ),
    "hand-written": (lambda: Doubled.apply(zeros()).sum().backward(), ("inf", "backward", "div")),
    "recomputed": (
        lambda: checkpoint(lambda x: x.sqrt(), zeros(), use_reentrant=False).sum().backward(),
        ("inf", "backward", "sqrt"),
    ),
}


@pytest.mark.parametrize("name", PRODUCED)
def test_the_call_that_produced_nan_or_inf_is_found(name: str) -> None:
    run, expected = PRODUCED[name]
    assert found(run) == [expected]


def clipped() -> None:
    layer = nn.Linear(2, 2)
    for parameter in layer.parameters():
        parameter.grad = torch.full_like(parameter, INF)
    nn.utils.clip_grad_norm_(layer.parameters(), 1.0)


NOT_FOUND: dict[str, Callable[[], object]] = {
    "masked_fill": lambda: torch.zeros(3).masked_fill(torch.tensor([True, False, False]), -INF),
    "where": lambda: torch.where(torch.tensor([True, False, False]), torch.zeros(3), -INF),
    "full": lambda: torch.full((3, 3), -INF).triu(1),
    "tensor": lambda: torch.tensor([NAN]) + 1,
    "added mask": lambda: (torch.zeros(3, requires_grad=True) + torch.tensor([0.0, -INF, 0.0])).softmax(-1).sum(),
    "least and least": lambda: torch.zeros(3) + torch.tensor([LEAST, 0, 0]) + torch.tensor([LEAST, 0, 0]),
    "returned as it was": lambda: torch.tensor([INF]).to("cpu").float(),
    "clipped": clipped,
    "least in bf16": lambda: torch.tensor([LEAST, 0]).bfloat16(),
    "written": lambda: torch.ones(3).__setitem__(0, NAN),
    "uninitialised": lambda: torch.empty(10_000).resize_(20_000).new_empty(5),
    "unfilled": lambda: torch.full((3,), NAN).__setitem__(1, torch.ones(())),
    "largest of all": lambda: torch.minimum(torch.full((3,), 1e38) * 10, torch.ones(3)).sum(),
    "large sums": lambda: torch.full((10,), 3e38),
    "whole numbers": lambda: torch.ones(3, dtype=torch.long) // 2,
    "empty": lambda: torch.ones(0).sum(),
    "meta": lambda: torch.ones(3, device="meta") / 0,
    "vmap": lambda: torch.func.vmap(lambda x: x.log())(torch.zeros(3)),
    "func.grad": lambda: torch.func.grad(lambda x: x.sqrt().sum())(torch.zeros(3)),
    "inside one function": lambda: F.softplus(torch.full((3,), 1000.0, requires_grad=True)).sum().backward(),
    "safe root": lambda: torch.where((z := zeros()) > 0, (z + (z <= 0)).sqrt(), z).sum().backward(),
}


@pytest.mark.parametrize("name", NOT_FOUND)
def test_masks_literals_and_memory_are_not_findings(name: str) -> None:
    assert found(NOT_FOUND[name]) == []


HEALED: dict[str, Callable[[], object]] = {
    "log of a triangle": lambda: attend(torch.log(torch.tril(torch.ones(3, 3)))),
    "log of a padding mask": lambda: attend(torch.tensor([1.0, 1.0, 0.0]).log()[None]),
    "a view of it": lambda: attend(torch.ones(3, 3).tril().view(9).log().view(3, 3).t().t()),
    "zeros divided": lambda: attend(1 - 1 / torch.ones(3, 3).tril()),
    "log in place": lambda: attend(torch.ones(3, 3).tril().log_()),
    "replaced by a mask": lambda: root_of_degrees(torch.tensor([0.0, 1.0, 4.0])),
    "replaced by where": lambda: torch.where((x := torch.zeros(3)) > 0, 1 / x, x).sum().item(),
    "clamped": lambda: (1 / torch.zeros(3)).clamp(max=9.0).sum().item(),
    "clamped in place": lambda: (1 / torch.zeros(3)).clamp_(max=9.0).sum().item(),
    "exponential": lambda: torch.zeros(3).log().exp().sum().item(),
    "a mean without NaN": lambda: (torch.zeros(3) / torch.tensor([0.0, 1.0, 2.0])).nanmean().item(),
    "NaN to number": lambda: (torch.zeros(3) / torch.zeros(3)).nan_to_num().sum().item(),
    "looked for": lambda: bool((torch.zeros(3) / torch.zeros(3)).isnan().any()),
    "lengths of the mask": lambda: attend(torch.log(torch.tril(torch.ones(3, 3)))) or attend(torch.zeros(3, 3)),
    "without a gradient": torch.no_grad()(lambda: attend(torch.log(torch.tril(torch.ones(3, 3))))),
}


def attend(mask: Tensor) -> None:
    """Attention with a mask that is added to the scores."""
    query = torch.arange(9.0).view(3, 3).requires_grad_()
    scores = query @ query.t() + mask
    result = (scores.softmax(-1) @ query).sum()
    if result.requires_grad:
        result.backward()


def root_of_degrees(degrees: Tensor) -> float:
    """The normalisation of a graph in which a node has no neighbours."""
    roots = degrees.pow(-0.5)
    roots[roots == INF] = 0
    return roots.sum().item()


@pytest.mark.parametrize("name", HEALED)
def test_inf_that_heals_is_not_a_finding(name: str) -> None:
    assert found(HEALED[name]) == []


REACHED: dict[str, tuple[Callable[[], object], tuple[str, str, str], str]] = {
    "loss": (lambda: (zeros() + torch.zeros(3).log()).sum().backward(), ("inf", "forward", "log"), "loss"),
    "loss through a view": (
        lambda: (zeros() + torch.zeros(3, 1).log().squeeze(1)).mean().backward(),
        ("inf", "forward", "log"),
        "loss",
    ),
    "NaN": (lambda: (bad := torch.zeros(3).log()) - bad, ("inf", "forward", "log"), "nan"),
    "NaN under softmax": (lambda: attend(torch.zeros(3, 3).log()), ("inf", "forward", "log"), "nan"),
    "gradient": (
        lambda: (torch.zeros(3).log() * (zeros() + 1)).exp().sum().backward(),
        ("inf", "forward", "log"),
        "gradient",
    ),
    "number": (lambda: torch.zeros(3).log().mean().item(), ("inf", "forward", "log"), "number"),
    "numbers": (lambda: torch.zeros(3).log().view(3).tolist(), ("inf", "forward", "log"), "number"),
    "array": (lambda: torch.zeros(3).log().numpy(), ("inf", "forward", "log"), "number"),
    "unused": (lambda: torch.zeros(3).log(), ("inf", "forward", "log"), "unused"),
    "unused view": (lambda: torch.zeros(3).log().view(3, 1), ("inf", "forward", "log"), "unused"),
    "unused, and gone": (lambda: torch.zeros(3).log() is None, ("inf", "forward", "log"), "unused"),
    "metric": (lambda: (torch.zeros(3) / torch.zeros(3)).mean().item(), ("nan", "forward", "div"), "number"),
    "data": (
        lambda: nn.Linear(3, 1)(torch.ones(3) - torch.zeros(3) / torch.zeros(3)),
        ("nan", "forward", "div"),
        "model",
    ),
}


@pytest.mark.parametrize("name", REACHED)
def test_inf_that_does_not_heal_is_found_where_it_was_produced(name: str) -> None:
    run, expected, reached = REACHED[name]
    with insitu.guard(action="record") as guard:
        kept = run()
    del kept
    first = guard.findings[0]
    assert first.call is not None
    assert (first.kind, first.phase, first.call.name.rpartition(".")[2]) == expected
    assert isinstance(first, NonFiniteResult) and first.reach == reached


@pytest.mark.parametrize("steps", [1, SOON])
def test_waiting_findings_survive_clearing_the_tape(steps: int) -> None:
    def fill() -> None:
        for _ in range(steps // 10):
            torch.ones(2).exp()
        (torch.ones(2, requires_grad=True) * 2).sum().backward()

    with insitu.guard(action="record") as guard:
        mask, late, unused = (torch.zeros(3).log() for _ in range(3))
        fill()
        attend(torch.stack([mask, torch.zeros(3), torch.zeros(3)]).t())
        del unused
        fill()
        (zeros() + late).sum().backward()
    assert [each.reach for each in guard.findings if isinstance(each, NonFiniteResult)] == ["loss"]
    assert [guard.times(each) for each in guard.findings] == [2]


def test_a_gradient_reports_a_waiting_finding_after_the_tape_was_cleared() -> None:
    with insitu.guard(action="record") as guard:
        mask = torch.zeros(3).log()
        late = ((zeros() + 1) * mask).exp().sum()
        while len(guard._entries[-1][1].recorder.probes[0].tape) < SOON + 1:  # type: ignore[union-attr]
            torch.ones(2).exp()
        (torch.ones(2, requires_grad=True) * 2).sum().backward()
        assert len(guard._entries[-1][1].recorder.probes[0].tape) == 0  # type: ignore[union-attr]
        late.backward()
    (finding,) = guard.findings
    assert finding.site is not None and "mask = torch.zeros(3).log()" in finding.site.text
    assert isinstance(finding, NonFiniteResult) and finding.reach == "gradient"


def test_an_infinity_that_only_another_thread_uses_is_not_called_unused() -> None:
    def run() -> None:
        mask = torch.log(torch.tril(torch.ones(3, 3)))
        layer = nn.TransformerEncoderLayer(4, 1, batch_first=True)
        thread = threading.Thread(target=lambda: layer(torch.ones(1, 3, 4), src_mask=mask).sum().backward())
        thread.start()
        thread.join()

    assert found(run) == []


def test_without_a_gradient_the_guard_raises_where_nan_is_computed() -> None:
    with torch.no_grad(), pytest.raises(insitu.NonFiniteError) as caught, insitu.guard():
        scores = torch.full((2, 2), 300.0).half() * 300
        scores.softmax(-1)
    assert "scores = torch.full((2, 2), 300.0).half() * 300" in str(caught.value)
    assert "then  .softmax at test_forward.py:" in str(caught.value)


def test_an_exception_of_the_user_does_not_report_unused_results() -> None:
    with pytest.raises(ValueError, match="of the user"), insitu.guard():
        mask = torch.log(torch.tril(torch.ones(3, 3)))
        raise ValueError(f"of the user {mask.shape}")


def test_calls_that_pass_inf_on_are_not_findings() -> None:
    def run() -> object:
        bad = torch.zeros(3).log()
        bad.add_(1)
        return torch.stack([bad.view(3), bad]).exp().relu() + bad

    assert found(run) == [("inf", "forward", "log")]


def test_the_next_call_finds_the_overflow_of_an_unchecked_call() -> None:
    def run() -> object:
        large = zeros() + 3e38
        product = large * 10
        return product.view(3, 1).flatten().sub(1).sigmoid()

    assert found(run) == [("inf", "forward", "mul")]
    assert found(lambda: ((zeros() + 3e38) * 10).sum().backward()) == [("inf", "forward", "mul")]
    assert found(lambda: (zeros() + 3e38) * 10) == [("inf", "forward", "mul")]  # nobody uses it


LARGE: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "sigmoid": lambda x: x.sigmoid(),
    "view and tanh": lambda x: x.view(3, 1).flatten().tanh(),
    "exp": lambda x: x.neg().exp(),
    "reciprocal": lambda x: 1 / x,
    "less the largest": lambda x: x - x.max(),
    "a part": lambda x: x[1:],
    "the second of several": lambda x: (parts := x.flip(0).split(2))[0].sigmoid().sum() + parts[1].sigmoid(),
    "cross_entropy": lambda x: F.cross_entropy(x[None], torch.tensor([0])),
    "item": lambda x: x.mean() if x.sum().item() else x,
    "nothing": lambda x: x,
}


@pytest.mark.parametrize("name", LARGE)
def test_an_overflow_is_found_at_the_call_that_produced_it(name: str) -> None:
    weight = nn.Parameter(torch.tensor([[10.0, 0, 0], [0, 1, 0], [0, 0, 1]]))

    def run() -> None:
        x = torch.full((3,), 1e38, requires_grad=True)
        large = F.linear(x, weight)  # here
        LARGE[name](large).sum().backward()

    with insitu.guard(action="record") as guard:
        run()
    first, *_ = guard.findings
    assert (first.kind, first.phase, guard.times(first)) == ("inf", "forward", 1)
    assert first.site is not None and first.site.text.endswith("# here")
    assert [each.call.name for each in guard.findings if each.kind == "inf" and each.call is not None] == [
        "torch.nn.functional.linear"
    ]


@pytest.mark.parametrize(
    "repair",
    [
        lambda x: x.clamp(max=1),
        lambda x: x.clamp_(max=1),
        lambda x: x.nan_to_num(posinf=1.0),
        lambda x: torch.where(x.isinf(), torch.ones_like(x), x),
    ],
)
def test_an_overflow_that_the_next_call_repairs_is_not_a_finding(repair: Callable[[Tensor], Tensor]) -> None:
    def run() -> None:
        large = torch.full((3,), 1e38, requires_grad=True) * 10
        repair(large).sum().backward()

    assert found(run) == []


def test_the_overflow_of_numbers_whose_sum_is_too_large_has_a_reason() -> None:
    weight = torch.ones(3, 4, requires_grad=True)
    with pytest.raises(insitu.NonFiniteError, match=r"the largest absolute input is 3e\+38"), insitu.guard():
        (weight.abs() + 3e38).sum().backward()


def test_large_numbers_are_not_blamed_for_what_comes_later() -> None:
    weight = torch.ones(3, 4, requires_grad=True)

    def run() -> Tensor:
        large = weight.abs() + 3e38
        flat = large.view(-1)
        del large
        return torch.log(flat * 0).sum()

    assert found(run) == [("inf", "forward", "log")]


def test_an_overflow_below_zero_is_found_and_infinite_literals_are_not() -> None:
    assert found(lambda: torch.full((3,), -1e38, requires_grad=True).mul(10).exp()) == [("inf", "forward", "mul")]
    assert found(lambda: (zeros().exp() * -INF).exp()) == []
    assert found(lambda: (zeros().exp() * INF).sigmoid()) == []


def test_an_overflow_of_unchecked_gradients_names_the_call_that_computes_them() -> None:
    def run() -> None:
        (zeros().exp() * 1e20).sum().backward(torch.tensor(1e20))

    assert found(run) == [("inf", "backward", "mul")]


def test_nan_from_before_the_block_only_warns() -> None:
    data = torch.tensor([[NAN, 1.0]])
    layer = nn.Linear(2, 2)
    with insitu.guard() as guard, pytest.warns(insitu.InsituWarning, match="data, which already contained NaN"):
        layer(data).exp()
    assert [each.kind for each in guard.findings] == ["incoming"]
    with torch.no_grad():
        layer.weight[0, 0] = NAN
    with insitu.guard(layer) as guard, pytest.warns(insitu.InsituWarning, match="weight, which already contained NaN"):
        layer(torch.ones(1, 2)).sum().backward()
    with insitu.guard() as guard, pytest.warns(insitu.InsituWarning, match="a gradient that contains NaN"):
        zeros().exp().backward(torch.full((3,), NAN))


def test_gradients_of_nan_from_before_the_block_are_not_findings() -> None:
    data, layer = torch.ones(16, 3), nn.Linear(3, 1)
    data[5, 1] = NAN
    with insitu.guard(layer) as guard, pytest.warns(insitu.InsituWarning, match=r"got x, which already contained NaN"):
        for (x,) in DataLoader(TensorDataset(data), batch_size=8):
            layer(x).pow(2).mean().backward()
    (finding,) = guard.findings
    assert isinstance(finding, NonFiniteInput) and finding.operands[0].facts.shape == (8, 3)


def test_a_gradient_that_follows_from_a_nan_literal_only_warns() -> None:
    words = "contains NaN, because the call itself got or produced a number that is not finite"
    with insitu.guard(), pytest.warns(insitu.InsituWarning, match=words):
        (torch.full((3,), NAN) + zeros()).exp().nan_to_num().sum().backward()


def test_nan_from_an_infinite_gradient_says_so() -> None:
    with insitu.guard(action="record") as guard:
        (zeros() ** 2).sum().sqrt().backward()
    root, power = guard.findings
    assert "SqrtBackward0) produced Inf from finite inputs" in root.text and "the gradient of a root at 0" in root.text
    assert (
        "PowBackward0) produced NaN from a gradient that contains Inf" in power.text and "fractional" not in power.text
    )


@pytest.mark.parametrize(
    ("name", "words"),
    [("log_", "the logarithm of 0"), ("reciprocal_", "division by zero"), ("rsqrt_", "division by zero")],
)
def test_a_call_in_place_has_a_reason(name: str, words: str) -> None:
    with insitu.guard(action="record") as guard:
        getattr(torch.tensor([0.0, 2.0]), name)()
    (finding,) = guard.findings
    assert f"why   {words}" in finding.text and "ends at" not in finding.text


def test_a_finding_names_the_inputs_and_their_producers() -> None:
    with insitu.guard(action="record") as guard:
        counts = torch.tensor([2.0, 0.0, 3.0])
        share = counts / (counts - 2)
    (finding,) = guard.findings
    assert share.isinf().sum() == 1
    assert isinstance(finding, NonFiniteResult)
    assert finding.output is not None and finding.output.stats is not None and finding.index == (0,)
    assert (finding.output.shape, finding.output.stats.inf) == ((3,), 1)
    first, second = finding.operands
    assert (first.name, second.name) == ("counts", "counts - 2")
    assert second.facts.stats is not None and second.facts.stats.zeros == 1
    assert second.producer is not None and second.producer.operator == "-"
    assert finding.site is not None and "share = counts / (counts - 2)" in finding.site.text


def test_a_fused_kernel_and_a_compiled_region_are_checked_as_a_whole() -> None:
    torch.manual_seed(0)  # there are weights with which nothing overflows
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True).eval()
    with torch.no_grad():
        layer.linear1.weight.fill_(3e38)
        layer.linear1.bias.fill_(3e38)
        name = "_transformer_encoder_layer_fwd"
        assert found(lambda: layer(torch.ones(1, 3, 8)), layer) == [("nan", "forward", name)]
    compiled = torch.compile(lambda x: (x - 1).log() * 2, backend="eager")
    (only,) = found(lambda: compiled(torch.zeros(2)).sum())
    assert only[:2] == ("nan", "forward") and "lambda" in only[2]
    root = torch.compile(lambda x: x.sqrt().sum(), backend="aot_eager")
    assert [each[:2] for each in found(lambda: root(zeros()).backward())] == [("inf", "backward")]
    torch.compiler.reset()


def test_a_raising_backward_leaves_no_mode() -> None:
    with insitu.guard():
        modes = torch._C._len_torch_function_stack()
        with pytest.raises(RuntimeError, match="of the user"):
            Broken.apply(zeros()).sum().backward()
        assert torch._C._len_torch_function_stack() == modes


def test_scaled_gradients_may_overflow() -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    weight = nn.Parameter(torch.ones(3).half())
    assert found(lambda: scaler.scale((weight * 100).sum().float()).backward()) == []
    assert weight.grad is not None and not weight.grad.isfinite().any()
    assert found(lambda: scaler.scale(zeros().sqrt().mul(0).sum()).backward()) == [("nan", "backward", "sqrt")]


def test_disabled_grad_scaler_does_not_hide_overflow() -> None:
    scaler = torch.amp.GradScaler("cpu")
    original = torch.amp.GradScaler.scale
    assert found(lambda: zeros().sqrt().sum().backward()) == [("inf", "backward", "sqrt")]
    scaler.scale(torch.ones(1))
    assert found(lambda: zeros().sqrt().sum().backward()) == [("inf", "backward", "sqrt")]
    off = torch.amp.GradScaler("cpu", enabled=False)
    assert found(lambda: off.scale(zeros().sqrt().sum()).backward()) == [("inf", "backward", "sqrt")]
    assert found(lambda: scaler.scale(zeros().sqrt().sum()).backward()) == []
    assert torch.amp.GradScaler.scale is original


def test_guards_that_overlap_leave_the_scalers_as_they_were() -> None:
    class Own(torch.amp.GradScaler):
        def scale(self, outputs: Any) -> Any:
            return outputs * 2.0**16

    original, own = torch.amp.GradScaler.scale, Own.scale
    one, other = insitu.guard(action="record"), insitu.guard(action="record")
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    Own("cpu").scale(zeros().sqrt().sum()).backward()
    other.__exit__(None, None, None)
    assert one.findings == other.findings == []
    assert torch.amp.GradScaler.scale is original and Own.scale is own


def test_other_threads_are_checked_too() -> None:
    class Log(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.log()

    def run() -> None:
        thread = threading.Thread(target=lambda: Log()(zeros()))
        thread.start()
        thread.join()

    assert found(run) == [("inf", "forward", "log")]


def test_hooks_do_nothing_after_the_guard_has_ended() -> None:
    x = zeros()
    with insitu.guard():
        loss = x.sqrt().sum()
    loss.backward()
    assert x.grad is not None and x.grad.isinf().all()


def test_a_guard_keeps_no_tensor_alive() -> None:
    refs = []
    with insitu.guard():
        for _ in range(3):
            hidden = (zeros() + 1).sqrt()
            refs.append(weakref.ref(hidden))
            hidden.sum().backward()
            del hidden
            gc.collect()
            assert refs[-1]() is None


def training(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x = torch.ones(2, 4)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()


def test_memory_is_flat_over_a_training() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ELU(), nn.Linear(4, 4))
    guard = insitu.guard(model)
    with guard:
        running = guard._entries[-1][1]
        assert running.recorder is not None
        check = running.recorder.probes[0].check
        assert check is not None
        sizes = []
        for _ in range(20):
            training(model, 100)
            sizes.append((len(check.probe.tape), len(check.past), len(check.probe.table), len(check.unchecked)))
        assert check.gone > 10 * SOON
        assert all(tape <= 2 * SOON and past <= 2 * SOON for tape, past, *_ in sizes)
        early, late = (max(sum(size[2:]) for size in part) for part in (sizes[:10], sizes[10:]))
        assert late <= 2 * early
    assert guard.findings == []


def test_the_tape_of_an_evaluation_is_cleared_too() -> None:
    model = nn.Sequential(*(nn.ReLU() for _ in range(50)))
    guard = insitu.guard(model)
    with torch.no_grad(), guard:
        running = guard._entries[-1][1]
        assert running.recorder is not None
        tape = running.recorder.probes[0].tape
        longest = 0
        for _ in range(600):
            model(torch.ones(2))
            longest = max(longest, len(tape))
    assert SOON < longest < 2 * LATE


def test_a_gradient_is_found_after_the_tape_was_cleared() -> None:
    with insitu.guard(action="record") as guard:
        late = zeros().sqrt().sum()
        while len(guard._entries[-1][1].recorder.probes[0].tape) < SOON + 1:  # type: ignore[union-attr]
            torch.ones(2).exp()
        (torch.ones(2, requires_grad=True) * 2).sum().backward()
        assert len(guard._entries[-1][1].recorder.probes[0].tape) == 0  # type: ignore[union-attr]
        late.backward()
    (finding,) = guard.findings
    assert finding.site is not None and "late = zeros().sqrt().sum()" in finding.site.text


@pytest.mark.parametrize(
    ("tensor", "bad"),
    [
        (torch.tensor([1.0, NAN]), (1,)),
        (torch.tensor([[1.0, 2.0], [INF, 0.0]]), (1, 0)),
        (torch.tensor([1.0, -INF]).half(), (1,)),
        (torch.tensor([0j, complex(1, NAN)]), (1,)),
        (torch.tensor([1.0, NAN]).to(torch.float8_e5m2), (1,)),
        (torch.tensor([0.0, NAN]).to_sparse(), None),
        (torch.ones(3), ()),
        (torch.ones(3, dtype=torch.bool), ()),
        (torch.full((4,), 3e38), ()),
        (torch.ones(2, device="meta"), ()),
    ],
)
def test_finiteness_and_first_bad_index_of_a_tensor(tensor: Tensor, bad: tuple[int, ...] | None) -> None:
    found = finiteness_of(tensor)
    assert found.is_finite == (bad == ())
    assert math.isfinite(total(tensor)) or tensor.numel() == 4 or not found.is_finite
    if not found.is_finite:
        assert first_bad(tensor, nan=found.nan) == bad
