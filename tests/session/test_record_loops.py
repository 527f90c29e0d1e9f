"""Variables of the training loop in a recorded run: from a block, a decorated function, and what these call."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.session.loops import (
    Net,
    Replacer,
    Trainer,
    count_up,
    evaluate,
    fit,
    fit_with_functions,
    hidden_tensors,
    one_step,
    optimizer_of,
    set_attributes,
)
from torch import Tensor

import insitu
from insitu.capture.variables.reporters import recordings
from insitu.capture.variables.swaps import swaps


class Taken(list[tuple[str, int, Any]]):
    """Takes what is recorded, in order: path, step and value; tensors as numbers."""

    def __call__(self, path: str, value: Any, step: int, rank: int) -> None:
        is_number = isinstance(value, Tensor) and value.numel() == 1
        self.append((path, step, value.item() if is_number else value))

    def of(self, path: str) -> list[tuple[int, Any]]:
        """The steps and values of a path."""
        return [(step, value) for each, step, value in self if each == path]

    def steps(self, path: str) -> list[int]:
        return [step for step, _ in self.of(path)]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No function keeps reports, nothing hears them, and torch has its own optimizers."""
    construction = torch.optim.Optimizer.__init__
    yield
    assert recordings == [] and swaps._originals == {}
    assert torch.optim.Optimizer.__init__ is construction


# blocks


def test_block_records_its_own_variables_with_the_model() -> None:
    net, taken = Net(), Taken()
    optimizer = optimizer_of(net)
    with insitu.record_run(net, only=["x", "loss", "after", "forward", "head.weight.grad"], to=taken):
        for number in range(3):
            x = torch.full((2, 3), float(number))
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            after = number * 10
    for path in ("x", "loss", "after", "forward", "head.weight.grad"):
        assert taken.steps(path) == [0, 1, 2], path
    assert taken.of("after") == [(0, 0), (1, 10), (2, 20)]
    assert [step for step, x in taken.of("x") if x[0, 0] == step] == [0, 1, 2]
    assert loss.grad_fn is not None and after == 20


def test_block_without_a_model_counts_updates() -> None:
    net, taken = Net(), Taken()
    optimizer = optimizer_of(net)
    with insitu.record_run(only=["loss", "part", "rate"], to=taken):
        for number in range(2):
            rate = 0.1 / (number + 1)
            optimizer.zero_grad()
            for part in range(3):  # noqa: B007
                loss = net(torch.ones(2, 3)).mean() / 3
                loss.backward()
            optimizer.step()
    assert taken.of("part") == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert taken.steps("loss") == [0, 0, 0, 1, 1, 1] and taken.steps("rate") == [0, 1]
    assert (part, rate, loss.shape) == (2, 0.05, ())


def test_block_without_a_model_and_an_optimizer_counts_passes() -> None:
    taken = Taken()
    with insitu.record_run(only=["total", "word", "flag"], to=taken):
        total = 0
        for number in range(3):
            total += number
            word = "same"
            flag = number > 1
    assert taken.of("total") == [(0, 0), (0, 0), (1, 1), (2, 3)]
    assert taken.of("word") == [(0, "same"), (1, "same"), (2, "same")]
    assert taken.of("flag") == [(0, False), (1, False), (2, True)]
    assert (total, word, flag) == (3, "same", True)


@pytest.mark.parametrize("stop", [4, 3])
def test_block_sees_the_passes_of_loops_without_a_condition(stop: int) -> None:
    taken = Taken()
    with insitu.record_run(only=["number"], to=taken):
        number = 0
        while True:
            number += 1
            if number == stop:
                break
    assert taken.of("number") == [(0, 0), *((step, step + 1) for step in range(stop))]


def test_line_that_raises_binds_nothing_again() -> None:
    taken = Taken()
    with insitu.record_run(only=["value"], to=taken):
        for text in ("1", "x", "1"):
            try:
                value = int(text)
            except ValueError:
                continue
    assert taken.of("value") == [(0, 1), (1, 1)] and value == 1


