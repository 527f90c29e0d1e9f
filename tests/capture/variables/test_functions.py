"""Watched functions: whatever they are, their calls are recorded, and for their callers nothing is different."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.capture.variables.watching import Listener, heard
from torch import nn

import insitu
from insitu import Call, Variable


def calls(trace: insitu.Trace) -> list[tuple[str, dict[str, Any], Any]]:
    return [(call.name.rpartition(".")[2], call.kwargs, call.result) for call in trace.find(kind="python")]


def top_level(a: int, b: int = 2, *rest: int, c: int = 3, **more: int) -> int:
    """Add."""
    return a + b + sum(rest) + c + sum(more.values())


watched_top_level = insitu.watch(top_level)
top_level_of_module = top_level
top_level = watched_top_level


def test_call_has_arguments_by_name_and_the_result() -> None:
    with insitu.record(level="python") as trace:
        watched_top_level(1)
        watched_top_level(1, 2, 3, 4, c=5, d=6)
        watched_top_level(b=1, a=2)
    assert calls(trace) == [
        ("top_level", {"a": 1}, 6),
        ("top_level", {"a": 1, "b": 2, "rest": (3, 4), "c": 5, "more": {"d": 6}}, 21),
        ("top_level", {"b": 1, "a": 2}, 6),
    ]
    first = trace.calls[0]
    assert first.site is not None and first.site.text.strip() == "watched_top_level(1)"
    assert first.defined is not None and first.defined.text.startswith("def top_level(")
    assert first.duration is not None and first.duration > 0


def test_watched_function_keeps_its_name_signature_and_attributes() -> None:
    assert watched_top_level.__name__ == "top_level" and watched_top_level.__doc__ == "Add."
    assert inspect.signature(watched_top_level) == inspect.signature(top_level_of_module)
    assert inspect.unwrap(watched_top_level) is top_level_of_module
    assert pickle.loads(pickle.dumps(watched_top_level)) is watched_top_level
    assert copy.deepcopy(watched_top_level) is watched_top_level
    assert inspect.getsource(watched_top_level).startswith("def top_level(")


def test_modules_operators_and_functions_are_in_one_tree() -> None:
    net = nn.Linear(2, 2)

    @insitu.watch
    def inner(x: torch.Tensor) -> torch.Tensor:
        return net(x) + 1

    @insitu.watch
    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x) * 2

    with insitu.record() as trace:
        result = outer(torch.ones(1, 2))
    names = {call.id: call.name.rpartition(".")[2] for call in trace.calls}
    assert [(call.kind, names[call.id], names.get(call.parent or -1)) for call in trace.calls[1:]] == [
        ("python", "outer", None),
        ("python", "inner", "outer"),
        ("module", "Linear", "inner"),
        ("function", "linear", "Linear"),
        ("function", "add", "inner"),
        ("function", "mul", "outer"),
    ]
    chain = [site.function.rpartition(".")[2] for site in trace.calls[-2].site.chain()]  # type: ignore[union-attr]
    assert chain[-3:] == [test_modules_operators_and_functions_are_in_one_tree.__name__, "outer", "inner"]
    assert trace.calls[1].result is trace.calls[-1].result
    assert torch.equal(result, (net(torch.ones(1, 2)) + 1) * 2)


@insitu.watch
class Thing:
    size = 3

    def __init__(self, n: int) -> None:
        self.n = n

    @property
    def double(self) -> int:
        return self.n * 2

    @double.setter
    def double(self, value: int) -> None:
        self.n = value // 2

    @functools.cached_property
    def slow(self) -> int:
        return self.n

    @classmethod
    def make(cls, n: int) -> Thing:
        return cls(n)

    @staticmethod
    def one(x: int) -> int:
        return x + 1

    def __call__(self, x: int) -> int:
        return self.n + x

    def __repr__(self) -> str:
        return f"Thing({self.n})"

    def generate(self) -> Iterator[int]:
        yield self.n


def test_decorated_class_records_all_its_methods() -> None:
    with insitu.record(level="python") as trace:
        thing = Thing.make(3)
        thing.double = thing.double + 2
        assert (thing.slow, thing.slow, Thing.one(1), thing(1), repr(thing), list(thing.generate())) == (
            *(4, 4, 2, 5, "Thing(4)", [4]),
        )
    assert [name for name, _, _ in calls(trace)] == [
        *("make", "__init__", "double", "double", "slow", "one", "__call__", "generate"),
    ]
    assert (
        isinstance(Thing, type) and Thing.size == 3 and isinstance(inspect.getattr_static(Thing, "one"), staticmethod)
    )
    assert trace.calls[0].name == "Thing.make"


def test_decorated_model_class_is_recorded() -> None:
    @insitu.watch
    class Net(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    with insitu.record() as trace:
        Net()(torch.ones(1))
    assert [call.kind for call in trace.calls if call.name.endswith("forward")] == ["python"]


def test_generator_is_one_call_left_and_entered_at_each_step() -> None:
    @insitu.watch("x")
    def count(n: int) -> Iterator[Any]:
        x = 0
        for _ in range(n):
            x += 1
            try:
                sent = yield x
                x += sent or 0
            except KeyError:
                x = 100
        return "end"

    assert inspect.isgeneratorfunction(count)
    with insitu.record(level="python") as trace:
        one, two = count(3), count(1)
        assert (next(one), next(two), one.send(10), one.throw(KeyError()), next(one, "over")) == (1, 1, 12, 101, "over")
        two.close()
        assert list(count(2)) == [1, 2]
    first, second, third = trace.find(kind="python")
    assert (first.result, second.result, third.result) == ("end", None, "end")
    inside = {call.id: [] for call in (first, second, third)}
    for event in trace.variables():
        inside[event.parent].append((event.name, event.value))
    yields = [[value for name, value in events if name == "yield"] for events in inside.values()]
    values = [[value for name, value in events if name == "x"] for events in inside.values()]
    assert yields == [[1, 12, 101], [1], [1, 2]]
    assert values == [[0, 1, 11, 12, 100, 101], [0, 1], [0, 1, 2]]


def test_coroutine_and_asynchronous_generator_are_one_call_each() -> None:
    @insitu.watch("x")
    async def wait(n: int) -> int:
        x = n
        await asyncio.sleep(0.001 * n)
        x += 10
        return x

    @insitu.watch
    async def each(n: int) -> AsyncIterator[int]:
        for i in range(n):
            await asyncio.sleep(0)
            yield i

    async def main() -> tuple[list[int], list[int]]:
        together = await asyncio.gather(wait(3), wait(1), wait(2))
        return together, [i async for i in each(2)]

    assert inspect.iscoroutinefunction(wait) and inspect.isasyncgenfunction(each)
    with insitu.record(level="python") as trace:
        assert asyncio.run(main()) == ([13, 11, 12], [0, 1])
    waits = {call.id: call.kwargs["n"] for call in trace.find(name="wait")}
    found = [(waits[event.parent], event.value) for event in trace.variables("x") if event.parent in waits]
    assert sorted(found) == [(1, 1), (1, 11), (2, 2), (2, 12), (3, 3), (3, 13)]
    assert [event.value for event in trace.variables("yield")] == [0, 1]


def test_watched_function_is_recorded_in_other_threads() -> None:
    @insitu.watch("x")
    def work(n: int) -> int:
        x = n
        return x

    with insitu.record(level="python") as trace:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(call.kwargs["n"] for call in trace.find(kind="python")) == [0, 1, 2, 3]
    assert sorted(event.value for event in trace.variables()) == [0, 1, 2, 3]
    threads_seen = {call.id: call.thread for call in trace.find(kind="python")}
    assert all(event.thread == threads_seen[event.parent] for event in trace.variables() if event.parent is not None)
    assert 0 not in threads_seen.values()


def test_exception_has_a_traceback_without_frames_of_the_tool() -> None:
    error = ValueError("mine")

    @insitu.watch("x")
    def bad(x: int) -> None:
        x += 1
        raise error

    with insitu.record(level="python") as trace, pytest.raises(ValueError, match="mine") as caught:
        bad(1)
    assert caught.value is error
    files = [Path(frame.filename).name for frame in traceback.extract_tb(error.__traceback__)]
    assert files.count("function_watch.py") <= 1 and set(files) - {"function_watch.py"} == {Path(__file__).name}
    assert traceback.extract_tb(error.__traceback__)[-1].line == "raise error"
    assert trace.calls[0].raised == "ValueError"


def test_other_decorators_may_be_above_and_below() -> None:
    def twice(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(*args: Any) -> int:
            return function(*args) * 2

        return wrapper

    @insitu.watch("y")
    @twice
    @functools.lru_cache
    def below(x: int) -> int:
        y = x + 1
        return y

    @torch.no_grad()
    @insitu.watch("y")
    def above(x: int) -> int:
        y = x + 2
        return y

    with insitu.record(level="python") as trace:
        assert (below(1), above(1)) == (4, 3)
    assert calls(trace) == [("below", {"x": 1}, 4), ("above", {"x": 1}, 3)]
    assert [event.value for event in trace.variables("y")] == [2, 3]


def test_decorated_twice_is_watched_once_with_the_variables_of_both() -> None:
    @insitu.watch("a")
    @insitu.watch("b")
    def program() -> int:
        a = 1
        b = 2
        return a + b

    with insitu.record(level="python") as trace:
        program()
    assert len(trace.calls) == 1 and [event.name for event in trace.variables()] == ["a", "b"]


def test_partials_methods_and_callable_objects_can_be_watched() -> None:
    listener = Listener()
    watch = insitu.watch(view=listener, level="python")
    assert watch(len)([1]) == 1
    assert watch(functools.partial(top_level_of_module, 1))(b=1) == 5
    assert watch(lambda x: x + 1)(1) == 2
    thing = Thing(2)
    assert watch(thing)(1) == 3
    assert watch(Thing.one)(1) == 2
    assert watch([].append)(1) is None
    with pytest.raises(insitu.SubjectError, match="not written in Python"):
        insitu.watch("x")(len)
    with pytest.raises(insitu.SubjectError, match=r"insitu\.watch cannot watch a int"):
        watch(3)


def test_a_function_prints_by_itself_only_where_no_session_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    @insitu.watch
    def plus(a: int) -> int:
        return a + 1

    with insitu.record(level="python") as trace:
        plus(1)
    assert capsys.readouterr().out == "" and len(trace.calls) == 1
    plus(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("┌── [test_functions.py:") and "plus called from test_a_function_prints" in lines[0]
    assert lines[1:2] == ["├─ in   a  1"] and lines[2].startswith("└─ out  2")
    with insitu.watch(view="tree"):
        plus(1)
    assert capsys.readouterr().out.startswith("plus(a=1)  2")


def test_a_call_is_shown_when_it_begins() -> None:
    listener = Listener()
    seen: list[tuple[int, int]] = []

    @insitu.watch(view=listener, level="python")
    def plus(a: int) -> int:
        seen.append((len(listener.opened_calls), len(listener.events)))
        return a + 1

    plus(1)
    assert seen == [(1, 0)] and len(listener.events) == 1
    assert listener.opened_calls[0].kwargs == {"a": 1} and listener.opened_calls[0].duration is None


def test_other_views_around_a_function(capsys: pytest.CaptureFixture[str]) -> None:
    @insitu.watch(view="code")
    def step(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    step(torch.ones(2))
    lines = capsys.readouterr().out.splitlines()
    assert any("add.Tensor(f32[2], 1) -> f32[2]" in line for line in lines)


def test_a_logger_takes_the_lines(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("insitu.tests")
    with caplog.at_level(logging.INFO, logger="insitu.tests"):
        insitu.watch("x", file=logger)(numbers)(1)
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0].startswith("┌── [") and "x @" in texts[2] and texts[-1].startswith("└─ out")
    assert not any("\033" in text or "\n" in text for text in texts)


def numbers(n: int) -> int:
    x = n + 1
    return x


def test_a_file_for_each_process_and_thread(tmp_path: Path) -> None:
    watched = insitu.watch("x", file=tmp_path / "logs" / "{pid}-{thread}.log")(numbers)
    assert not (tmp_path / "logs").exists()
    watched(1)
    thread = threading.Thread(target=watched, args=(2,), name="worker 1")
    thread.start()
    thread.join()
    files = {path.name: path.read_text("utf-8") for path in (tmp_path / "logs").iterdir()}
    assert set(files) == {f"{os.getpid()}-MainThread.log", f"{os.getpid()}-worker_1.log"}
    assert all(text.count("┌──") == 1 and text.count("x @") == 1 for text in files.values())
    with pytest.raises(insitu.ChoiceError, match="'thred'"):
        insitu.watch(file="{thred}.log")
    for path in ("{pid.log", "pid}.log", "}{pid}{"):
        with pytest.raises(insitu.ChoiceError, match="has a brace that is not closed, or not opened"):
            insitu.watch(file=path)
    with pytest.raises(insitu.SubjectError, match="anything with write"):
        insitu.watch(file=3)


def test_watch_returns_the_function_itself_when_insitu_is_off() -> None:
    program = (
        "import insitu\ndef f(x): return x\n"
        "print(insitu.watch(f) is f, insitu.watch('x')(f) is f, insitu.watch(view='code')(f) is f)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "INSITU": "0"}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "True True True\n"


def test_compiled_code_stays_compiled() -> None:
    @insitu.watch("y")
    def inner(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y

    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(lambda x: inner(x) * 2, backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert len(graphs) == 1


def helper(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return y


def test_compiled_function_called_by_a_watched_one_stays_compiled() -> None:
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @torch.compile(backend=backend)
    def compiled(x: torch.Tensor) -> torch.Tensor:
        y = helper(x) * 2
        return y

    def program(x: torch.Tensor) -> torch.Tensor:
        y = helper(x)
        y = compiled(y)
        y = helper(y)
        return y

    expected = program(torch.ones(2))
    assert len(graphs) == 1
    listener = Listener()
    watched = insitu.watch("y", view=listener, level="python")(program)
    for _ in range(3):
        assert torch.equal(watched(torch.ones(2)), expected)
    assert len(graphs) == 1
    found = [event.site.function.rpartition(".")[2] for event in listener.events if isinstance(event, Variable)]  # type: ignore[union-attr]
    assert found == ["helper", "program", "program", "helper", "program"] * 3
    program(torch.ones(2))
    assert len(graphs) == 1


def test_watched_function_works_in_a_forked_child() -> None:
    program = """
