"""The flight recorder of a guard: what it keeps, when it writes, what is in the file, and that all is undone."""

from __future__ import annotations

import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.view.test_html import Parts, unpacked
from torch import Tensor, nn

import insitu
from insitu import ChoiceError, NonFiniteError, PatternError, StoreError
from insitu.session.flight_options import FlightOptions
from insitu.session.flight_recorder import FlightRecorder
from insitu.store import save
from insitu.trace.crash import Crash
from insitu.trace.event import Call
from insitu.trace.findings import LossSpike
from insitu.trace.trace import Trace

pytestmark = pytest.mark.usefixtures("one_thread")


class Net(nn.Module):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x).relu())  # type: ignore[no-any-return]


Before = Callable[[int], Any]


def train(model: nn.Module, steps: int, before: Before = lambda step: None) -> None:
    """Some steps of training; `before` is called in each, and may return another batch."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        x = torch.randn(16, 4)
        other = before(step)
        loss = F.cross_entropy(model(x if other is None else other), torch.randint(2, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def fail_at(wanted: int) -> Before:
    def fail(step: int) -> Any:
        return torch.randn(16, 5) if step == wanted else None

    return fail


def infinite_loss() -> None:
    """Compute a loss of Inf: a guard reports it at once."""
    torch.zeros(1, requires_grad=True).log().sum().backward()


def crash_in(path: Path) -> tuple[Trace, Crash]:
    """A file of last steps, and why it was written."""
    trace = insitu.load(path)
    assert trace.crash is not None
    return trace, trace.crash


def answers(path: Path) -> list[dict[str, Any]]:
    """What a page says first."""
    found: list[dict[str, Any]] = unpacked(Parts(path.read_text()).found["data"])["answers"]
    return found


def steps_of(trace: Trace) -> list[int]:
    return sorted({event.step for event in trace.events})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "crash.h5"


# ---- an exception


def test_exception_writes_the_last_steps_and_says_where(file: Path) -> None:
    with pytest.raises(RuntimeError) as caught, insitu.guard(model := Net(), last=5, to=file):
        train(model, 60, fail_at(37))
    trace, crash = crash_in(file)
    assert (crash.kind, crash.step, crash.first, crash.count) == ("exception", 37, 33, 5)
    assert re.match("RuntimeError: (addmm: )?mat1 and mat2 shapes cannot be multiplied", crash.text)
    assert steps_of(trace) == [33, 34, 35, 36, 37]
    at_fault = trace[crash.call or 0]
    assert isinstance(at_fault, Call)
    assert (at_fault.name, at_fault.raised, at_fault.path) == ("torch.nn.functional.linear", "RuntimeError", "body")
    assert trace.explanation is not None and "the layer takes 4" in str(trace.explanation)
    notes = caught.value.__notes__
    assert notes[-1] == f"the last 5 steps are in {file} (insitu show {file})"


def test_page_is_beside_the_file(file: Path) -> None:
    with pytest.raises(RuntimeError), insitu.guard(model := Net(), last=2, to=file):
        train(model, 9, fail_at(3))
    (answer,) = answers(file.with_suffix(".html"))
    assert answer["head"] == "Step 3, exception" and answer["kind"] == "exception"
    assert (
        re.match("RuntimeError: (addmm: )?mat1 and mat2", answer["text"])
        and "steps 2 … 3; statistics" in answer["text"]
    )
    assert "the layer takes 4" in answer["more"] and answer["row"] >= 0


def test_block_that_ends_well_writes_nothing(file: Path) -> None:
    with insitu.guard(model := Net(), last=5, to=file):
        train(model, 30)
    assert os.listdir(file.parent) == []


def test_exception_that_the_program_catches_writes_nothing(file: Path) -> None:
    with insitu.guard(model := Net(), last=5, to=file):
        with pytest.raises(RuntimeError):
            train(model, 9, fail_at(3))
        train(model, 3)
    assert os.listdir(file.parent) == []


@pytest.mark.parametrize(("code", "is_written"), [(None, False), (0, False), (2, True), ("bad", True)])
def test_exit_with_an_error_is_a_bad_end(file: Path, code: Any, is_written: bool) -> None:
    with pytest.raises(SystemExit), pytest.warns() if is_written else nullcontext(), insitu.guard(last=5, to=file):
        torch.ones(2).exp()
        sys.exit(code)
    assert file.exists() == is_written


def test_ctrl_c_is_a_bad_end(file: Path) -> None:
    with pytest.raises(KeyboardInterrupt), insitu.guard(last=5, to=file):
        torch.ones(2).exp()
        raise KeyboardInterrupt
    assert crash_in(file)[1].text == "KeyboardInterrupt"


def test_exception_class_that_accepts_no_note_and_has_no_text(file: Path) -> None:
    class Stubborn(Exception):
        __slots__ = ()

        def __str__(self) -> str:
            raise ValueError

        @property
        def __notes__(self) -> None:
            raise AttributeError

    with pytest.raises(Stubborn), insitu.guard(last=5, to=file):
        torch.ones(2).exp()
        raise Stubborn
    assert crash_in(file)[1].text == "Stubborn"


# ---- findings


def test_nan_writes_the_last_steps_and_opens_at_the_call(file: Path) -> None:
    with pytest.raises(NonFiniteError) as caught, insitu.guard(model := Net(), last=5, to=file) as guard:
        train(model, 12, lambda step: model.body.weight.repeat(2, 1).log() if step == 7 else None)
    trace, crash = crash_in(file)
    assert (crash.kind, crash.step) == ("finding", 7)
    at_fault = trace[crash.call or 0]
    assert isinstance(at_fault, Call) and at_fault.name == "torch.Tensor.log"
    assert at_fault.outputs[0].stats is not None and at_fault.outputs[0].stats.nan > 0
    (answer,) = answers(file.with_suffix(".html"))
    assert answer["head"] == "Step 7, the guard found" and "log produced NaN" in answer["text"] and answer["row"] >= 0
    assert [finding.text for finding in crash.findings] == [guard.findings[0].text]
    assert caught.value.__notes__ == [f"the last 5 steps are in {file} (insitu show {file})"]
    assert sorted(os.listdir(file.parent)) == ["crash.h5", "crash.html"]


def test_program_that_goes_on_after_nan_keeps_the_file_of_the_first(file: Path) -> None:
    with pytest.warns(insitu.InsituWarning, match="the last 3 steps are in"):  # noqa: SIM117
        with insitu.guard(model := Net(), action="record", last=3, to=file):
            train(model, 30, lambda step: infinite_loss() if step > 9 else None)
    _, crash = crash_in(file)
    assert (crash.kind, crash.step) == ("finding", 10)
    assert sorted(os.listdir(file.parent)) == ["crash.h5", "crash.html"]


def test_later_event_of_another_kind_gets_a_file_of_its_own(file: Path) -> None:
    with pytest.warns(insitu.InsituWarning), pytest.raises(RuntimeError):  # noqa: SIM117
        with insitu.guard(model := Net(), action="record", last=3, to=file) as guard:
            infinite_loss()
            train(model, 12, fail_at(11))
    assert crash_in(file)[1].kind == "finding"
    _, crash = crash_in(file.with_name("crash-2.h5"))
    assert (crash.kind, crash.step, len(crash.findings)) == ("exception", 11, len(guard.findings))


def test_second_nan_that_ends_the_run_is_written(file: Path) -> None:
    with pytest.raises(NonFiniteError), insitu.guard(last=3, to=file):
        with pytest.raises(NonFiniteError):
            infinite_loss()
        torch.full((1,), -1.0, requires_grad=True).sqrt().sum().backward()
    assert crash_in(file.with_name("crash-2.h5"))[1].text.startswith("NonFiniteError")


def train_with_spike(model: nn.Module, steps: int, spike: int, after: Callable[[int], None]) -> None:
    """Some steps of a regression; at one of them, a target is wrong. `after` is called after each step."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    for step in range(steps):
        x = torch.randn(16, 4)
        y = x.sum(1, keepdim=True)
        if step == spike:
            y[3] += 300
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        after(step)


