"""Real programs with a fault of the kinds that people meet, recorded and compared: the line at fault is named."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import insitu
from insitu.errors import SubjectError
from insitu.trace.diff import Diff
from insitu.trace.event import Call
from insitu.verbs.compare import compare

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def manual(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / 8**0.5
    return F.softmax(scores, dim=-1) @ v


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def fused_wrongly(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)  # fault


def scaled_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q / 8**0.5 @ k.transpose(-2, -1)).softmax(-1) @ v


def wrong_dim(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / 8**0.5
    return F.softmax(scores, dim=-2) @ v  # fault


def swapped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = k @ q.transpose(-2, -1) / 8**0.5  # fault
    return F.softmax(scores, dim=-1) @ v


def in_half(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-2, -1) / 8**0.5
    scores = scores.bfloat16()  # fault
    return F.softmax(scores, dim=-1).float() @ v


def copied(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q.contiguous() @ k.transpose(-2, -1) / 8**0.5
    scores.abs().max().item()
    return F.softmax(scores, dim=-1) @ v


class Attention(nn.Module):
    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.qkv, self.proj, self.drop = nn.Linear(8, 24), nn.Linear(8, 8), nn.Dropout(0.3)
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        out: Tensor = self.proj(self.drop(self.attend(q, k, v)))
        return out


class Block(nn.Module):
    def __init__(self, attend: Attend, residual: bool = True) -> None:
        super().__init__()
        self.ln, self.attn, self.residual = nn.LayerNorm(8), Attention(attend), residual
        self.mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> Tensor:
        h = self.attn(self.ln(x))
        x = x + h if self.residual else h
        return x + self.mlp(x)


class Net(nn.Module):
    def __init__(self, *attends: Attend, layers: str = "h") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.emb = nn.Embedding(10, 8)
        setattr(self, layers, nn.ModuleList(Block(attend) for attend in attends))
        self.head, self.layers = nn.Linear(8, 10), layers

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.emb(tokens)
        for block in getattr(self, self.layers):
            x = block(x)
        out: Tensor = self.head(x)
        return out


TOKENS = torch.arange(6).reshape(2, 3)


def recorded(model: nn.Module, *, backward: bool = False, tokens: Tensor = TOKENS, **options: Any) -> insitu.Trace:
    options.setdefault("keep", "stats")
    torch.manual_seed(1)
    with insitu.record(model, **options) as trace:
        out = model(tokens)
        if backward:
            out.sum().backward()
    return trace


def model(*, second: Attend = manual, layers: str = "h") -> Net:
    net = Net(manual, second, manual, layers=layers)
    return net.eval()


def line(function: Callable[..., Any], mark: str = "# fault") -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(number for number, text in enumerate(lines) if mark in text)


def lines(diff: Diff) -> tuple[int | None, int | None]:
    assert diff.first is not None
    a, b = diff.first.sites
    return (a.line if a is not None else None, b.line if b is not None else None)


LEVELS = [
    pytest.param({"level": "functions"}, id="functions"),
    pytest.param({"level": "functions", "keep": torch.clone}, id="values"),
    pytest.param({"level": "aten", "backward": True}, id="backward"),
]


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize(("attend", "kind"), [(wrong_dim, "argument"), (swapped, "argument"), (in_half, "calls")])
def test_the_line_at_fault(attend: Attend, kind: str, options: dict[str, Any]) -> None:
    diff = compare(recorded(model(), **options), recorded(model(second=attend), **options))
    assert diff.first is not None and len(diff.causes) == 1
    assert (diff.first.kind, lines(diff)[1]) == (kind, line(attend))
    assert isinstance(diff.first.b, Call) and diff.first.b.path == "h.1.attn"
    assert diff.first.certainty == ("values" if callable(options.get("keep")) else "statistics")
    assert diff.first.followers == diff.counts["follows"] + (kind == "calls" and _after(diff))


def _after(diff: Diff) -> int:
    """The calls of one side only that follow from the cause."""
    assert diff.first is not None
    only = [row.a or row.b for row in diff.differences if row.status.startswith("only") and row.cause == 0]
    return len([event for event in only if event not in (*diff.first.calls_a, *diff.first.calls_b)])


@pytest.mark.parametrize("options", LEVELS)
@pytest.mark.parametrize("attend", [fused, scaled_first, copied])
def test_the_same_by_other_calls(attend: Attend, options: dict[str, Any]) -> None:
    diff = compare(recorded(model(), **options), recorded(model(second=attend), **options))
    assert diff.first is None and not diff.same and "follows" not in diff.counts


def test_a_fused_call_that_does_something_else() -> None:
    diff = compare(recorded(model()), recorded(model(second=fused_wrongly)))
    assert diff.first is not None and lines(diff) == (line(manual, "scores ="), line(fused_wrongly))
    assert (len(diff.first.calls_a), len(diff.first.calls_b)) == (4, 1)  # the transposed keys agree


@pytest.mark.parametrize("options", LEVELS)
def test_equal_runs(options: dict[str, Any]) -> None:
    diff = compare(recorded(model(), **options), recorded(model(), **options))
    assert diff.same and diff.certainty == ("values" if callable(options.get("keep")) else "statistics")


def test_a_residual_that_is_missing() -> None:
    other = model()
    other.h[1].residual = False  # type: ignore[index, union-attr]
    diff = compare(recorded(model()), recorded(other))
    assert lines(diff)[0] == line(Block.forward, "x + h") and diff.first is not None and diff.first.b is None


def test_dropout_left_on_and_not_seeded() -> None:
    other = model()
    other.h[1].attn.drop.train()  # type: ignore[index, union-attr]
    diff = compare(recorded(model()), recorded(other))
    assert diff.first is not None and "training" in diff.first.why
    assert isinstance(diff.first.a, Call) and diff.first.a.path == "h.1.attn.drop"


def test_the_first_call_that_is_not_deterministic() -> None:
    def run() -> insitu.Trace:
        torch.manual_seed(0)
        with insitu.record(keep="stats") as trace:
            x = torch.ones(4)
            torch.seed()
            noise = torch.randn(4)
            (x + noise).sum()
        return trace

    diff = compare(run(), run())
    assert diff.first is not None and diff.first.kind == "random"
    assert diff.first.a is not None and diff.first.a.name == "torch.randn"
    assert [row.status for row in diff.differences if row.status != "same"] == ["differs", "follows", "follows"]


@pytest.mark.parametrize("given", [{"dropout_p": 0.5}, (None, 0.5)])
@pytest.mark.parametrize("level", ["functions", "aten"])
def test_dropout_within_attention_draws_random_numbers(given: Any, level: Any) -> None:
    def run(given: Any, scale: float = 1.0) -> insitu.Trace:
        args, kwargs = ((), given) if isinstance(given, dict) else (given, {})
        with insitu.record(keep="stats", level=level) as trace:
            F.scaled_dot_product_attention(x, x, x, *args, scale=scale, **kwargs)
        return trace

    x = torch.linspace(-1, 1, 64).reshape(1, 2, 4, 8)
    first = compare(run(given), run(given)).first
    assert first is not None and first.kind == "random" and "draws random numbers" in first.why
    first = compare(run({}), run({}, scale=2.0)).first
    assert first is not None and first.kind == "argument"


def test_dropout_within_an_attention_module() -> None:
    torch.manual_seed(0)
    attention, x = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True), torch.randn(2, 4, 8)

    def run() -> insitu.Trace:
        with insitu.record(attention, keep="stats", level="functions") as trace:
            attention(x, x, x, need_weights=False)
        return trace

    first = compare(run(), run()).first
    assert first is not None and first.kind == "random"
    attention.eval()
    assert compare(run(), run()).same


def test_a_weight_that_differs() -> None:
    other = model()
    with torch.no_grad():
        other.h[2].mlp[0].weight.mul_(1.1)  # type: ignore[index, union-attr]
    diff = compare(recorded(model()), recorded(other))
    assert diff.first is not None and "weight f32[16, 8]" in diff.first.why
    assert isinstance(diff.first.a, Call) and diff.first.a.path == "h.2.mlp.0" and len(diff.causes) == 1


def test_renamed_modules() -> None:
    a, b = recorded(model()), recorded(model(layers="blocks"))
    assert compare(a, b).same and compare(a, b, rename={"h.*": "blocks.*"}).same
    faulty = recorded(model(second=wrong_dim, layers="blocks"))
    assert lines(compare(a, faulty))[1] == line(wrong_dim)


def test_a_wrapper_is_no_difference() -> None:
    assert compare(recorded(model()), recorded(nn.Sequential(model()))).same


def test_a_model_in_another_dtype() -> None:
    diff = compare(recorded(model()), recorded(model().double()))
    assert diff.first is None and set(diff.counts) == {"structure"}


def test_another_number_of_layers() -> None:
    torch.manual_seed(0)
    shorter = model()
    shorter.h = shorter.h[:2]  # type: ignore[assignment, index]
    diff = compare(recorded(model()), recorded(shorter))
    assert diff.first is not None and diff.first.kind == "calls" and diff.first.b is None
    assert isinstance(diff.first.a, Call) and diff.first.a.path == "h.2.ln"


def test_another_input() -> None:
    diff = compare(recorded(model()), recorded(model(), tokens=TOKENS + 1))
    assert diff.first is not None and diff.first.kind == "input" and len(diff.causes) == 1


def test_modules_only_say_that_nobody_looked() -> None:
    options = {"level": "modules"}
    diff = compare(recorded(model(), **options), recorded(model(second=wrong_dim), **options))
    assert diff.first is not None and "not made by a call that was recorded" in diff.first.why
    assert isinstance(diff.first.a, Call) and diff.first.a.path == "h.1.attn.drop" and len(diff.causes) == 1


def test_one_step_of_a_training_run() -> None:
    def run(faulty: int | None) -> insitu.Trace:
        net = model()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        with insitu.record(net, keep="stats") as trace:
            for step in range(5):
                loss = net(TOKENS).sum()
                optimizer.zero_grad()
                (loss * 2 if step == faulty else loss).backward()
                optimizer.step()
        return trace

    assert compare(run(None), run(None)).same
    diff = compare(run(None), run(2))
    assert diff.first is not None and diff.first.a is not None and diff.first.a.step == 3
    assert all(cause.a is not None and cause.a.step == 3 for cause in diff.causes)


def test_recorded_runs(tmp_path: Path) -> None:
    def train(name: str, faulty: int | None) -> Path:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        file = tmp_path / name
        with insitu.record_run(net, only=["forward", "0", "0.weight.grad", "0.weight"], keep="values", to=file):
            for step in range(5):
                rate = 3.0 if step == faulty else 1.0
                optimizer.zero_grad()
                (net(torch.ones(2, 3)).sum() * rate).backward()
                optimizer.step()
        return file

    a, b = train("a.h5", None), train("b.h5", 3)
    assert compare(a, train("c.h5", None)).same
    with insitu.load(a) as run:
        diff = compare(run, b)
    first = diff.first
    assert first is not None and first.a is not None and (first.a.name, first.a.step) == ("0.weight.grad", 3)
    assert first.certainty == "values" and len(diff.causes) == 1
    with pytest.raises(insitu.SubjectError, match="a is a recorded run and b is a trace: compare two traces, or"):
        compare(a, recorded(model()))
    with pytest.raises(insitu.SubjectError, match=r"not Sequential\( \(0\).* \(a Sequential\): compare") as refused:
        compare(a, nn.Sequential(nn.Linear(3, 2)))
    assert "\n" not in str(refused.value)


def test_saved_traces_are_the_same_as_those_at_hand(tmp_path: Path) -> None:
    a, b = recorded(model(), keep=torch.clone), recorded(model(second=wrong_dim), keep=torch.clone)
    for name, trace in (("a.h5", a), ("b.h5", b)):
        insitu.save(trace, tmp_path / name)
    assert compare(a, tmp_path / "a.h5").same
    diff = compare(tmp_path / "a.h5", tmp_path / "b.h5")
    assert diff.labels == ("a.h5", "b.h5") and lines(diff)[1] == line(wrong_dim)


@pytest.mark.parametrize("subject", [3, None, model])
def test_what_cannot_be_compared(subject: Any) -> None:
    with pytest.raises(SubjectError, match="traces, runs or files"):
        compare(insitu.Trace(), subject)


class Doubled(torch.autograd.Function):
    factor = 2.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:  # type: ignore[override]
        return grad * Doubled.factor


def test_a_difference_in_backward_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = Doubled.apply(self.fc(x)).relu()  # type: ignore[no-untyped-call]
            return out

    options: dict[str, Any] = {"level": "aten", "backward": True, "tokens": torch.ones(2, 3)}
    a = recorded(Twice(), **options)
    monkeypatch.setattr(Doubled, "factor", 3.0)
    diff = compare(a, recorded(Twice(), **options))
    assert diff.first is not None and isinstance(diff.first.a, Call)
    assert (diff.first.a.phase, diff.first.kind, len(diff.causes)) == ("backward", "argument", 1)
    assert diff.first.followers == diff.counts["follows"] > 0


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_gradients_that_only_one_run_clips_are_not_taken_for_other_ones(optimizer: Any) -> None:
    def train(*, clip: bool) -> insitu.Trace:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
        steps, x = optimizer(model.parameters(), 0.1), torch.randn(16, 4)
        with insitu.record(keep="stats") as trace:
            model(x).square().mean().backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            steps.step()
        return trace

    first = compare(train(clip=False), train(clip=True)).first
    assert first is not None and first.kind == "calls" and not first.calls_a
    assert first.sites[1] is not None and "clip_grad_norm_" in first.sites[1].text
