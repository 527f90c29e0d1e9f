"""Without its framework, a file says what to install; without any, `import insitu.integrations` works."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import insitu
from insitu.integrations import mlflow, tensorboard, wandb
from insitu.integrations.training import RecordedTraining
from insitu.store.journal.journal_writer import JournalWriter
from insitu.trace.trace import Trace


@pytest.mark.parametrize(
    ("name", "gone", "install"),
    [
        ("huggingface", ["transformers"], "pip install 'insitu\\[huggingface\\]'"),
        ("lightning", ["lightning.pytorch", "pytorch_lightning"], "pip install 'insitu\\[lightning\\]'"),
    ],
)
def test_a_callback_without_its_framework(
    monkeypatch: pytest.MonkeyPatch, name: str, gone: list[str], install: str
) -> None:
    monkeypatch.delitem(sys.modules, f"insitu.integrations.{name}", raising=False)
    for module in gone:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(insitu.MissingError, match=install):
        import_module(f"insitu.integrations.{name}")


def test_tensorboard_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [("loss", 0, None, (), 1.0)])
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(insitu.MissingError, match=r"pip install 'insitu\[tensorboard\]'"):
        tensorboard.write(tmp_path / "run.h5", tmp_path / "logs")


@pytest.mark.parametrize("viewer", [wandb, mlflow], ids=["wandb", "mlflow"])
def test_a_viewer_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, viewer: Any) -> None:
    name = viewer.__name__.rpartition(".")[2]
    monkeypatch.setitem(sys.modules, name, None)
    for call in (lambda: viewer.write("run.h5"), lambda: viewer.write_findings([]), lambda: viewer.write_page(Trace())):
        with pytest.raises(insitu.MissingError, match=rf"pip install 'insitu\[{name}\]'"):
            call()


def test_each_package_that_an_error_names_is_an_extra() -> None:
    root = Path(__file__).parents[2]
    extras = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    texts = [path.read_text("utf-8") for path in (root / "src/insitu").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"pip install 'insitu\[(\w+)\]'", text)}
    assert {"huggingface", "lightning", "mlflow", "tensorboard", "wandb"} <= named <= set(extras)


def test_insitu_0_switches_a_training_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch

    monkeypatch.setenv("INSITU", "0")
    training = RecordedTraining(only="weight", to=tmp_path / "run.h5")
    training.start(torch.nn.Linear(3, 2), first=0)
    training.begin_step()
    training.end_step()
    training.stop()
    assert list(tmp_path.iterdir()) == []
