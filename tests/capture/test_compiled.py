"""torch.compile: compiled regions stay compiled, nothing is compiled again because of a session, one call for each."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.capture.oracle import nothing_left, troubles
from torch import Tensor, nn

import insitu

LEVELS = ["modules", "functions", "aten"]


class Backend:
    """Runs the graph as it is, and counts how often something is compiled."""

    def __init__(self) -> None:
        self.graphs: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any) -> Any:
        self.graphs.append(graph)
        return graph.forward

    @property
    def count(self) -> int:
        return len(self.graphs)


@pytest.fixture(autouse=True)
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.a(x)))


def summary(trace: insitu.Trace) -> list[tuple[str, str, str]]:
    return [(call.kind, call.name, call.path) for call in trace.calls]


@pytest.mark.parametrize("level", LEVELS)
def test_a_model_compiled_before_the_session_is_one_call(level: str) -> None:
    backend, model, x = Backend(), Model(), torch.randn(2, 4)
    compiled = torch.compile(model, backend=backend)
    expected = compiled(x)
    assert backend.count == 1
    with nothing_left(), insitu.record(compiled, level=level) as trace:
        result = compiled(x)
    assert torch.equal(result, expected)
    compiled(x)
    assert backend.count == 1
    (call,) = trace.calls
    assert (call.kind, call.name, call.path, call.step, call.mode) == ("module", "Model", "", 0, "compiled")
    assert [facts.shape for facts in (*call.inputs, *call.outputs)] == [(2, 4), (2, 4)]
    assert call.outputs[0].producer == call.id
    assert call.site is not None and call.site.function.endswith("test_a_model_compiled_before_the_session_is_one_call")
    assert call.duration is not None and call.duration > 0
    assert troubles(trace) == []


@pytest.mark.parametrize("level", LEVELS)
def test_a_model_compiled_in_a_session_is_not_compiled_again_after_it(level: str) -> None:
    backend, model, x = Backend(), Model(), torch.randn(2, 4)
    expected = model(x)
    with nothing_left(), insitu.record(level=level) as trace:
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        for _ in range(2):
            assert torch.equal(compiled(x), expected)
        x + 1
    assert backend.count == 1
    compiled(x)
    assert backend.count == 1
    calls = [call for call in trace.calls if call.parent is None and call.kind != "aten"]
    assert [call.name for call in calls if call.kind == "module"] == ["Model", "Model"]
    assert ("torch.Tensor.add" in [call.name for call in trace.calls]) == (level != "modules")
    assert troubles(trace) == []


@pytest.mark.parametrize("level", LEVELS)
def test_a_session_does_not_change_the_compiled_graph(level: str) -> None:
    x = torch.randn(2, 4)
    graphs = []
    for traced in (False, True):
        torch._dynamo.reset()
        backend, model = Backend(), Model()
        compiled = torch.compile(model, backend=backend, fullgraph=True)
        if traced:
            with insitu.record(level=level):
                compiled(x)
        else:
            compiled(x)
        graphs.append([(node.op, str(node.target)) for graph in backend.graphs for node in graph.graph.nodes])
    assert graphs[0] == graphs[1]


@pytest.mark.parametrize("level", LEVELS)
def test_a_compiled_function_is_one_function(level: str) -> None:
    backend, model, x = Backend(), Model(), torch.randn(2, 4)

    @torch.compile(backend=backend, fullgraph=True)
    def work(x: Tensor, *, scale: float) -> Tensor:
        return model(x).sin() * scale

    expected = work(x, scale=2.0)
    with insitu.record(level=level) as trace:
        result = work(x, scale=2.0)
    assert torch.equal(result, expected)
    assert backend.count == 1
    if level == "modules":
        return
    assert summary(trace) == [("function", trace.calls[0].name, "")]
    (call,) = trace.calls
    assert call.kind == "function" and call.name.endswith("work") and call.mode == "compiled"
    assert call.kwargs == {"scale": 2.0}
    assert [facts.shape for facts in (*call.inputs, *call.outputs)] == [(2, 4), (2, 4)]


def test_a_module_compiled_in_place_is_recorded() -> None:
    backend, model, x = Backend(), Model(), torch.randn(2, 4)
    expected = model(x)
    with insitu.record(model) as trace:
        model.compile(backend=backend, fullgraph=True)
        model(x)
        assert torch.equal(model(x), expected)
    model(x)
    assert backend.count == 1
    assert summary(trace) == [("module", "Model", ""), ("function", "Backend.graph_0", "")] * 2
    assert [call.step for call in trace.calls] == [0, 0, 1, 1]


@pytest.mark.parametrize("level", LEVELS)
def test_a_compiled_part_of_an_eager_model(level: str) -> None:
    backend, model, x = Backend(), Model(), torch.randn(2, 4)
    model.a = torch.compile(model.a, backend=backend)
    expected = model(x)
    with insitu.record(model, level=level) as trace:
        assert torch.equal(model(x), expected)
    assert backend.count == 1
    modules = [call for call in trace.calls if call.kind == "module"]
    assert [(call.name, call.path) for call in modules] == [("Model", ""), ("Linear", "a"), ("Linear", "b")]
    assert [call.mode for call in modules] == ["eager", "compiled", "eager"]
    assert [call.parent for call in modules] == [None, modules[0].id, modules[0].id]
    assert trace.children(modules[1]) == []
    if level != "modules":
        (relu,) = trace.find(name="relu", kind="function")
        assert trace.producer(relu.inputs[0]) is modules[1]
    with insitu.record(model, only="a", level=level) as trace:
        model(x)
    assert summary(trace) == [("module", "Linear", "a")]


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # dynamo itself looks at it
@pytest.mark.parametrize("level", LEVELS)
def test_graph_breaks_and_gradients_are_as_without_a_session(level: str) -> None:
    backend, model, x = Backend(), Model(), torch.randn(2, 4)
    seen: list[float] = []

    @torch._dynamo.disable
    def look(y: Tensor) -> None:
        seen.append(y.sum().item())

    @torch.compile(backend=backend)
    def work(x: Tensor) -> Tensor:
        y = model(x)
        look(y)
        return model(y)

    work(x).sum().backward()
    expected, compiled = [parameter.grad.clone() for parameter in model.parameters()], backend.count  # type: ignore[union-attr]
    model.zero_grad()
    with nothing_left(), insitu.record(level=level) as trace:
        work(x).sum().backward()
    assert all(map(torch.equal, expected, [parameter.grad for parameter in model.parameters()]))
    assert backend.count == compiled
    assert len(seen) == 2 and seen[0] == seen[1]
    assert [call.path for call in trace.calls if call.kind == "module"] == []
    work(x)
    assert backend.count == compiled


@pytest.mark.parametrize("level", LEVELS)
def test_an_exception_in_a_compiled_function_reaches_the_user(level: str) -> None:
    backend, x = Backend(), torch.randn(2, 4)

    def refuse() -> None:
        raise LookupError("no")

    @torch.compile(backend=backend)
    def work(x: Tensor, good: bool) -> Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        if not good:
            refuse()
        return y.cos()

    work(x, True)
    model = Model()
    with nothing_left(), insitu.record(level=level) as trace:
        with pytest.raises(LookupError, match="no"):
            work(x, False)
        model(x)
    assert troubles(trace) == []
    assert [call.name for call in trace.calls if call.kind == "module"] == ["Model", "Linear", "Linear"]
    raised = [call for call in trace.calls if call.raised]
    if level != "modules":
        assert [(call.kind, call.raised) for call in raised] == [("function", "LookupError")]
        assert raised[0].inputs[0].shape == (2, 4)


def test_an_exception_inside_a_compiled_module() -> None:
    backend, model = Backend(), Model()
    compiled = torch.compile(model, backend=backend)
    with nothing_left(), insitu.record(compiled) as trace, pytest.raises(RuntimeError):
        compiled(torch.randn(2, 5))
    assert [(call.path, call.raised is not None) for call in trace.calls] == [("", True)]


def test_new_shapes_compile_as_without_a_session() -> None:
    counts = []
    for traced in (False, True):
        torch._dynamo.reset()
        backend, model = Backend(), Model()
        compiled = torch.compile(model, backend=backend)
        compiled(torch.randn(2, 4))
        for rows in (2, 3, 4, 5):
            if traced:
                with insitu.record(level="aten"):
                    compiled(torch.randn(rows, 4))
            else:
                compiled(torch.randn(rows, 4))
        counts.append(backend.count)
    assert counts[0] == counts[1]


def test_a_compiled_training_step() -> None:
    backend, x = Backend(), torch.randn(2, 4)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compiled = torch.compile(model, backend=backend)

    def step() -> None:
        optimizer.zero_grad()
        compiled(x).sum().backward()
        optimizer.step()

    step()
    count = backend.count
    for level in LEVELS:
        with nothing_left(), insitu.record(compiled, level=level):
            step()
        step()
    assert backend.count == count


def test_nested_sessions_both_record_a_compiled_call() -> None:
    backend, model, x = Backend(), Model(), torch.randn(2, 4)
    compiled = torch.compile(model, backend=backend)
    compiled(x)
    with nothing_left(), insitu.record(level="aten") as outer:
        with insitu.record(compiled) as inner:
            compiled(x)
        compiled(x)
    assert backend.count == 1
    assert [call.name for call in inner.calls] == ["Model"]
    assert [call.name for call in outer.calls if call.kind == "module"] == ["Model", "Model"]


def test_a_session_that_ends_while_a_region_runs_elsewhere() -> None:
    backend, x = Backend(), torch.randn(2, 4)
    inside, go_on = threading.Event(), threading.Event()

    @torch._dynamo.disable
    def wait() -> None:
        inside.set()
        assert go_on.wait(20)

    @torch.compile(backend=backend)
    def work(x: Tensor) -> Tensor:
        y = x.sin()
        wait()
        return y.cos()

    go_on.set()
    expected = work(x)
    inside.clear()
    go_on.clear()
    results: list[Tensor] = []
    thread = threading.Thread(target=lambda: results.append(work(x)))
    with nothing_left():
        with insitu.record():
            thread.start()
            assert inside.wait(20)
        go_on.set()
        thread.join()
    assert torch.equal(results[0], expected)
    model = Model()
    with nothing_left(), insitu.record(model) as trace:
        model(x)
    assert list(trace.modules) == ["", "a", "b"]
    with insitu.record(level="aten") as trace:
        work(x)
    assert [call.kind for call in trace.calls] == ["function"]


def test_a_session_that_ends_inside_a_region_while_another_goes_on() -> None:
    backend, x = Backend(), torch.randn(2, 4)
    first, second = insitu.record(level="aten"), insitu.record(level="aten")
    leaving = False

    @torch._dynamo.disable
    def leave() -> None:
        if leaving:
            first.__exit__(None, None, None)

    @torch.compile(backend=backend)
    def work(x: Tensor) -> Tensor:
        y = x.sin()
        leave()
        return y.cos()

    work(x)
    with nothing_left():
        with second:
            trace = first.__enter__()
            leaving = True
            work(x)
            x + 1
        x + 2
    assert [call.name for call in trace.calls if call.kind == "function"][1:] == []
    assert "torch.Tensor.add" not in [call.name for call in trace.calls]


def test_a_region_in_one_thread_hides_nothing_of_another() -> None:
    backend, x = Backend(), torch.randn(2, 4)
    inside, go_on = threading.Event(), threading.Event()

    @torch._dynamo.disable
    def wait() -> None:
        inside.set()
        assert go_on.wait(20)

    @torch.compile(backend=backend)
    def work(x: Tensor) -> Tensor:
        y = x.sin()
        wait()
        return y.cos()

    thread, model = threading.Thread(target=work, args=(x,)), Model()
    with insitu.record() as trace:
        thread.start()
        assert inside.wait(60)
        try:
            model(x)
        finally:
            go_on.set()
            thread.join()
    assert list(trace.modules) == ["", "a", "b"]


def test_dynamo_may_be_imported_inside_a_session() -> None:
    program = """if True:
        import sys
        import torch
        from torch import nn
        import insitu
        assert "torch._dynamo.eval_frame" not in sys.modules
        before = list(sys.meta_path)
        count, model, x = [], nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
        def backend(graph, inputs):
            count.append(graph)
            return graph.forward
        with insitu.record(level="aten") as trace:
            compiled = torch.compile(model, backend=backend)
            compiled(x)
            compiled(x)
        compiled(x)
        assert len(count) == 1, count
        assert sys.meta_path == before
        names = [(call.kind, call.name) for call in trace.calls if call.kind == "module"]
        assert names == [("module", "Sequential")] * 2, names
        assert not trace.marks, trace.marks
        import torch._dynamo.eval_frame as e
        assert "insitu" not in repr(e._maybe_set_eval_frame)
        with insitu.record(model) as trace:
            model(x)
        assert list(trace.modules) == ["", "0", "1"]
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_a_model_compiled_with_inductor_is_recorded() -> None:
    model, x = Model(), torch.randn(2, 4)
    compiled = torch.compile(model)
    expected = compiled(x)
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    for level in LEVELS:
        with nothing_left(), insitu.record(compiled, level=level) as trace:
            result = compiled(x)
        assert torch.equal(result, expected)
        assert summary(trace) == [("module", "Model", ""), ("function", "inductor.graph_0", "")]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == before


