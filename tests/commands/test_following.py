"""`insitu open --follow` as a process: it serves, and ends with the terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import insitu
from insitu import cli
from insitu.store.journal.journal_writer import JournalWriter
from insitu.trace.trace import Trace


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[JournalWriter]:
    """The journal of a run that goes on."""
    with JournalWriter(tmp_path / "run.h5.parts") as found:
        found.step(0, 0.0, [("loss", 0, None, (), 1.0)])
        yield found


def following(path: Path) -> subprocess.Popen[str]:
    environment = {
        name: text for name, text in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    }
    words = [sys.executable, "-m", "insitu", "open", "--follow", str(path / "run.h5")]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def answer(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=20) as response:
        return bytes(response.read())


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, -15), (signal.SIGHUP, -1)])
def test_a_signal_ends_it_and_leaves_nothing(tmp_path: Path, journal: JournalWriter, number: int, code: int) -> None:
    before = sorted(tmp_path.rglob("*"))
    with following(tmp_path) as process:
        address = address_of(process)
        assert address.startswith("http://127.0.0.1:") and b"<!doctype html>" in answer(address)
        process.send_signal(number)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == code and out == ""
    assert "Traceback" not in errors and "no browser was opened" in errors
    with pytest.raises(urllib.error.URLError, match="refused"):
        answer(address)
    assert sorted(tmp_path.rglob("*")) == before


def test_closing_the_terminal_ends_it(tmp_path: Path, journal: JournalWriter) -> None:
    master, terminal = pty.openpty()
    with on_terminal(tmp_path, terminal) as process:
        os.close(terminal)
        with open(master, "rb", buffering=0, closefd=False) as screen:
            shown = b""
            while b"Ctrl-C" not in shown:
                shown += screen.read(1000)
        os.close(master)
        assert process.wait(20) == -signal.SIGHUP


def on_terminal(path: Path, terminal: int) -> subprocess.Popen[bytes]:
    """The command in a session of its own, with a terminal."""
    program = (
        "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.executable, sys.argv[1:])"
    )
    words = [sys.executable, "-m", "insitu", "open", "--follow", str(path / "run.h5")]
    streams = {"stdin": terminal, "stdout": terminal, "stderr": terminal}
    return subprocess.Popen([sys.executable, "-c", program, *words], start_new_session=True, **streams)  # type: ignore[call-overload, no-any-return]


def test_a_trace_and_a_run_that_has_ended_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    insitu.save(Trace(), tmp_path / "step.h5")
    with JournalWriter(tmp_path / "done.h5.parts") as journal:
        journal.step(0, 0.0, [("loss", 0, None, (), 1.0)])
    for name, text in {
        "step.h5": "is a trace, and a trace is complete: leave out --follow",
        "done.h5": "has ended, and --follow is for a run that goes on: leave out --follow",
        "nowhere.h5": "does not exist",
    }.items():
        assert cli.main(["open", "--follow", str(tmp_path / name)]) == 2
        out, errors = capsys.readouterr()
        assert text in errors and errors.count("\n") == 1 and out == ""
