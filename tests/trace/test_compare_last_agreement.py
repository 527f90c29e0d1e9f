"""Ports that compute something by other calls: the cause is where the runs agree for the last time, and who set it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.trace.test_compare_programs import line
from torch import Tensor, nn

import insitu
from insitu.trace.compare.closeness import Tolerance
from insitu.trace.compare.moves import Moves
from insitu.trace.compare.pairs import align_sides
from insitu.trace.compare.stops import side
from insitu.trace.compare.tensor_contents import Summary, TensorContents
from insitu.trace.diff import Cause, Diff
from insitu.trace.event import Site

WIDTH, HIDDEN = 8, 12
KEEPS = ("stats", "values")


def compared(a: Callable[[], Any], b: Callable[[], Any], keep: str) -> Diff:
    traces = []
    for run in (a, b):
        with torch.no_grad(), insitu.record(level="functions", keep=keep) as trace:
            run()
        traces.append(trace)
    return insitu.compare(*traces)


def first(diff: Diff) -> Cause:
    assert diff.first is not None
    return diff.first


def lines(cause: Cause) -> tuple[int, int]:
    one, other = cause.sites
    assert one is not None and other is not None
    return one.line, other.line


# Heads that are merged in the wrong order.


def by_einsum(x: Tensor) -> Any:
    q = x.view(2, 3, 2, 4)
    scores = torch.einsum("bthd,bshd->bhts", q, q).softmax(-1)
    context = torch.einsum("bhts,bshd->bthd", scores, q)
    return context.flatten(2)  # original


def by_matmul(x: Tensor) -> Any:
    q = x.view(2, 3, 2, 4).transpose(1, 2)
    context = F.softmax(q @ q.transpose(-2, -1), dim=-1) @ q
    return context.reshape(2, 3, WIDTH)  # fault


def attended(attend: Callable[[Tensor], Any]) -> Callable[[], Any]:
    def run() -> Any:
        torch.manual_seed(0)
        dense = nn.Linear(WIDTH, WIDTH)
        return dense(attend(torch.randn(2, 3, WIDTH)))

    return run


@pytest.mark.parametrize("keep", KEEPS)
def test_the_call_that_merges_heads_is_the_cause(keep: str) -> None:
    cause = first(compared(attended(by_einsum), attended(by_matmul), keep))
    assert lines(cause) == (line(by_einsum, "# original"), line(by_matmul, "# fault"))


# Positions that one run computes in a loop.


def loop_positions(ids: Tensor) -> Any:
    positions = torch.zeros_like(ids)
    for row in range(ids.shape[0]):
        count = 0
        for column in range(ids.shape[1]):
            if ids[row, column] != 0:
                positions[row, column] = count  # original
                count += 1
    return positions


def summed_positions(ids: Tensor) -> Any:
    mask = ids.ne(0)
    return mask.long().cumsum(-1).clamp(min=0)  # fault


def embedded(positions: Callable[[Tensor], Any]) -> Callable[[], Any]:
    def run() -> Any:
        torch.manual_seed(0)
        table, ids = nn.Embedding(9, 4), torch.tensor([[0, 5, 3, 7], [2, 8, 1, 6]])
        return table(positions(ids)).sum(1)

    return run


@pytest.mark.parametrize("keep", KEEPS)
def test_calls_on_numbers_are_not_beside_calls_on_a_tensor(keep: str) -> None:
    diff = compared(embedded(loop_positions), embedded(summed_positions), keep)
    assert lines(first(diff)) == (line(loop_positions, "# original"), line(summed_positions, "# fault"))
    assert diff.because(diff.results[-1])[-1].events[0] in first(diff).heads


# Functions that are looked up by name.

TABLE = {
    "gelu": nn.GELU(),
    "gelu_new": nn.GELU(),  # fault
    "relu": nn.ReLU(),
}
SETTINGS = {"activation": "gelu_new", "width": WIDTH}


def tanh_gelu(x: Tensor) -> Any:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Original(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(WIDTH, HIDDEN), tanh_gelu

    def forward(self, x: Tensor) -> Any:
        return self.act(self.fc(x)).sum(-1) * 2


class Port(nn.Module):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.fc = nn.Linear(WIDTH, HIDDEN)
        self.act = TABLE[settings["activation"]]

    def forward(self, x: Tensor) -> Any:
        return self.act(self.fc(x)).sum(-1) * 2  # port


def applied(make: Callable[[], nn.Module]) -> Callable[[], Any]:
    def run() -> Any:
        torch.manual_seed(0)
        model = make()
        return model(10 * torch.randn(5, WIDTH))

    return run


def line_of_file(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, content in enumerate(file, 1) if content.rstrip().endswith(text))


@pytest.mark.parametrize("keep", KEEPS)
def test_the_entry_of_a_table_is_named(keep: str) -> None:
    diff = compared(applied(Original), applied(lambda: Port(SETTINGS)), keep)
    (relation,) = first(diff).relations
    assert lines(first(diff))[1] == line(Port.forward, "# port")
    assert relation.kind == "lookup" and [site.line for site in relation.sites] == [line_of_file("nn.GELU(),  # fault")]
    assert "comes from nn.GELU() (test_compare_last_agreement.py:" in str(diff)


class Exact(Port):
    def __init__(self) -> None:
        super().__init__(SETTINGS)
        self.act = nn.GELU(approximate="tanh")


def test_the_entry_of_a_table_is_named_for_another_argument() -> None:
    cause = first(compared(applied(Exact), applied(lambda: Port(SETTINGS)), "stats"))
    assert cause.kind == "argument" and [relation.kind for relation in cause.relations] == ["lookup"]


# Weights that a conversion leaves as they are.


def checkpoint() -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {"kernel": generator.normal(size=(WIDTH, WIDTH)).astype("f4"), "bias": np.ones(WIDTH, "f4")}


def convert(tree: dict[str, Any]) -> dict[str, Tensor]:
    rules = {
        "kernel": lambda value: torch.from_numpy(value.copy()),  # fault
        "bias": lambda value: torch.from_numpy(value.copy()),
    }
    state = {}
    for kind, value in tree.items():
        state[{"kernel": "weight", "bias": "bias"}[kind]] = rules[kind](value)
    return state


def from_numpy(value: Any) -> Any:
    return torch.from_numpy(value.copy())  # fault


def product() -> Any:
    torch.manual_seed(0)
    tree = {name: torch.from_numpy(value) for name, value in checkpoint().items()}
    return (torch.randn(3, WIDTH) @ tree["kernel"] + tree["bias"]).relu()


def loaded_by_rules() -> Any:
    layer = nn.Linear(WIDTH, WIDTH)
    layer.load_state_dict(convert(checkpoint()))
    torch.manual_seed(0)
    return layer(torch.randn(3, WIDTH)).relu()


def loaded_by_comprehension() -> Any:
    layer = nn.Linear(WIDTH, WIDTH)
    state = {name.replace("kernel", "weight"): from_numpy(value) for name, value in checkpoint().items()}
    layer.load_state_dict(state)
    torch.manual_seed(0)
    return layer(torch.randn(3, WIDTH)).relu()


def assigned() -> Any:
    layer, tree = nn.Linear(WIDTH, WIDTH), checkpoint()
    layer.weight.data = torch.from_numpy(tree["kernel"])  # fault
    layer.bias.data = torch.from_numpy(tree["bias"])
    torch.manual_seed(0)
    return layer(torch.randn(3, WIDTH)).relu()


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize(("run", "fault"), [(loaded_by_rules, convert), (loaded_by_comprehension, from_numpy)])
def test_the_expression_that_made_a_weight_is_named(run: Any, fault: Any, keep: str) -> None:
    (relation,) = first(compared(product, run, keep)).relations
    assert relation.kind == ("statistics" if keep == "stats" else "not turned")
    assert [site.line for site in relation.sites] == [line(fault, "# fault")]


def test_the_assignment_that_set_a_weight_is_named() -> None:
    (relation,) = first(compared(product, assigned, "values")).relations
    writer = relation.writer
    assert writer is not None and isinstance(writer.site, Site) and writer.site.line == line(assigned, "# fault")


# Weights that are tied in one run only.


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.head = nn.Embedding(20, WIDTH), nn.Linear(WIDTH, 20, bias=False)
        self.tie()

    def tie(self) -> None:
        self.head.weight = self.wte.weight

    def forward(self, ids: Tensor) -> Any:
        return self.head(self.wte(ids))


class Cloned(Tied):
    def tie(self) -> None:
        self.head.weight = nn.Parameter(self.wte.weight.clone())  # fault


def language_model(kind: type[Tied]) -> Callable[[], Any]:
    def run() -> Any:
        torch.manual_seed(0)
        trained, model = Tied(), kind()
        state = {"wte.weight": trained.wte.weight * 2}
        model.load_state_dict(state, strict=False)
        return model(torch.arange(6))

    return run


@pytest.mark.parametrize("keep", KEEPS)
def test_the_call_that_made_an_untied_weight_is_named(keep: str) -> None:
    diff = compared(language_model(Tied), language_model(Cloned), keep)
    (relation,) = first(diff).relations
    sites = [call.site for call in relation.makers_b]
    assert relation.kind == "origin" and [site.line for site in sites if site] == [line(Cloned.tie, "# fault")]
    assert "a ties it to that of wte F.embedding, b does not" in str(diff)


# What is not a cause.


class Separate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Any:
        return F.silu(self.gate(x)) * self.up(x)


class Fused(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Any:
        gate, up = self.both(x).chunk(2, dim=-1)
        return F.silu(gate) * up


class FusedWrongly(Fused):
    def forward(self, x: Tensor) -> Any:
        up, gate = self.both(x).chunk(2, dim=-1)  # fault
        return F.silu(gate) * up


def separate() -> Any:
    torch.manual_seed(0)
    model = Separate()
    torch.manual_seed(1)
    return model(torch.randn(3, WIDTH)).sum(-1)


def converted(kind: type[Fused]) -> Callable[[], Any]:
    def run() -> Any:
        model = kind()
        torch.manual_seed(0)
        source = Separate()
        model.load_state_dict({"both.weight": torch.cat([source.gate.weight, source.up.weight])})
        torch.manual_seed(1)
        return model(torch.randn(3, WIDTH)).sum(-1)

    return run


@pytest.mark.parametrize("keep", KEEPS)
@pytest.mark.parametrize("is_turned", [False, True])
def test_first_values_that_a_conversion_overwrites_are_not_a_cause(keep: str, is_turned: bool) -> None:
    a, b = separate, converted(Fused)
    if is_turned:
        a, b = b, a
    diff = compared(a, b, keep)
    assert diff.passes and diff.agrees and not diff.causes


@pytest.mark.parametrize("keep", KEEPS)
def test_first_values_of_another_shape_do_not_hide_the_fault(keep: str) -> None:
    cause = first(compared(separate, converted(FusedWrongly), keep))
    assert cause.sites[1] is not None and cause.sites[1].line == line(FusedWrongly.forward, "# fault")


def test_what_was_copied_before_is_not_an_argument() -> None:
    state = nn.Linear(2, 2).state_dict()
    diff = compared(lambda: copy.deepcopy(state), lambda: copy.deepcopy(state), "stats")
    assert diff.same


def test_numbers_are_recognized_in_another_order() -> None:
    with insitu.record(keep="stats") as trace:
        x = torch.randn(4, 6)
        turned = x.t().contiguous()
        (turned * 2).sum()
    calls = list(trace.calls)
    run = side([*calls[:1]], {"function"}, str, ())
    contents = TensorContents(Moves(align_sides(run, run)[0], 0, run), Tolerance())
    assert [contents.have(call.outputs[0]) for call in calls[:4]] == [True, True, True, False]


def test_a_summary_of_few_numbers_tells_nothing() -> None:
    assert not Summary(3, 0.0, 1.0, 0.5).is_telling and not Summary(9, 1.0, 1.0, 1.0).is_telling
    assert Summary(9, 0.0, 1.0, 0.5).is_close(Summary(9, 0.0, 1.0, 0.5 + 1e-9), 1e-6, 1e-8)
    assert not Summary(9, 0.0, 1.0, 0.5).is_close(Summary(9, 0.0, 1.0, 0.51), 1e-6, 1e-8)
