"""Threads: workers that call the model are in the trace, sessions of two threads do not meet, nothing is left."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from tests.capture.oracle import left_over, nothing_left, tree, troubles
from torch import Tensor, nn

import insitu

LEVELS = ["modules", "functions", "aten"]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x).relu()


def in_thread(run: Callable[[], Any]) -> Any:
    """The result of a function in a thread of its own."""
    found: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            found.append(run())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    if errors:
        raise errors[0]
    return found[0]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("subject", [False, True])
def test_a_worker_calls_the_model(level: str, subject: bool) -> None:
    model, x = Model(), torch.ones(1, 3)
    expected = model(x)
    modes: list[int] = []

    def work() -> Tensor:
        result = model(x)
        modes.append(torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack())
        return result

    with nothing_left(), insitu.record(model if subject else None, level=level) as trace:
        result = in_thread(work)
        model(x)
    assert torch.equal(result, expected)
    assert modes == [0]
    assert troubles(trace) == []
    first, second = (call for call in trace.calls if call.parent is None and call.kind == "module")
    assert {first.thread, second.thread} == {0, 1}
    assert len(trace.children(first)) == len(trace.children(second)) > 0
    if subject:
        assert [first.step, second.step] == [0, 1]


def test_other_work_of_a_worker_is_its_own() -> None:
    model, x = Model(), torch.ones(1, 3)

    def work() -> None:
        x.sin()
        model(x)
        x.cos()

    with insitu.record(model) as trace:
        in_thread(work)
    assert tree(trace) == [["Model", ["fc", "torch.nn.functional.linear"], "torch.Tensor.relu"]]


def test_calls_of_a_thread_pool_are_recorded() -> None:
    model = Model()
    inputs = [torch.full((1, 3), float(index)) for index in range(40)]
    expected = [model(x) for x in inputs]
    with nothing_left():
        with insitu.record(model, level="aten") as trace, ThreadPoolExecutor(4) as pool:
            results = list(pool.map(model, inputs))
        assert all(map(torch.equal, results, expected))
    assert troubles(trace) == []
    roots = [call for call in trace.calls if call.parent is None]
    assert len(roots) == 40 and {call.path for call in roots} == {""}
    assert sorted(call.step for call in roots) == list(range(40))
    for call in trace.calls:
        if call.parent is not None:
            parent = trace[call.parent]
            assert parent.thread == call.thread
            assert parent.step == call.step
    starts = [call.start for call in trace.calls]
    assert starts == sorted(starts)


def test_steps_of_interleaved_threads_are_told_apart() -> None:
    """Two threads inside the subject at once: what runs in a call belongs to its step."""
    here, there = threading.Event(), threading.Event()

    class Waiting(nn.Module):
        def forward(self, x: Tensor, mine: threading.Event, other: threading.Event) -> Tensor:
            mine.set()
            assert other.wait(30)
            return x.sin()

    model, x = Waiting(), torch.ones(1)
    with insitu.record(model) as trace:
        worker = threading.Thread(target=model, args=(x, there, here))
        worker.start()
        model(x, here, there)
        worker.join()
    for call in trace.find(name="sin"):
        assert call.parent is not None and call.step == trace[call.parent].step
    assert sorted(call.step for call in trace.find(kind="module")) == [0, 1]


def test_two_sessions_in_two_threads_at_once() -> None:
    barrier = threading.Barrier(2, timeout=30)
    models = [Model(), Model()]
    x = torch.ones(1, 3)
    traces: dict[int, insitu.Trace] = {}

    def work(index: int) -> None:
        with insitu.record(models[index], level="aten") as trace:
            barrier.wait()
            for _ in range(20):
                models[index](x)
            barrier.wait()
        traces[index] = trace

    with nothing_left(), ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    for trace in traces.values():
        assert troubles(trace) == []
        assert len([call for call in trace.calls if call.parent is None and call.kind == "module"]) == 20
        assert len({call.thread for call in trace.calls}) == 1


def test_sessions_without_subject_in_two_threads_see_their_own_thread() -> None:
    barrier = threading.Barrier(2, timeout=30)
    x = torch.ones(1)
    names: dict[int, list[str]] = {}

    def work(index: int) -> None:
        barrier.wait()
        with insitu.record() as trace:
            barrier.wait()
            for _ in range(20):
                x.sin() if index else x.cos()
            barrier.wait()
        names[index] = [call.name for call in trace.calls]

    with nothing_left(), ThreadPoolExecutor(2) as pool:
        list(pool.map(work, range(2)))
    assert names == {0: ["torch.Tensor.cos"] * 20, 1: ["torch.Tensor.sin"] * 20}


def test_one_session_object_entered_in_two_threads() -> None:
    barrier = threading.Barrier(2, timeout=30)
    model, x = Model(), torch.ones(1, 3)
    session = insitu.record(level="aten")
    found: dict[int, tuple[list[str], int]] = {}

    def work(index: int) -> None:
        if index:
            barrier.wait()
        with session as trace:
            if not index:
                barrier.wait()
            barrier.wait()
            x.sin() if index else x.cos()
            model(x)
            if index:
                barrier.wait()  # the first leaves first
        if not index:
            barrier.wait()
        modes = torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack()
        found[index] = ([call.name for call in trace.calls if call.kind == "function"][:1], modes)

    with nothing_left():
        threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert found == {0: (["torch.Tensor.cos"], 0), 1: (["torch.Tensor.sin"], 0)}


def test_an_exception_in_a_thread_is_recorded_and_raised() -> None:
    model = Model()
    with nothing_left(), insitu.record(model, level="aten") as trace, pytest.raises(RuntimeError):
        in_thread(lambda: model(torch.ones(1, 5)))
    raised = [(call.kind, call.raised) for call in trace.calls if call.raised]
    assert raised == [(kind, "RuntimeError") for kind in ("module", "module", "function", "aten")]
    with insitu.record(model) as trace:
        in_thread(lambda: model(torch.ones(1, 3)))
    assert [call.path for call in trace.find("**", kind="module")] == ["", "fc"]


@pytest.mark.parametrize("level", LEVELS)
def test_a_session_may_be_left_in_another_thread(level: str) -> None:
    session, model, x = insitu.record(level=level), Model(), torch.ones(1, 3)
    entered, left = threading.Event(), threading.Event()
    report: dict[str, Any] = {}

    def work() -> None:
        report["trace"] = session.__enter__()
        entered.set()
        assert left.wait(30)
        report["result"] = model(x)
        x.sin()
        with insitu.record(model) as trace:
            model(x)
        report["again"] = len(trace)
        report["modes"] = torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack()

    with nothing_left():
        thread = threading.Thread(target=work)
        thread.start()
        assert entered.wait(30)
        session.__exit__(None, None, None)
        left.set()
        thread.join(30)
    assert torch.equal(report["result"], model(x))
    assert len(report["trace"]) == 0
    assert report["again"] == 4
    assert report["modes"] == 0  # the next session of the thread sweeps what could not be taken away from outside


def test_a_worker_still_runs_when_the_session_ends() -> None:
    inside, go_on = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x.sin()
            inside.set()
            assert go_on.wait(30)
            return x.cos()

    model, x = nn.Sequential(Slow(), nn.ReLU()), torch.ones(1)
    results: list[Tensor] = []
    modes: list[int] = []

    def work() -> None:
        results.append(model(x))
        modes.append(torch._C._len_torch_function_stack() + torch._C._len_torch_dispatch_stack())

    with nothing_left():
        thread = threading.Thread(target=work)
        with insitu.record(level="aten") as trace:
            thread.start()
            assert inside.wait(30)
        names = [call.name for call in trace.calls]
        go_on.set()
        thread.join()
    assert torch.equal(results[0], x.cos()) and modes == [0]
    assert "torch.Tensor.cos" not in names
    assert [call.name for call in trace.calls] == names


def test_many_sessions_begin_and_end_at_once() -> None:
    model, x = Model(), torch.ones(1, 3)
    expected = model(x)
    before = left_over()

    def work(_: int) -> bool:
        with insitu.record(model, level="aten") as trace:
            good = torch.equal(model(x), expected)
        return good and len(trace.find("fc")) >= 1

    with nothing_left(), ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(300)))
    gc.collect()
    assert left_over() == before


def test_backward_in_a_worker() -> None:
    model, x = Model(), torch.ones(1, 3)
    model(x).sum().backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]  # type: ignore[union-attr]
    model.zero_grad()

    def work() -> None:
        model(x).sum().backward()

    with nothing_left(), insitu.record(model, level="aten") as trace:
        in_thread(work)
    assert troubles(trace) == []
    assert all(map(torch.equal, expected, [parameter.grad for parameter in model.parameters()]))
