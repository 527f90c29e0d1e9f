"""Without its framework, a file says what to install; without any, `import insitu.integrations` works."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

import insitu
from insitu.integrations import tensorboard
from insitu.integrations.training import RecordedTraining
from insitu.store.journal.journal_writer import JournalWriter


@pytest.mark.parametrize(
    ("name", "gone", "install"),
    [
        ("huggingface", ["transformers"], "pip install 'transformers\\[torch\\]'"),
        ("lightning", ["lightning.pytorch", "pytorch_lightning"], "pip install lightning"),
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
    with pytest.raises(insitu.MissingError, match="pip install tensorboard"):
        tensorboard.write(tmp_path / "run.h5", tmp_path / "logs")


def test_insitu_0_switches_a_training_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import torch

    monkeypatch.setenv("INSITU", "0")
    training = RecordedTraining(only="weight", to=tmp_path / "run.h5")
    training.start(torch.nn.Linear(3, 2), first=0)
    training.begin_step()
    training.end_step()
    training.stop()
    assert list(tmp_path.iterdir()) == []