def test_spike_of_the_loss_is_written_at_once(file: Path) -> None:
    seen = []
    with pytest.warns(insitu.InsituWarning) as warned, insitu.guard(model := nn.Linear(4, 1), last=3, to=file) as guard:
        train_with_spike(model, 60, 40, lambda step: seen.append(file.exists()))
    assert seen.index(True) == 40
    trace, crash = crash_in(file)
    assert (crash.kind, crash.step, crash.first) == ("spike", 40, 38)
    assert crash.text.startswith(f"{Path(__file__).name}:") and "the loss of backward pass 40" in crash.text
    assert "row 3 100%" in crash.findings[0].text
    at_fault = trace[crash.call or 0]
    assert isinstance(at_fault, Call) and at_fault.name == "torch.Tensor.backward" and at_fault.step == 40
    assert [type(finding).__name__ for finding in guard.findings] == ["LossSpike"]
    said = [str(each.message) for each in warned]
    assert f"the last 3 steps are in {file}" in said[0] and said[1] == guard.findings[0].text
    assert sorted(os.listdir(file.parent)) == ["crash.h5", "crash.html"]


@pytest.mark.parametrize("end", [40, 50])
def test_spike_before_an_exception_has_a_file_and_is_reported(file: Path, end: int) -> None:
    def fail(step: int) -> None:
        if step == end:
            raise ValueError("stop")

    with pytest.warns(insitu.InsituWarning), pytest.raises(ValueError, match="stop"):  # noqa: SIM117
        with insitu.guard(model := nn.Linear(4, 1), last=3, to=file) as guard:
            train_with_spike(model, 60, 40, fail)
    (finding,) = guard.findings
    assert isinstance(finding, LossSpike) and finding.rows[0] == 3
    assert (crash_in(file)[1].kind, crash_in(file)[1].step) == ("spike", 40)
    _, crash = crash_in(file.with_name("crash-2.h5"))
    assert crash.kind == "exception" and [each.text for each in crash.findings] == [finding.text]


