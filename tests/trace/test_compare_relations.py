"""A tensor of b that is a tensor of a in another order, another part, or another place, is named as such."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.trace.comparing import given
from torch import Tensor, nn

import insitu
from insitu.trace.diff import Cause, Diff
from insitu.trace.event import Variable
from insitu.trace.trace import Trace
from insitu.view.relation_text import relation_text

Run = Callable[[], Any]


def compared(a: Run, b: Run, keep: str = "values") -> Diff:
    traces = []
    for run in (a, b):
        torch.manual_seed(0)
        with insitu.record(keep=keep) as trace:
            run()
        traces.append(trace)
    return insitu.compare(*traces)


def first(diff: Diff) -> Cause:
    assert diff.first is not None
    return diff.first


def texts(diff: Diff) -> str:
    return "\n".join(map(relation_text, first(diff).relations))


class Attention(nn.Module):
    def __init__(self, order: tuple[int, ...] = (0, 1, 2, 3)) -> None:
        super().__init__()
        self.order = list(order)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v)
        if self.order != [0, 1, 2, 3]:
            mixed = mixed[:, self.order]
        out: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return out


def attend(order: tuple[int, ...]) -> Run:
    return lambda: Attention(order)(torch.linspace(-1, 1, 160).reshape(2, 5, 16))


def test_heads_that_are_swapped() -> None:
    diff = compared(attend((0, 1, 2, 3)), attend((0, 2, 1, 3)))
    assert texts(diff).startswith("b equals a with heads 1 and 2 swapped; arranged by [:, [0, 2, 1, 3]] (")
    assert "→ b equals a with heads 1 and 2 swapped" in str(diff)


def test_statistics_do_not_claim_which_order_it_is() -> None:
    diff = compared(attend((0, 1, 2, 3)), attend((0, 2, 1, 3)), keep="stats")
    assert first(diff).relations[0].kind == "statistics"
    assert 'whether the values and their order are the same is not known (keep="values" shows it)' in texts(diff)


def test_parts_that_are_swapped_have_the_names_of_the_source() -> None:
    def good() -> Tensor:
        gate, value = torch.randn(3, 8).chunk(2, dim=-1)
        return F.silu(gate) * value

    def bad() -> Tensor:
        value, gate = torch.randn(3, 8).chunk(2, dim=-1)  # fault
        return F.silu(gate) * value

    for keep in ("stats", "values"):
        relation = first(compared(good, bad, keep)).relations[0]
        assert relation.kind == "part" and relation.parts == (0, 1)
        assert "gate and value are swapped" in relation_text(relation)
        site = relation.makers_b[0].site
        assert site is not None and "# fault" in site.text


def test_positions_that_are_shifted() -> None:
    def run(pad: tuple[int, ...], start: int) -> Run:
        return lambda: F.relu(F.pad(torch.randn(2, 6, 4), pad)[:, start : start + 6]) @ torch.randn(4, 3)

    diff = compared(run((0, 0, 1, 0), 0), run((0, 0, 0, 1), 1))
    assert "shifted by one position (earlier) along dimension 1" in texts(diff) or (
        "shifted by 2 positions (earlier) along dimension 1" in texts(diff)
    )


def load(turn: bool) -> Run:
    def run() -> Tensor:
        model, port, x = nn.Linear(6, 6), nn.Linear(6, 6), torch.linspace(-1, 1, 24).reshape(4, 6)
        weight = model.weight.detach()
        if turn:
            weight = weight.t()
        with torch.no_grad():
            port.weight.copy_(weight)
            port.bias.copy_(model.bias)
        return port(x).sum()  # type: ignore[no-any-return]

    return run


def test_weight_that_is_transposed() -> None:
    diff = compared(load(False), load(True))
    assert texts(diff).startswith("b equals a transposed; arranged by .t (")


def test_weight_that_is_not_turned_names_the_line_that_turns_another() -> None:
    class Table(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(6, width)), nn.Parameter(torch.randn(width))

        def forward(self, x: Tensor) -> Tensor:
            return torch.addmm(self.bias, x, self.weight)

    def tables() -> nn.Sequential:
        return nn.Sequential(Table(6), nn.ReLU(), Table(9))

    def good() -> Tensor:
        out: Tensor = tables()(torch.linspace(-1, 1, 24).reshape(4, 6))
        return out

    def bad() -> Tensor:
        weights, port = tables().state_dict(), nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 9))
        for name, value in weights.items():
            wanted = port.get_parameter(name)
            turned = value if value.shape == wanted.shape else value.T  # fault
            wanted.data = turned.clone()
        out: Tensor = port(torch.linspace(-1, 1, 24).reshape(4, 6))
        return out

    for keep, kind in (("values", "not turned"), ("stats", "statistics")):
        relation = first(compared(good, bad, keep)).relations[0]
        assert relation.kind == kind and relation.example is not None
        site = relation.example.site
        assert site is not None and "# fault" in site.text


def test_weights_of_another_layer() -> None:
    def run(numbers: tuple[int, int]) -> Run:
        def act() -> Tensor:
            layers = [nn.Linear(5, 5) for _ in range(2)]
            port = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 5))
            for place, number in zip((0, 2), numbers, strict=True):
                port[place].load_state_dict(layers[number].state_dict())
            out: Tensor = port(torch.linspace(-1, 1, 10).reshape(2, 5))
            return out

        return act

    diff = compared(run((0, 1)), run((0, 0)))
    assert "f32[5, 5] of b equals 0 weight f32[5, 5] of a" in texts(diff)


@pytest.mark.parametrize("keep", ["stats", "values"])
def test_inputs_that_are_exchanged_lead_to_the_join_of_the_weights(keep: str) -> None:
    def run(names: tuple[str, ...]) -> Run:
        def act() -> Tensor:
            parts = {name: nn.Linear(8, 8, bias=False) for name in ("query", "key", "value")}
            x = torch.randn(2, 6, 8)
            fused = nn.Linear(8, 24, bias=False)
            with torch.no_grad():
                fused.weight.copy_(torch.cat([parts[name].weight for name in names]))  # fault
            q, k, v = fused(x).chunk(3, dim=-1)
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        return act

    def split() -> Tensor:
        query, key, value = (nn.Linear(8, 8, bias=False) for _ in range(3))
        x = torch.randn(2, 6, 8)
        return F.scaled_dot_product_attention(query(x), key(x), value(x), is_causal=True)

    diff = compared(split, run(("key", "query", "value")), keep)
    relation = first(diff).relations[0]
    assert relation.subject.startswith("query ") and relation.equal_to.startswith("key ")
    lines = [call.site.text for call in relation.makers_b if call.site is not None]
    assert any("# fault" in line for line in lines)
    assert compared(split, run(("query", "key", "value")), keep).first is None


def test_given_matrix_is_named_where_all_inputs_agree_in_statistics() -> None:
    def trace(turn: bool) -> insitu.Trace:
        torch.manual_seed(0)
        layer, x = nn.Linear(6, 6), torch.randn(4, 6)
        if turn:
            layer.weight.data = layer.weight.data.t().clone()
        with insitu.record(layer, keep="stats") as found:
            layer(x)
        return found

    diff = insitu.compare(trace(False), trace(True))
    assert texts(diff).startswith("weight f32[6, 6] has the same statistics in both; whether ")


def test_statistics_of_a_weight_do_not_claim_another_order() -> None:
    def trace(turn: bool) -> insitu.Trace:
        torch.manual_seed(0)
        layer, x = nn.Linear(6, 6), torch.randn(6, 6)
        if turn:
            x = x.flip(0, 1)
        with insitu.record(layer, keep="stats") as found:
            layer(x).square()
        return found

    diff = insitu.compare(trace(False), trace(True))
    assert "in another order" not in str(diff) and "most likely" not in str(diff)


def test_variables_that_differ_have_no_relations() -> None:
    runs = [Trace([Variable(0, None, "x", given(value), ("new",))]) for value in (1.0, 2.0)]
    cause = first(insitu.compare(*runs))
    assert cause.relations == () and "the value differs" in cause.why
