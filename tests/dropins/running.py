"""How the tests of the drop-ins run programs, and what they were told to print."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import insitu
import torch_code_tracing
import tracy_nn

HERE = Path(__file__).parent


def expected(name: str) -> str:
    """What a program is expected to print."""
    return (HERE / "expected" / name).read_text("utf-8")


def names_of(program: str) -> dict[str, Any]:
    """Run a program in this process; what it defines."""
    return runpy.run_path(str(HERE / "programs" / program))


def printed_by(program: Path) -> str:
    """Run a program in a process of its own, from its folder; what it prints to a pipe."""
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_COLOR")}
    environment |= {"PYTHONIOENCODING": "utf-8", "PYTHONWARNINGS": "error"}
    done = subprocess.run([sys.executable, program.name], cwd=program.parent, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def snippets(seed: str) -> list[str]:
    """The code of a seed, as it is written there."""
    return re.findall(r"```(?:python|py)\n(.*?)```", (HERE / "seeds" / seed).read_text("utf-8"), re.DOTALL)


def own_files_in(error: BaseException) -> list[str]:
    """The files of insitu and of the drop-ins in the traceback of an exception: there should be none."""
    folders = tuple(
        str(Path(module.__file__ or "").parent) + os.sep for module in (insitu, tracy_nn, torch_code_tracing)
    )
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [file for file in files if file.startswith(folders)]


def write_at(path: Path, lines: Iterable[tuple[int, str]]) -> None:
    """Write a file with each text beginning at its line."""
    rows: list[str] = []
    for number, text in lines:
        assert len(rows) < number
        rows += [""] * (number - 1 - len(rows)) + text.strip("\n").split("\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(rows) + "\n", "utf-8")
