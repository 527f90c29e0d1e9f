"""`insitu open`: the page of a trace or run, in the browser."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import insitu
from insitu import cli


@pytest.fixture(autouse=True)
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder of its own, no display, and two files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    model = torch.nn.Linear(2, 2)
    with insitu.record(model) as trace, insitu.record_run(model, only="forward", to="run.h5"):
        model(torch.ones(1, 2))
    insitu.save(trace, "step.h5")


def opened(file: str) -> tuple[str, str, str]:
    """The output, the errors and the address that the browser, a real program, was asked to show."""
    shown = Path("shown.txt").absolute()
    browser = f"{sys.executable} -c \"open('{shown}','w').write('%s')\""
    words = [sys.executable, "-m", "insitu", "open", file]
    done = subprocess.run(words, env={**os.environ, "BROWSER": browser}, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr, shown.read_text()


@pytest.mark.parametrize("file", ["step.h5", "run.h5"])
def test_page_is_opened_and_only_its_owner_can_read_it(file: str) -> None:
    out, said, address = opened(file)
    page = Path(out.strip())
    assert said == "" and address == page.as_uri()
    assert page.parent == Path("cache/insitu").absolute() and page.read_text().startswith("<!doctype html>")
    assert stat.S_IMODE(page.stat().st_mode) == 0o600 and stat.S_IMODE(page.parent.stat().st_mode) == 0o700


def test_without_a_display_the_path_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["open", "step.h5"]) == 0
    out, said = capsys.readouterr()
    assert Path(out.strip()).is_file()
    assert said == "insitu: no browser was opened: this machine has no display; open the page above yourself\n"


def test_page_is_opened_as_it_is() -> None:
    Path("mine.html").write_text("<p>mine")
    assert opened("mine.html")[2] == Path("mine.html").absolute().as_uri()
    assert not Path("cache").exists() and Path("mine.html").read_text() == "<p>mine"


def test_each_file_has_one_page_and_old_pages_are_removed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other").mkdir()
    os.replace("run.h5", "other/step.h5")
    for file in ("step.h5", "step.h5", "other/step.h5"):
        assert cli.main(["open", file]) == 0
    first, second, other = (Path(line) for line in capsys.readouterr().out.splitlines())
    assert first == second != other and set(first.parent.iterdir()) == {first, other}
    note = first.with_name("note.txt")
    note.write_text("not a page")
    eight_days_ago = time.time() - 8 * 24 * 3600
    for path in (first, note):
        os.utime(path, (eight_days_ago, eight_days_ago))
    assert cli.main(["open", "other/step.h5"]) == 0
    assert set(first.parent.iterdir()) == {other, note}


def test_temporary_folder_serves_where_there_can_be_no_cache(capsys: pytest.CaptureFixture[str]) -> None:
    Path("cache").write_text("not a folder")
    assert cli.main(["open", "step.h5"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page.is_file() and page.parent.name.startswith("insitu-")
    page.unlink()
    page.parent.rmdir()


def test_temporary_folder_serves_a_user_without_a_home(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs with the number of a user whom it does not know."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert cli.main(["open", "step.h5"]) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page.is_file() and page.parent.name.startswith("insitu-")
    page.unlink()
    page.parent.rmdir()


def test_relative_cache_folder_is_one_of_the_working_directory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    assert cli.main(["open", "step.h5"]) == 0
    assert Path(capsys.readouterr().out.strip()).parent == Path("cache/insitu").absolute()