def test_values_from_before_the_block_are_not_recorded() -> None:
    taken, loss, kept = Taken(), 7.0, [1]
    with insitu.record_run(only=["loss", "kept"], to=taken):
        for _ in range(2):
            loss = loss + 1
            kept.append(2)
    assert taken.of("loss") == [(0, 8.0), (1, 9.0)]
    assert taken.of("kept.2") == [(1, 2)] and taken.of("kept.1") == [(0, 2), (1, 2)]


def test_block_records_variables_of_functions_that_it_calls() -> None:
    net, taken, trainer = Net(), Taken(), Trainer()
    with insitu.record_run(only=["fit.loss", "evaluate.error", "Trainer.run.self.loss"], to=taken):
        fit(net, optimizer_of(net), 2)
        evaluate(net)
        trainer.run(2)
    assert taken.steps("fit.loss") == [0, 1]
    assert taken.of("evaluate.error") == [(1, 0.0), (1, 1.0), (1, 2.0)]  # with the step before
    # At the beginning of the call, and whenever it is assigned.
    assert taken.steps("Trainer.run.self.loss") == [2, 2, 3]


def test_method_is_found_by_its_name_alone() -> None:
    taken, trainer = Taken(), Trainer()
    with insitu.record_run(trainer.net, only=["run.self.loss", "forward"], to=taken):
        trainer.run(2)
    assert taken.steps("forward") == [0, 1] and taken.steps("run.self.loss") == [0, 0, 1]


def test_paths_of_the_model_come_first_and_nothing_is_recorded_twice() -> None:
    net, taken = Net(), Taken()
    with insitu.record_run(net, only=["head", "loss", "train_here.loss", "loss"], to=taken):

        def train_here() -> None:
            pass

        head = "a variable"
        for _ in range(2):
            loss = net(torch.ones(2, 3)).mean()
    assert [type(value) for _, value in taken.of("head")] == [Tensor, Tensor]
    assert taken.steps("loss") == [0, 1] and not taken.of("train_here.loss")
    assert head and loss.shape == () and train_here() is None


def own_function_by_name(taken: Taken) -> None:
    with insitu.record_run(only=["own_function_by_name.loss", "loss"], to=taken):
        for number in range(2):
            loss = number
        assert loss == 1


def test_variable_of_the_function_around_the_block_has_one_path() -> None:
    taken = Taken()
    own_function_by_name(taken)
    assert taken == [("own_function_by_name.loss", 0, 0), ("own_function_by_name.loss", 1, 1)]


def test_steps_of_the_user_count_instead() -> None:
    taken = Taken()
    with insitu.record_run(only=["loss"], to=taken) as live:
        for number in (5, 7):
            live.step(number)
            for part in range(2):
                loss = number * 10 + part
    assert taken.of("loss") == [(5, 50), (5, 51), (7, 70), (7, 71)] and loss == 71


def test_every_and_when_choose_passes() -> None:
    net, every, train = Net(), Taken(), Taken()
    with insitu.record_run(net, only=["number", "forward"], every=2, to=every):
        for number in range(4):  # noqa: B007
            net(torch.ones(1, 3))
    assert every.steps("number") == every.steps("forward") == [0, 2]
    with insitu.record_run(net, only=["mode", "forward"], when="train", to=train):
        for mode in ("train", "eval", "train"):
            net.train(mode == "train")
            net(torch.ones(1, 3))
    assert train.of("mode") == [(0, "train"), (2, "train")] and train.steps("forward") == [0, 2]
    assert (number, mode) == (3, "train")


def test_value_of_a_step_that_is_left_out_is_not_recorded_later() -> None:
    net, taken = Net(), Taken()
    optimizer = optimizer_of(net)
    with insitu.record_run(net, only="fit.loss", every=2, to=taken):
        losses = fit(net, optimizer, 4)
    assert taken.of("fit.loss") == [(0, losses[0]), (2, losses[2])]


