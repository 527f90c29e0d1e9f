"""One run calls a fused function, the other computes the same by hand: sizes are those of partners."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader

import insitu
from insitu.trace.diff import Diff

WIDTH, HEADS = 32, 4
RENAMES = {"proj": "o"}


class Fused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).split(c, dim=2)
        q = q.view(b, n, HEADS, c // HEADS).transpose(1, 2)
        k = k.view(b, n, HEADS, c // HEADS).transpose(1, 2)
        v = v.view(b, n, HEADS, c // HEADS).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(b, n, c)
        return x + self.proj(y)


class ByHand(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.fault = fault

    def heads(self, t: Tensor) -> Tensor:
        b, n, c = t.shape
        return t.view(b, n, HEADS, c // HEADS).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        size = c if self.fault == "scale" else c // HEADS
        s = q @ k.transpose(-2, -1) * size**-0.5
        mask = torch.ones(n, n, dtype=torch.bool).triu(1)
        self.attended = s.masked_fill(mask, float("-inf")).softmax(-1) @ v
        y = self.attended
        if self.fault != "merge":
            y = y.transpose(1, 2)
        return x + self.o(y.reshape(b, n, c))


def port(model: Fused, fault: str) -> ByHand:
    other = ByHand(fault)
    weights, biases = model.qkv.weight.data.split(WIDTH), model.qkv.bias.data.split(WIDTH)
    for layer, weight, bias in zip((other.q, other.k, other.v), weights, biases, strict=True):
        layer.weight.data, layer.bias.data = weight.clone(), bias.clone()
    other.o.load_state_dict(model.proj.state_dict())
    if fault == "transposed":
        other.o.weight.data = other.o.weight.data.t().contiguous()
    return other


def compared(fault: str, keep: str) -> tuple[Diff, float]:
    """The comparison, and how far the attention of b is from that of b without the fault."""
    torch.manual_seed(0)
    model = Fused()
    for parameter in model.parameters():
        parameter.data = torch.randn_like(parameter) * 0.2
    other, right, x = port(model, fault), port(model, ""), torch.randn(2, 6, WIDTH)
    with insitu.record(model, keep=keep) as a:
        model(x)
    with insitu.record(other, keep=keep) as b:
        other(x)
    right(x)
    error = (other.attended - right.attended).abs().max() / right.attended.abs().max()
    return insitu.compare(a, b, rename=RENAMES), error.item()


def test_forgotten_transpose_after_attention_is_the_cause() -> None:
    diff, _ = compared("merge", "values")
    assert diff.first is not None and diff.first.a is not None and diff.first.b is not None
    assert diff.first.b.name == "torch.Tensor.reshape"
    assert "scaled_dot_product_attention" not in diff.first.a.name


def test_size_of_another_scale_is_that_of_the_attention() -> None:
    diff, error = compared("scale", "values")
    assert diff.first is not None and diff.first.a is not None and diff.first.relative is not None
    assert diff.first.a.name.endswith("scaled_dot_product_attention")
    assert diff.first.relative.size == pytest.approx(error, rel=1e-3)
    assert "arranged by" not in str(diff)


def test_statistics_do_not_blame_attention_for_another_output_weight() -> None:
    diff, _ = compared("transposed", "stats")
    assert diff.first is not None and diff.first.a is not None and diff.first.kind == "output"
    assert diff.first.a.name.endswith("linear") and "different calls" not in str(diff)


class Echoing(nn.Module):
    """A difference within that the result hides, behind calls that return the tensor they take."""

    def __init__(self, echo: nn.Module, approximate: str) -> None:
        super().__init__()
        self.a, self.act, self.echo, self.b = nn.Linear(8, 8), nn.GELU(approximate), echo, nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.echo(self.act(self.a(x))).contiguous().to(torch.float32)
        return self.b(x * 100 + inner)


class LikeItsSum(nn.Module):
    """Takes a second tensor, only to ask for its dtype and device."""

    def forward(self, x: Tensor) -> Tensor:
        return x.to(x.sum())


@pytest.mark.parametrize(
    "echo", [nn.Dropout(0.1), nn.Identity(), LikeItsSum()], ids=["dropout", "identity", "like another"]
)
def test_output_that_is_the_input_is_not_a_result(echo: nn.Module) -> None:
    def run(approximate: str) -> insitu.Trace:
        torch.manual_seed(0)
        model = Echoing(echo, approximate).eval()
        model.b.weight.data *= 1e-3
        with insitu.record(model, keep="values") as trace:
            model(torch.randn(3, 8))
        return trace

    diff = insitu.compare(run("none"), run("tanh"))
    assert diff.passes and diff.agrees


def test_dropout_at_the_end_does_not_hide_the_result() -> None:
    def run(approximate: str) -> insitu.Trace:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 8), nn.GELU(approximate), nn.Dropout(0.1)).eval()
        with insitu.record(model, keep="values") as trace:
            model(torch.randn(3, 8))
        return trace

    diff = insitu.compare(run("none"), run("tanh"))
    assert not diff.passes and diff.first is not None and diff.first.effect == "results"


def loaded(scale: float = 1.0, *, shuffle: bool = False) -> insitu.Trace:
    torch.seed()
    with insitu.record(keep="values") as trace:
        for batch in DataLoader(torch.arange(8.0), batch_size=2, shuffle=shuffle):  # type: ignore[arg-type]
            (batch * scale).sum()
    return trace


def test_seed_that_a_loader_draws_for_itself_is_not_a_cause() -> None:
    diff = insitu.compare(loaded(), loaded())
    assert diff.passes and diff.agrees and not diff.causes
    (drawn,) = [row for row in diff.differences if row.a is not None and row.a.name == "torch.Tensor.random_"]
    assert drawn.what == "it differs, and only library code reads it"
    assert drawn not in diff.results
    assert str(diff).startswith("the results are the same; ")


def test_first_values_that_are_overwritten_are_not_a_result() -> None:
    def run(seed: int) -> insitu.Trace:
        torch.manual_seed(seed)
        with insitu.record(keep="values") as trace:
            layer = nn.Linear(4, 4)
            with torch.no_grad():
                layer.weight.copy_(torch.eye(4))
                layer.bias.zero_()
            layer(torch.ones(2, 4))
        return trace

    diff = insitu.compare(run(0), run(1))
    assert diff.passes
    assert {row.what for row in diff.differences if row.status == "structure"} == {"no effect seen"}
    assert str(diff).startswith("the results are the same; ")


@pytest.mark.parametrize("keep, known", [("values", "by their values"), ("stats", "by statistics")])
def test_last_calls_of_one_run_only_are_compared_as_the_text_says(keep: str, known: str) -> None:
    def run(normalize: Callable[[Tensor], Tensor]) -> insitu.Trace:
        torch.manual_seed(0)
        x = torch.randn(4, 8)
        with insitu.record(keep=keep) as trace:
            normalize(x)
        return trace

    def by_hand(x: Tensor) -> Tensor:
        centered = x - x.mean(-1, keepdim=True)
        return centered / (centered.square().mean(-1, keepdim=True) + 1.001e-5).sqrt()

    diff = insitu.compare(run(lambda x: F.layer_norm(x, (8,))), run(by_hand))
    assert diff.passes
    text = str(diff).partition("\n")[0]
    assert text.startswith("the results agree within rtol 1.3e-06, atol 1e-05 (largest difference: relative error ")
    assert f"compared {known}" in text


def test_draw_of_a_loader_that_shuffles_is_a_cause() -> None:
    diff = insitu.compare(loaded(shuffle=True), loaded(shuffle=True))
    assert not diff.passes and diff.causes


def test_draw_that_the_program_reads_is_a_cause() -> None:
    def run() -> insitu.Trace:
        torch.seed()
        with insitu.record(keep="values") as trace:
            torch.rand(()).item()
        return trace

    assert not insitu.compare(run(), run()).passes


def attended(keep: str, run: Callable[[Tensor, Tensor, Tensor], Tensor]) -> insitu.Trace:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, HEADS, 6, 8) for _ in range(3))
    with insitu.record(keep=keep) as trace:
        run(q, k, v)
    return trace


def fused_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def attention_by_hand(scale: float) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Turns the keys by the same call by which the other run turns the result."""

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        turned = k.transpose(1, 2).transpose(1, 2).transpose(-2, -1)
        return ((q @ turned * scale).softmax(-1) @ v).permute(0, 2, 1, 3).flatten(2)

    return run


