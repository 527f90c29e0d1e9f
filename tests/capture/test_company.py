"""In company: other people's modes, patches, names, threads and signals, and what the user's code does meanwhile."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import insitu
from insitu.capture.recorder import Recorder
from insitu.trace.event import Call

x = torch.ones(2, 3)


class Named(nn.Module):
    """Takes keywords that the tool has words for, too."""

    def forward(self, x: Tensor, **more: Any) -> Tensor:
        return x * len(more)


def test_keywords_of_any_name_reach_the_model() -> None:
    model, names = Named(), ("note", "run", "mode", "probe", "func", "at", "module", "kwargs", "args")
    with insitu.record(model, level="aten") as trace:
        result = model(x, **dict.fromkeys(names, 1))
    assert torch.equal(result, x * len(names))
    assert list(trace.calls[0].kwargs) == list(names)


@pytest.mark.parametrize("leave_inside", [False, True])
def test_a_device_context_is_moved_aside_and_not_left(leave_inside: bool) -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    session = insitu.record()
    session.__enter__()
    with torch.device("cpu"):
        compiled(x)
        if leave_inside:
            session.__exit__(None, None, None)
    if not leave_inside:
        session.__exit__(None, None, None)


class Mine(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_a_compiled_call_leaves_the_order_of_modes_as_it_was() -> None:
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with insitu.record() as trace:
        with Mine():
            before = [type(torch._C._get_function_stack_at(i)) for i in range(torch._C._len_torch_function_stack())]
            compiled(x)
            after = [type(torch._C._get_function_stack_at(i)) for i in range(torch._C._len_torch_function_stack())]
        x.sin()
    assert before == after
    assert trace.calls[-1].name == "torch.Tensor.sin"


def test_calls_made_while_arguments_are_recorded_do_not_shift_the_record() -> None:
    class Items(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            x.cos()
            return super().__iter__()

    class Model(nn.Module):
        def forward(self, items: Any) -> Tensor:
            return x.sin()

    with insitu.record(level="aten") as trace:
        Model()(Items([x]))
    model = trace.find("")[0]
    assert model.duration is not None and model.outputs
    (sin,) = trace.find(name="sin", kind="function")
    assert sin.parent == model.id


def test_every_tensor_of_a_dict_is_there_whatever_its_keys() -> None:
    class Model(nn.Module):
        def forward(self, items: dict[Any, Tensor]) -> int:
            return len(items)

    edges = {("a", "to", "b"): torch.ones(1), ("b", "to", "a"): torch.ones(2), 1: torch.ones(3), "1": torch.ones(4)}
    with insitu.record() as trace:
        Model()(edges)
    assert [facts.shape for facts in trace.calls[0].inputs] == [(1,), (2,), (3,), (4,)]


def test_setting_a_gradient_does_not_make_the_parameter() -> None:
    model = nn.Linear(3, 3)
    with insitu.record() as trace:
        model.weight.grad = torch.zeros(3, 3)
        model(x)
    (linear,) = trace.find(name="linear")
    assert linear.inputs[1].producer is None


def test_a_foreign_patch_of_module_call_stays_and_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called, before = [], nn.Module._call_impl

    def theirs(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        called.append(type(self).__name__)
        return before(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(nn.Module, "_call_impl", theirs)
        with insitu.record() as trace:
            nn.Linear(3, 3)(x)
        assert nn.Module._call_impl is theirs
    assert called == ["Linear"] and list(trace.modules) == [""]


def test_modules_that_keep_calls_are_not_recorded() -> None:
    model, head = nn.Linear(3, 3), nn.Linear(3, 1)
    with insitu.record(nn.Sequential(model, head), level="modules", keep=lambda t: head(t).sum()) as trace:
        model(x)
    assert len(trace) == 1 and isinstance(trace.calls[0].outputs[0].kept, float)


def test_threads_have_numbers_of_their_own() -> None:
    model, barrier = nn.Linear(3, 3), threading.Barrier(8)

    def work() -> None:
        barrier.wait(30)
        model(x)

    with insitu.record(model) as trace:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len({call.thread for call in trace.find("")}) == 8
    assert len({event.id for event in trace}) == len(trace)


def test_a_live_recording_that_forgot_its_tape_still_sees_changes_in_place() -> None:
    events: list[Any] = []
    recorder = Recorder(None, level="aten", keep="meta", only=(), sinks=[events.append])
    recorder.start(sys._getframe())
    try:
        y = torch.zeros(3)
        for _ in range(2000):
            y.add_(1)
            y.mul(2)
    finally:
        recorder.stop()
    calls = [event for event in events if isinstance(event, Call) and event.kind == "aten"]
    added = None
    for call in calls:
        if call.name == "aten.mul.Tensor":
            assert call.inputs[0].producer == added
        elif call.name == "aten.add_.Tensor":
            added = call.id


def test_a_sink_that_fails_gets_no_more() -> None:
    calls: list[int] = []

    def sink(event: Any) -> None:
        calls.append(1)
        raise ArithmeticError("no room")

    recorder = Recorder(None, level="functions", keep="meta", only=(), sinks=[sink])
    recorder.start(sys._getframe())
    try:
        with pytest.warns(insitu.InsituWarning, match="no room"):
            for _ in range(5):
                x.sin()
    finally:
        recorder.stop()
    assert len(calls) == 1


def test_a_sink_that_finds_the_stack_full_gets_the_rest() -> None:
    events: list[Any] = []

    def sink(event: Any) -> None:
        if len(events) == 1:
            events.append(None)
            raise RecursionError("full")
        events.append(event)

    recorder = Recorder(None, level="functions", keep="meta", only=(), sinks=[sink])
    recorder.start(sys._getframe())
    try:
        with pytest.warns(insitu.InsituWarning, match="full"):
            for _ in range(5):
                x.sin()
    finally:
        recorder.stop()
    assert len(events) > 4


class Timeout(Exception):
    pass


def test_exception_of_a_signal_handler_reaches_the_user() -> None:
    class Kind(type):
        def __hash__(cls) -> int:
            signal.raise_signal(signal.SIGALRM)
            return 1

    class Slow(metaclass=Kind):
        pass

    class Model(nn.Module):
        def forward(self, slow: Any) -> Tensor:
            return x.sin()

    def ring(number: int, frame: Any) -> None:
        raise Timeout

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with pytest.raises(Timeout), insitu.record():
            Model()(([Slow()],))
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("view", [3, "tre", int])
def test_an_unknown_view_is_refused(view: Any) -> None:
    with pytest.raises(insitu.ChoiceError, match="view="):
        insitu.watch(nn.Linear(1, 1), view=view)


class Operators(TorchDispatchMode):
    """Notes the operators that the program runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Functions(TorchFunctionMode):
    """Notes the functions that the program calls."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Profile:
    """Notes the operators that torch's profiler sees."""

    def __enter__(self) -> Profile:
        self._profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        self._profile.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._profile.__exit__(*error)  # type: ignore[arg-type]

    @property
    def seen(self) -> list[str]:
        return sorted(event.name for event in self._profile.events() if event.name.startswith("aten::"))


