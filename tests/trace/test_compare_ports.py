"""One model written in two ways: what has no effect on the results is not a cause, and what has one is named first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.trace.test_compare_programs import line
from torch import Tensor, nn

import insitu
from insitu.trace.diff import Cause, Diff
from insitu.trace.event import Call

WIDTH, HEADS, LENGTH, WORDS = 16, 2, 6, 20
CAUSAL = torch.ones(LENGTH, LENGTH).tril()
KEEPS = [pytest.param("stats", id="statistics"), pytest.param(torch.clone, id="values")]

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.size(-1)))
    scores = scores.masked_fill(CAUSAL == 0, float("-inf"))
    return F.softmax(scores, dim=-1) @ v


def with_large_numbers(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.size(-1)))
    scores = scores.masked_fill(CAUSAL == 0, -1e9)
    return F.softmax(scores, dim=-1) @ v


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def exact_gelu(x: Tensor) -> Tensor:
    return F.gelu(x)  # exact


def tanh_gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))  # tanh


class OneMatrix(nn.Module):
    """Attention whose queries, keys and values come out of one matrix."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.qkv, self.proj, self.attend = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), attend

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).split(WIDTH, dim=-1)
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in parts)
        out: Tensor = self.proj(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return out


class ThreeMatrices(nn.Module):
    """The same with a matrix for each."""

    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.proj, self.attend = nn.Linear(WIDTH, WIDTH), attend

    def forward(self, x: Tensor) -> Tensor:
        shape = (*x.shape[:2], HEADS, WIDTH // HEADS)
        v = self.value(x).view(shape).transpose(1, 2)
        k = self.key(x).view(shape).transpose(1, 2)
        q = self.query(x).view(shape).transpose(1, 2)
        out: Tensor = self.proj(self.attend(q, k, v).transpose(1, 2).reshape(x.shape))
        return out


class Block(nn.Module):
    def __init__(self, attention: nn.Module, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(WIDTH), attention, nn.LayerNorm(WIDTH)
        self.up, self.down, self.activation = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), activation

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x))
        x = x + self.down(self.activation(self.up(self.ln_2(x))))
        return x


class Language(nn.Module):
    """A small language model: positions with or without a leading dimension of one, any attention, any activation."""

    def __init__(
        self, *, leading: bool = False, attention: type[nn.Module] = OneMatrix, attend: Attend = by_hand, **more: Any
    ) -> None:
        super().__init__()
        activation = more.get("activation", exact_gelu)
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block(attention(attend), activation) for _ in range(more.get("layers", 3)))
        self.ln, self.head, self.leading = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS), leading

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(LENGTH)
        if self.leading:
            places = places.unsqueeze(0)
        x = self.words(tokens) + self.places(places)
        for block in self.h:
            x = block(x)
        out: Tensor = self.head(self.ln(x))
        return out


def loaded(model: Language) -> Language:
    """The model with the one set of weights, however it holds those of the attention."""
    torch.manual_seed(0)
    found = Language(layers=len(model.h)).state_dict()
    for name in list(found):
        before, inner, after = name.partition(".qkv.")
        if inner and not isinstance(model.h[0].attn, OneMatrix):
            for part, value in zip(("query", "key", "value"), found.pop(name).chunk(3), strict=True):
                found[f"{before}.{part}.{after}"] = value
    model.load_state_dict(found)
    return model.eval()


def recorded(model: nn.Module, keep: Any = "stats", **options: Any) -> insitu.Trace:
    with insitu.record(model, keep=keep, **options) as trace:
        model(torch.arange(2 * LENGTH).reshape(2, LENGTH))
    return trace


def compared(a: Language, b: Language, keep: Any, **options: Any) -> Diff:
    return insitu.compare(recorded(a, keep, **options), recorded(b, keep, **options))


def line_of(cause: Cause | None, side: int = 1) -> int:
    assert cause is not None
    site = cause.sites[side]
    assert site is not None
    return site.line


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(
    "other",
    [
        {"leading": True},
        {"attend": fused},
        {"attend": with_large_numbers},
        {"attention": ThreeMatrices},
        {"attention": ThreeMatrices, "attend": fused, "leading": True},
    ],
    ids=lambda options: "+".join(options),
)
def test_port_that_gives_the_same_results_has_no_cause(other: dict[str, Any], keep: Any) -> None:
    diff = compared(loaded(Language()), loaded(Language(**other)), keep)
    assert diff.first is None and diff.agrees and not diff.close and not diff.same, str(diff)
    text = str(diff).splitlines()[0]
    within = "the results agree within rtol 1.3e-06, atol 1e-05 (largest difference: "
    assert text.startswith((within, "the results are the same; "))
    assert "made differently on the way" in text
    assert ("statistics" in text) == (keep == "stats")
    assert "follows" not in diff.counts


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("attention", [OneMatrix, ThreeMatrices])
def test_port_with_another_activation_names_the_activation_first(attention: Any, keep: Any) -> None:
    other = Language(leading=True, attend=fused, attention=attention, activation=tanh_gelu)
    diff = compared(loaded(Language()), loaded(other), keep)
    assert line_of(diff.first, 0) == line(exact_gelu, "# exact") and line_of(diff.first) == line(tanh_gelu, "# tanh")
    assert len(diff.causes) == 1 and diff.causes[0].effect == "results"
    assert not diff.agrees


