"""A trace within its memory: what is left of it equals the end of the whole trace, and it knows what is missing."""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import insitu
from insitu import store
from insitu.capture import budget
from insitu.store.trace.archive import Archive
from insitu.trace.event import Call, Event, Mark, TensorFacts, Variable, tensors
from insitu.trace.trace import Trace

SMALL = "1MB"
STEPS = 24  # of a training


@pytest.fixture(autouse=True)
def short_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte is much for a test."""
    monkeypatch.setattr(budget, "SHORTEST", 200)
    monkeypatch.setattr(budget, "SLOT", 1000)
    monkeypatch.setattr(budget, "SLOT_WITH_STATISTICS", 1000)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 1)
        self.state = torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        self.state += 1
        return self.last(self.first(x).relu()) + self.state


class Endless(nn.Module):
    """One call in which all of the work is done."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        start = x + 1
        for _ in range(60):
            x = self.cell(x).tanh() + start
        return self.head(x)


def train(model: nn.Module, steps: int = STEPS) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.01, foreach=False)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).square().mean().backward()
        optimizer.step()


def functions(trace: Trace, model: nn.Module | None) -> None:
    kept = torch.ones(3)
    x = torch.zeros(3)
    for index in range(200):
        x = (x + kept) * 0.5
        if index % 50 == 0:
            kept = x.clone()


def steps_said(trace: Trace, model: nn.Module | None) -> None:
    x = torch.zeros(3)
    for _ in range(30):
        trace.step()
        for _ in range(5):
            x = x + 1


def calls_of_a_model(trace: Trace, model: nn.Module | None) -> None:
    assert model is not None
    train(model)


def variables(trace: Trace, model: nn.Module | None) -> None:
    @insitu.watch("total")
    def batches() -> Iterator[Tensor]:
        total = 0
        for index in range(60):
            total = index // 2
            yield torch.full((2,), float(total))

    @insitu.watch("total", "half")
    def run() -> int:
        total = 0
        for batch in batches():
            half = batch / 2
            total += int(half[0])
        return total

    run()


PROGRAMS: dict[str, tuple[Callable[[Trace, nn.Module | None], None], type[nn.Module] | None, dict[str, Any]]] = {
    "functions": (functions, None, {}),
    "functions, aten": (functions, None, {"level": "aten"}),
    "steps that are said": (steps_said, None, {}),
    "training": (calls_of_a_model, Net, {}),
    "training, modules": (lambda trace, model: train(model, 50), Net, {"level": "modules"}),  # type: ignore[arg-type]
    "training, aten": (calls_of_a_model, Net, {"level": "aten"}),
    "training, statistics": (calls_of_a_model, Net, {"keep": "stats"}),
    "training, aten, statistics": (calls_of_a_model, Net, {"level": "aten", "keep": "stats"}),
    "one endless call": (lambda trace, model: model(torch.ones(2, 4)), Endless, {}),  # type: ignore[misc]
    "one endless call, aten": (lambda trace, model: model(torch.ones(2, 4)), Endless, {"level": "aten"}),  # type: ignore[misc]
    "variables": (variables, None, {}),
}


def recorded(name: str, memory: str | None, *, subject: bool = True, **more: Any) -> Trace:
    program, kind, options = PROGRAMS[name]
    torch.manual_seed(0)
    model = kind() if kind is not None else None
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with insitu.record(model if subject else None, memory=memory, **options, **more) as trace:
            program(trace, model)
    texts = [str(warning.message) for warning in told]
    assert len(texts) == (memory is not None), texts
    return trace


class Same:
    """Two traces event by event; ids differ, and are the same calls."""

    def __init__(self, part: list[Event], whole: list[Event]) -> None:
        self.part, self.whole = {event.id: event for event in part}, {event.id: event for event in whole}
        self.pairs = list(zip(part, whole, strict=True))
        self.other = {a.id: b.id for a, b in self.pairs}
        self.facts: dict[int, int] = {}

    def check(self) -> None:
        for a, b in self.pairs:
            assert type(a) is type(b)
            assert self.describe(a) == self.describe(b), (a, b)
            self.check_id(a.parent, b.parent)
            if isinstance(a, Call) and isinstance(b, Call):
                if a.forward in self.other:
                    assert self.other[a.forward] == b.forward
                self.check_tensors([*a.inputs, *a.outputs], [*b.inputs, *b.outputs])
            elif isinstance(a, Variable) and isinstance(b, Variable):
                self.check_tensors(list(tensors(a.value)), list(tensors(b.value)))

    def describe(self, event: Event) -> Any:
        if isinstance(event, Mark):
            return event.kind, event.text, event.step
        if isinstance(event, Variable):
            return event.name, repr(event.value), event.changes, repr(event.site), event.step
        site = [repr(place) for place in event.site.chain()] if event.site else None
        given = (repr(event.args), repr(event.kwargs), repr(event.result))
        return event.kind, event.name, event.path if event.phase == "forward" else "", given, site, event.step

    def check_id(self, a: int | None, b: int | None) -> None:
        if a is None or b is None:
            assert a is b
        elif a in self.part:
            assert self.other[a] == b
        else:
            assert b not in self.other.values()

    def check_tensors(self, mine: list[TensorFacts], others: list[TensorFacts]) -> None:
        for a, b in zip(mine, others, strict=True):
            assert self.facts.setdefault(a.id, b.id) == b.id
            assert (a.requires_grad, a.stats, a.type) == (b.requires_grad, b.stats, b.type)
            self.check_id(a.producer, b.producer)
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None and b.grad is not None:
                self.check_tensors([a.grad], [b.grad])