def test_loss_that_stays_high_has_a_file_but_no_finding(file: Path) -> None:
    with pytest.warns(insitu.InsituWarning, match="the last step is in"), insitu.guard(last=3, to=file) as guard:
        for step in range(60):
            loss = (torch.ones(4, requires_grad=True) * (1 if step < 40 else 50)).square().sum()
            loss.backward()
    assert guard.findings == [] and crash_in(file)[1].kind == "spike"


# ---- nothing to write


def test_block_without_a_call_writes_nothing(file: Path) -> None:
    with pytest.raises(ValueError, match="stop") as caught, insitu.guard(last=5, to=file):
        raise ValueError("stop")
    assert os.listdir(file.parent) == [] and "crash" not in str(caught.value.__notes__)


def test_last_0_keeps_no_steps(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    with pytest.raises(RuntimeError), insitu.guard(model := Net(), last=0):
        train(model, 9, fail_at(3))
    assert os.listdir(file.parent) == []


# ---- statistics and values


def test_statistics_are_those_of_the_moment_or_not_known(file: Path) -> None:
    with pytest.raises(RuntimeError), insitu.guard(model := Net(), last=4, to=file):
        train(model, 60, fail_at(22))
    trace, crash = crash_in(file)
    assert crash.with_statistics == (20,)
    relus = {call.step: call.outputs[0].stats for call in trace.find(name="relu")}
    assert relus[20] is not None and relus[20].min == 0.0
    assert relus[21] is None or relus[21].min == 0.0
    assert relus[19] is None
    losses = {call.step: call.outputs[0] for call in trace.find(name="cross_entropy")}
    assert losses[20].stats is not None


def test_statistics_equal_those_of_a_recording(file: Path) -> None:
    torch.manual_seed(0)
    with insitu.record(model := Net(), keep="stats") as trace:
        model(torch.ones(3, 4))
    with pytest.raises(ValueError, match="stop"), insitu.guard(model, last=4, to=file):
        model(torch.ones(3, 4))
        raise ValueError("stop")
    calls = crash_in(file)[0].find(kind="function")
    found = [call.outputs[0].stats for call in calls if call.name != "torch.ones"]  # which ran before the first step
    wanted = [call.outputs[0].stats for call in trace.find(kind="function")]
    for one, other in zip(found, wanted, strict=True):
        assert one is not None and other is not None
        assert (one.min, one.max, one.mean, one.std, one.zeros) == (
            *(other.min, other.max, other.mean, other.std, other.zeros),
        )


def test_tensor_that_was_written_to_has_no_late_statistics(file: Path) -> None:
    with pytest.raises(ValueError, match="stop"), insitu.guard(last=4, to=file):
        whole = torch.ones(4).exp()
        part = whole.view(2, 2)
        part[0] = float("nan")
        untouched = torch.ones(4).tanh()
        raise ValueError("stop")
    trace, _ = crash_in(file)
    exp, view, tanh = (trace.find(name=name)[0].outputs[0].stats for name in ("exp", "view", "tanh"))
    assert exp is None and view is None
    assert tanh is not None and tanh.mean == pytest.approx(float(untouched[0]))


def test_device_without_memory_costs_only_the_late_statistics(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise torch.OutOfMemoryError("no memory is left for a sum")

    monkeypatch.setattr("insitu.capture.flight_checks.late_statistics", fail)
    with pytest.raises(ValueError, match="stop"), insitu.guard(last=4, to=file):
        kept = torch.ones(4).tanh()
        raise ValueError("stop")
    (call,) = crash_in(file)[0].find(name="tanh")
    assert call.outputs[0].stats is None and kept.shape == (4,)


def test_values_of_modules_are_kept_at_every_step(file: Path) -> None:
    seen: list[np.ndarray[Any, Any]] = []
    model = Net()
    model.head.register_forward_hook(lambda module, args, result: seen.append(result.detach().numpy().copy()))
    with pytest.raises(RuntimeError), insitu.guard(model, last=3, to=file, values="head"):
        train(model, 30, fail_at(9))
    trace, _ = crash_in(file)
    heads = trace.find("head")
    assert [call.step for call in heads] == [7, 8]
    for call, wanted in zip(heads, seen[7:9], strict=True):
        assert np.array_equal(call.outputs[0].kept, wanted)
        assert call.inputs[0].kept is not None and call.inputs[0].kept.shape == (16, 8)
    assert all(call.outputs[0].kept is None for call in trace.find("body") if call.raised is None)


# ---- memory


def test_memory_is_bounded_over_two_thousand_steps(file: Path) -> None:
    model, sizes = Net(), []
    with insitu.guard(model, last=20, to=file) as guard:
        entry: Any = guard._entries[-1][1]
        ring = entry.checks.ring

        def look(step: int) -> None:
            if step % 100 == 0:
                sizes.append((sum(len(old.segment.tape) for old in ring.segments), len(ring.tensors), ring.bytes))

        train(model, 2000, look)
    slots, steps, size = zip(*sizes, strict=True)
    assert max(slots) < 3 << 14  # at most three tapes of the length at which a guard clears them
    assert max(steps) <= 20
    assert max(size) < 8_000_000


def test_little_memory_keeps_fewer_steps_and_says_so(file: Path) -> None:
    with pytest.raises(RuntimeError), insitu.guard(model := Net(), last=1000, to=file, memory="2MB"):
        train(model, 600, fail_at(590))
    trace, crash = crash_in(file)
    assert 100 < crash.first < 590 and not crash.is_cut
    assert steps_of(trace) == list(range(crash.first, 591))
    assert "of the 1000 that were wanted: there was no memory for more" in insitu.view.render(trace)


def test_values_that_have_no_room_cost_no_steps(file: Path) -> None:
    with (
        pytest.raises(RuntimeError),
        insitu.guard(model := nn.Linear(4, 2), last=20, to=file, memory="1MB", values="**"),
    ):
        for step in range(30):
            x = torch.randn(20_000, 4 if step < 29 else 5)
            model(x)
    trace, crash = crash_in(file)
    assert (crash.first, crash.count) == (10, 20) and 20 < crash.kept_from < 29
    kept = [call.step for call in trace.find(kind="module") if call.inputs[0].kept is not None]
    assert kept == list(range(crash.kept_from, 30))
    assert f"what was kept of tensors before step {crash.kept_from} is gone" in insitu.view.render(trace)


def test_no_tensor_is_kept_alive(file: Path) -> None:
    with insitu.guard(model := Net(), last=20, to=file):
        output = model(torch.ones(3, 4))
        alive = weakref.ref(output)
        del output
        gc.collect()
        assert alive() is None


def test_producers_are_known_across_the_parts_of_a_tape(file: Path) -> None:
    """A tape is cleared every few steps; a tensor that is made before and used after is still the same."""
    with pytest.raises(ValueError, match="stop"), insitu.guard(model := Net(), last=300, to=file, memory="1GB"):
        mask = torch.ones(2, requires_grad=True).exp().detach().tanh()
        train(model, 250)
        mask.sin()
        raise ValueError("stop")
    trace, crash = crash_in(file)
    (sine,) = trace.find(name="sin")
    producer = trace.producer(sine.inputs[0])
    assert producer is not None and producer.name == "torch.Tensor.tanh" and producer.step == 0
    assert crash.count == 251 and steps_of(trace) == list(range(251))  # the sine is after the last update
    assert all(trace.producer(call.outputs[0]) is call for call in trace.find(name="linear"))


def test_findings_are_those_of_a_guard_that_keeps_nothing(file: Path) -> None:
    """Ids of calls that were cleared must not be taken for calls on the tape."""

    def program(**options: Any) -> list[str]:
        torch.manual_seed(0)
        model = Net()
        with insitu.guard(model, action="record", **options) as guard:
            old = torch.zeros(4, requires_grad=True) * 2
            train(model, 150)
            old.log().sum().backward()
        return [finding.text for finding in guard.findings]

    with pytest.warns(insitu.InsituWarning, match="the last 20 steps"):
        found = program(to=file)
    assert found == program() and found


# ---- files


def test_existing_files_are_never_replaced(file: Path) -> None:
    file.with_suffix(".html").write_text("mine")
    with pytest.raises(ValueError, match="stop") as caught, insitu.guard(last=5, to=file):
        torch.ones(2).exp()
        raise ValueError("stop")
    assert file.with_suffix(".html").read_text() == "mine" and not file.exists()
    assert "crash-2.h5" in caught.value.__notes__[-1]
    assert crash_in(file.with_name("crash-2.h5"))[1].kind == "exception"


def test_folder_that_is_gone_at_the_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, instead = tmp_path / "runs", tmp_path / "temporary"
    folder.mkdir()
    instead.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(instead))
    with pytest.warns(insitu.InsituWarning, match="instead"), pytest.raises(ValueError, match="stop"):  # noqa: SIM117
        with insitu.guard(last=5, to=folder / "crash.h5"):
            shutil.rmtree(folder)
            torch.ones(2).exp()
            raise ValueError("stop")
    assert crash_in(instead / "crash.h5")[1].kind == "exception"


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"to": "missing/crash.h5"}, StoreError, "the directory .*missing' does not exist"),
        ({"to": "crash.txt"}, ChoiceError, "choose .h5 or .hdf5"),
        ({"to": 3}, ChoiceError, "to=3 is not the name of a file"),
        ({"last": -1}, ChoiceError, "last=-1 is not a number of steps"),
        ({"last": False}, ChoiceError, "last=False is not a number of steps"),
        ({"last": 0, "watchdog": 5}, ChoiceError, "last=0 keeps no steps"),
        ({"last": True}, ChoiceError, "last=True is not a number of steps"),
        ({"watchdog": -1}, ChoiceError, "watchdog=-1 is not a number of seconds"),
        ({"watchdog": "x"}, ChoiceError, "watchdog='x' is not a number of seconds"),
        ({"memory": "5"}, ChoiceError, "memory='5' is too little"),
        ({"values": "bady"}, PatternError, "no module matches 'bady'.*body"),
    ],
)
def test_bad_options_are_refused_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], error: type[Exception], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=text):
        insitu.guard(Net(), **options)