import os, threading, insitu
@insitu.watch("x")
def f(n):
    x = n
    return x
f(1)
pid = os.fork()
if pid == 0:
    f(2)
    os._exit(0)
os.waitpid(pid, 0)
f(3)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.count("┌──") == 3 and done.stdout.count("in   n  2") == 1


def test_a_sink_that_fails_does_not_reach_the_program() -> None:
    class Broken(Listener):
        def __call__(self, event: Any) -> Any:
            raise RuntimeError("broken")

    watched = insitu.watch("x", view=Broken, level="python")(numbers)
    with pytest.warns(insitu.InsituWarning, match="broken"):
        assert watched(1) == 2


def test_recursive_calls_are_nested() -> None:
    def factorial(n: int) -> int:
        return 1 if n == 0 else n * again(n - 1)

    again = insitu.watch(factorial)
    events = heard(again, 2)
    ends = [event for event in events if isinstance(event, Call)]
    assert [(call.kwargs["n"], call.result) for call in ends] == [(0, 1), (1, 1), (2, 2)]
    assert [call.parent for call in ends] == [ends[1].id, ends[2].id, None]
    assert not any(isinstance(event, Variable) for event in events)


def test_the_decorator_of_another_in_between_still_runs() -> None:
    ran: list[int] = []

    def other(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(*args: int) -> int:
            ran.append(1)
            return function(*args)

        return wrapper

    @insitu.watch("x")
    @other
    @insitu.watch
    def program(n: int) -> int:
        x = n
        return x

    with insitu.record(level="python") as trace:
        assert program(1) == 1
    assert ran == [1]
    assert [call.name for call in trace.calls] == ["program"] * 2 and trace.calls[1].parent == trace.calls[0].id
    assert [event.value for event in trace.variables()] == [1]


def test_missing_name_is_reported_only_for_the_names_of_the_function(
    recwarn: pytest.WarningsRecorder,
) -> None:
    @insitu.watch
    def inner() -> int:
        return 1

    @insitu.watch("x")
    def outer() -> int:
        x = inner()
        return x

    with insitu.record(level="python"):
        outer()
    assert [str(warning.message) for warning in recwarn] == []


def test_function_with_its_own_output_prints_in_sessions_too(tmp_path: Path) -> None:
    path = tmp_path / "run.log"

    @insitu.watch
    def inner(n: int) -> int:
        return n

    @insitu.watch("x", file=path)
    def outer(n: int) -> int:
        x = inner(n)
        return x

    with insitu.record(level="python") as trace:
        outer(1)
    assert [call.name for call in trace.calls] == ["outer", "inner"] and len(trace.variables()) == 1
    assert path.read_text("utf-8").count("┌──") == 2 and path.read_text("utf-8").count("x @") == 1


def test_sets_are_noted_with_their_length(capsys: pytest.CaptureFixture[str]) -> None:
    insitu.watch(len)({1, 2, 3})
    insitu.watch(len)(frozenset(range(100)))
    out = capsys.readouterr().out
    assert "set, len 3" in out and "frozenset, len 100" in out


def test_two_functions_with_the_same_code_are_followed_separately() -> None:
    def make(n: int) -> Callable[[int], int]:
        @insitu.watch("y")
        def add(x: int) -> int:
            y = x + n
            return y

        return add

    with insitu.record(level="python"):
        assert (make(1)(10), make(2)(10)) == (11, 12)


def test_an_interrupt_between_two_reports_leaves_the_trace_readable() -> None:
    class Stop(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Stop

    @insitu.watch("y")
    def loop(passes: int = 10**9) -> None:
        for i in range(passes):
            y = i  # noqa: F841

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with insitu.record(level="python") as trace:
            loop(3)  # the first call prepares the function
            for _ in range(20):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                with pytest.raises(Stop):
                    loop()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert 1 <= len(trace.find(kind="python")) <= 21  # an interrupt may come before the call has begun
    values = [event.value for event in trace.variables("y")]
    assert all(type(value) is int for value in values) and values[:3] == [0, 1, 2]


def test_a_session_that_ends_inside_of_a_watched_function() -> None:
    session = insitu.record(level="python")

    @insitu.watch("y")
    def program() -> int:
        y = 1
        session.__exit__(None, None, None)
        y = 2
        y = [3]
        return len(y)

    trace = session.__enter__()
    program()
    assert [event.value for event in trace.variables()] == [1]


def test_sessions_may_end_in_another_order() -> None:
    one, two = Listener(), Listener()
    first = insitu.watch("a", view=one, level="python")
    second = insitu.watch("b", view=two, level="python")
    a = b = 0
    first.__enter__()
    second.__enter__()
    a = b = 1
    first.__exit__(None, None, None)
    a = b = 2
    second.__exit__(None, None, None)
    a = b = 3
    assert (a, b) == (3, 3)
    assert [(event.name, event.value) for event in one.events if isinstance(event, Variable)] == [("a", 1)]
    assert [(event.name, event.value) for event in two.events if isinstance(event, Variable)] == [("b", 1), ("b", 2)]


def test_a_type_that_cannot_be_hashed() -> None:
    class Meta(type):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(cls, other: object) -> bool:
            raise AssertionError("__eq__ of the class was called")

    class Odd(metaclass=Meta):
        pass

    @insitu.watch("y")
    def program() -> Any:
        y = Odd()
        return y

    with insitu.record(level="python") as trace:
        assert type(program()) is Odd
    assert [event.changes for event in trace.variables()] == [("new",)]


def test_an_error_of_the_tool_does_not_reach_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("broken search")

    monkeypatch.setattr("insitu.capture.variables.reach.callees", broken)
    watched = insitu.watch("x")(numbers)
    with insitu.record(level="python") as trace, pytest.warns(insitu.InsituWarning, match="broken search"):
        assert watched(1) == 2
    assert len(trace.find(kind="python")) == 1
    with pytest.warns(insitu.InsituWarning, match="broken search"), insitu.watch("x"):
        x = 1
    assert x == 1


def test_the_exception_of_a_function_without_source_has_no_context_of_ours() -> None:
    space: dict[str, Any] = {}
    exec("def bad(x):\n    x = 1\n    raise ValueError('mine')\n", space)
    with pytest.raises(ValueError, match="mine") as caught, insitu.record(level="python"):
        insitu.watch("x")(space["bad"])(0)
    assert caught.value.__context__ is None


def test_cached_function_stays_cached() -> None:
    @insitu.watch("y")
    @functools.cache
    def square(x: int) -> int:
        y = x * x
        return y

    with insitu.record(level="python") as trace:
        assert (square(2), square(2)) == (4, 4)
    assert square.cache_info().hits == 1
    assert [event.value for event in trace.variables("y")] == [4]


def test_nested_watched_functions_are_rewritten_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @insitu.watch("y")
    def inner(x: int) -> int:
        y = x
        return y

    @insitu.watch("y")
    def outer(x: int) -> int:
        y = inner(x) + inner(x)
        return y

    traced: list[Any] = []
    monkeypatch.setattr("sys.settrace", traced.append)
    with insitu.record(level="python") as trace:
        outer(1)
    assert traced == [] and [event.value for event in trace.variables()] == [1, 1, 2]


def test_a_debugger_stops_in_the_program(tmp_path: Path) -> None:
    program = (
        "import insitu\n@insitu.watch('y')\ndef f(v):\n    y = v\n    breakpoint()\n    y = y + 1\n    return y\nf(3)\n"
    )
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"insitu_debugged_{os.getpid()}.py"
    path.write_text(program)
    try:
        done = subprocess.run(
            [sys.executable, str(path)], input="p y * 100\nc\n", capture_output=True, text=True, check=True, timeout=60
        )
    finally:
        path.unlink()
    stop = "-> y = y + 1" if sys.version_info < (3, 13) else "-> breakpoint()"
    assert stop in done.stdout and "300" in done.stdout and "reporters.py" not in done.stdout


def test_a_block_in_a_recording_is_kept_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    with insitu.record(level="python") as trace, insitu.watch("z"):
        z = 1
    assert z == 1
    assert [(event.name, event.value) for event in trace.variables()] == [("z", 1)]
    assert "z @" in capsys.readouterr().out


@pytest.mark.parametrize("begins_in_session", [True, False])
def test_a_generator_that_is_resumed_where_others_listen(
    begins_in_session: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    @insitu.watch("x")
    def count() -> Iterator[int]:
        x = 0
        while True:
            x += 1
            yield x

    steps = count()
    session = insitu.record(level="python")
    if begins_in_session:
        with session:
            assert next(steps) == 1
        assert (next(steps), capsys.readouterr().out) == (2, "")
    else:
        assert next(steps) == 1
        with session as trace:
            assert next(steps) == 2
        assert next(steps) == 3 and trace.events == []


def test_the_columns_of_one_function_do_not_move_those_of_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    @insitu.watch("a_name_that_is_long")
    def first(x: int) -> None:
        a_name_that_is_long = x + 1  # noqa: F841

    @insitu.watch("y", "z")
    def second(x: int) -> None:
        y = x + 1
        z = y + 1000  # noqa: F841

    first(1)
    second(1)
    second(1)
    changes = [line.partition("→")[2] for line in capsys.readouterr().out.splitlines() if "→" in line]
    assert changes == [" 2  new", " 2  new", " 1002  new", " 2     new", " 1002  new"]
