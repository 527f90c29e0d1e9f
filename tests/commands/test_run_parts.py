"""`insitu run` with --record, --steps, --only and --guard: parts of an unmodified program."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import insitu
from insitu import cli
from insitu.capture.modules import patch
from insitu.capture.variables.reporters import recordings
from insitu.capture.variables.swaps import swaps

TRAINING = """
    import sys
    import torch
    from torch import nn
    import torch.nn.functional as F

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(3, 2)

        def forward(self, x):
            logits = self.head(x)
            return F.log_softmax(logits, dim=1)

    def train(model, optimizer, epoch):
        model.train()
        for number in range(3):
            x, y = torch.full((4, 3), float(number)), torch.zeros(4, dtype=torch.long)
            optimizer.zero_grad()
            loss = F.nll_loss(model(x), y)
            loss.backward()
            optimizer.step()

    @torch.no_grad()
    def test(model):
        model.eval()
        correct = 0
        for _ in range(2):
            correct += int(model(torch.ones(4, 3)).argmax(1).sum())
        return correct

    def main():
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for epoch in range(2):
            train(model, optimizer, epoch)
            accuracy = test(model)
        print("done", *sys.argv[1:])

    if __name__ == "__main__":
        main()
"""
MODULE_LEVEL = """
    import torch
    from torch import nn

    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    step = 0
    while True:
        rate = 0.1 / (step + 1)
        for micro in range(2):
            loss = model(torch.full((2, 3), 1.0)).mean()
            loss = loss / 2
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        note = f"step {step}"
        step += 1
        if step == 3:
            break
