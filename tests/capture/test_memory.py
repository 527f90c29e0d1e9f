"""Nothing is kept alive: no tensor, no module, no frame, no object of the user."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import insitu

LEVELS = ["modules", "functions", "aten"]
KEEPS = ["meta", "stats"]


class Thing:
    """An object of the user."""


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.refs: list[weakref.ref[Any]] = []

    def forward(self, x: Tensor, thing: Any = None) -> Tensor:
        hidden = self.fc(x)
        local = Thing()
        self.refs += [weakref.ref(hidden), weakref.ref(local)]
        return hidden.relu()


def dead(refs: list[weakref.ref[Any]]) -> bool:
    gc.collect()
    return all(ref() is None for ref in refs)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("keep", KEEPS)
def test_activations_die_while_the_session_is_open(level: str, keep: str) -> None:
    model = Model()
    with insitu.record(model, level=level, keep=keep) as trace:
        x, thing = torch.ones(1, 3), Thing()
        output = model(x, thing=thing)
        refs = [*model.refs, weakref.ref(x), weakref.ref(output), weakref.ref(thing)]
        del x, output, thing
        assert dead(refs)
        assert len(trace) > 1
        output = model(torch.ones(1, 3))
        loss = output.sum()
        loss.backward()
        refs = [weakref.ref(output), weakref.ref(loss)]
        del output, loss
        assert dead(refs)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("subject", [False, True])
def test_the_model_dies_though_the_trace_lives(level: str, read: bool, subject: bool) -> None:
    model = Model()
    with insitu.record(model if subject else None, level=level) as trace:
        model(torch.ones(1, 3))
    if read:
        assert len(trace) > 1
    refs: list[weakref.ref[Any]] = [weakref.ref(model), weakref.ref(model.fc.weight)]
    del model
    assert dead(refs)
    assert [call.name for call in trace.calls if call.kind == "module"] == ["Model", "Linear"]


def test_the_model_dies_while_a_session_without_subject_is_open() -> None:
    with insitu.record() as trace:
        model = Model()
        model(torch.ones(1, 3))
        refs: list[weakref.ref[Any]] = [weakref.ref(model)]
        del model
        assert dead(refs)
    assert list(trace.modules)[-1].endswith("fc")


def test_an_exception_keeps_no_argument_alive() -> None:
    model, thing = Model(), Thing()
    refs: list[weakref.ref[Any]] = [weakref.ref(thing)]
    with insitu.record(model) as trace:
        with contextlib.suppress(RuntimeError):
            model(torch.ones(1, 5), thing)
        del thing
        assert dead(refs)
    assert trace.calls[0].raised


def test_functions_of_the_user_are_not_kept() -> None:
    def make() -> tuple[Any, weakref.ref[Any]]:
        big = Thing()

        def mine(x: Tensor) -> Tensor:
            if torch.overrides.has_torch_function_unary(x):
                return torch.overrides.handle_torch_function(mine, (x,), x)
            return x.sin() if big else x

        return mine, weakref.ref(big)

    mine, ref = make()
    with insitu.record() as trace:
        mine(torch.ones(1))
    del mine
    assert dead([ref])
    assert trace.calls[-1].name.endswith("mine") or "sin" in trace.calls[-1].name


def test_ended_sessions_are_freed() -> None:
    session = insitu.record(level="aten")
    with session as trace:
        torch.ones(1)
    ref, other = weakref.ref(session), weakref.ref(trace)
    del session, trace
    assert dead([ref, other])


def test_frames_are_not_kept() -> None:
    def work() -> weakref.ref[Any]:
        local = Thing()
        torch.ones(1).sin()
        model(torch.ones(1, 3))
        return weakref.ref(local)

    model = nn.Linear(3, 3)
    with insitu.record(level="aten"):
        assert dead([work()])


@pytest.mark.parametrize("level", LEVELS)
def test_ten_calls_with_a_large_local_do_not_grow(level: str) -> None:
    class Large(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            local = bytearray(4_000_000)
            activation = torch.ones(1_000_000)
            return x + activation[0] + len(local)

    model, x = Large(), torch.ones(1)
    with insitu.record(model, level=level):
        model(x)
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            alive = torch_bytes()
            for _ in range(10):
                model(x)
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] - before < 300_000
            assert torch_bytes() - alive < 1_000_000
        finally:
            tracemalloc.stop()


def test_long_text_is_not_kept() -> None:
    class Reading(nn.Module):
        def forward(self, text: str) -> int:
            return len(text)

    model = Reading()
    with insitu.record(model) as trace:
        model("x" * 10)
        tracemalloc.start()
        try:
            for index in range(10):
                model(f"{index}" * 1_000_000)
            assert tracemalloc.get_traced_memory()[0] < 1_000_000
        finally:
            tracemalloc.stop()
    assert trace.calls[-1].args[0].startswith("9999")


def torch_bytes() -> int:
    """The memory of all tensors that Python can see."""
    found = [item for item in gc.get_objects() if type(item) is Tensor and item.layout is torch.strided]
    return sum({item.untyped_storage().data_ptr(): item.untyped_storage().nbytes() for item in found}.values())


def test_code_that_is_made_again_and_again_is_let_go() -> None:
    def once() -> weakref.ref[Any]:
        names: dict[str, Any] = {"torch": torch}
        exec("def made(x):\n    return x.sin()", names)
        with insitu.record() as trace:
            names["made"](torch.ones(1))
        assert len(trace) == 2
        return weakref.ref(names["made"].__code__)

    assert dead([once() for _ in range(3)])


@pytest.mark.parametrize("level", ["functions", "aten"])
def test_an_event_takes_few_bytes(level: str) -> None:
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(50)]).requires_grad_(False)
    x = torch.ones(1, 4)
    with insitu.record(model, level=level):
        model(x)
    with insitu.record(model, level=level) as trace:
        gc.collect()
        tracemalloc.start()
        try:
            for _ in range(20):
                model(x)
            used = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    assert used / len(trace) < 600