def test_program_may_change_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="stop"), insitu.guard(last=5):
        os.chdir(tmp_path / "other")
        torch.ones(2).exp()
        raise ValueError("stop")
    assert (tmp_path / "crash.h5").exists()


def test_directory_of_the_program_may_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(ValueError, match="stop") as raised, insitu.guard(last=5, to=tmp_path / "crash.h5"):
        (tmp_path / "other").rmdir()
        torch.ones(2).exp()
        raise ValueError("stop")
    assert str(tmp_path / "crash.h5") in raised.value.__notes__[-1]


def test_name_that_another_process_takes_meanwhile_is_not_replaced(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_late(trace: Trace, path: Path) -> None:
        if path == file:
            path.write_text("of another process")
        save(trace, path)

    monkeypatch.setattr("insitu.session.flight_recorder.save_trace", save_late)
    with pytest.raises(ValueError, match="stop"), insitu.guard(last=5, to=file):
        torch.ones(2).exp()
        raise ValueError("stop")
    assert file.read_text() == "of another process"
    assert crash_in(file.with_name(f"{file.stem}-2.h5"))[1].kind == "exception"


def test_text_of_an_exception_that_computes_nan_is_not_a_finding(file: Path) -> None:
    class ComputingError(Exception):
        def __str__(self) -> str:
            torch.zeros(2, requires_grad=True).log()
            return "its text"

    with pytest.raises(ComputingError), insitu.guard(last=5, to=file) as guard:
        torch.ones(2).exp()
        raise ComputingError
    assert crash_in(file)[1].text == "ComputingError: its text"
    assert not guard.findings


def test_sigterm_does_not_wait_for_ever_for_the_file_of_a_watchdog(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("insitu.session.flight_recorder.PATIENCE", 0.01)
    recorder = FlightRecorder(FlightOptions(to=file), None, pytest.fail, [], Counter())
    with hold_elsewhere(recorder._lock):
        recorder._on_termination()
    assert not file.exists()


@contextmanager
def hold_elsewhere(lock: threading.RLock) -> Iterator[None]:
    """Another thread holds a lock."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            is_over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    yield
    is_over.set()
    thread.join()


def test_each_rank_writes_its_own_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match="stop"), insitu.guard(last=5, to=file):
        torch.ones(2).exp()
        raise ValueError("stop")
    trace, _ = crash_in(file.with_name("crash.rank1.h5"))
    assert {event.rank for event in trace.events} == {1}


# ---- lifecycle


def test_nested_guards_write_one_file_each(tmp_path: Path) -> None:
    inner, outer = tmp_path / "inner.h5", tmp_path / "outer.h5"
    with pytest.raises(RuntimeError), insitu.guard(model := Net(), last=2, to=outer), insitu.guard(last=3, to=inner):
        train(model, 12, fail_at(9))
    assert (crash_in(outer)[1].count, crash_in(inner)[1].count) == (2, 3)


def test_decorated_function_is_recorded(file: Path) -> None:
    model = Net()

    @insitu.guard(model, last=3, to=file)
    def run(steps: int) -> None:
        train(model, steps, fail_at(9))

    run(5)
    with pytest.raises(RuntimeError, match="mat1"):
        run(12)
    with pytest.raises(RuntimeError, match="mat1"):
        run(12)
    assert crash_in(file)[1].step == 9 and crash_in(file.with_name("crash-2.h5"))[1].step == 9
    for _ in range(12):
        with pytest.raises(RuntimeError, match="mat1"):
            run(12)
    assert len(list(file.parent.glob("*.h5"))) == 10  # of one guard


def test_switched_off_it_does_nothing(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    with pytest.raises(ValueError, match="stop"), insitu.guard(last=5, to=file, watchdog=1):
        raise ValueError("stop")
    assert os.listdir(file.parent) == []
    insitu.guard(last=5, to=file.parent / "missing" / "crash.h5")


def test_handler_of_sigterm_and_watchdog_are_gone_afterwards(file: Path) -> None:
    def own(number: int, frame: Any) -> None:
        """The handler of the program."""

    before = signal.signal(signal.SIGTERM, own)
    try:
        with insitu.guard(last=5, to=file, watchdog=60):
            assert signal.getsignal(signal.SIGTERM) is not own
            assert any(thread.name == "insitu watchdog" for thread in threading.enumerate())
        assert signal.getsignal(signal.SIGTERM) is own
        assert not any(thread.name == "insitu watchdog" for thread in threading.enumerate())
    finally:
        signal.signal(signal.SIGTERM, before)


def test_calls_of_other_threads_are_in_the_file(file: Path) -> None:
    model = Net()
    with pytest.raises(ValueError, match="stop"), insitu.guard(model, last=5, to=file):
        thread = threading.Thread(target=lambda: model(torch.ones(3, 4)))
        thread.start()
        thread.join()
        model(torch.ones(3, 4))
        raise ValueError("stop")
    trace, _ = crash_in(file)
    assert len({call.thread for call in trace.find("body")}) == 2


@pytest.mark.parametrize("has_model", [True, False])
@pytest.mark.parametrize("is_early", [True, False])
def test_step_ends_with_an_update(file: Path, has_model: bool, is_early: bool) -> None:
    """Even if the optimizer was there before the block: nobody knows of it until it steps."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1) if is_early else None
    with pytest.raises(ValueError, match="stop"), insitu.guard(model if has_model else None, last=5, to=file):
        optimizer = optimizer or torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            x = torch.rand(3, 4)
            for _ in range(2):
                model(x).sum().backward()
            optimizer.step()
            with torch.no_grad():
                model(x)
        raise ValueError("stop")
    trace, crash = crash_in(file)
    assert (crash.first, crash.step) == (0, 3)
    assert [len(trace.find("body", step=step)) for step in range(4)] == [2, 3, 3, 1]
    assert [call.step for call in trace.find(name="torch.rand")] == [0, 1, 2]


def test_updates_of_several_optimizers_in_turn_end_one_step(file: Path) -> None:
    model = Net()
    optimizers = [torch.optim.Adam(part.parameters()) for part in (model.body, model.head)]
    with pytest.raises(ValueError, match="stop"), insitu.guard(model, last=9, to=file):
        for _ in range(3):
            model(torch.rand(3, 4)).sum().backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        raise ValueError("stop")
    trace, crash = crash_in(file)
    assert crash.step == 3 and steps_of(trace) == [0, 1, 2, 3]
    assert [call.step for call in trace.find(name="torch.rand")] == [0, 1, 2]
    assert file.with_suffix(".html").exists()  # even though the last step has only the gradients that are removed


def test_calls_before_the_first_update_are_one_step_with_some_statistics(file: Path) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(ValueError, match="stop"), insitu.guard(model, last=5, to=file):
        for _ in range(8):
            model(torch.rand(3, 4)).sum().backward()
        optimizer.step()
        model(torch.rand(3, 4))
        raise ValueError("stop")
    trace, crash = crash_in(file)
    assert (crash.first, crash.step, crash.is_cut, crash.with_statistics) == (0, 1, True, ())
    assert len(trace.find("body", step=1)) == 1


def test_without_an_optimizer_a_step_is_a_call_of_the_model(file: Path) -> None:
    model = Net()
    with pytest.raises(ValueError, match="stop"), insitu.guard(model, last=5, to=file):
        for _ in range(3):
            model(torch.rand(3, 4))
        raise ValueError("stop")
    assert crash_in(file)[1].step == 2


# ---- whole processes

PROGRAM = """
import os, signal, sys, threading, time
import torch, insitu
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)

def steps(count):
    for step in range(count):
        yield step
        model(torch.randn(16, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


def run(folder: Path, program: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program of a few lines."""
    script = folder / "program.py"
    script.write_text(PROGRAM + textwrap.dedent(program))
    command = [sys.executable, str(script)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=False, **options)


def test_sigterm_writes_the_file_and_ends_the_process(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        with insitu.guard(model, last=4):
            for step in steps(50):
                if step == 30:
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(60)
        """,
    )
    assert done.returncode == -signal.SIGTERM
    assert "the last 4 steps are in crash.h5" in done.stderr
    _, crash = crash_in(tmp_path / "crash.h5")
    assert (crash.kind, crash.step, crash.count) == ("sigterm", 30, 4)


def test_handler_of_the_program_runs_after_the_file_is_written(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        stop = []

        def handler(number, frame):
            stop.append(os.path.exists("crash.h5"))

        signal.signal(signal.SIGTERM, handler)
        with insitu.guard(model, last=4):
            for step in steps(50):
                if step == 30:
                    os.kill(os.getpid(), signal.SIGTERM)
        print(stop, signal.getsignal(signal.SIGTERM) is handler)
        """,
    )
    assert (done.returncode, done.stdout) == (0, "[True] True\n")


def test_recorded_run_inside_the_guard_ends_at_sigterm_as_well(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        with insitu.guard(model, last=4), insitu.record_run(model, only="0.weight", to="run.h5"):
            for step in steps(50):
                if step == 30:
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(60)
        """,
    )
    assert done.returncode == -signal.SIGTERM
    assert crash_in(tmp_path / "crash.h5")[1].kind == "sigterm"
    with insitu.load(tmp_path / "run.h5") as recorded:
        assert len(recorded["0.weight"].steps) == 30 and (tmp_path / "run.h5").exists()


def test_watchdog_writes_the_stacks_and_the_program_goes_on(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        class Data(torch.utils.data.Dataset):
            def __len__(self):
                return 12

            def __getitem__(self, index):
                if index == 8:
                    time.sleep(4)  # a file system that hangs
                return torch.randn(4)

        with insitu.guard(model, last=4, watchdog=1):
            for batch in torch.utils.data.DataLoader(Data(), batch_size=2):
                model(batch).square().mean().backward()
        print("done")
        """,
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "no step for 1" in done.stderr and "crash.h5" in done.stderr
    _, crash = crash_in(tmp_path / "crash.h5")
    assert (crash.kind, crash.step, crash.count) == ("watchdog", 3, 4)
    main = crash.stacks[0]
    assert main.name == "MainThread" and "time.sleep(4)  # a file system that hangs" in main.text
    assert f"insitu{os.sep}capture" not in main.text
    assert not (tmp_path / "crash-2.h5").exists()


def test_watchdog_that_fires_before_the_first_step_fires_again(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        with insitu.guard(model, last=4, watchdog=0.5):
            time.sleep(2)  # prepare the data
            for step in steps(9):
                if step == 6:
                    time.sleep(2)
        """,
    )
    assert done.returncode == 0
    crashes = [crash_in(path)[1] for path in sorted(tmp_path.glob("*.h5"), key=os.path.getmtime)]
    assert {crash.kind for crash in crashes} == {"watchdog"}
    assert crashes[0].step == 0 and "prepare the data" in crashes[0].stacks[0].text
    assert crashes[-1].step == 6 and len(crashes) <= 3
    assert f"the last {crashes[-1].count} steps are in" in done.stderr
    lines = [line for line in done.stderr.splitlines() if "InsituWarning: no step for" in line]
    places = [line.partition(": InsituWarning")[0] for line in lines]
    program = (tmp_path / "program.py").read_text().splitlines()
    assert {place.rpartition(":")[0] for place in places} == {str(tmp_path / "program.py")}
    assert "prepare the data" in program[int(places[0].rpartition(":")[2]) - 1]


def test_watchdog_then_ctrl_c_leaves_both_files(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(
        PROGRAM
        + textwrap.dedent(
            """
            def stop(module, args):
                if is_slow:
                    print("sleeping", flush=True)
                    time.sleep(60)

            is_slow = False
            model[1].register_forward_pre_hook(stop)
            with insitu.guard(model, last=4, watchdog=0.5):
                for step in steps(50):
                    is_slow = step == 30
            """
        )
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "sleeping\n"
    deadline = time.monotonic() + 60
    while not (tmp_path / "crash.html").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in said and "the last 4 steps are in crash-2.h5" in said
    trace, crash = crash_in(tmp_path / "crash.h5")
    assert (crash.kind, crash.step) == ("watchdog", 30)
    assert "in stop" in crash.stacks[0].text and f"{os.sep}insitu{os.sep}" not in crash.stacks[0].text
    assert trace.calls[-1].path == "1" and trace.calls[-1].duration is None
    assert crash_in(tmp_path / "crash-2.h5")[1].kind == "exception"


def test_ranks_of_a_job_write_one_file_each(tmp_path: Path) -> None:
    """The ranks are known to torch.distributed only; one of them fails, and the other waits for it."""
    script = tmp_path / "ranks.py"
    script.write_text(
        textwrap.dedent(
            """
            import datetime, sys
            import torch, insitu
            import torch.distributed as dist
            from torch.nn.parallel import DistributedDataParallel

            def main(rank):
                wait, store = datetime.timedelta(seconds=30), f"file://{sys.argv[1]}"
                dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2, timeout=wait)
                torch.set_num_threads(1)
                model = DistributedDataParallel(torch.nn.Linear(4, 2))
                with insitu.guard(model, last=3, to="crash.h5"):
                    for step in range(8):
                        if rank == 1 and step == 6:
                            raise ValueError("a bad batch")
                        model(torch.randn(3, 4)).sum().backward()

            if __name__ == "__main__":
                torch.multiprocessing.spawn(main, nprocs=2)
            """
        )
    )
    command = [sys.executable, str(script), str(tmp_path / "store")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode != 0 and "a bad batch" in done.stderr
    trace, crash = crash_in(tmp_path / "crash.rank1.h5")
    assert (crash.kind, crash.text, crash.step) == ("exception", "ValueError: a bad batch", 5)
    assert {event.rank for event in trace.events} == {1}
    assert not (tmp_path / "crash.h5").exists()


def test_child_of_a_fork_writes_nothing_and_dies_of_sigterm(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        """
        with insitu.guard(model, last=4, watchdog=60):
            for step in steps(3):
                pass
            child = os.fork()
            if child == 0:
                raise ValueError("only in the child")
            os.waitpid(child, 0)
            sleeper = os.fork()
            if sleeper == 0:
                time.sleep(60)
            os.kill(sleeper, signal.SIGTERM)
            print(os.WTERMSIG(os.waitpid(sleeper, 0)[1]) == signal.SIGTERM)
        """,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True"])
    assert "only in the child" in done.stderr and "crash.h5" not in done.stderr
    assert not list(tmp_path.glob("crash*"))


def test_process_that_ends_itself_at_once_leaves_no_file(tmp_path: Path) -> None:
    """As the documentation says: nothing can run then."""
    done = run(tmp_path, "with insitu.guard(model, last=4):\n    list(steps(3)); os._exit(4)")
    assert done.returncode == 4 and not list(tmp_path.glob("crash*"))


def test_file_that_cannot_be_written_does_not_hide_the_exception(tmp_path: Path) -> None:
    """A full disk: no file may grow, neither here nor in the folder for temporary files."""
    done = run(
        tmp_path,
        """
        import resource

        with insitu.guard(model, last=4):
            list(steps(3))
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            raise ValueError("the error of the program")
        """,
    )
    assert done.returncode == 1 and "ValueError: the error of the program" in done.stderr
    assert "insitu failed at writing the last steps" in done.stderr
    assert not list(tmp_path.glob("*crash*")) and not list(tmp_path.glob(".crash*"))
