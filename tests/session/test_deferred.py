"""The deferred path, run on the CPU: equal numbers, hardly a number read in a step, the same calls blamed by a guard.

No accelerator is here. Fake tensors stand for those of CUDA where values do not matter.
"""

from __future__ import annotations

import io
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import insitu
from insitu.capture import finite, isolation
from insitu.demo import GPT
from insitu.trace.event import Call, Stats, TensorFacts

pytestmark = pytest.mark.usefixtures("one_thread")

MOST_READS = 2  # numbers that a step may read from a device
READS = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal")


@pytest.fixture
def deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU_DEFERRED", "1")


class Training:
    """The demo model, and steps that read no number themselves."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = GPT(layers=1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.tokens, self.targets = torch.randint(256, (2, 24)), torch.randint(256, (48,))

    def step(self) -> None:
        self.optimizer.zero_grad()
        scores = self.model(self.tokens).flatten(0, 1)
        F.cross_entropy(scores, self.targets).backward()
        self.optimizer.step()


# ---- how many numbers are read

Session = Callable[[nn.Module, Path], AbstractContextManager[Any]]
PATHS = ["*", "h.*", "**.weight", "**.weight.grad"]
SESSIONS: dict[str, Session] = {
    "record, statistics": lambda model, file: insitu.record(keep="stats"),
    "record a model, statistics": lambda model, file: insitu.record(model, keep="stats"),
    "record operators, statistics": lambda model, file: insitu.record(keep="stats", level="aten"),
    "record, values": lambda model, file: insitu.record(keep="values"),
    "record, a function": lambda model, file: insitu.record(model, keep=lambda tensor: tensor.float().mean()),
    "record a run, statistics": lambda model, file: insitu.record_run(model, only=PATHS, keep="stats", to=file),
    "record a run, values": lambda model, file: insitu.record_run(model, only=PATHS, to=file),
    "guard": lambda model, file: insitu.guard(),
    "guard a model": lambda model, file: insitu.guard(model),
    "flight recorder": lambda model, file: insitu.guard(model, last=3, to=file),
    "watch": lambda model, file: insitu.watch(model, file=io.StringIO()),
    "watch, statistics": lambda model, file: insitu.watch(model, keep="stats", file=io.StringIO()),
}


def reads_of(session: AbstractContextManager[Any], training: Training, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many numbers each of some steps reads; the tool hides its operators from profilers, but not here."""
    monkeypatch.setattr(isolation, "profiler_enabled", lambda: False)
    monkeypatch.setattr(finite, "profiler_enabled", lambda: False)
    counts = []
    with session:
        training.step()
        for _ in range(4):
            with profile(activities=[ProfilerActivity.CPU]) as profiler:
                training.step()
            # `key_averages` counts them, too, and takes ten times as long.
            found = Counter(event.name() for event in profiler.profiler.kineto_results.events())
            counts.append(max(found[name] for name in READS))
    return counts


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.usefixtures("deferred")
def test_a_step_reads_at_most_two_numbers(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training()
    counts = reads_of(SESSIONS[name](training.model, tmp_path / "file.h5"), training, monkeypatch)
    assert max(counts) <= MOST_READS


def test_the_direct_path_reads_many_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = Training()
    session = SESSIONS["record a model, statistics"](training.model, tmp_path)
    assert min(reads_of(session, training, monkeypatch)) > 100


# ---- equal numbers


def both(run: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """What a program returns on the direct path, and on the deferred one."""
    monkeypatch.delenv("INSITU_DEFERRED", raising=False)
    direct = run()
    monkeypatch.setenv("INSITU_DEFERRED", "1")
    return direct, run()


def plain_stats(stats: Stats | None) -> tuple[Any, ...] | None:
    """Statistics to compare; beside NaN and Inf, the last digits of mean and std depend on the order of a sum."""
    if stats is None:
        return None
    if not stats.nan and not stats.inf:
        return (stats,)
    rounded = [None if number is None else float(f"{number:.9g}") for number in (stats.mean, stats.std)]
    return (stats.count, stats.min, stats.max, stats.nan, stats.inf, stats.zeros, stats.histogram, *rounded)


def plain_facts(facts: TensorFacts) -> tuple[Any, ...]:
    kept = facts.kept.tolist() if isinstance(facts.kept, np.ndarray) else facts.kept
    grad = plain_facts(facts.grad) if facts.grad is not None else None
    known = (facts.id, facts.shape, facts.dtype, facts.producer, facts.requires_grad)
    return (*known, plain_stats(facts.stats), repr(kept), grad)


def plain_trace(trace: insitu.Trace) -> list[Any]:
    return [(call.id, call.name, [*map(plain_facts, (*call.inputs, *call.outputs))]) for call in trace.calls]


@pytest.mark.parametrize(
    "options",
    [
        {"keep": "stats"},
        {"keep": "stats", "level": "aten"},
        {"keep": "values", "level": "modules"},
        {"keep": lambda tensor: {"mean": tensor.float().mean(), "ends": [tensor.min(), tensor.max()]}},
    ],
    ids=["statistics", "operators", "values", "function"],
)
@pytest.mark.parametrize("has_subject", [True, False])
def test_a_trace_is_equal_to_that_of_the_direct_path(
    options: dict[str, Any], has_subject: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> list[Any]:
        training = Training()
        with insitu.record(training.model if has_subject else None, **options) as trace:
            training.step()
            training.step()
        return plain_trace(trace)

    direct, later = both(run, monkeypatch)
    assert direct == later


@pytest.mark.parametrize("options", [{"keep": "stats"}, {}, {"keep": lambda tensor: tensor.mean()}])
def test_a_recorded_run_is_equal_to_that_of_the_direct_path(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run() -> dict[str, Any]:
        training = Training()
        file = tmp_path / f"run{os.environ.get('INSITU_DEFERRED', '')}.h5"
        with insitu.record_run(training.model, only=[*PATHS, "forward.tokens"], to=file, **options):
            for _ in range(3):
                training.step()
                training.model.head.weight.data.mul_(2)  # after the update
        recorded = insitu.load(file)
        assert isinstance(recorded, insitu.Run)
        return {path: (recorded[path].steps.tolist(), np.asarray(recorded[path].values).tolist()) for path in recorded}

    direct, later = both(run, monkeypatch)
    assert direct == later and len(direct) > 10


def test_watch_prints_what_the_direct_path_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    def run() -> list[str]:
        training, text = Training(), io.StringIO()
        with insitu.watch(training.model, keep="stats", file=text, width=200):
            training.model(training.tokens)
            training.model(training.tokens)
        return [line.split("µs")[0].split("ms")[0].rstrip(" 0123456789.") for line in text.getvalue().splitlines()]

    direct, later = both(run, monkeypatch)
    assert direct == later and len(direct) > 10


@pytest.mark.usefixtures("deferred")
def test_a_trace_can_be_read_while_it_grows() -> None:
    with insitu.record(keep="stats") as trace:
        x = torch.ones(3)
        first = trace.calls[-1].outputs[0].stats
        (x * 2).sum()
    assert first is not None and first.mean == 1.0
    assert [call.outputs[0].stats.max for call in trace.calls] == [1.0, 2.0, 6.0]  # type: ignore[union-attr]


@pytest.mark.usefixtures("deferred")
def test_a_change_that_torch_does_not_count_leaves_no_statistics_of_before() -> None:
    with insitu.record(keep="stats") as trace:
        x = torch.zeros(4)
        x.numpy()[0] = 7
        x.sum()
    facts = trace.calls[-1].inputs[0]
    assert facts.producer is None and facts.stats is None


@pytest.mark.usefixtures("deferred")
def test_a_memory_limit_keeps_whole_steps() -> None:
    training = Training()
    reached = pytest.warns(insitu.InsituWarning, match="the trace has reached")
    with reached, insitu.record(keep="stats", memory="1MB") as trace:
        for _ in range(12):
            training.step()
    assert trace.missing is not None
    statistics = [facts.stats for call in trace.calls for facts in call.outputs]
    assert statistics and all(stats is not None for stats in statistics)


# ---- a guard


class Net(nn.Module):
    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.activation(self.first(x).relu()))  # type: ignore[no-any-return]


def train(activation: Callable[[Tensor], Tensor], rate: float = 0.1, steps: int = 3) -> Net:
    torch.manual_seed(0)
    model = Net(activation)
    optimizer = torch.optim.SGD(model.parameters(), rate)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(model(torch.randn(8, 4)), torch.zeros(8, 2)).backward()
        optimizer.step()
    return model


def evaluate() -> None:
    with torch.no_grad():
        Net(torch.log)(torch.randn(3, 4))


def divide() -> float:
    x = torch.tensor([0.0, 1.0])
    return (x / x).mean().item()


def add_root() -> None:
    torch.tensor([0.0, 1.0], requires_grad=True).sqrt().sum().backward()


def mask_logarithm() -> None:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    torch.where(x > 0, x.log(), torch.zeros(())).sum().backward()


MISTAKES: dict[str, Callable[[], object]] = {
    "a training": lambda: train(torch.log),
    "an overflow": lambda: train(torch.relu, rate=1e30, steps=9),
    "an evaluation": evaluate,
    "a number": divide,
    "a gradient": add_root,
    "a gradient behind a mask": mask_logarithm,
    "an unused result": lambda: torch.log(torch.tensor([1.0, 0.0], requires_grad=True)),
}


def blamed(run: Callable[[], object]) -> tuple[str, str, int]:
    with pytest.raises(insitu.NonFiniteError) as caught, insitu.guard():
        run()
    finding = caught.value.finding
    assert finding.call is not None and finding.site is not None
    return finding.kind, finding.call.name, finding.site.line


@pytest.mark.parametrize("name", MISTAKES)
def test_a_guard_blames_the_call_that_it_blames_on_the_direct_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    direct, later = both(lambda: blamed(MISTAKES[name]), monkeypatch)
    assert direct == later


HEALTHY: dict[str, Callable[[], object]] = {
    "a training": lambda: train(torch.relu),
    "a mask": lambda: GPT(layers=1)(torch.randint(256, (2, 8))).sum().backward(),
    "an infinity that heals": lambda: train(lambda x: 1 / (1 + torch.exp(x.detach() * 1000 + 100)) + x),
    "NaN that is replaced": lambda: torch.nan_to_num(torch.tensor([0.0]) / 0),
}


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.usefixtures("deferred")
def test_a_guard_finds_nothing_in_a_healthy_program(name: str) -> None:
    with insitu.guard():
        HEALTHY[name]()


@pytest.mark.usefixtures("deferred")
def test_the_message_says_that_it_was_found_at_the_end_of_the_step() -> None:
    with pytest.raises(insitu.NonFiniteError, match=r"torch\.log produced Inf") as caught, insitu.guard():
        train(torch.log)
    assert "found at the end of the step, not at the call" in str(caught.value)
    assert "INSITU_DEFERRED=0" in str(caught.value)


@pytest.mark.usefixtures("deferred")
def test_a_guard_raises_before_the_optimizer_spoils_the_weights() -> None:
    model = Net(torch.log)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with pytest.raises(insitu.NonFiniteError), insitu.guard(model):
        model(torch.zeros(2, 4)).sum().backward()
        optimizer.step()
    assert all(parameter.isfinite().all() for parameter in model.parameters())


@pytest.mark.usefixtures("deferred")
def test_what_an_optimizer_wrote_is_found_in_the_next_step() -> None:
    weight = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=1e30)
    with insitu.guard(action="record") as guard:
        for _ in range(3):
            (weight * 1e20).sum().backward()
            optimizer.step()
    assert guard.findings[0].kind == "update"
    assert "the step of SGD with lr=1e+30 wrote NaN or Inf" in guard.findings[0].text


@pytest.mark.usefixtures("deferred")
def test_a_number_that_the_program_wrote_down_is_not_called_finite() -> None:
    with insitu.guard(action="record") as guard:
        scores = torch.zeros(2, 3, requires_grad=True) + 0
        F.softmax(scores.masked_fill(torch.ones(2, 3, dtype=torch.bool), float("-inf")), -1).sum().backward()
    texts = [finding.text for finding in guard.findings]
    assert texts and not any("from finite inputs" in text.splitlines()[0] for text in texts)


@pytest.mark.usefixtures("deferred")
def test_indices_out_of_range_are_named_though_nothing_was_read_before_the_call() -> None:
    with insitu.guard(action="record") as guard, pytest.raises(IndexError):
        F.cross_entropy(torch.randn(2, 3), torch.tensor([1, 3]))
    assert "holds 1 … 3, and F.cross_entropy has 3 classes" in guard.findings[0].text


# ---- the choice


def test_an_unknown_choice_names_the_value_and_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU_DEFERRED", "yes")
    refused = pytest.raises(insitu.ChoiceError, match=r"INSITU_DEFERRED='yes' is neither '1' .* nor '0'")
    with refused, insitu.record(keep="stats"):
        pass


def test_without_an_accelerator_the_path_is_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    from insitu.capture.deferral import new_deferral

    monkeypatch.delenv("INSITU_DEFERRED", raising=False)
    assert (new_deferral() is None) is not torch.accelerator.is_available()
    monkeypatch.setenv("INSITU_DEFERRED", "0")
    assert new_deferral() is None


# ---- tensors of an accelerator, without one


class Lookup(nn.Module):
    """A model without gradients: on fake tensors of CUDA, a torch without CUDA cannot run autograd."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(5, 3, device="cuda"), requires_grad=False)
        self.weight = nn.Parameter(torch.ones(2, 3, device="cuda"), requires_grad=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = torch.log(F.embedding(tokens, self.table)).add_(1)
        return F.softmax(F.linear(x, self.weight), -1)


def look_up(session: Session, file: Path) -> Any:
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        model, tokens = Lookup(), torch.ones(4, dtype=torch.int64, device="cuda")
        with session(model, file) as opened:
            for _ in range(2):
                F.cross_entropy(model(tokens), torch.ones(4, dtype=torch.int64, device="cuda"))
    return opened


FAKE_SESSIONS = {name: session for name, session in SESSIONS.items() if "a run" not in name and "function" not in name}
FAKE_SESSIONS |= {
    "record a run, statistics": lambda model, file: insitu.record_run(model, only=["forward", "weight"], keep="stats"),
    "record a run, values": lambda model, file: insitu.record_run(model, only=["forward", "weight"]),
}


@pytest.mark.parametrize("name", FAKE_SESSIONS)
@pytest.mark.parametrize("choice", ["", "1", "0"])
@pytest.mark.filterwarnings("ignore:not all of", "ignore:nothing was recorded")
def test_fake_tensors_of_cuda_are_not_read(
    name: str, choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setenv("INSITU_DEFERRED", choice)  # to read one raises, and insitu would warn that it failed
    opened = look_up(FAKE_SESSIONS[name], tmp_path / "file.h5")
    assert not any("insitu failed" in str(warning.message) for warning in recwarn)
    if isinstance(opened, insitu.Trace) and "watch" not in name:
        assert {facts.device for call in opened.calls for facts in call.outputs} == {"cuda:0"}


def test_times_of_calls_on_an_accelerator_are_marked_in_each_view(tmp_path: Path) -> None:
    trace = look_up(lambda model, file: insitu.record(model), tmp_path)
    assert all(call.has_launch_time for call in trace.calls)
    for view, options in {"tree": {"costs": True}, "table": {}}.items():
        text = io.StringIO()
        insitu.show(trace, view=view, file=text, width=200, **options)
        assert "s launch" in text.getvalue(), view
    for name in ("page.html", "trace.json"):
        insitu.save(trace, tmp_path / name)
    assert '"launch"' in (tmp_path / "trace.json").read_text()


def test_times_of_calls_on_the_cpu_are_not_marked() -> None:
    call = Call(0, None, "function", "f", result=TensorFacts(1, (2,), "f32", "cpu"), duration=5)
    meta = Call(1, None, "function", "f", result=TensorFacts(2, (2,), "f32", "meta"), duration=5)
    assert not call.has_launch_time and not meta.has_launch_time
