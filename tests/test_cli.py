from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import zipapp
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread

import insitu
from insitu import cli
from insitu.commands.program import exit_code
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run.merge import merge_journals
from insitu.trace.event import Call, ModuleFacts, TensorFacts
from insitu.trace.trace import Trace

NAN = float("nan")


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests write relative names; colours and switches of the machine do not count."""
    monkeypatch.chdir(tmp_path)
    for name in ("INSITU", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    linear = ModuleFacts("layers.0", "Linear", settings={"in_features": 3, "out_features": 2})
    call = Call(
        0, None, "module", "Linear", linear, result=TensorFacts(1, (4, 2), "f32", "cpu", producer=0), duration=9
    )
    insitu.save(Trace([call]), tmp_path / "run.h5")
    return tmp_path / "run.h5"


def python(*words: str, program: str | None = None) -> subprocess.CompletedProcess[str]:
    if program is not None:
        Path("script.py").write_text(textwrap.dedent(program))
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, timeout=100)


def run(*words: str, program: str | None = None) -> subprocess.CompletedProcess[str]:
    return python("-m", "insitu", "run", *words, program=program)


# show


def test_show_prints_the_trace(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(saved)]) == 0
    out, err = capsys.readouterr()
    assert "Linear" in out and "f32[4, 2]" in out and err == ""


def test_show_takes_every_view(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen = set()
    for view in ("tree", "code", "table"):
        assert cli.main(["show", str(saved), "--view", view]) == 0
        seen.add(capsys.readouterr().out)
    assert len(seen) == 3
    assert cli.main(["show", str(saved), "--view", "code"]) == 0


def test_show_passes_its_options_on(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, object] = {}
    monkeypatch.setattr("insitu.view.show", lambda trace, **options: given.update(options))
    words = ["--only", "a.*", "--only", "b", "--no-color", "--width", "40", "--unfold"]
    assert cli.main(["show", str(saved), *words]) == 0
    assert given == {"view": "tree", "only": ["a.*", "b"], "color": False, "width": 40, "unfold": True}
    assert cli.main(["show", str(saved), "--path", "c"]) == 0  # another word for the same
    assert given["only"] == ["c"]


def test_show_imports_neither_torch_nor_pandas(saved: Path) -> None:
    done = python(
        "-c",
        "import sys; from insitu.cli import main; main(['show', 'run.h5'])\n"
        "print([name for name in ('torch', 'pandas') if name in sys.modules])",
    )
    assert done.stdout.endswith("[]\n") and "Linear" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "nowhere.h5"], "insitu: 'nowhere.h5' cannot be loaded: the file does not exist"),
        (["show", "run.txt"], "insitu: unknown file format '.txt' in 'run.txt': choose .h5, .hdf5 or .trace\n"),
        (["show", "run.h5", "--view", "tre"], "did you mean 'tree'?"),
        (["show", "run.h5", "--view", "code", "--unfold"], "--unfold is an option of the view 'tree', got --view code"),
        (["show", "run.h5", "--only", "a..b"], "path pattern: write segments with dots between"),
        (["show", "run.h5", "--plot", "x.png"], "--plot is for recorded runs, and 'run.h5' is a trace"),
        (["show", "run.h5", "--plot", "a.png"], "--plot is for recorded runs, and 'run.h5' is a trace"),
        (
            ["recover", "run.h5"],
            "insitu: 'run.h5' is a file already, and 'run.h5.parts' is not there: nothing to recover",
        ),
        (
            ["recover", "nowhere.h5"],
            "insitu: nothing to recover: 'nowhere.h5.parts' does not exist",
        ),
        (["recover", "run.txt"], "unknown output format '.txt' in 'run.txt': choose .h5, .hdf5 or .trace"),
        (["run"], "insitu: run needs a script"),
        (["run", "-m"], "insitu: -m needs the name of a module"),
        (["run", "nowhere.py"], "insitu: script 'nowhere.py' not found"),
        (["run", "."], "insitu: the folder '.' has no __main__.py to run"),
        (["run", "--quiet", "script.py"], "insitu: --quiet would show nothing: add --to FILE, --html FILE,"),
        (["run", "--html", "x.h5", "script.py"], "insitu: unknown output format '.h5' in 'x.h5': choose .html\n"),
        (["run", "--to", "x.html", "--html", "./x.html", "script.py"], "insitu: --to and --html are both './x.html'"),
        (["run", "--to", "run.txt", "script.py"], "unknown output format '.txt' in 'run.txt': choose .h5, .hdf5"),
        (["run", "--to", "run.h5", "script.py"], "run.h5' is there already"),
        (["run", "--view", "nice", "script.py"], "insitu: --view='nice' is not one of"),
        (["run", "--guard=stop", "script.py"], "insitu: --guard='stop' is not one of 'warn', 'raise'"),
        (
            ["run", "--steps", "a", "script.py"],
            "insitu: --steps expects steps such as 3, 0,3,4, 10:12 (steps 10 and 11)",
        ),
        (["run", "--steps", "5:2", "script.py"], "insitu: --steps 5:2: 5:2 names no step"),
        (["run", "--run", "b.h5", "script.py"], "insitu: --run b.h5 is the file that --record writes: add --record"),
        (["run", "--record", "x", "--run", "b.txt", "script.py"], "unknown output format '.txt'"),
        (["run", "--record", "x", "--run", "run.h5", "script.py"], "run.h5' is there already"),
        (["run", "--record", "x", "--to", "b.h5", "--run", "b.h5", "script.py"], "b.h5' cannot be two files"),
        (["run", "--record", "a..b", "script.py"], "'a..b' is not a path pattern"),
        (["open", "nowhere.h5"], "insitu: 'nowhere.h5' cannot be loaded: the file does not exist"),
        (["open", "nowhere.html"], "insitu: 'nowhere.html' does not exist"),
        (["open", "run.txt"], "insitu: unknown file format '.txt' in 'run.txt': choose .h5, .hdf5 or .trace"),
    ],
)
def test_an_error_is_one_line_and_code_2(
    saved: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    Path("script.py").write_text("raise SystemExit('the script ran')")
    assert cli.main(words) == 2
    out, err = capsys.readouterr()
    assert message in err and err.startswith("insitu: ") and err.count("\n") == 1 and out == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sho", "run.h5"], "insitu: error: unknown command 'sho' (did you mean 'show'?)"),
        (["xyz"], "insitu: error: unknown command 'xyz'\n"),
        (["run", "--vew", "tree", "script.py"], "unrecognized arguments: --vew (did you mean '--view'?)"),
        (["show", "run.h5", "--widht=9"], "unrecognized arguments: --widht=9 (did you mean '--width'?)"),
        (["show", "run.h5", "other.h5"], "insitu show: error: unrecognized arguments: other.h5\n"),
    ],
)
def test_a_misspelt_word_names_the_nearest(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(words)
    assert message in capsys.readouterr().err


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "insitu run train.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--help"], ["run", "--help"], ["show", "--help"], ["recover", "--help"], ["demo", "--help"]]
)
def test_every_help_has_an_example(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(words)
    assert stop.value.code == 0
    assert "example:\n  insitu " in capsys.readouterr().out


@pytest.mark.parametrize("command", ["run", "show", "open", "diff", "export", "recover", "completion", "demo"])
def test_every_help_fits_into_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        cli.main([command, "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"insitu {insitu.__version__}\n"


@pytest.mark.parametrize("width", ["0", "-3", "x", "²"])
def test_a_width_is_a_number_from_1(saved: Path, capsys: pytest.CaptureFixture[str], width: str) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["show", "run.h5", "--width", width])
    assert stop.value.code == 2
    assert f"argument --width: expects a number of columns, got {width!r}" in capsys.readouterr().err


def test_a_closed_pipe_is_not_an_error(saved: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "wb") as gone:
        done = subprocess.run(
            [sys.executable, "-m", "insitu", "show", "run.h5"],
            stdout=gone,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    assert done.stderr == b"" and done.returncode == 141


def test_a_full_disk_is_an_error(saved: Path) -> None:
    for words in (["show", "run.h5"], ["show", "run.h5", "--json"], ["diff", "run.h5", "run.h5"]):
        with open("/dev/full", "wb") as full:
            command = [sys.executable, "-m", "insitu", *words]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (2, "insitu: [Errno 28] No space left on device\n")


def test_an_interrupt_prints_no_traceback(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("insitu.store.load", interrupted)
    assert cli.main(["show", "run.h5"]) == 130


# show and recover: recorded runs


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """A run of two ranks, as a file."""
    for rank in range(2):
        with JournalWriter(tmp_path / "run.h5.parts", rank, {"world_size": 2}) as journal:
            for step in range(10):
                x: Any = np.array([step, NAN if step == 7 else rank], np.float32)
                loss = 1.0 / (step + 1)
                entries: list[Any] = [("forward.x", 0, "float32", (2,), x.view(np.uint8))]
                journal.step(step, 0.0, [*entries, ("forward.loss", 0, None, (), loss), ("note", 0, None, (), "text")])
    assert merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5") == []
    return tmp_path / "run.h5"


def test_show_lists_a_run(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(run_file), "--width", "160"]) == 0
    out, err = capsys.readouterr()
    first, *lines = out.splitlines()
    head, x, loss, note = (line.split("  ") for line in lines)
    assert first == "✗ first NaN or Inf: step 7 in forward.x"
    assert head[0] == "path" and x[0] == "forward.x" and note[0] == "note" and err == ""
    assert {"0, 1", "✗ 2 NaN"} <= {cell.strip() for cell in x}
    assert {"20 × float", "0.1 … 1"} <= {cell.strip() for cell in loss}
    assert loss[-1].strip().startswith("█▄") and loss[-1].endswith("▁")


def test_show_lists_the_variables_of_a_pattern(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(run_file), "--path", "*.loss", "--color"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and "forward.loss" in lines[1] and "\033[" in lines[1]


def test_show_prints_a_run_as_json(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(run_file), "--json", "--path", "forward.x"]) == 0
    found = json.loads(capsys.readouterr().out)
    (variable,) = found.pop("variables")
    about = {"complete": True, "running": False, "steps": [0, 9], "ranks": [0, 1], "world_size": 2}
    (attempt,) = found.pop("attempts")
    assert (attempt["number"], attempt["ranks"], attempt["steps"]) == (0, [0, 1], [0, 9])
    assert found == {"file": str(run_file), **about, "missing": [], "troubles": [], "others": []}
    assert (variable["path"], variable["rows"], variable["nan"], variable["shapes"]) == ("forward.x", 20, 2, [[2], [2]])


def test_show_draws_a_run(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(run_file), "--path", "forward.*", "--plot", "out.png"]) == 0
    assert capsys.readouterr() == ("", "")
    pixels = imread("out.png")
    assert pixels.shape[0] > 400 and len(np.unique(pixels.reshape(-1, pixels.shape[-1]), axis=0)) > 20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--path", "forward.los"], "insitu: 'forward.los' was not recorded (did you mean 'forward.loss'?)"),
        (["--path", "forward", "--plot", "a.png"], "'forward' was not recorded (forward.* is what is in it)"),
        (["--path", "note", "--plot", "a.png"], "'note': no numbers, and nothing to draw"),
        (["--path", "forward.x", "--plot", "a.h5"], "'a.h5' does not end in one of '.png'"),
        (["--path", "a..b"], "path pattern: write segments with dots between"),
        (["--view", "code"], "--view is for traces, and 'run.h5' is a recorded run"),
        (["--unfold"], "--unfold is for traces"),
    ],
)
def test_an_error_about_a_run_is_one_line_and_code_2(
    run_file: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert cli.main(["show", "run.h5", *words]) == 2
    out, err = capsys.readouterr()
    assert message in err and err.startswith("insitu: ") and err.count("\n") == 1 and out == ""
    assert not Path("a.png").exists()


@pytest.mark.parametrize("words", [[], ["--json"], ["--path", "forward.x", "--plot", "out.png"]])
def test_a_run_is_shown_without_torch(run_file: Path, words: list[str]) -> None:
    done = python(
        "-c",
        f"import sys; from insitu.cli import main; main(['show', 'run.h5', *{words}])\n"
        "print([name for name in ('torch', 'pandas', 'matplotlib.pyplot') if name in sys.modules])",
    )
    assert done.stdout.endswith("[]\n") and done.stderr == ""


KILLED = """
    import os, signal, insitu, torch
    model = torch.nn.Linear(3, 2)
    with insitu.record_run(model, only=["weight", "forward.input"], keep="values", to="killed.h5"):
        for step in range(9):
            model(torch.full((2, 3), float(step)))
            if step == 5:
                os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_is_shown_and_recovered(capsys: pytest.CaptureFixture[str]) -> None:
    assert python("script.py", program=KILLED).returncode == -signal.SIGKILL
    missing = [
        "! rank 0 did not end properly (killed?): the last step written is 5",
        "! rank 0: step 5 had not ended: values of it may be missing",
    ]
    for name in ("killed.h5", "killed.h5.parts", "killed.h5.parts/"):
        assert cli.main(["show", name]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[:2] == missing and len(lines) == 5
        assert "6 × f32[2, 3]" in lines[3] and "0–5" in lines[3]  # the output of a call is written at its end
    assert cli.main(["recover", "killed.h5.parts/"]) == 1  # something is missing
    counts, *said, kept = capsys.readouterr().out.splitlines()
    assert (counts, said) == ("killed.h5: 2 variables, 6 steps, 1 rank", missing)
    assert kept.startswith("its journals stay in killed.h5.parts, for a rank is missing, damaged or has no end")
    assert len(list(Path("killed.h5.parts").rglob("*.journal"))) == 1  # it has no END frame
    with insitu.load("killed.h5") as run:
        assert run["forward.input"].values[:, 0, 0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert cli.main(["recover", "killed.h5"]) == 1  # the same again
    shutil.rmtree("killed.h5.parts")
    assert cli.main(["recover", "killed.h5"]) == 2


def test_attempts_and_other_runs_are_shown_and_recovered(capsys: pytest.CaptureFixture[str]) -> None:
    def write(run: str, rank: int, attempt: int, steps: range) -> None:
        with JournalWriter("run.h5.parts", rank, {"world_size": 2}, run=run * 32, attempt=attempt) as journal:
            for step in steps:
                journal.step(step, 0.0, [("loss", 0, None, (), float(step + attempt))])

    write("a", 0, 0, range(9))
    write("b", 0, 0, range(5))
    write("b", 0, 1, range(3, 8))
    write("b", 1, 1, range(3, 8))
    assert cli.main(["show", "run.h5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        "! attempt 0: rank 1 left no journal",
        "attempt 0: steps 0–4 on 1 of 2 ranks",
        "attempt 1: steps 3–7 on 2 ranks",
    ]
    assert lines[4].startswith("run aaaaaaaa (rank 0, began ") and "not shown" in lines[4]
    assert "15 × float" in lines[6] and "0–7" in lines[6]
    assert cli.main(["recover", "run.h5"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "run.h5: 1 variable, 8 steps, 2 ranks, 2 attempts"
    assert lines[-1].startswith("left alone in run.h5.parts: run aaaaaaaa (rank 0")
    assert cli.main(["recover", "run.h5", "--run", "c"]) == 2
    assert "there is aaaaaaaa, bbbbbbbb" in capsys.readouterr().err
    assert cli.main(["recover", "run.h5", "--run", "aa"]) == 2 and "is there already" in capsys.readouterr().err
    assert cli.main(["recover", "run.h5", "--run", "aa", "--overwrite"]) == 1
    assert insitu.load("run.h5").id == "a" * 32 and insitu.load("run.h5.parts").id == "b" * 32


def test_a_run_that_still_goes_on_is_shown_and_not_recovered(capsys: pytest.CaptureFixture[str]) -> None:
    with JournalWriter("run.h5.parts") as journal:
        journal.step(0, 0.0, [("loss", 0, None, (), 1.5)])
        assert cli.main(["show", "run.h5"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "! rank 0 still runs: the last step written is 0" and "1.5" in lines[2]
        assert cli.main(["recover", "run.h5"]) == 2
        assert "'run.h5' still runs: nothing to recover; `insitu show run.h5`" in capsys.readouterr().err
        assert not Path("run.h5").exists()
    assert cli.main(["recover", "run.h5"]) == 0
    assert capsys.readouterr().out == "run.h5: 1 variable, 1 step, 1 rank\n"


def test_recover_does_not_overwrite_a_file(run_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with JournalWriter("run.h5.parts") as journal:
        journal.step(0, 0.0, [("other", 0, None, (), 1)])
    assert cli.main(["recover", "run.h5"]) == 2
    assert "is there already" in capsys.readouterr().err and Path("run.h5.parts").exists()
    assert cli.main(["recover", "run.h5", "--overwrite"]) == 0
    with insitu.load("run.h5") as run:
        assert run.paths == ["other"]


def test_errors_of_a_run_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError), JournalWriter("run.h5.parts") as journal:
        journal.step(0, 0.0, [("loss", 0, None, (), 1.5)])
        raise ValueError("no")
    assert cli.main(["show", "run.h5"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "! rank 0: error: ValueError: no"


# run

FORWARD = """
    import sys, torch
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    print("sum", model(torch.zeros(4, 3)).mul(0).sum().item(), *sys.argv[1:])
"""


def test_run_traces_a_script_and_leaves_its_output_alone() -> None:
    done = run("script.py", "--view", "x", program=FORWARD)
    assert (done.returncode, done.stdout) == (0, "sum 0.0 --view x\n")
    assert "Sequential" in done.stderr and "Linear" in done.stderr and "f32[4, 2]" in done.stderr


def test_run_saves_the_trace() -> None:
    done = run("--to", "new.h5", "--quiet", "--level", "aten", "script.py", program=FORWARD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sum 0.0\n", "")
    trace = insitu.load("new.h5")
    assert list(trace.modules) == ["", "0", "1"]
    assert trace.find(name="aten.relu*", kind="aten")
    assert trace.about["insitu"] == insitu.__version__ and type(trace.about["torch"]) is str


def test_run_saves_where_it_was_started_whatever_the_program_does() -> None:
    done = run("--to", "new.h5", "script.py", program="import os, torch; os.chdir('/'); torch.ones(1)")
    assert done.returncode == 0
    assert len(insitu.load("new.h5").calls) == 1


def test_run_only_these_paths() -> None:
    done = run("--only", "0", "--to", "new.h5", "--quiet", "script.py", program=FORWARD)
    assert done.returncode == 0
    assert list(insitu.load("new.h5").modules) == ["0"]


FACTS = """
    import sys, __main__
    print(__name__, __file__, sys.argv, sys.path[0], __main__.__dict__ is globals())
    print(__spec__.name if __spec__ else None, __package__, __doc__, type(__loader__).__name__)
    print(sorted({*globals()} - {"__annotations__"}))
"""


def test_a_script_sees_the_same_sys_state_as_under_python() -> None:
    Path("folder").mkdir()
    Path("folder/script.py").write_text(textwrap.dedent(FACTS))
    for words in (["folder/script.py", "a", "-b", "--", "--to"], [str(Path("folder/script.py").absolute())]):
        assert run(*words).stdout == python(*words).stdout


def test_a_module_sees_the_same_sys_state_as_under_python() -> None:
    Path("package").mkdir()
    Path("package/__init__.py").touch()
    Path("package/part.py").write_text(textwrap.dedent(FACTS))
    Path("package/__main__.py").write_text(textwrap.dedent(FACTS))
    for words in (["-m", "package.part", "-x", "--view"], ["-m", "package"]):
        expected = python(*words)
        assert expected.returncode == 0
        assert run(*words).stdout == expected.stdout


def test_a_folder_and_an_archive_run_their_main_file() -> None:
    Path("folder").mkdir()
    Path("folder/__main__.py").write_text("import sys; print(sys.argv, __name__, __file__, sys.path[0])")
    zipapp.create_archive("folder", "app.pyz")
    for name in ("folder", "app.pyz"):
        assert run(name, "a").stdout.split()[:3] == python(name, "a").stdout.split()[:3] != []


def test_the_exit_code_is_the_programs_own() -> None:
    done = run("--to", "new.h5", "--quiet", "script.py", program="import sys, torch; torch.ones(2); sys.exit('bye')")
    assert (done.returncode, done.stderr) == (1, "bye\n")
    assert len(insitu.load("new.h5").calls) == 1


@pytest.mark.parametrize(
    ("failure", "code", "message"),
    [
        *(
            (None, 0, ""),
            (SystemExit(), 0, ""),
            (SystemExit(0), 0, ""),
            (SystemExit(7), 7, ""),
            (SystemExit(True), 1, ""),
        ),
        *((SystemExit("bye"), 1, "bye\n"), (SystemExit((1, 2)), 1, "(1, 2)\n"), (OSError("x"), 1, "OSError: x\n")),
        *((KeyboardInterrupt(), 130, "KeyboardInterrupt\n"), (GeneratorExit(), 1, "GeneratorExit\n")),
    ],
)
def test_exit_codes(failure: Any, code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(failure) == code
    assert capsys.readouterr().err == message


FAILING = """
    import torch
    def middle(x):
        try:
            {}["key"]
        except KeyError as error:
            raise ValueError("first") from error
    def fail(x):
        try:
            middle(x)
        except ValueError:
            return torch.nn.Linear(3, 2)(x)
    fail(torch.ones(4, 5))
"""


def test_an_exception_prints_as_python_prints_it_and_the_trace_is_kept() -> None:
    done = run("--to", "new.h5", "--quiet", "script.py", program=FAILING)
    expected = python("script.py")
    assert done.returncode == expected.returncode == 1
    printed, note = done.stderr[: len(expected.stderr)], done.stderr[len(expected.stderr) :]
    assert printed == expected.stderr
    assert note.startswith("  script.py:12 in fail    Linear\n")
    assert insitu.load("new.h5").find(kind="module")[0].raised == "RuntimeError"


def test_an_exception_of_ours_in_the_program_is_the_programs() -> None:
    done = run("script.py", program="import insitu\ninsitu.load('nowhere.h5')")
    assert done.returncode == 1
    assert 'script.py", line 2' in done.stderr and "StoreError" in done.stderr


def test_a_syntax_error_prints_as_python_prints_it() -> None:
    done, expected = run("script.py", program="import torch\n1 +\n"), python("script.py")
    assert done.returncode == expected.returncode == 1
    assert done.stderr.rstrip().endswith(expected.stderr.rstrip())


def test_the_programs_own_excepthook_is_used() -> None:
    done = run("script.py", program="import sys; sys.excepthook = lambda *e: print('mine', e[0].__name__); 1 / 0")
    assert (done.returncode, done.stdout) == (1, "mine ZeroDivisionError\n")


def test_an_interrupt_gives_130_and_the_trace() -> None:
    program = (
        f"import os, torch\ntorch.ones(2)\nos.kill(os.getpid(), {int(signal.SIGINT)})\nimport time; time.sleep(50)"
    )
    done = run("--to", "new.h5", "script.py", program=program)
    assert done.returncode == 130
    assert "KeyboardInterrupt" in done.stderr and len(insitu.load("new.h5").calls) == 1


def test_a_trace_that_cannot_be_saved_does_not_change_the_exit_code() -> None:
    for code in (0, 5):
        Path("folder").mkdir()
        program = f"import os, sys, torch; torch.ones(1); os.rmdir('folder'); sys.exit({code})"
        done = run("--to", "folder/new.h5", "script.py", program=program)
        assert done.returncode == code
        assert "insitu: the directory" in done.stderr and "torch.ones" in done.stderr


def test_a_program_without_torch_is_reported() -> None:
    done = run("script.py", program="print('hi')")
    assert (done.returncode, done.stdout) == (0, "hi\n")
    assert done.stderr == "insitu: no call of a torch module or function on tensors was recorded\n"


def test_a_failure_before_the_first_call_is_named_in_the_message() -> None:
    done = run("script.py", program="import torch; torch.load('nowhere.pt')")
    assert done.returncode == 1
    said = "insitu: no call of a torch module or function on tensors was recorded before FileNotFoundError\n"
    assert done.stderr.startswith(said)


def test_a_program_may_close_its_output() -> None:
    done = run("script.py", program="import sys, torch; torch.ones(2); print('x'); sys.stdout.close()")
    assert (done.returncode, done.stdout) == (0, "x\n")
    assert "torch.ones" in done.stderr and "Error" not in done.stderr


def test_threads_that_outlive_the_script_still_see_its_module() -> None:
    program = """
        import threading, time, sys
        def later():
            time.sleep(0.5)
            print(sys.modules["__main__"].later is later)
        threading.Thread(target=later).start()
    """
    assert run("script.py", program=program).stdout == "True\n"


def test_insitu_0_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU", "0")
    done = run("--to", "new.h5", "script.py", program=FORWARD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sum 0.0\n", "insitu: INSITU=0, so nothing was traced\n")
    assert not Path("new.h5").exists()


LONG = "import torch\n" + "".join(f"x{index} = torch.ones({index})\n" for index in range(300))


@pytest.mark.parametrize("everything", [False, True])
def test_of_a_long_tree_one_screen_is_printed(everything: bool) -> None:
    done = run(*(["--all"] if everything else []), "script.py", program=LONG)
    lines = done.stderr.splitlines()
    if everything:
        assert len(lines) == 301 and lines[-2].startswith("torch.ones(299)")
        return
    assert len(lines) <= 50
    assert lines[-1] == "… --all opens every row, --to FILE.h5 keeps the trace"
    hidden = [line.split()[1] for line in lines[:-1] if line.startswith("… ")]
    shown = [line for line in lines if line.startswith("torch.ones(")]
    assert sum(map(int, hidden)) + len(shown) == 300


@pytest.mark.parametrize("everything", [False, True])
def test_of_a_long_text_the_beginning_and_the_end_are_printed(everything: bool) -> None:
    done = run("--view", "code", *(["--all"] if everything else []), "script.py", program=LONG)
    lines = done.stderr.splitlines()
    if everything:
        assert len(lines) > 300
    else:
        assert len(lines) == 201 and lines[160].endswith("--all prints them, --to FILE.h5 keeps the trace")


def test_loops_can_be_unfolded() -> None:
    program = "import torch\nfor _ in range(9):\n    torch.ones(2)\n    torch.ones(3)\n"
    folded, unfolded = (run(*words, "script.py", program=program) for words in ([], ["--unfold"]))
    assert folded.stderr.startswith("for _ in range(9):  × 9")
    assert len(unfolded.stderr.splitlines()) == 18
    assert (
        "--unfold is an option of the view 'tree'"
        in run("--unfold", "--view", "code", "script.py", program=program).stderr
    )


def test_call_chains_do_not_contain_the_launcher() -> None:
    done = run("--view", "code", "script.py", program="import torch\ntorch.ones(2) + 1\n")
    assert done.stderr.splitlines()[0].startswith("torch.ones(2) + 1  # ")
