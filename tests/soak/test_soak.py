"""The soak in small: what must hold of 100,000 steps (`make soak`) holds of a few, but for the speed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.soak.again import again
from tests.soak.expected import wrong
from tests.soak.progress import committed

import insitu

pytestmark = pytest.mark.usefixtures("quick_collections")


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What a Python process of its own says."""
    return subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, timeout=280)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_training_with_everything_on_stays_as_it_was(tmp_path: Path) -> None:
    done = python("tests.soak", "--steps", "1200", "--untimed", "--sessions", "0", "--in", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "✗" not in done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_sessions_one_after_another_leave_nothing(tmp_path: Path) -> None:
    left = again(tmp_path, 24, files=12)
    assert [each for each in left if not each.holds] == []


@pytest.mark.slow
def test_a_training_that_was_killed_is_recovered(tmp_path: Path) -> None:
    killed = python("tests.soak.killed", str(tmp_path), "150")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    least = committed(tmp_path / "committed")
    recovered = python("insitu", "recover", str(tmp_path / "run.h5"))
    assert "rank 0 did not end properly" in recovered.stdout, recovered.stderr
    with insitu.load(tmp_path / "run.h5") as run:
        assert least <= len(run.steps) <= 150
        assert wrong(run, 0, len(run.steps)) == []
        assert not run.complete