def test_difference_within_the_tolerance_is_the_cause_of_what_grows_out_of_it() -> None:
    """Attention rounds otherwise, the activation is off by more, and a large factor shows both."""

    def run(attend: Attend, activation: Callable[[Tensor], Tensor]) -> insitu.Trace:
        torch.manual_seed(0)
        x = torch.randn(2, HEADS, LENGTH, 8) * 0.2
        up, down = nn.Linear(8, 8, bias=False), nn.Linear(8, 8)
        with insitu.record(keep=torch.clone) as trace:
            hidden = down(activation(up(attend(x, x, x))))
            (hidden * 1000).relu()
        return trace

    diff = insitu.compare(run(by_hand, exact_gelu), run(fused, tanh_gelu))
    assert line_of(diff.first) == line(tanh_gelu, "# tanh") and len(diff.causes) == 1, str(diff)
    first = diff.first
    assert first is not None and first.seen_at is not None and first.seen_at.name.endswith("mul")
    assert "the result is equal within the tolerance (largest difference" in first.why
    assert insitu.compare(run(by_hand, exact_gelu), run(fused, exact_gelu)).first is None


def test_input_within_the_tolerance_is_not_called_equal() -> None:
    def run(extra: float) -> insitu.Trace:
        x = torch.linspace(-1, 1, 8) + extra
        with insitu.record(keep=torch.clone) as trace:
            (x * 1000.0).sum()
        return trace

    first = insitu.compare(run(0.0), run(1e-6)).first
    assert first is not None and first.why.startswith("the inputs are equal within the tolerance (largest difference")


def test_leading_one_that_does_not_broadcast_away_is_the_cause() -> None:
    def run(squeezed: bool) -> insitu.Trace:
        torch.manual_seed(0)
        layer, x, y = nn.Linear(3, 1), torch.randn(8, 3), torch.randn(8)
        with insitu.record(keep=torch.clone) as trace:
            out = layer(x)
            if squeezed:
                out = out.squeeze(-1)
            (out - y).square().mean()
        return trace

    diff = insitu.compare(run(True), run(False))
    assert diff.first is not None and isinstance(diff.first.a, Call) and diff.first.a.name == "torch.Tensor.squeeze"
    assert diff.first.effect == "results" and len(diff.causes) == 1


def test_result_of_another_shape_is_a_difference() -> None:
    traces = []
    for size in ((6,), (1, 6)):
        with insitu.record(keep=torch.clone) as trace:
            torch.zeros(size).add(1)
        traces.append(trace)
    diff = insitu.compare(*traces)
    assert diff.first is not None and diff.first.a is not None and diff.first.a.name == "torch.zeros"
    assert diff.first.effect == "results"


@pytest.mark.parametrize("keep", KEEPS)
def test_same_line_in_many_layers_is_one_cause(keep: Any) -> None:
    def small(x: Tensor) -> Tensor:
        return F.gelu(x) * 1.01  # fault

    class Parallel(nn.Module):
        """Layers that all see the same input, so that none of them follows from another."""

        def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
            super().__init__()
            self.h = nn.ModuleList(Block(OneMatrix(by_hand), activation) for _ in range(9))

        def forward(self, x: Tensor) -> Tensor:
            return torch.stack([block(x) for block in self.h]).sum(0)

    traces = []
    for activation in (exact_gelu, small):
        torch.manual_seed(0)
        model, x = Parallel(activation), torch.randn(2, LENGTH, WIDTH)
        with insitu.record(model, keep=keep) as trace:
            model(x)
        traces.append(trace)
    diff = insitu.compare(*traces)
    (cause,) = diff.causes
    assert cause.times == 9 and len(cause.again) == 8 and line_of(cause) == line(small)
    paths = [b.path for _, b in cause.again if isinstance(b, Call)]
    assert paths == [f"h.{number}" for number in range(1, 9)]
    text = str(diff)
    assert "× 9" in text.splitlines()[0] and "h.1 … h.8" in text and "2. " not in text.split("\n\n")[0]
    assert {row.cause for row in diff.differences} == {None, 0}


def test_decision_that_agrees_does_not_hide_what_it_was_made_from() -> None:
    def run(scale: float, factor: float) -> insitu.Trace:
        x = torch.arange(12.0).reshape(3, 4)
        with insitu.record(keep=torch.clone) as trace:
            chosen = (x * scale).argmax(1)
            (chosen * factor).sum()
        return trace

    lost = insitu.compare(run(1.0, 1.0), run(2.0, 1.0))
    assert lost.first is not None and lost.first.effect == "lost" and lost.agrees and not lost.close
    assert str(lost).startswith("✗ the results are the same; first difference on the way: ")
    both = insitu.compare(run(1.0, 1.0), run(2.0, 3.0))
    assert [cause.effect for cause in both.causes] == ["results", "lost"]
    assert both.first is not None and both.first.why == "argument 1 is 3.0 in b, 1.0 in a"


def test_calls_that_agree_are_not_blamed_for_a_later_step() -> None:
    def run(model: Language, rate: float) -> insitu.Trace:
        optimizer = torch.optim.SGD(model.parameters(), rate)
        with insitu.record(model, keep="stats") as trace:
            for _ in range(2):
                model(torch.arange(2 * LENGTH).reshape(2, LENGTH)).sum().backward()
                optimizer.step()  # outside of the model, so it is not recorded
        return trace

    models = [loaded(Language(layers=1)), loaded(Language(layers=1, attention=ThreeMatrices))]
    diff = insitu.compare(*(run(model, rate) for model, rate in zip(models, (1e-2, 2e-2), strict=True)))
    assert diff.causes and all(cause.a is not None and cause.a.step == 1 for cause in diff.causes), str(diff)
    assert diff.first is not None and diff.first.kind == "input"


def test_difference_that_is_lost_in_nan_is_still_told() -> None:
    def run(scale: float) -> insitu.Trace:
        with insitu.record(keep="stats") as trace:
            (torch.ones(3) * scale).sub(10).log().sum()
        return trace

    diff = insitu.compare(run(1.0), run(2.0))
    assert diff.first is not None and diff.first.effect == "lost" and diff.agrees