@pytest.mark.parametrize("keep", ["values", "stats"])
def test_size_without_a_sure_partner_is_not_known(keep: str) -> None:
    a, b = attended(keep, fused_attention), attended(keep, attention_by_hand(0.5 * 8**-0.5))
    diff = insitu.compare(a, b)
    assert diff.first is not None and diff.first.relative is None and diff.first.delta is None
    assert "its size is not known" in str(diff)
    (row,) = [row for row in diff.differences if row.a is diff.first.a]
    assert row.relative is None and row.delta is None
    assert diff.first.result is not None and diff.first.result.relative is not None


@pytest.mark.parametrize("keep", ["values", "stats"])
def test_call_beside_another_one_does_not_differ_if_its_result_is_made_by_other_calls(keep: str) -> None:
    a, b = attended(keep, fused_attention), attended(keep, attention_by_hand(8**-0.5))
    diff = insitu.compare(a, b)
    assert diff.passes
    (row,) = [row for row in diff.differences if row.status == "structure"]
    assert row.relative is None and row.what == "the same result by other calls"


def test_size_is_known_where_one_run_only_lacks_a_call() -> None:
    def run(factor: float) -> insitu.Trace:
        with insitu.record(keep="values") as trace:
            x = torch.arange(6.0) + 1
            if factor != 1:
                x = x * factor
            x.exp().sum()
        return trace

    diff = insitu.compare(run(1), run(0.5))
    assert diff.first is not None and diff.first.relative is not None
    assert diff.first.relative.size == 0.5