class Random:
    """Notes the state of the random numbers."""

    def __enter__(self) -> Random:
        return self

    def __exit__(self, *error: object) -> None:
        self.seen = [str(torch.get_rng_state().tolist())]


def train(model: nn.Module, dtype: torch.dtype) -> None:
    """Two steps, with a mask that holds -inf, a hook on a gradient, and a parameter that gets no gradient."""
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(2):
        optimizer.zero_grad()
        mask = torch.log(torch.tril(torch.ones(4, 4)))
        out = model(torch.ones(4, 3)).to(dtype)
        out.register_hook(lambda grad: grad * 2)
        attention = (out @ out.t() + mask.to(dtype)).softmax(-1)
        (attention @ out).square().mean().backward()
        optimizer.step()


SESSIONS: dict[str, Callable[[nn.Module, Path], Any]] = {
    "guard": lambda model, path: insitu.guard(),
    "guard with a model": lambda model, path: insitu.guard(model),
    "meta": lambda model, path: insitu.record(),
    "statistics": lambda model, path: insitu.record(keep="stats"),
    "a function": lambda model, path: insitu.record(keep=torch.clone),
    "values": lambda model, path: insitu.record_run(model, only=["**"], keep="values", to=path),
}


def seen_by(watcher: Any, session: Any, inside: bool, model: nn.Module, dtype: torch.dtype) -> list[str]:
    """What one of the above sees of a training, in a session or around one."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the parameter without a gradient
        with session if inside else watcher, watcher if inside else session:
            train(model, dtype)
    return list(watcher.seen)


CASES = [
    *((name, watcher, inside) for name in SESSIONS for watcher in (Operators, Functions) for inside in (True, False)),
    *((name, Profile, False) for name in SESSIONS),
    ("guard with a model", Random, False),
]


@pytest.mark.parametrize(("name", "watcher", "inside"), CASES)
def test_nobody_sees_the_operators_of_the_tool(name: str, watcher: type[Any], inside: bool, tmp_path: Path) -> None:
    dtype = torch.bfloat16 if inside else torch.float32

    def model() -> nn.Module:
        made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
        made.register_parameter("spare", nn.Parameter(torch.ones(2)))
        return made

    alone = seen_by(watcher(), contextlib.nullcontext(), inside, model(), dtype)
    traced = model()
    assert seen_by(watcher(), SESSIONS[name](traced, tmp_path / "run.h5"), inside, traced, dtype) == alone
