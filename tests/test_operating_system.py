"""insitu without the calls that only POSIX has: the program takes them away after torch is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from insitu import operating_system

WITHOUT_POSIX = """
import os, pkgutil, signal, sys
import h5py, numpy, torch

CALLS = ["register_at_fork", "fork", "pread", "preadv", "writev", "pwritev", "fdatasync", "posix_fallocate"]
FLAGS = ["O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"]
SIGNALS = ["SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGCHLD", "pthread_sigmask"]
for name in CALLS + FLAGS + ["getuid", "geteuid", "killpg", "setsid"]:
    delattr(os, name)
for name in SIGNALS:
    delattr(signal, name)
for name in ["fcntl", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog"]:
    sys.modules[name] = None

import insitu

"""
# A module that needs IPython, pandas and such is imported where it is used.
IMPORT_ALL = """
from importlib import import_module
count = 0
for module in pkgutil.walk_packages(insitu.__path__, "insitu."):
    if not module.name.startswith("insitu.integrations.") and module.name != "insitu.__main__":
        import_module(module.name)
        count += 1
print(count)
"""
USE = """
from insitu.demo import GPT
model, tokens = GPT(), torch.randint(256, (2, 24))
with insitu.record_run(model, only="head.weight", to="run.h5"):
    for _ in range(3):
        model(tokens)
run = insitu.load("run.h5")
print(run["head.weight"].values.shape)
with insitu.record(model, keep="stats") as trace:
    model(tokens)
insitu.save(trace, "trace.h5")
insitu.save(trace, "trace.trace")
print(insitu.compare("trace.h5", "trace.trace").passes)
with insitu.guard(model, last=3, to="crash.h5", action="record") as guard:
    model(tokens).sum().backward()
print(guard.findings)
"""


def run(program: str, folder: Path) -> str:
    """The output of a program without POSIX, whose warnings are errors."""
    command = [sys.executable, "-W", "error", "-c", WITHOUT_POSIX + program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    assert int(run(IMPORT_ALL, tmp_path)) > 300


def test_recording_saving_and_comparing_work(tmp_path: Path) -> None:
    assert run(USE, tmp_path).splitlines() == ["(3, 256, 96)", "True", "[]"]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process without the calls that have a slower one in their place."""
    for name in ("pread", "writev", "pwritev", "fdatasync", "posix_fallocate", "register_at_fork"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(operating_system, "fcntl", None)


@pytest.mark.usefixtures("without")
def test_the_slower_calls_do_the_same(tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", operating_system.CREATE_TO_CHANGE)
    assert operating_system.write_several(file, [b"", b"first", b"second"]) == 5
    assert operating_system.write_several_at(file, [b"IR"], 1) == 2
    operating_system.sync_data(file)
    operating_system.reserve(file, 100)
    assert operating_system.read_at(file, 4, 1) == b"IRst"
    assert operating_system.read_at(file, 10, 5) == b""
    operating_system.at_fork(after_in_child=lambda: None)
    os.close(file)


@pytest.mark.usefixtures("without")
def test_without_locks_it_is_not_known_who_holds_one(tmp_path: Path) -> None:
    file = os.open(tmp_path / "file", operating_system.CREATE)
    assert operating_system.lock_file(file) is False
    assert operating_system.is_file_locked(file) is None
    os.close(file)
