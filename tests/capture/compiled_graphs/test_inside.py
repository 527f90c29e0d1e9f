"""Values inside compiled code, and eager beside compiled code: the first group that differs, and who is right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.capture.oracle import troubles
from torch import Tensor, nn

import insitu
from insitu.capture.compiled_graphs.graph_interpreter import interpret
from insitu.trace.compiled.graph_text import read_graph
from insitu.view import render


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Shift(nn.Module):
    """Loses digits in eager bfloat16; a fused kernel keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8, dtype=torch.bfloat16)

    def forward(self, x: Tensor) -> Tensor:
        h = self.linear(x)
        y = h + 1000
        return (y - 1000) * 2


@pytest.fixture
def traces() -> tuple[insitu.Trace, insitu.Trace]:
    """Eager and compiled."""
    torch.manual_seed(0)
    model, x = Shift().eval(), torch.randn(4, 8, dtype=torch.bfloat16)
    compiled = torch.compile(model)
    with torch.no_grad():
        with insitu.record(model, keep="values") as eager:
            model(x)
        with insitu.record(model, keep="values", inside_compiled=True) as inside:
            compiled(x)
    return eager, inside


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_calls_inside_have_values(backend: str) -> None:
    @torch.compile(backend=backend)
    def work(x: Tensor) -> Tensor:
        return x.relu() * 2

    x = torch.tensor([-1.0, 3.0])
    with insitu.record(keep="values", inside_compiled=True) as trace:
        work(x)
    assert troubles(trace) == []
    region, graph, relu, mul = trace.calls
    assert [call.parent for call in (graph, relu, mul)] == [region.id, graph.id, graph.id]
    assert (relu.outputs[0].kept.tolist(), mul.outputs[0].kept.tolist()) == ([0, 3], [0, 6])
    assert mul.inputs[0].producer == relu.id
    assert {call.mode for call in trace.calls} == {"compiled"}
    assert graph.inputs[0].kept.tolist() == [-1, 3]
    assert relu.duration is None


def test_random_numbers_inside_are_those_of_the_program() -> None:
    work = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.5), backend="aot_eager")
    x = torch.ones(50)
    with insitu.record(keep="values", inside_compiled=True) as trace:
        torch.manual_seed(1)
        work(x)
        torch.manual_seed(1)
        result = work(x)
        state = torch.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(work(x), result) and torch.equal(torch.get_rng_state(), state)
    inside = [call for call in trace.calls if call.kind == "aten"]
    assert inside[-1].outputs[0].kept.tolist() == result.tolist()


def test_a_buffer_that_a_graph_changes_is_changed_once() -> None:
    counter = torch.zeros(3)

    @torch.compile(backend="aot_eager")
    def work(x: Tensor) -> Tensor:
        counter.add_(1)
        return x + counter

    with insitu.record(keep="values", inside_compiled=True) as trace:
        assert work(torch.zeros(3)).tolist() == [1, 1, 1]
    assert counter.tolist() == [1, 1, 1]
    assert troubles(trace) == []


def test_a_nan_inside_is_pinned_on_its_call() -> None:
    @torch.compile(backend="aot_eager")
    def work(x: Tensor) -> Tensor:
        return torch.log(x - 1).sum()

    with insitu.record(keep="stats", inside_compiled=True) as trace:
        work(torch.zeros(3))
    assert "first NaN: aten.log" in render(trace)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_outputs_of_kernels_are_those_of_the_compiled_code(traces: tuple[insitu.Trace, insitu.Trace]) -> None:
    _, compiled = traces
    kernels = [call for call in compiled.calls if call.name.startswith("cpp_fused")]
    assert [(kernels[-1].outputs[0].kept == compiled.calls[0].outputs[0].kept).all() for _ in kernels[:1]] == [True]
    inside = compiled.children(kernels[-1])
    assert (inside[-1].outputs[0].kept != compiled.calls[0].outputs[0].kept).any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_compare_names_the_first_group_and_who_is_right(
    traces: tuple[insitu.Trace, insitu.Trace], tmp_path: Path
) -> None:
    eager, compiled = traces
    diff = insitu.compare(eager, compiled, reference="float64")
    assert diff.group is not None and diff.group.status == "differs"
    assert [line.text for line in diff.group.lines] == ["y = h + 1000", "return (y - 1000) * 2"]
    assert diff.group.distance is not None and diff.group.distance.wrong == "a"
    assert [group.status for group in diff.groups] == ["same", "differs"]
    text = str(diff)
    assert "first fused group that differs: cpp_fused_add_mul_sub_0 (fuses test_inside.py:" in text
    assert "eager is wrong" in text
    insitu.save(compiled, tmp_path / "compiled.h5")
    insitu.save(eager, tmp_path / "eager.h5")
    again = insitu.compare(tmp_path / "eager.h5", tmp_path / "compiled.h5", reference="float64")
    assert [group.distance for group in again.groups] == [group.distance for group in diff.groups]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_eager_and_compiled_modules_that_agree_are_the_same(backend: str) -> None:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), torch.randn(2, 3)
    compiled = torch.compile(model, backend=backend)
    with insitu.record(model, keep="values") as a:
        model(x)
    with insitu.record(model, keep="values") as b:
        compiled(x)
    assert insitu.compare(a, b).same
    assert insitu.compare(b, a).same


def test_double_precision_without_a_compiled_run_is_refused() -> None:
    with insitu.record(keep="values") as trace:
        torch.ones(2) + 1
    with pytest.raises(insitu.InsituError, match="inside_compiled=True"):
        insitu.compare(trace, trace, reference="float64")


def test_double_precision_without_values_says_so() -> None:
    work = torch.compile(torch.exp, backend="aot_eager")
    with insitu.record(keep="stats", inside_compiled=True) as trace:
        work(torch.ones(2))
    with pytest.warns(insitu.InsituWarning, match='record it with keep="values"'):
        insitu.compare(trace, trace, reference="float64")


@pytest.fixture
def process_group() -> Iterator[None]:
    """A group of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_collective_is_not_run_a_second_time(backend: str, process_group: None) -> None:
    from torch.distributed._functional_collectives import all_reduce

    @torch.compile(backend=backend)
    def work(x: Tensor) -> Tensor:
        return all_reduce(x.relu(), "sum", torch.distributed.group.WORLD) * 2

    with (
        pytest.warns(insitu.InsituWarning, match="all_reduce.* waits for other ranks, and they run it once"),
        insitu.record(keep="values", inside_compiled=True) as trace,
    ):
        assert work(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert f"{backend}.graph_0" in [call.name for call in trace.calls]


def test_an_operator_that_writes_gets_copies_whatever_its_name() -> None:
    @torch.library.custom_op("insitu_tests::bump", mutates_args={"x"})
    def bump(x: Tensor) -> None:
        x.add_(1)

    text = (
        "class Graph(torch.nn.Module):\n"
        '    def forward(self, arg0_1: "f32[2][1]cpu"):\n'
        "        bump_default = torch.ops.insitu_tests.bump.default(arg0_1)\n"
        '        mul: "f32[2][1]cpu" = torch.ops.aten.mul.Tensor(arg0_1, 2)\n'
        "        return (mul,)\n"
    )
    x = torch.zeros(2)
    results = interpret(read_graph(text), [x])
    assert results["mul"].tolist() == [2.0, 2.0]
    assert x.tolist() == [0.0, 0.0]
