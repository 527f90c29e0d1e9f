"""`insitu run`: memory, several ranks, interrupts, and what the program does about its own end."""

from __future__ import annotations

import argparse
import gc
import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import insitu
from insitu import cli
from insitu.commands import delivery
from insitu.store.rank_files import rank_file
from insitu.verbs.save import SUFFIXES

LOOP = """
    import sys, torch
    x = torch.zeros(3)
    for _ in range(int(sys.argv[1])):
        x = (x + 1) * 0.5
"""


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests write relative names; switches of the machine do not count."""
    monkeypatch.chdir(tmp_path)
    for name in ("INSITU", "NO_COLOR", "FORCE_COLOR", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    for name in ("argv", "path"):  # which a program that runs in this process changes
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def script(program: str) -> None:
    Path("script.py").write_text(textwrap.dedent(program))


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """The exit code, the output and the errors of `insitu run`, in this process."""

    def run(*words: str, program: str) -> tuple[int, str, str]:
        script(program)
        capfd.readouterr()
        code = cli.main(["run", *words])
        return code, *capfd.readouterr()

    return run


def left_over() -> list[str]:
    """What is in the folder besides what was asked for."""
    return [path.name for path in Path().iterdir() if path.name.startswith(".")]


# memory


def test_events_beyond_the_limit_are_dropped_with_one_message(run: Run) -> None:
    code, _, said = run("--memory", "1MB", "script.py", "2000", program=LOOP)
    assert code == 0
    assert said.count("has reached 1 MB") == 1
    assert "events of step 0 are not in this trace: there was no memory for them" in said


def test_the_file_holds_the_events_that_memory_does_not(run: Run) -> None:
    code, _, said = run("--memory", "1MB", "--to", "run.h5", "script.py", "2000", program=LOOP)
    assert code == 0
    assert "its .h5 file holds them" in said
    trace = insitu.load("run.h5")
    assert trace.missing is None and len(trace.calls) == 4001
    gc.collect()
    assert left_over() == []


def test_dropped_events_are_counted_in_the_file_and_the_json(run: Run, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--memory", "1MB", "--overflow", "drop", "--to", "run.h5", "--html", "run.html", "--quiet"]
    assert run(*words, "script.py", "2000", program=LOOP)[0] == 0
    trace = insitu.load("run.h5")
    assert trace.missing is not None and trace.missing.events + len(trace) == 4001
    assert trace.missing.on_disk == 0
    assert cli.main(["show", "run.h5"]) == 0
    assert "are not in this trace" in capfd.readouterr().out
    assert cli.main(["show", "run.h5", "--json"]) == 0
    assert '"missing": {"events": ' in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--memory", "much"], "is not an amount of memory"),
        (["--memory", "1KB"], "is too little for a trace"),
        (["--overflow", "disk"], "--overflow disk needs --to FILE.h5"),
        (["--overflow", "away"], "is not one of 'disk', 'drop'"),
    ],
)
def test_wrong_amounts_are_refused_before_the_program_runs(run: Run, words: list[str], said: str) -> None:
    code, printed, errors = run(*words, "script.py", program="print('it ran')")
    assert (code, printed) == (2, "")
    assert said in errors


# ranks


def test_each_rank_has_its_own_file(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["run.h5", "run.graph.json", "a/run.json.gz", "run.html"]
    assert [rank_file(name, (*SUFFIXES, ".graph.json")) for name in names] == names
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    expected = ["run.rank1.h5", "run.rank1.graph.json", "a/run.rank1.json.gz", "run.rank1.html"]
    assert [rank_file(name, (*SUFFIXES, ".graph.json")) for name in names] == expected
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "2")
    assert rank_file("run.h5", SUFFIXES) == "run.rank1.restart2.h5"


DDP = """
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    model(torch.ones(3, 2)).sum().backward()
    dist.barrier()
    dist.destroy_process_group()
