"""What is inside compiled regions: graphs, kernels, lines and modules, while nothing is compiled otherwise."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.capture.oracle import nothing_left, troubles
from torch import Tensor, nn

import insitu
from insitu.capture import torch_compiler_internals
from insitu.capture.torch_compiler_internals import GRAPH_PARTS, GraphPart, graph_part_owner
from insitu.trace.compiled.compiled_graph import BEFORE_SESSION, CompiledGraph
from insitu.view import render

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.last = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.first(x)) * 2
        h = self.norm(h)
        return self.last(h).softmax(-1)


def unique_graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def names(trace: insitu.Trace) -> list[str]:
    return [call.name for call in trace.calls]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_kernels_of_inductor_name_the_lines_that_they_fuse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    model, x = Net(), torch.randn(5, 8)
    first = graph_of_training(model, x)
    modules = {node.module: node.module_type for node in first.nodes if node.module}
    assert modules == {"first": "Linear", "norm": "LayerNorm", "last": "Linear"}
    torch._dynamo.reset()
    cached = graph_of_training(model, x)
    assert cached.kernels == first.kernels
    assert {node.module for node in cached.nodes} == {"", "norm"}  # where all calls of a line are in one module


def graph_of_training(model: nn.Module, x: Tensor) -> CompiledGraph:
    """The forward graph of a training step, in which kernels must have the right lines."""
    compiled = torch.compile(model)
    with nothing_left(), insitu.record(model) as trace:
        compiled(x).sum().backward()
    assert troubles(trace) == []
    (forward,) = trace.graphs.values()  # the gradients are computed outside the model
    assert (forward.backend, forward.direction) == ("inductor", "forward")
    layer_norm, softmax = [forward.sources(kernel) for kernel in forward.kernels if kernel.is_fused]
    assert [line.text for line in layer_norm] == ["h = torch.relu(self.first(x)) * 2", "h = self.norm(h)"]
    assert [line.text for line in softmax] == ["return self.last(h).softmax(-1)"]
    assert {Path(line.file).name for line in (*layer_norm, *softmax)} == {HERE}
    text = render(trace)
    assert "cpp_fused_mul_native_layer_norm_relu_0(fuses=" in text
    assert "aten.rsqrt" not in text
    assert "aten.rsqrt" in render(trace, unfold=True)
    return forward


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_the_backward_graph_of_inductor_is_in_the_backward_call() -> None:
    compiled, x = torch.compile(Net()), torch.randn(5, 8)
    with insitu.record() as trace:
        compiled(x).sum().backward()
    (run,) = [call for call in trace.calls if call.name == "inductor.graph_1"]
    assert (run.phase, run.mode) == ("backward", "compiled")
    assert trace[run.parent].name == "torch.Tensor.backward"
    assert trace.graphs["inductor.graph_1"].direction == "backward"
    assert troubles(trace) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_graph_of_inductor_from_before_the_session_is_known() -> None:
    model, x = Net(), torch.randn(5, 8)
    compiled = torch.compile(model)
    expected = compiled(x)
    before = unique_graphs()
    with insitu.record(model) as trace:
        result = compiled(x)
    assert torch.equal(result, expected)
    assert unique_graphs() == before
    (graph,) = trace.graphs.values()
    assert graph.compile_id == ""
    assert [node.code for node in graph.nodes if "relu" in node.code]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit")
@pytest.mark.parametrize("inside", [False, True])
def test_results_gradients_and_random_numbers_are_those_of_the_compiled_code(inside: bool) -> None:
    def train(*, record: bool) -> list[Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 4))
        compiled, x = torch.compile(model), torch.randn(6, 8)
        found: list[Tensor] = []
        for _ in range(2):
            if record:
                with insitu.record(keep="values", inside_compiled=inside) as trace:
                    found += [compiled(x), compiled(x[:3])]
                    sum(item.sum() for item in found[-2:]).backward()
                assert troubles(trace) == []
            else:
                found += [compiled(x), compiled(x[:3])]
                sum(item.sum() for item in found[-2:]).backward()
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        return [*found, *gradients, *model.buffers(), torch.get_rng_state()]

    before = unique_graphs()
    expected = train(record=False)
    between = unique_graphs()
    found = train(record=True)
    assert all(map(torch.equal, found, expected))
    assert unique_graphs() - between == between - before


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_other_backends_show_their_graphs(backend: str) -> None:
    model, x = Net(), torch.randn(5, 8)
    compiled = torch.compile(model, backend=backend)
    with nothing_left(), insitu.record(model) as trace:
        compiled(x)
        compiled(x)
    assert names(trace) == ["Net", f"{backend}.graph_0"] * 2
    graph = trace.graphs[f"{backend}.graph_0"]
    assert graph.kernels == ()
    assert {node.module for node in graph.nodes} >= {"first", "norm", "last"}
    lines = render(trace, unfold=True).splitlines()
    relu = "torch.relu" if backend == "eager" else "aten.relu"
    assert sum(relu in line and HERE in line for line in lines) == 2
    assert troubles(trace) == []


def test_the_backward_graph_of_another_backend_is_known() -> None:
    model, x = Net(), torch.randn(5, 8)
    compiled = torch.compile(model, backend="aot_eager")
    with insitu.record(model) as trace:
        compiled(x)
    assert [(graph.name, graph.direction) for graph in trace.graphs.values()] == [
        ("aot_eager.graph_0", "forward"),
        ("aot_eager.graph_0_backward", "backward"),
    ]


def test_graph_breaks_and_recompilations_have_their_reasons() -> None:
    @torch.compile(backend="eager")
    def work(x: Tensor) -> Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    with insitu.record() as trace:
        work(torch.ones(3))
        work(torch.ones(4))
    assert names(trace).count("eager.graph_0") == 1
    text = render(trace)
    assert f"graph break at {HERE}:" in text and "graph_break()" in text
    assert text.count("compiled again:") == 2
    assert "size mismatch at index 0. expected 3, actual 4" in text


def test_a_graph_from_before_the_session_is_said_to_be_unknown() -> None:
    compiled = torch.compile(Net(), backend="eager")
    other = torch.compile(nn.Linear(8, 8), backend="eager")
    x = torch.randn(5, 8)
    compiled(x)
    with insitu.record() as trace:
        compiled(x)
        other(x)
    lines = render(trace).splitlines()
    assert BEFORE_SESSION in lines[1]
    assert sum(BEFORE_SESSION in line for line in lines) == 1


def test_a_graph_that_one_session_saw_is_known_in_the_next() -> None:
    @torch.compile(backend="eager")
    def work(x: Tensor) -> Tensor:
        return x.relu() * 2

    x = torch.ones(3)
    with insitu.record():
        work(x)
    work(x)
    with insitu.record() as trace:
        work(x)
    assert names(trace)[1:] == ["eager.graph_0"]
    assert len(trace.graphs["eager.graph_0"].nodes) == 2


@pytest.mark.parametrize("suffix", ["h5"])
def test_graphs_are_in_the_file(tmp_path: Path, suffix: str) -> None:
    compiled, x = torch.compile(Net(), backend="aot_eager"), torch.randn(5, 8)
    with insitu.record(keep="stats", inside_compiled=True) as trace:
        compiled(x)
    insitu.save(trace, tmp_path / f"trace.{suffix}")
    loaded = insitu.load(tmp_path / f"trace.{suffix}")
    assert loaded.graphs == trace.graphs != {}
    assert render(loaded, unfold=True) == render(trace, unfold=True)


def test_a_text_has_the_calls_inside(tmp_path: Path) -> None:
    compiled, x = torch.compile(Net(), backend="aot_eager"), torch.randn(5, 8)
    with insitu.record(inside_compiled=True) as trace:
        compiled(x)
    insitu.save(trace, tmp_path / "step.trace")
    loaded = insitu.load(tmp_path / "step.trace")
    assert [(call.name, call.mode) for call in loaded.calls] == [(call.name, call.mode) for call in trace.calls]
    assert "aten.relu" in names(loaded)


def test_a_missing_part_of_the_compiler_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_compiler_internals, "_told", set())
    part = GraphPart("torch._dynamo.output_graph", "OutputGraph", "not_there", "is not there", "graphs are not shown")
    module = sys.modules[part.module]
    with pytest.warns(insitu.InsituWarning, match=r"OutputGraph.not_there, so graphs are not shown"):
        assert graph_part_owner(part, module) is None
    assert graph_part_owner(part, module) is None


def test_without_a_part_of_the_compiler_a_region_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_compiler_internals, "_told", set())
    monkeypatch.setattr(torch._dynamo.output_graph, "OutputGraph", types.SimpleNamespace())
    work = torch.compile(torch.relu, backend="eager")
    with pytest.warns(insitu.InsituWarning, match="what is inside a compiled region is not shown"), insitu.record():
        pass
    monkeypatch.undo()
    assert work(torch.ones(2)).tolist() == [1, 1]


def test_each_part_of_the_compiler_says_why_it_is_needed() -> None:
    for part in GRAPH_PARTS:
        assert part.why and part.since and part.without


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch uses torch.jit where inductor is imported
def test_this_torch_has_every_part_of_the_compiler() -> None:
    torch.compile(lambda x: x + 1)(torch.ones(2))  # imports the modules of this version
    modules = {part: sys.modules.get(part.module) for part in GRAPH_PARTS}
    owners = {part.full_name: graph_part_owner(part, module) for part, module in modules.items() if module is not None}
    assert [name for name, owner in owners.items() if owner is None] == []
    assert len(owners) >= 4