@pytest.mark.parametrize("name", PROGRAMS)
def test_remaining_events_equal_those_of_the_whole_trace(name: str) -> None:
    part, whole = recorded(name, SMALL), recorded(name, None)
    missing = part.missing
    assert missing is not None and whole.missing is None
    assert 0 < len(part) < len(whole) and missing.events == len(whole) - len(part)
    before = len([event for event in part.events if event.id <= max(missing.calls, default=-1)])
    Same(part.events, whole.events[:before] + whole.events[before - len(part) :]).check()


def test_whole_steps_are_dropped() -> None:
    trace = recorded("training", SMALL)
    assert trace.missing is not None
    first, last = trace.missing.steps
    steps = sorted({event.step for event in trace.events})
    assert first == 0 and steps == list(range(last + 1, STEPS))
    calls = [len([event for event in trace.events if event.step == step]) for step in steps]
    assert len(set(calls)) == 1


def test_a_call_around_what_is_missing_is_known() -> None:
    trace = recorded("one endless call", SMALL)
    assert trace.missing is not None
    assert [trace[id].name for id in trace.missing.calls] == ["Endless"]  # type: ignore[union-attr]
    assert trace.missing.steps == (0, 0)


def test_a_producer_that_is_missing_is_not_said_to_be_another_one() -> None:
    trace = recorded("one endless call", SMALL)
    last = [call for call in trace.calls if call.operator == "+"][-1]
    start = last.inputs[1]
    assert start.producer is not None  # it was made in the block
    assert trace.producer(start) is None
    assert {call.operator for call in trace.consumers(start)} == {"+"}


def test_nothing_is_missing_where_there_is_room() -> None:
    trace = recorded("training", None)
    assert trace.missing is None and "missing" not in trace.about
    assert [event.id for event in trace.events] == list(range(len(trace)))


def test_the_tapes_stay_short(monkeypatch: pytest.MonkeyPatch) -> None:
    longest, model = 0, Endless()
    session = insitu.record(model, memory=SMALL, level="aten")
    with warnings.catch_warnings(), session:
        warnings.simplefilter("ignore")
        (probe,) = session._entries[-1][1].recorder.probes
        model.cell.register_forward_pre_hook(lambda *_: lengths.append(len(probe.tape)))
        lengths: list[int] = []
        for _ in range(10):
            model(torch.ones(2, 4))
        longest = max(lengths)
    assert longest < 800


def test_the_memory_limit_counts_kept_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SLOT_WITH_STATISTICS", 1)
    with warnings.catch_warnings(), insitu.record(keep=torch.clone, memory="10MB") as trace:
        warnings.simplefilter("ignore")
        for _ in range(50):
            torch.ones(250_000)
    held = sum(facts.kept.nbytes for call in trace.calls for facts in call.outputs)
    assert trace.missing is not None
    assert 5_000_000 < held < 12_000_000


def test_threads_share_the_memory() -> None:
    def work() -> None:
        model = Net()
        for _ in range(40):
            model(torch.ones(2, 4))

    with warnings.catch_warnings(), insitu.record(memory=SMALL) as trace:
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            torch.ones(1) + 1
            assert len(trace.events) >= 0
        for thread in threads:
            thread.join()
    assert trace.missing is not None
    known = {event.id for event in trace.events}
    assert len(known) == len(trace)
    by_id = {event.id: event for event in trace.events}
    for call in trace.calls:
        assert call.parent is None or by_id[call.parent].thread == call.thread
        makers = [by_id[facts.producer] for facts in call.inputs if facts.producer in known]
        assert all(maker.thread == call.thread and maker.start <= call.start for maker in makers)


def test_an_exception_is_explained_after_the_tape_was_cut() -> None:
    for between in range(0, 60, 7):
        with pytest.raises(RuntimeError) as raised, warnings.catch_warnings(), insitu.record(memory=SMALL):
            warnings.simplefilter("ignore")
            good = torch.ones(2, 3)
            for _ in range(between):
                torch.zeros(1)
            other = torch.ones(4, 5)
            good @ other
        (note,) = raised.value.__notes__
        assert "cannot explain" not in note and "other" in note, (between, str(note))