"""


def test_a_job_of_two_ranks_writes_two_files_and_succeeds() -> None:
    script(DDP)
    insitu_run = [sys.executable, "-m", "insitu", "run", "--to", "run.h5", "--html", "run.html", "script.py"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29641"]
    done = subprocess.run([*torchrun, "--no-python", *insitu_run], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    made = sorted(path.name for path in Path().iterdir())
    assert made == ["run.rank0.h5", "run.rank0.html", "run.rank1.h5", "run.rank1.html", "script.py"]
    traces = [insitu.load(f"run.rank{number}.h5") for number in (0, 1)]
    assert [{event.rank for event in trace.events} for trace in traces] == [{0}, {1}]
    assert done.stderr.count("torch.distributed.barrier") <= 1
    assert "insitu: rank 1: " in done.stderr and "run.rank1.h5" in done.stderr


# the end of the program


def test_an_existing_file_is_refused_before_the_program_runs(run: Run) -> None:
    Path("run.h5").write_text("mine")
    code, printed, said = run("--to", "run.h5", "script.py", program="print('it ran')")
    assert (code, printed) == (2, "")
    assert "is there already" in said and Path("run.h5").read_text() == "mine"


def test_a_folder_where_nothing_can_be_written_is_refused_before_the_program_runs(run: Run) -> None:
    code, printed, said = run("--to", "/proc/run.h5", "script.py", program="print('it ran')")
    assert (code, printed) == (2, "")
    assert "cannot be written" in said


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("raise ValueError('mine')", 1), ("pass", 0)])
def test_the_exit_code_is_that_of_the_program(run: Run, end: str, code: int) -> None:
    assert run("--to", "run.h5", "script.py", program=f"import sys, torch\ntorch.ones(1)\n{end}")[0] == code
    assert len(insitu.load("run.h5")) == 1
    assert left_over() == []


def test_a_program_that_calls_os_exit_keeps_its_exit_code_and_leaves_no_file() -> None:
    script("import os, torch\ntorch.ones(1)\nos._exit(4)")
    done = subprocess.run([sys.executable, "-m", "insitu", "run", "--to", "run.h5", "script.py"], timeout=100)
    assert done.returncode == 4
    assert sorted(os.listdir()) == ["script.py"]


def test_a_view_that_fails_does_not_fail_the_program(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    script("import torch; torch.ones(1)")
    monkeypatch.setattr(delivery, "_print", lambda *given: 1 // 0)
    assert cli.main(["run", "script.py"]) == 0
    assert "insitu: making the tree failed: ZeroDivisionError" in capfd.readouterr().err


# interrupts


def interrupting(monkeypatch: pytest.MonkeyPatch, where: str, times: int) -> None:
    """Let Ctrl-C come so many times in a function of the delivery."""
    import insitu.verbs.save as saving

    module, name = {"save": (saving, "save"), "print": (delivery, "_print")}[where]
    original = getattr(module, name)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        return original(*arguments, **options)

    monkeypatch.setattr(module, name, interrupted)


@pytest.fixture
def own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_handler")
def test_an_interrupt_while_a_file_is_written_waits_for_it(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    script("import torch; torch.ones(1)")
    interrupting(monkeypatch, "save", 1)
    assert cli.main(["run", "--to", "run.h5", "script.py"]) == 0
    said = capfd.readouterr().err
    assert "insitu: run.h5 is being written: Ctrl-C again gives it up" in said
    assert "insitu: interrupted, without the tree; run.h5 is kept" in said
    assert len(insitu.load("run.h5")) == 1


@pytest.mark.usefixtures("own_handler")
def test_a_second_interrupt_abandons_the_file(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    script("import torch; torch.ones(1)")
    interrupting(monkeypatch, "save", 2)
    assert cli.main(["run", "--to", "run.h5", "script.py"]) == 0
    assert "insitu: interrupted, without run.h5, the tree" in capfd.readouterr().err
    assert sorted(os.listdir()) == ["script.py"]


@pytest.mark.usefixtures("own_handler")
def test_an_interrupt_while_the_tree_is_made_keeps_the_file(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    script("import torch; torch.ones(1)")
    interrupting(monkeypatch, "print", 1)
    assert cli.main(["run", "--to", "run.h5", "script.py"]) == 0
    assert "insitu: interrupted, without the tree; run.h5 is kept" in capfd.readouterr().err
    assert len(insitu.load("run.h5")) == 1


def test_an_endless_script_that_is_interrupted_leaves_its_trace() -> None:
    script("import torch, sys\nprint('begun', flush=True)\nx = torch.zeros(1)\nwhile True:\n    x = x + 1")
    command = [sys.executable, "-m", "insitu", "run", "--memory", "1MB", "--to", "run.h5", "script.py"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "KeyboardInterrupt" in said
    trace = insitu.load("run.h5")
    assert len(trace) > 10 and trace.missing is None
    assert left_over() == []


# progress


def test_a_terminal_shows_how_far_the_work_has_come() -> None:
    program = """
        import time
        from insitu.view import progress
        from insitu.trace.counter import count_progress
        progress.PATIENCE = progress.TICK = 0.01
        with progress.working("counting"):
            for _ in count_progress(range(4096), 4096, "sheep"):
                time.sleep(0.0001)
    """
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], stderr=theirs, check=True, timeout=60)
    os.close(theirs)
    shown = ""
    with suppress(OSError):  # that is how a terminal ends
        while piece := os.read(ours, 1 << 16):
            shown += piece.decode("utf-8", "replace")
    os.close(ours)
    assert "counting … sheep 25 %" in shown and shown.count("\r") > 3
    assert shown.endswith("s\r\n") and "\x1b[Kinsitu: counting took" in shown


def test_a_failed_file_is_not_reported_as_kept(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    def fail() -> None:
        raise insitu.InsituError("the disk is full")

    def interrupt() -> None:
        raise KeyboardInterrupt

    works = [
        delivery.Work("a.h5", lambda: None, is_file=True, is_whole=True),
        delivery.Work("b.h5", fail, is_file=True, is_whole=True),
        delivery.Work("the tree", interrupt),
    ]
    monkeypatch.setattr(delivery, "_works", lambda *given: works)
    before = signal.getsignal(signal.SIGINT)
    try:
        delivery.deliver(insitu.Trace(), None, argparse.Namespace())
    finally:
        signal.signal(signal.SIGINT, before)
    told = capfd.readouterr().err.splitlines()
    assert told == ["insitu: the disk is full", "insitu: interrupted, without the tree; a.h5 is kept"]
