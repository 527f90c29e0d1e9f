"""The README is true: its code runs, and prints the output that the README shows.

`pytest --update` rewrites the output.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import insitu

README = Path(__file__).parent.parent / "README.md"
TIME = re.compile(r"\s+\d+(\.\d+)?(ns|µs|ms|s)\b")


FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str) -> list[str]:
    found = FENCED.findall(README.read_text(encoding="utf-8"))
    return [text for named, text in found if named == language]


def timeless(text: str) -> list[str]:
    """The lines without times; runs of spaces become one space."""
    return [re.sub(r"\s+", " ", TIME.sub("", line)) for line in text.strip().splitlines()]


SHOWN = re.compile(r"^```python\n((?:(?!```).*\n)*)```\n```\n((?:(?!```).*\n)*)```$", re.MULTILINE)


@pytest.mark.parametrize("number", range(4))
def test_example_prints_the_shown_output(number: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    readme = README.read_text(encoding="utf-8")
    code, shown = SHOWN.findall(readme)[number]
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text("import torch\ntorch.manual_seed(0)\ntorch.set_num_threads(1)\n")
    printed = subprocess.run(
        [sys.executable, tmp_path / "example.py"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    if request.config.getoption("--update"):
        whole = f"```python\n{code}```\n```\n"
        README.write_text(readme.replace(whole + shown, whole + printed), encoding="utf-8")
    else:
        assert timeless(printed) == timeless(shown)


def test_no_shown_output_is_left_untested() -> None:
    assert len(SHOWN.findall(README.read_text(encoding="utf-8"))) == len(blocks("")) == 4


def test_every_python_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for example in blocks("python"):
            exec(example, names)
    assert insitu.load("train.h5")["head.weight.grad"].values.shape == (2, 256, 96)
    assert "aten.masked_fill" in printed.getvalue() and "prepare called from" in printed.getvalue()
    assert names["trace"].find("h.0.attn") and names["softmax"].name == "torch.nn.functional.softmax"


def test_producer_named_in_a_comment_is_right() -> None:
    model = __import__("insitu.demo", fromlist=["GPT"]).GPT()
    with insitu.record(model, level="aten") as trace:
        model(torch.randint(256, (2, 24)))
    softmax = trace.find("h.0.**", name="softmax")[0]
    producer = trace.producer(softmax.inputs[0])
    assert producer is not None and f"'{producer.name}'" in README.read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_shell_example_runs(tmp_path: Path) -> None:
    program = "from insitu.demo import GPT; import torch; GPT()(torch.randint(256, (2, 24)))"
    (tmp_path / "train.py").write_text(program)
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("insitu")]
    assert len(lines) == 4
    for line in lines:
        command = shlex.split(line, comments=True)
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, (line, done.stderr)
    assert (tmp_path / "step.h5").exists()


def test_readme_has_at_most_150_lines() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 150
