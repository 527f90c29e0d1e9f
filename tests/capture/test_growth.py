"""Sessions that run as long as a training: what they hold does not grow with its steps, unless it was asked for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import insitu
from insitu.capture import live
from insitu.capture.forwards import Forward
from insitu.capture.guard import check
from insitu.capture.guard.weights import Totals
from insitu.capture.recorder import Recorder
from insitu.capture.tape import Tape
from insitu.trace.event import Call, Event, Variable


class Events:
    """A view that shows nothing and keeps what it is given."""

    def __init__(self) -> None:
        self.found: list[Event] = []

    def begin(self) -> list[Any]:
        return []

    def __call__(self, event: Event) -> list[Any]:
        self.found.append(event)
        return []

    def finish(self) -> list[Any]:
        return []


def loss_of(model: nn.Module) -> Tensor:
    loss: Tensor = model(torch.ones(2, 3)).square().mean()
    loss.backward()
    return loss


def recorder_of(guard: Any) -> Recorder:
    found: Recorder = guard._entries[-1][1].recorder
    return found


def test_a_watched_function_prints_inside_a_guard(capsys: pytest.CaptureFixture[str]) -> None:
    @insitu.watch("total")
    def add(x: Tensor) -> Tensor:
        total = x.sum()
        return total

    with insitu.guard():
        add(torch.ones(2))
    assert "total" in capsys.readouterr().out


def test_the_tape_of_a_guard_stays_short_inside_of_a_watched_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "SOON", 200)
    model, longest = nn.Linear(3, 1), 0

    @insitu.watch(view=Events())
    def train() -> None:
        nonlocal longest
        for _ in range(30):
            loss_of(model)
            longest = max(longest, len(recorder_of(guard).probes[0].tape))

    with insitu.guard(model) as guard:
        train()
    assert 0 < longest < 600


def test_the_tape_of_a_watched_training_is_cleared_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CLEAR_AT", 64)
    monkeypatch.setattr(live, "CLEAR_INSIDE", 256)
    view, tapes = Events(), set[int]()

    @insitu.watch(view=view, level="python")
    def batches(count: int) -> Iterator[Tensor]:
        for number in range(count):
            yield torch.full((2,), float(number))

    @insitu.watch(view=view, level="python")
    def step(batch: Tensor) -> Tensor:
        return half(batch)

    @insitu.watch("half", view=view, level="python")
    def half(batch: Tensor) -> Tensor:
        half = batch / 2
        return half

    @insitu.watch(view=view, level="python")
    def train() -> None:
        for batch in batches(100):
            step(batch)
            tapes.add(len(live_tape(view)))

    train()
    calls = [event for event in view.found if isinstance(event, Call)]
    names = ("train", "step", "half", "batches")
    named = {name: [call for call in calls if call.name.endswith(name)] for name in names}
    (outermost,), (generator,) = named["train"], named["batches"]
    assert max(tapes) < 600
    assert len({event.id for event in view.found}) == len(view.found) == 100 * 4 + 2
    assert [call.parent for call in named["step"]] == [outermost.id] * 100
    assert [call.parent for call in named["half"]] == [call.id for call in named["step"]]
    assert generator.parent == outermost.id
    changes = [event for event in view.found if isinstance(event, Variable)]
    assert [event.parent for event in changes if event.name == "half"] == [call.id for call in named["half"]]
    assert {event.parent for event in changes if event.name == "yield"} == {generator.id}


def test_an_exception_is_explained_after_the_tape_was_cleared_in_a_watched_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "CLEAR_AT", 64)
    monkeypatch.setattr(live, "CLEAR_INSIDE", 256)

    @insitu.watch(view=Events(), level="functions")
    def multiply(between: int) -> Tensor:
        good = torch.ones(2, 3)
        for _ in range(between):  # somewhere in there the tape is cleared, and `good` is forgotten
            torch.zeros(1)
        other = torch.ones(4, 5)
        return good @ other

    for between in range(40):
        with pytest.raises(RuntimeError) as raised:
            multiply(between)
        (note,) = raised.value.__notes__
        assert "cannot explain" not in note and "other" in note, (between, str(note))


def test_a_deep_recursion_looks_through_its_tape_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "CLEAR_AT", 64)
    monkeypatch.setattr(live, "CLEAR_INSIDE", 256)
    scans, view = [], Events()

    def counted(tape: Any) -> int:
        scans.append(len(tape))
        return end_of_running(tape)

    end_of_running = Tape.end_of_running
    monkeypatch.setattr(Tape, "end_of_running", counted)

    @insitu.watch(view=view, level="python")
    def down(depth: int) -> int:
        return depth if depth == 0 else down(depth - 1)

    down(150)
    assert len(view.found) == 151
    assert 1 < len(scans) < 10


def live_tape(view: Events) -> list[Any]:
    """The tape of the only session that prints through a view."""
    (found,) = {
        id(decoder): decoder.tape
        for each in live.running
        for decoder, _ in each._tapes.values()
        if any(getattr(sink, "view", None) is view for sink in each.sinks)
    }.values()
    return found


def test_watching_functions_remembers_no_autograd_nodes() -> None:
    model = nn.Linear(3, 1)
    with insitu.watch(model, view=Events()):
        for _ in range(5):
            loss_of(model)
        gc.collect()
        assert not [one for one in gc.get_objects() if type(one) is Forward]


def test_a_recording_remembers_no_frames_of_earlier_steps() -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            h = x * 2
            return self.inner(h, 6)

        def inner(self, h: Tensor, depth: int) -> Tensor:
            g = h + 1
            return self.inner(g, depth - 1) if depth else g

    model = Net()
    with insitu.record_run(model, only=["forward.h", "inner.g"], keep="values") as recorded:
        for _ in range(4):
            model(torch.ones(2))
        recorded.end_step()
        assert recorded._entry.recorder._methods._calls == {}
    assert len(recorded["inner.g"].values) == 28


def test_a_watched_function_searches_the_tape_from_its_own_call_on() -> None:
    @insitu.watch("total")
    def add(x: Tensor) -> Tensor:
        total = x
        for _ in range(3):
            total += 1
        return total

    session = insitu.record()
    with session:
        for _ in range(5):
            add(torch.ones(2))
            (probe,) = session._entries[-1][1].recorder.probes
            assert probe.tracker.numbers._begin == len(probe.tape) > 0


def test_totals_keep_the_first_and_the_largest_norm() -> None:
    totals = Totals()
    for number in range(1000):
        totals.add(float(number % 700))
    assert totals.first == [0.0, 1.0, 2.0]
    assert totals.largest == 699.0
