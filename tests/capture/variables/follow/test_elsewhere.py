"""The engine needs nothing but Python: all its cases also run on the other Pythons of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.versions.interpreters import other_interpreters

ROOT = Path(__file__).parents[4]

if OTHERS := other_interpreters():  # without another Python there is no test, rather than one that is skipped

    @pytest.mark.parametrize("python", OTHERS)
    def test_every_case_on_another_python(python: str) -> None:
        folders = os.pathsep.join(map(str, (ROOT, ROOT / "src")))
        environment = {**os.environ, "PYTHONPATH": folders, "PYTHONIOENCODING": "utf-8"}
        command = [python, "-B", "-W", "error", "-m", "tests.capture.variables.follow.running"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
        assert done.returncode == 0, done.stderr
        assert " cases passed" in done.stdout