def test_block_in_an_exit_stack_belongs_to_the_function_around_it() -> None:
    taken = Taken()
    with ExitStack() as stack:
        stack.enter_context(insitu.record_run(only="loss", to=taken))
        for number in range(2):
            loss = number
    assert taken.of("loss") == [(0, 0), (1, 1)] and loss == 1


def test_statistics_of_a_batch_and_the_value_of_a_loss(tmp_path: Path) -> None:
    net = Net()
    keep: Any = {"loss": "values", "**": "stats"}
    with insitu.record_run(net, only=["loss", "x"], keep=keep, to=tmp_path / "run.h5") as live:
        for number in range(3):
            x = torch.full((2, 3), float(number))
            loss = net(x).mean()
    assert live["x.mean"].values.tolist() == [0.0, 1.0, 2.0] and live["loss"].values.shape == (3,)
    assert loss.requires_grad


def test_recorded_loss_keeps_no_graph() -> None:
    net = Net()
    with insitu.record_run(net, only=["hidden_tensors.loss"]) as live:
        hidden = hidden_tensors(net)
    assert [each() for each in hidden] == [None, None] and live["hidden_tensors.loss"].steps.tolist() == [0, 1]


@pytest.mark.parametrize("with_model", [True, False])
def test_functions_called_later_in_a_pass_begin_no_step(with_model: bool) -> None:
    net, taken = Net(), Taken()
    only = ["loss_of.square", "evaluate.error"] + ["forward"] * with_model
    with insitu.record_run(net if with_model else None, only=only, to=taken, when="train" if with_model else None):
        fit_with_functions(net, optimizer_of(net))
    squares = [step for step, value in taken.of("loss_of.square")]
    if with_model:  # the calls of the evaluation are steps, too
        assert squares == taken.steps("forward")[::3]
    else:
        assert squares == [0, 1, 2] and taken.steps("evaluate.error") == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("with_model", [True, False])
def test_call_of_a_function_without_a_loop_is_a_pass(with_model: bool) -> None:
    net, taken = Net(), Taken()
    optimizer = optimizer_of(net)
    with insitu.record_run(net if with_model else None, only=["one_step.batch", "one_step.loss"], to=taken):
        for number in range(3):
            one_step(net, optimizer, number)
    assert [(step, value[0, 0].item()) for step, value in taken.of("one_step.batch")] == [(0, 0), (1, 1), (2, 2)]
    assert taken.steps("one_step.loss") == [0, 1, 2]


# what can never match, and what did not


@pytest.mark.parametrize(
    ("only", "nearest"),
    [("los", "loss"), ("fit.los", "fit.loss"), ("evaluat.error", "evaluate.error"), ("Trainer.rum.self", None)],
)
def test_name_that_can_never_match_is_refused_with_the_nearest(only: str, nearest: str | None) -> None:
    loss = 1.0
    meant = f"did you mean '{nearest}'" if nearest else "has the path 'Trainer.rum.self'"
    with pytest.raises(insitu.PatternError, match=meant), insitu.record_run(only=["loss", only]):
        loss = 2.0
    assert loss == 1.0