@pytest.mark.parametrize(
    "amount", ["1XB", "", "much", -1, float("nan"), float("inf"), None.__class__, True, "10KB", "1e9"]
)
def test_invalid_memory_amounts_are_refused(amount: Any) -> None:
    with pytest.raises(insitu.ChoiceError, match="memory="):
        insitu.record(memory=amount)


def test_unknown_overflow_is_refused() -> None:
    with pytest.raises(insitu.ChoiceError, match="overflow"):
        insitu.record(overflow="tape")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_file_holds_what_went_to_disk(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "SHORTEST", 800)
    part, whole = recorded(name, SMALL, overflow="disk"), recorded(name, None)
    assert part.missing is not None and part.missing.on_disk == part.missing.events == len(whole) - len(part)
    insitu.save(part, tmp_path / "part.h5")
    loaded = insitu.load(tmp_path / "part.h5")
    assert loaded.missing is None
    Same(loaded.events, whole.events).check()


def test_of_a_long_file_the_last_steps_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = recorded("training", SMALL, overflow="disk")
    insitu.save(part, tmp_path / "part.h5")
    monkeypatch.setattr(store, "EVENT", 10_000)
    with pytest.warns(insitu.InsituWarning, match="earlier events"):
        loaded = insitu.load(tmp_path / "part.h5", memory=SMALL)
    assert loaded.missing is not None
    first, last = loaded.missing.steps
    assert first == 0 and sorted({event.step for event in loaded.events}) == list(range(last + 1, STEPS))
    assert len(loaded) + loaded.missing.events == len(recorded("training", None))


def test_the_folder_of_what_went_to_disk_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    part = recorded("functions", SMALL, overflow="disk")
    assert len(list(tmp_path.iterdir())) == 1
    del part
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_means_that_the_rest_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = recorded("functions", None)
    add, added = Archive.add, []

    def fill(self: Archive, events: list[Event]) -> None:
        if added:
            raise OSError(28, "No space left on device")
        added.append(len(events))
        add(self, events)

    monkeypatch.setattr(Archive, "add", fill)
    with pytest.warns(insitu.InsituWarning) as told, insitu.record(memory=SMALL, overflow="disk") as part:
        functions(part, None)
    assert ["No space left" in str(warning.message) for warning in told] == [False, True]
    insitu.save(part, tmp_path / "part.h5")
    loaded = insitu.load(tmp_path / "part.h5")
    assert part.missing is not None and loaded.missing is not None
    assert part.missing.on_disk == added[0]
    assert len(part) + part.missing.events == len(whole) + 1  # a mark says that the disk was full
    assert loaded.missing.events == part.missing.events - added[0]
    assert len(loaded) == len(part) + added[0]


def test_the_child_of_a_fork_leaves_the_folder_alone(tmp_path: Path) -> None:
    program = f"""
        import os, sys, torch, insitu
        from insitu.capture import budget
        budget.SHORTEST, budget.SLOT = 200, 1000
        with insitu.record(memory="1MB", overflow="disk") as trace:
            for _ in range(200):
                torch.ones(1)
        (folder,) = {{path.parent for path in trace._archive.files}}
        if os.fork() == 0:
            sys.exit()
        os.wait()
        assert len(os.listdir(folder)) > 1
        insitu.save(trace, {str(tmp_path / "run.h5")!r})
    """
    subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)], check=True, timeout=60)
    assert len(insitu.load(tmp_path / "run.h5")) == 200


def test_an_error_of_the_tool_does_not_stop_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget.Budget, "_take_off", lambda *_: 1 // 0)
    with pytest.warns(insitu.InsituWarning, match="keeping the trace within its memory"), insitu.record() as trace:
        for _ in range(3):
            trace_length = len(trace)
        with insitu.record(memory=SMALL) as limited:
            functions(limited, None)
    assert trace_length == 0 and len(limited.calls) == 406


@pytest.mark.parametrize("times", range(0, 400, 13))
def test_an_interrupt_while_the_tape_is_cut_loses_no_event(times: int) -> None:
    """Ctrl-C comes at one of the lines that cut a tape; the events before it are all there, once."""
    left = times

    def interrupt(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != budget.__file__:
            return None
        left -= event == "line"
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    count = 0
    with warnings.catch_warnings(), insitu.record(memory=SMALL) as trace:
        warnings.simplefilter("ignore")
        sys.settrace(interrupt)
        try:
            for _ in range(100):
                torch.ones(1)
                count += 1
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        torch.zeros(1)
    missing = trace.missing.events if trace.missing is not None else 0
    assert len(trace) + missing == count + 1
    assert [call.name for call in trace.calls][-2:] == ["torch.ones", "torch.zeros"]
    assert len({event.id for event in trace.events}) == len(trace)