"""

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The tests write relative names; nothing that the command has changed is left."""
    monkeypatch.chdir(tmp_path)
    for name in ("INSITU", "NO_COLOR", "FORCE_COLOR", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    for name in ("argv", "path"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    construction, finders = torch.optim.Optimizer.__init__, list(sys.meta_path)
    yield
    assert recordings == [] and swaps._originals == {}
    assert patch.value_probes == () == patch.sessions
    assert torch.optim.Optimizer.__init__ is construction and sys.meta_path == finders


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """The exit code, the output and the errors of `insitu run`, in this process."""

    def run(*words: str, program: str = TRAINING) -> tuple[int, str, str]:
        write("train.py", program)
        capfd.readouterr()
        code = cli.main(["run", *words])
        return code, *capfd.readouterr()

    return run


def write(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(textwrap.dedent(text))


def steps_of(path: str, file: str = "run.h5") -> list[int]:
    steps: list[int] = insitu.load(file)[path].steps.tolist()
    return steps


# --record


def test_variables_of_functions_and_values_of_the_model_are_recorded(run: Run) -> None:
    names = ("train.loss", "train.epoch", "test.correct", "main.accuracy", "forward.logits", "head.weight.grad")
    code, out, said = run(*(word for name in names for word in ("--record", name)), "train.py", "one", "--two")
    assert (code, out) == (0, "done one --two\n")
    assert "insitu: recorded 6 variables over 6 steps: " in said and "log_softmax" in said
    assert steps_of("train.loss") == list(range(6)) == steps_of("head.weight.grad")
    assert steps_of("train.epoch") == [0, 3]
    # An evaluation belongs to the step before it.
    assert steps_of("forward.logits") == [0, 1, 2, 2, 2, 3, 4, 5, 5, 5]
    assert steps_of("test.correct") == [2, 2, 2, 5, 5, 5] and steps_of("main.accuracy") == [2, 5]
    recorded = insitu.load("run.h5")
    assert recorded.complete and recorded["train.loss"].values.shape == (6,)


def test_variables_of_the_script_itself_are_recorded(run: Run) -> None:
    words = [word for name in ("loss", "rate", "note", "weight.grad") for word in ("--record", name)]
    code, _, said = run(*words, "--quiet", "--run", "my.h5", "train.py", program=MODULE_LEVEL)
    assert (code, said) == (0, "")
    assert steps_of("loss", "my.h5") == [0] * 4 + [1] * 4 + [2] * 4
    assert steps_of("rate", "my.h5") == steps_of("note", "my.h5") == steps_of("weight.grad", "my.h5") == [0, 1, 2]
    assert insitu.load("my.h5")["note"].values == ["step 0", "step 1", "step 2"]


def test_output_and_exit_code_are_those_of_the_program(run: Run) -> None:
    program = """
        import sys
        for number in range(3):
            loss = number
            print(loss)
        sys.exit(7)
    """
    assert run("--record", "loss", "--quiet", "train.py", program=program) == (7, "0\n1\n2\n", "")
    assert insitu.load("run.h5")["loss"].values.tolist() == [0, 1, 2]


def test_traceback_of_the_program_shows_its_lines(run: Run) -> None:
    program = """
        for number in range(3):
            loss = 1 / (1 - number)
    """
    code, _, said = run("--record", "loss", "--quiet", "train.py", program=program)
    assert code == 1 and insitu.load("run.h5")["loss"].values.tolist() == [1.0]
    assert said.splitlines()[:5] == [
        "Traceback (most recent call last):",
        f'  File "{Path("train.py").absolute()}", line 3, in <module>',
        "    loss = 1 / (1 - number)",
        "           ~~^~~~~~~~~~~~~~",
        "ZeroDivisionError: division by zero",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--record", "train.los"], "train.py has no variable 'train.los' (did you mean 'train.loss'?)"),
        (["--record", "loss"], "train.py has no variable 'loss' (did you mean 'train.loss'?)"),
        (["--record", "train.loss", "--run", "there.h5"], "there.h5' is there already"),
    ],
)
def test_errors_come_before_the_program_runs(run: Run, words: list[str], message: str) -> None:
    Path("there.h5").write_text("mine")
    code, out, said = run(*words, "train.py")
    assert (code, out) == (2, "") and message in said and said.count("\n") == 1
    assert Path("there.h5").read_text() == "mine"


def test_existing_run_is_replaced_on_demand(run: Run) -> None:
    run("--record", "train.loss", "--quiet", "train.py")
    run("--record", "train.epoch", "--quiet", "--overwrite", "train.py")
    assert insitu.load("run.h5").paths == ["train.epoch"]


def test_name_that_matches_nothing_is_told_early_and_at_the_end(run: Run) -> None:
    code, _, said = run("--record", "forward.logit", "--quiet", "train.py")
    assert code == 0
    assert "insitu: --record forward.logit: nothing in the first 5 steps had this path" in said
    assert said.count("(did you mean 'forward.logits'?)") == 2
    code, _, said = run("--record", "x.y", "--quiet", "--overwrite", "train.py", program="print(1)")
    assert code == 0 and "nothing was recorded: the script called no model, and nothing that has 'x.y'" in said


def test_functions_and_classes_of_other_modules_are_found(run: Run) -> None:
    write("engine/__init__.py", "")
    write(
        "engine/loop.py",
        """
        def train(steps):
            for number in range(steps):
                loss = number * 2

        class Trainer:
            def fit(self):
                for number in range(2):
                    self.loss = number
        """,
    )
    program = """
        import engine.loop
        from engine.loop import Trainer
        engine.loop.train(3)
        Trainer().fit()
    """
    names = ["train.loss", "engine.loop.train.number", "Trainer.fit.self.loss"]
    words = [word for name in names for word in ("--record", name)]
    code, _, said = run(*words, "--quiet", "train.py", program=program)
    assert (code, said) == (0, "")
    recorded = insitu.load("run.h5")
    assert recorded["train.loss"].values.tolist() == [0, 2, 4] and steps_of("train.loss") == [0, 1, 2]
    assert recorded["engine.loop.train.number"].values.tolist() == [0, 1, 2]
    assert recorded["Trainer.fit.self.loss"].values.tolist() == [0, 1]
    for wrong, near in (("Trainer.fit.self.los", "Trainer.fit.self.loss"), ("Trainer.fit.nmber", "Trainer.fit.number")):
        _, _, said = run("--record", wrong, "--quiet", "--overwrite", "train.py", program=program)
        assert f"{wrong!r} (did you mean {near!r}?)" in said


def test_second_model_has_the_name_of_its_class(run: Run) -> None:
    program = """
        import torch
        from torch import nn

        class Critic(nn.Linear):
            pass

        maker, critic = nn.Linear(2, 2), Critic(2, 1)
        for number in range(2):
            critic(maker(torch.ones(1, 2)))
    """
    words = ("--record", "forward", "--record", "weight", "--record", "Critic.bias")
    code, _, said = run(*words, "--quiet", "train.py", program=program)
    assert (code, said) == (0, "")
    recorded = insitu.load("run.h5")
    assert recorded["forward"].values.shape == (2, 1, 2) and recorded["Critic.forward"].values.shape == (2, 1, 1)
    assert recorded["weight"].values.shape[1:] == (2, 2) and recorded["Critic.weight"].values.shape[1:] == (1, 2)
    assert recorded["Critic.bias"].values.shape[1:] == (1,)
    # Without an optimizer, each call of a model is a step.
    assert steps_of("forward") == [0, 2] and steps_of("Critic.forward") == [1, 3]


def test_statistics_instead_of_values(run: Run) -> None:
    run("--record", "train.x", "--record", "train.loss", "--keep", "stats", "--quiet", "train.py")
    recorded = insitu.load("run.h5")
    assert recorded["train.x.mean"].values.tolist() == [0.0, 1.0, 2.0] * 2
    assert recorded["train.loss"].values.shape == (6,)


def test_module_and_folder_are_recorded_and_an_archive_is_refused(run: Run) -> None:
    write("package/__init__.py", "")
    write("package/job.py", "for number in range(2):\n    loss = number\n")
    write("package/__main__.py", "import torch\nfor number in range(3):\n    loss = number + 10\n")
    assert run("--record", "loss", "--quiet", "-m", "package.job")[0] == 0
    assert insitu.load("run.h5")["loss"].values.tolist() == [0, 1]
    for words in (["-m", "package"], ["package"]):
        assert run("--record", "loss", "--quiet", "--overwrite", *words)[0] == 0
        assert insitu.load("run.h5")["loss"].values.tolist() == [10, 11, 12]
        for name in [name for name in sys.modules if name.startswith("package")]:
            del sys.modules[name]
    with zipfile.ZipFile("job.pyz", "w") as archive:
        archive.writestr("__main__.py", "loss = 1")
    code, _, said = run("--record", "loss", "--quiet", "--run", "b.h5", "job.pyz")
    assert code == 2 and "an archive: unpack it first" in said


def test_switched_off(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    code, out, said = run("--record", "train.loss", "--steps", "1", "--guard", "--only", "train", "train.py")
    assert (code, out, said) == (0, "done\n", "insitu: INSITU=0, so nothing was traced\n")
    assert not list(Path().glob("run.h5*"))


KILLED = """
    import os, signal, torch
    from torch import nn

    def train():
        net = nn.Linear(3, 1)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for number in range(1000):
            loss = net(torch.ones(2, 3)).sum() * 0 + number
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if number == 20:
                os.kill(os.getpid(), signal.SIGKILL)

    train()
"""


def test_killed_program_loses_no_update() -> None:
    write("train.py", KILLED)
    words = [sys.executable, "-m", "insitu", "run", "--record", "train.loss", "--record", "weight.grad", "train.py"]
    assert subprocess.run(words, check=False, timeout=200).returncode == -signal.SIGKILL
    recorded = insitu.load("run.h5")
    assert recorded["train.loss"].values.tolist() == list(range(21)) and len(recorded["weight.grad"].steps) == 21
    assert subprocess.run([sys.executable, "-m", "insitu", "recover", "run.h5"], check=False).returncode in (0, 1)
    assert steps_of("train.loss") == list(range(21))


RANKS = """
    import torch, torch.distributed as dist
    from torch import nn
    from torch.nn.parallel import DistributedDataParallel

    def train(net, optimizer):
        for number in range(4):
            x = torch.full((2, 3), float(dist.get_rank() * 10 + number))
            loss = net(x).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    dist.init_process_group("gloo")
    net = DistributedDataParallel(nn.Linear(3, 1))
    train(net, torch.optim.SGD(net.parameters(), 0.1))
    dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_record_into_one_file() -> None:
    write("train.py", RANKS)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "-m", "insitu", "run"]
    words = ["--record", "train.x", "--record", "weight.grad", "--quiet", "train.py"]
    subprocess.run([*launch, *words], check=True, capture_output=True, timeout=400)
    recorded = insitu.load("run.h5")
    assert recorded.complete and recorded.ranks == [0, 1]
    for rank in (0, 1):
        series = recorded["train.x"].rank(rank)
        assert series.steps.tolist() == [0, 1, 2, 3]
        assert series.values[:, 0, 0].tolist() == [rank * 10 + number for number in range(4)]
        assert recorded["weight.grad"].rank(rank).steps.tolist() == [0, 1, 2, 3]


# --steps


def traced(file: str = "step.h5") -> Any:
    return insitu.load(file)


def test_trace_has_the_steps_that_are_wanted(run: Run) -> None:
    code, out, said = run("--steps", "1,4:6", "--to", "step.h5", "train.py")
    assert (code, out) == (0, "done\n")
    trace = traced()
    assert {event.step for event in trace.events} == {1, 4, 5}
    for step in (1, 4):
        names = [call.name for call in trace.find(step=step)]
        assert names.count("Net") == 1 and "torch.nn.functional.nll_loss" in names
        assert any("backward" in name for name in names)
    assert [mark.step for mark in trace.marks] == [1, 4, 5]
    # The evaluation after the last update belongs to it.
    assert [call.name for call in trace.find(step=5)].count("Net") == 3
    assert "step 1" in said


def test_steps_of_a_script_without_an_optimizer_are_calls_of_its_model(run: Run) -> None:
    program = """
        import torch
        model = torch.nn.Linear(2, 2)
        for number in range(5):
            (model(torch.ones(1, 2)) * number).sum()
    """
    run("--steps", "2:4", "--to", "step.h5", "train.py", program=program)
    trace = traced()
    assert [call.step for call in trace.find(kind="module")] == [2, 3]
    assert [call.args for call in trace.find(name="mul")] == [call.args for call in trace.find(name="mul")]
    assert {event.step for event in trace.events} == {2, 3}


def test_steps_that_did_not_run_are_told(run: Run) -> None:
    code, _, said = run("--steps", "100:", "train.py")
    assert code == 0
    assert said == "insitu: --steps 100:: none of these steps ran; the script made 6 steps: 0 … 5\n"
    _, _, said = run("--steps", "0", "train.py", program="print(1)")
    assert "no model was called, and no optimizer made an update" in said


def test_between_the_steps_nothing_of_torch_is_replaced(run: Run) -> None:
    program = """
        import torch
        from insitu.capture.modules import patch

        net = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for number in range(4):
            loss = net(torch.ones(1, 2)).sum()
            loss.backward()
            print(number, len(patch.sessions), torch._C._len_torch_function_stack())
            optimizer.step()
    """
    _, out, _ = run("--steps", "2", "train.py", program=program)
    assert out == "0 0 0\n1 0 0\n2 1 1\n3 0 0\n"


def test_modes_of_the_program_stay_in_order(run: Run) -> None:
    program = """
        import torch
        net = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for number in range(3):
            with torch.device("meta"):
                made = torch.ones(2)
                net(torch.ones(1, 2, device="cpu")).sum().backward()
                optimizer.step()
            print(made.device, torch.ones(1).device)
    """
    _, out, _ = run("--steps", "1", "--to", "step.h5", "train.py", program=program)
    assert out == "meta cpu\n" * 3
    assert {event.step for event in traced().events} == {1}


def test_compiled_model_is_traced_in_its_steps_and_not_compiled_again(run: Run) -> None:
    program = """
        import torch
        compilations = []
        def backend(graph, inputs):
            compilations.append(graph)
            return graph.forward
        net = torch.nn.Linear(2, 2)
        model = torch.compile(net, backend=backend)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for number in range(5):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
        print(len(compilations))
    """
    _, out, said = run("--steps", "2:4", "--to", "step.h5", "train.py", program=program)
    assert out == "1\n", said
    trace = traced()
    assert [(call.step, call.module.type) for call in trace.find(kind="module")] == [(2, "Linear"), (3, "Linear")]


def test_interrupt_keeps_what_was_recorded() -> None:
    write(
        "train.py",
        """
        import time
        for number in range(1000):
            loss = number
            if number == 5:
                print("ready", flush=True)
                time.sleep(60)
        """,
    )
    words = [sys.executable, "-m", "insitu", "run", "--record", "loss", "--quiet", "train.py"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=100) == 130
    assert insitu.load("run.h5")["loss"].values.tolist() == list(range(6))


def test_steps_and_recorded_values_have_the_same_numbers(run: Run) -> None:
    run("--steps", "3", "--record", "train.number", "--to", "step.h5", "--quiet", "train.py")
    assert {event.step for event in traced().events} == {3}
    assert insitu.load("run.h5")["train.number"].values.tolist() == [0, 1, 2] * 2


# --only


def test_only_functions_of_the_script_are_traced(run: Run) -> None:
    run("--only", "test", "--to", "step.h5", "train.py")
    names = [call.name for call in traced().calls]
    assert "torch.Tensor.argmax" in names and not any("backward" in name for name in names)
    run("--only", "train", "--steps", "0,4", "--to", "step.h5", "--overwrite", "train.py")
    names = [call.name for call in traced().calls]
    assert {event.step for event in traced().events} == {0, 4} and "torch.Tensor.argmax" not in names
    assert any("backward" in name for name in names)


def test_only_modules_are_traced_and_not_both(run: Run) -> None:
    run("--only", "head", "--to", "step.h5", "train.py")
    assert {call.path for call in traced().find(kind="module")} == {"head"}
    code, _, said = run("--only", "head", "--only", "train", "train.py")
    assert code == 2 and "got 'train', a function, and 'head'" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "tset"], "--only also takes functions of the script (did you mean 'test'?)"),
        (["--only", "unused"], "--only unused: the script did not call this function"),
        (["--only", "Net.run"], "--only Net.run: the script has no such function; a method is named with its class"),
        (["--only", "empty"], "--only empty: no call of torch was recorded there"),
        (["--only", "test", "--steps", "1"], "--only test --steps 1: no call of torch was recorded there"),
        (["--only", "test", "--steps", "9"], "--steps 9: none of these steps ran; the script made 6 steps: 0 … 5"),
    ],
)
def test_empty_trace_of_a_part_says_why(run: Run, words: list[str], message: str) -> None:
    program = textwrap.dedent(TRAINING) + "def empty(): pass\ndef unused(): pass\nempty()\n"
    code, out, said = run(*words, "--to", "step.h5", "train.py", program=program)
    assert (code, out) == (0, "done\n")
    last = said.splitlines()[-1]
    assert last.startswith(f"insitu: {message}") and last.endswith("; step.h5 was not written")
    assert not Path("step.h5").exists()


# --guard

BROKEN = """
    import torch, warnings
    warnings.simplefilter("ignore")
    for number in range(3):
        value = torch.tensor([1.0, float(number)], requires_grad=True)
        loss = torch.log(value).sum()
    print("end")
"""


def test_guard_prints_findings_when_they_occur_and_once_more_at_the_end(run: Run) -> None:
    code, out, said = run("--guard", "train.py", program=BROKEN)
    assert (code, out) == (0, "end\n")
    assert said.startswith("insitu: train.py:6: torch.log produced Inf from finite inputs\n")
    assert said.endswith("insitu: the guard found 1 thing:\n  train.py:6: torch.log produced Inf from finite inputs\n")
    assert "why" in said and "torch.tensor" in said
    assert said.index("  why ") < said.index("the last step is in crash.h5")


def test_guard_without_the_trace(run: Run) -> None:
    _, _, said = run("--guard", "--quiet", "train.py", program=BROKEN)
    assert "produced Inf" in said and "torch.tensor([" not in said
    assert run("--guard", "--quiet", "train.py", program="print(1)") == (0, "1\n", "")
    _, _, said = run("--guard", "train.py")
    assert said.endswith("insitu: the guard found nothing\n")


def test_guard_can_stop_the_program(run: Run) -> None:
    program = BROKEN.replace(".sum()\n", ".sum()\n        loss.backward()\n")
    code, out, said = run("--guard=raise", "--quiet", "train.py", program=program)
    assert (code, out) == (1, "")
    assert "NonFiniteError: train.py:6: torch.log produced Inf from finite inputs" in said
    assert f'File "{Path("train.py").absolute()}", line 7, in <module>' in said


def test_script_may_have_an_option_of_the_same_name(run: Run) -> None:
    program = "import sys; print(sys.argv[1:])"
    code, out, _ = run("--guard", "--quiet", "train.py", "--guard", "x", "--steps", "y", program=program)
    assert (code, out) == (0, "['--guard', 'x', '--steps', 'y']\n")


# The flight recorder of --guard

CRASHING = """
    import torch
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(30):
        model(torch.randn(3, 4 if step < 25 else 5)).sum().backward()
        optimizer.step()
"""


def test_guard_writes_the_last_steps_of_a_program_that_crashes(run: Run) -> None:
    code, _, said = run("--guard", "--quiet", "train.py", program=CRASHING)
    assert code == 1
    assert said.endswith("\nthe last 20 steps are in crash.h5 (insitu show crash.h5)\n")
    trace = insitu.load("crash.h5")
    assert (trace.crash.kind, trace.crash.first, trace.crash.step) == ("exception", 6, 25)
    assert sorted({event.step for event in trace.events}) == list(range(6, 26))
    assert Path("crash.html").exists()


def test_guard_that_finds_nan_says_where_the_last_steps_are(run: Run) -> None:
    _, _, said = run("--guard", "--quiet", "--last", "2", "--crash", "nan.h5", "train.py", program=BROKEN)
    assert said.count("insitu: the last step is in nan.h5 (insitu show nan.h5)\n") == 1
    assert insitu.load("nan.h5").crash.kind == "finding"


@pytest.mark.parametrize(
    "program", ["import sys\nsys.exit(2)", "x = (", "import a_module_that_is_missing", "raise ValueError"]
)
def test_program_that_calls_nothing_leaves_no_file(run: Run, program: str) -> None:
    code, _, said = run("--guard", "--quiet", "train.py", program=program)
    assert code != 0 and "crash.h5" not in said and not list(Path().glob("crash*"))


def test_last_0_keeps_no_steps(run: Run) -> None:
    code, _, said = run("--guard", "--last", "0", "--quiet", "train.py", program=CRASHING)
    assert code == 1 and "crash.h5" not in said and not list(Path().glob("crash*"))


def test_program_that_ends_well_leaves_no_file(run: Run) -> None:
    assert run("--guard", "--quiet", "train.py", program="print(1)") == (0, "1\n", "")
    assert not list(Path().glob("crash*"))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--last", "5"), "--last is an option of the guard: add --guard"),
        (("--guard", "--last", "0", "--watchdog", "5"), "--last 0 keeps no steps"),
        (("--guard", "--crash", "missing/crash.h5"), "does not exist"),
        (("--guard", "--watchdog", "0"), "watchdog=0.0 is not a number of seconds"),
    ],
)
def test_options_of_the_flight_recorder_are_checked_before_the_program_runs(
    run: Run, words: tuple[str, ...], text: str
) -> None:
    code, out, said = run(*words, "train.py", program="print(1)")
    assert code != 0 and out == "" and text in said


def test_number_of_steps_is_a_number(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run("--guard", "--last", "many", "train.py")
    assert "expects a number of steps, got 'many'" in capfd.readouterr().err


def test_folder_that_cannot_be_written_only_costs_the_last_steps(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise insitu.StoreError(f"{path.name!r} cannot be written: Read-only file system")

    monkeypatch.setattr("insitu.session.flight_options.check_writable", refuse)
    code, out, said = run("--guard", "--quiet", "train.py", program="print(1)")
    assert (code, out) == (0, "1\n")
    assert said == "insitu: the last steps are not kept: 'crash.h5' cannot be written: Read-only file system\n"