def test_name_that_did_not_match_by_the_end_causes_a_warning() -> None:
    with (
        pytest.warns(insitu.InsituWarning, match=r"nothing was recorded at 'never'"),
        insitu.record_run(only=["loss", "never"], to=Taken()),
    ):
        for loss in range(2):
            if loss > 5:
                never = 1
    with (
        pytest.warns(insitu.InsituWarning, match="none of the functions that are recorded ran in this block"),
        insitu.record_run(only="evaluate.error", to=Taken()),
    ):
        never = 2
    assert (loss, never) == (1, 2)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, insitu.ChoiceError, "without a model records variables: name them, as in only"),
        ({"only": "loss", "when": "train"}, insitu.ChoiceError, "when='train' asks a model"),
    ],
)
def test_bad_input(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        insitu.record_run(**options)


def test_decorator_without_brackets_says_how_it_is_written() -> None:
    with pytest.raises(insitu.SubjectError, match=r"write @insitu\.record_run\(only=\['loss'\], to='run\.h5'\)"):
        insitu.record_run(fit)  # type: ignore[arg-type]


# decorated functions


def test_all_calls_of_a_decorated_function_are_one_run(tmp_path: Path) -> None:
    net = Net()
    optimizer = optimizer_of(net)

    @insitu.record_run(only=["epoch", "loss", "total"], to=tmp_path / "run.h5")
    def train(epoch: int) -> float:
        """Train for an epoch."""
        total = 0.0
        for number in range(3):
            loss = net(torch.full((2, 3), float(number))).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    totals = [train(epoch) for epoch in range(2)]
    assert train.__doc__ == "Train for an epoch."
    run = insitu.load(tmp_path / "run.h5")
    assert run.running and run["epoch"].steps.tolist() == [0, 3]
    del train
    gc.collect()
    run = insitu.load(tmp_path / "run.h5")
    assert run.complete and not run.running and not (tmp_path / "run.h5.parts").exists()
    assert run["loss"].steps.tolist() == list(range(6)) == sorted(set(run["total"].steps.tolist()))
    assert [run["total"].values[3], run["total"].values[-1]] == totals


def test_decorated_function_is_recorded_with_a_model_and_with_what_it_calls() -> None:
    net, taken = Net(), Taken()

    @insitu.record_run(net, only=["loss", "train.number", "head.weight.grad", "helper.square"], to=taken)
    def train() -> None:
        optimizer = optimizer_of(net)
        for number in range(2):
            loss = helper(net(torch.ones(2, 3))).mean() * (number + 1)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    def helper(value: Tensor) -> Tensor:
        square = value * value
        return square

    train()
    for path in ("loss", "train.number", "head.weight.grad", "helper.square"):
        assert taken.steps(path) == [0, 1], path


def test_methods_of_every_kind_are_decorated() -> None:
    taken = Taken()
    record = insitu.record_run(only=["loss", "**"], to=taken)

    class Job:
        @record
        def fit(self) -> str:
            for loss in range(2):
                self.last = loss
            return f"{type(self).__name__} {self.last}"

        @record
        @staticmethod
        def fit_alone(first: int) -> int:
            for number in range(2):
                loss = first + number
            return loss

        @record
        @classmethod
        def fit_class(cls, first: int) -> str:
            loss = first
            return f"{cls.__name__} {loss}"

    assert (Job().fit(), Job.fit_alone(10), Job().fit_class(20)) == ("Job 1", 11, "Job 20")
    assert [value for _, value in taken.of("loss")] == [0, 1, 10, 11, 20]


def test_decorator_refuses_names_at_once() -> None:
    with pytest.raises(insitu.PatternError, match="did you mean 'loss'"):
        insitu.record_run(only="lost", to=Taken())(lambda loss: loss)
    with pytest.raises(insitu.ChoiceError, match="needs a file to record to"):
        insitu.record_run(only="loss")(lambda loss: loss)
    for target in (3, Net):
        with pytest.raises(insitu.SubjectError, match="it decorates functions"):
            insitu.record_run(only="loss", to=Taken())(target)  # type: ignore[type-var]


def test_exception_in_a_decorated_function_ends_the_call_and_not_the_run(tmp_path: Path) -> None:
    @insitu.record_run(only="loss", to=tmp_path / "run.h5")
    def train(bad: int) -> None:
        for number in range(3):
            loss = number
            if number == bad:
                raise ValueError("bad")
        assert loss == 2

    with pytest.raises(ValueError, match="bad") as caught:
        train(1)
    assert [entry.name for entry in caught.traceback if "insitu" in str(entry.path.parent)] == []
    train(-1)
    run = insitu.load(tmp_path / "run.h5")
    assert run["loss"].values.tolist() == [0, 1, 0, 1, 2] and run["loss"].steps.tolist() == [0, 1, 2, 3, 4]
    del train


def test_generators_and_coroutines_are_recorded_while_they_run() -> None:
    taken = Taken()

    @insitu.record_run(only="loss", to=taken)
    def losses() -> Iterator[int]:
        for loss in range(3):  # noqa: UP028
            yield loss

    @insitu.record_run(only="loss", to=taken)
    async def later() -> int:
        for loss in (7, 8):  # noqa: B007
            await asyncio.sleep(0)
        return loss

    assert list(losses()) == [0, 1, 2]
    first = losses()
    assert next(first) == 0
    first.close()
    assert asyncio.run(later()) == 8
    assert [value for _, value in taken.of("loss")] == [0, 1, 2, 0, 7, 8]
    with pytest.raises(insitu.SubjectError, match="an asynchronous generator"):

        @insitu.record_run(only="loss", to=taken)
        async def stream() -> Any:
            loss = 1
            yield loss


def test_calls_in_several_threads_are_one_run() -> None:
    taken, barrier = Taken(), threading.Barrier(2)
    count = insitu.record_run(only="loss", to=taken)(count_up)
    threads = [threading.Thread(target=count, args=(first, barrier)) for first in (100, 1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(value for _, value in taken.of("loss")) == [0, 0, *range(100, 150), *range(1000, 1050)]


def test_recursion_and_nesting_end_in_order() -> None:
    outer, inner = Taken(), Taken()

    @insitu.record_run(only="depth", to=outer)
    def dive(depth: int) -> None:
        if depth:
            with insitu.record_run(only="loss", to=inner):
                for loss in range(depth):
                    assert loss < depth
            dive(depth - 1)

    dive(2)
    assert [value for _, value in outer.of("depth")] == [2, 1, 0]
    assert [value for _, value in inner.of("loss")] == [0, 1, 0]


def test_function_without_source_is_followed_line_by_line() -> None:
    taken, space = Taken(), dict[str, Any]()
    exec("def train():\n    for number in range(3):\n        loss = number * 2\n    return loss\n", space)
    train = insitu.record_run(only="loss", to=taken)(space["train"])
    assert train() == 4
    assert [value for _, value in taken.of("loss")] == [0, 2, 4]
    assert sys.gettrace() is None


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    taken = Taken()

    def train() -> int:
        loss = 1
        return loss

    assert insitu.record_run(only="loss", to=taken)(train) is train
    with insitu.record_run(only="loss", to=taken):
        loss = train()
    assert taken == [] and loss == 1


def test_two_recordings_of_one_function_take_each_value_once() -> None:
    outer, inner = Taken(), Taken()
    around = insitu.record_run(only=["set_attributes.number"], to=outer)
    with around, insitu.record_run(only=["set_attributes.number"], to=inner):
        set_attributes(Net)
    assert inner == outer == [("set_attributes.number", 0, 0), ("set_attributes.number", 1, 1)]


def test_new_tensor_in_the_memory_of_the_last_one_is_recorded() -> None:
    """Python often gives a new object the id of the one that was freed just before."""
    taken = Taken()
    with insitu.record_run(only=["Replacer.replace_all.self.loss"], to=taken):
        Replacer().replace_all(4)
    assert taken.of("Replacer.replace_all.self.loss") == [(number, float(number)) for number in range(4)]


def test_recorded_tensors_can_be_swapped() -> None:
    """`torch.utils.swap_tensors` refuses tensors with weak references, and the tool has some."""
    taken, known = Taken(), torch.utils.weakref
    with insitu.record_run(only=["a", "b"], to=taken):
        a, b = torch.ones(1), torch.zeros(1)
        torch.utils.swap_tensors(a, b)
    assert (a.item(), b.item()) == (0.0, 1.0)
    gc.collect()
    assert torch.utils.weakref is known


class Unhashable(type):
    """Classes that cannot be in a set, nor be compared."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        raise ArithmeticError("compared")


@pytest.mark.parametrize("is_decorated", [False, True])
def test_class_that_cannot_be_compared_does_not_disturb(is_decorated: bool) -> None:
    taken, kind = Taken(), Unhashable("Odd", (), {})
    if is_decorated:
        insitu.record_run(only=["number", "value"], to=taken)(set_attributes)(kind)
    else:
        with insitu.record_run(only=["number", "value"], to=taken):
            for number in range(2):
                value = kind()
                value.other = number
    assert taken.of("number") == [(0, 0), (1, 1)]


def test_watch_and_record_run_follow_one_function(capsys: pytest.CaptureFixture[str]) -> None:
    taken = Taken()

    @insitu.record_run(only="loss", to=taken)
    @insitu.watch("loss", file=sys.stdout)
    def train() -> None:
        for number in range(2):
            loss = number + 10
        assert loss == 11

    train()
    assert [value for _, value in taken.of("loss")] == [10, 11]
    assert capsys.readouterr().out.count("loss") == 2


def test_compiled_model_stays_compiled_and_its_loop_is_recorded() -> None:
    taken, compilations = Taken(), []

    def backend(graph: Any, inputs: Any) -> Any:
        compilations.append(graph)
        return graph.forward

    net = Net()
    compiled = torch.compile(net, backend=backend)
    optimizer = optimizer_of(net)
    fit(compiled, optimizer, 2)
    before = len(compilations)
    with insitu.record_run(net, only=["fit.loss", "fit.x", "forward"], to=taken):
        fit(compiled, optimizer, 3)
    with insitu.record_run(only=["fit.loss"], to=taken):
        fit(compiled, optimizer, 3)
    assert len(compilations) == before
    assert taken.steps("fit.loss") == [0, 1, 2] * 2 and taken.steps("forward") == taken.steps("fit.x") == [0, 1, 2]


# crashes

KILLED = """
    import os, signal, sys, time, torch, insitu
    from torch import nn

    net = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    @insitu.record_run(only=["loss", "number"], to="run.h5")
    def train():
        for number in range(1000):
            loss = net(torch.full((2, 3), 0.01)).sum() * 0 + number
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number == 20:
                print("ready", flush=True)
                time.sleep(60)

    train()
"""


def test_killed_process_loses_no_update(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(KILLED))
    process = subprocess.Popen([sys.executable, "train.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    run = insitu.load(tmp_path / "run.h5")
    assert run["loss"].values.tolist() == list(range(21)) == run["number"].values.tolist()
    assert not run.complete


RANKS = """
    import os, sys, torch, insitu
    import torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    def train(net, optimizer):
        for number in range(4):
            x = torch.full((2, 3), float(dist.get_rank() + number))
            loss = net(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    dist.init_process_group("gloo")
    net = DistributedDataParallel(nn.Linear(3, 1))
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with insitu.record_run(net, only=["train.loss", "train.x", "weight.grad"], to="run.h5"):
        train(net, optimizer)
    dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_record_their_own_variables(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(textwrap.dedent(RANKS))
    words = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "train.py"]
    subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    run = insitu.load(tmp_path / "run.h5")
    assert run.complete and run.ranks == [0, 1]
    for rank in (0, 1):
        series = run["train.x"].rank(rank)
        assert series.steps.tolist() == [0, 1, 2, 3]
        assert series.values[:, 0, 0].tolist() == [rank + step for step in range(4)]
    assert len(run["train.loss"].steps) == len(run["weight.grad"].steps) == 8


def test_interrupt_in_the_loop_keeps_what_was_recorded(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), insitu.record_run(only="loss", to=tmp_path / "run.h5"):
        for loss in range(100):
            if loss == 5:
                signal.raise_signal(signal.SIGINT)
    assert insitu.load(tmp_path / "run.h5")["loss"].values.tolist() == list(range(6))