PATTERNS = ["forward", "a.weight", "a.weight.grad", "norm.running_mean"]


class Trained(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(torch.relu(self.norm(self.a(x))))


def rows(way: str, *, warm: bool) -> tuple[dict[str, Any], int]:
    """What is recorded of a training whose module is compiled in one way or another, and how many graphs there are."""
    torch.manual_seed(0)
    model, backend = Trained(), Backend()
    called: Any = model
    if way == "compile()":
        model.compile(backend=backend)
    elif way != "eager":
        called = torch.compile(model, backend=backend)
    optimizer, inputs = torch.optim.SGD(model.parameters(), 0.1), torch.randn(3, 5, 4)

    def train() -> None:
        for x in inputs:
            optimizer.zero_grad()
            called(x).square().mean().backward()
            optimizer.step()

    state = {name: value.clone() for name, value in model.state_dict().items()}
    if warm:
        train()
        model.load_state_dict(state)
    with insitu.record_run(called if way == "wrapper" else model, only=PATTERNS, keep="values") as run:
        train()
    train()
    return {path: run[path].values for path in run}, backend.count


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("way", ["inside", "wrapper", "compile()"])
def test_values_of_a_compiled_module_are_those_of_the_module(way: str, warm: bool) -> None:
    expected, _ = rows("eager", warm=False)
    assert {path: len(values) for path, values in expected.items()} == dict.fromkeys(PATTERNS, 3)
    counters = torch._dynamo.utils.counters
    counters.clear()
    with nothing_left():
        found, graphs = rows(way, warm=warm)
    assert graphs == 1
    assert not counters["graph_break"]
    assert found.keys() == expected.keys()
    for path in expected:
        assert (found[path] == expected[path]).all(), path


@pytest.mark.parametrize("wrapped", [False, True])
def test_values_of_a_module_that_is_compiled_inside_the_model(wrapped: bool) -> None:
    backend, x = Backend(), torch.randn(5, 4)
    model = nn.Sequential(Model(), nn.ReLU())
    expected = model[0](x)
    if wrapped:
        model[0] = torch.compile(model[0], backend=backend)
    else:
        model[0].compile(backend=backend)
    with insitu.record_run(model, only=["0", "1", "forward"], keep="values") as run:
        for _ in range(2):
            model(x)
    assert backend.count == 1
    assert {path: len(run[path].values) for path in run} == {"0": 2, "1": 2, "forward": 2}
    assert (run["0"].values[1] == expected.detach().numpy()).all()


def test_a_compiled_module_that_raises_does_not_end_the_recording() -> None:
    def fail(x: Tensor) -> Tensor:
        if x.shape[0] == 1:
            raise ValueError("one")
        return x

    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return fail(x) * 2

    model = Failing()
    compiled = torch.compile(model, backend=Backend())
    with nothing_left(), insitu.record_run(model, only="forward", keep="values") as run:
        compiled(torch.ones(2))
        with pytest.raises(ValueError, match="one"):
            compiled(torch.ones(1))
        compiled(torch.ones(3))
    assert list(run["forward"].steps) == [0, 2]
