"""`insitu export`, `insitu completion`, and what is said about work that takes long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.view.test_html import Parts, unpacked

import insitu
from insitu.cli import _parser, main
from insitu.commands import completion
from insitu.commands.options import commands_of
from insitu.view import progress

SHELLS = ["bash", "zsh", "fish"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace in a file."""
    path = tmp_path_factory.mktemp("export") / "run.h5"
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    with insitu.record(model, keep="stats") as trace:
        model(torch.ones(4, 3))
        model(torch.ones(4, 3))
    insitu.save(trace, path)
    return path


STARTS = {
    "run.html": "<!doctype html>",
    "run.json": "{",
    "run.graph.json": "{",
    "run.dot": "",
    "run.mmd": "",
    "run.csv": "id,parent,kind,name",
    "run.trace": "insitu trace",
}


@pytest.mark.parametrize("name", STARTS)
def test_each_form_is_made_by_its_suffix(
    name: str, saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / name
    assert main(["export", str(saved), str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert text.startswith(STARTS[name])
    assert "Linear" in text or name == "run.html"  # where all data are packed
    assert len(text) > 100 and target.stat().st_mode & 0o077 == 0
    assert capsys.readouterr().out == f"{target}\n"
    if name.endswith(".json"):
        assert json.loads(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["run.h5", "run.txt"],
            "unknown output format '.txt' in 'run.txt': choose .h5, .hdf5, .trace, .html, .graph.json",
        ),
        (["missing.h5", "run.html"], "missing.h5"),
        (["run.h5", "run.csv", "--no-source"], "are for pages"),
        (["run.h5", "there.html"], "there.html"),
        (["run.h5", "run.html", "--only", "nowhere.*"], "nowhere.*"),
        (["run.h5", "run.html", "--steps", "99"], "run.h5', which has 0 … 1"),
        (["run.h5", "run.html", "--depth", "0"], "depth expects a number of levels from 1, got 0"),
    ],
)
def test_export_errors_name_the_reason(
    words: list[str],
    said: str,
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.html").write_text("mine")
    given = [str(saved) if word == "run.h5" else word for word in words]
    assert main(["export", *given]) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "there.html").read_text() == "mine"


def test_only_steps_and_depth_choose_a_part(saved: Path, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.html", tmp_path / "part.html"
    assert main(["export", str(saved), str(whole)]) == 0
    assert main(["export", str(saved), str(part), "--only", "0", "--steps", "1", "--depth", "2", "--no-source"]) == 0
    assert len(part.read_text()) < len(whole.read_text())


def test_a_recorded_run_becomes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = torch.nn.Linear(3, 2)
    with insitu.record_run(model, only=["weight"], keep="values", to=tmp_path / "run.h5"):
        model(torch.ones(1, 3))
    assert main(["export", str(tmp_path / "run.h5"), str(tmp_path / "run.html")]) == 0
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")
    for words in (["run.csv"], ["x.html", "--steps", "0"], ["x.html", "--depth", "2"], ["x.html", "--only", "zzz"]):
        assert main(["export", str(tmp_path / "run.h5"), str(tmp_path / words[0]), *words[1:]]) == 2
    assert "'zzz' was not recorded; there is 'weight'" in capsys.readouterr().err


def test_a_comparison_becomes_a_page(saved: Path, tmp_path: Path) -> None:
    assert main(["diff", str(saved), str(saved), "--html", str(tmp_path / "diff.html")]) == 0
    assert "<!doctype html>" in (tmp_path / "diff.html").read_text()
    assert main(["diff", str(saved), str(saved), "--html", str(tmp_path / "diff.html")]) == 2
    with pytest.raises(insitu.ChoiceError, match="only is for pages of traces and runs"):
        insitu.save(insitu.compare(saved, saved), tmp_path / "part.html", only="0")
    with pytest.raises(insitu.SubjectError, match=r"holds a Trace, got Diff; a page such as run\.html can show a Diff"):
        insitu.save(insitu.compare(saved, saved), tmp_path / "diff.h5")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_knows_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("run", "show", "diff", "export", "recover", "demo", "rename", "overwrite"):
        assert word in script


def test_bash_completes_commands_and_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    ask = 'source ./script; COMP_WORDS=(insitu {}); COMP_CWORD={}; _shtab_insitu; echo "${{COMPREPLY[@]}}"'

    def answer(words: str, number: int) -> str:
        command = ["bash", "-c", ask.format(words, number)]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    assert answer("ex", 1) == "export"
    assert answer("diff --ren", 2) == "--rename"
    assert answer("show scr", 2) == "script" and answer("run scr", 2) == "script"
    assert answer("show --view va", 3) == "variables"
    assert answer("run --keep ''", 3) == "meta stats"
    assert answer("run --html scr", 3) == "script"
    assert answer("completion f", 2) == "fish"


def test_every_option_that_names_a_file_completes_files() -> None:
    actions = [action for command in commands_of(_parser()).values() for action in command._actions]
    assert {action.dest for action in actions if action.metavar == "FILE"} <= set(completion.FILES)


def test_completion_without_shtab_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 2
    assert 'insitu completion needs shtab: pip install "insitu[completion]"' in capsys.readouterr().err


def test_an_unknown_shell_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "tcsh"]) == 2
    assert "shell='tcsh' is not one of 'bash', 'zsh', 'fish'" in capsys.readouterr().err


def test_only_long_work_shows_progress(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.working("resting"):
        pass
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    with progress.working("resting"):
        import time

        time.sleep(0.2)
    said = capsys.readouterr().err
    assert said.startswith("insitu: resting …\ninsitu: resting took 0.")


def test_the_page_of_a_failed_script_explains_its_exception(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch\nx = torch.ones(2, 3)\ny = torch.ones(4, 5)\nx @ y\n")
    run = [sys.executable, "-m", "insitu", "run", "--to", "run.h5", "--html", "run.html", "--quiet", "script.py"]
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, check=False).returncode == 1
    assert main(["export", str(tmp_path / "run.h5"), str(tmp_path / "again.html")]) == 0
    for name in ("run.html", "again.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        (answer,) = unpacked(Parts(text).found["data"])["answers"]
        assert answer["kind"] == "exception" and answer["row"] >= 0
        assert "script.py:4" in answer["more"] and "╰ f32[4, 5]" in answer["more"]
