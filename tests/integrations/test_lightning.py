from __future__ import annotations

import logging
import pickle
import signal
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.integrations.training import Boom, is_clean
from torch import Tensor, nn
from torch.utils.data import DataLoader

import insitu
from insitu.integrations.lightning import LightningCallback

NAMES = ["lightning.pytorch", "pytorch_lightning"]
pytestmark = pytest.mark.filterwarnings("ignore")  # Lightning gives advice by warnings


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Lightning tells its advice and its advertisements; its handling of Ctrl-C outlives it."""
    handler = signal.getsignal(signal.SIGINT)
    for name in (*NAMES, "lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    yield
    signal.signal(signal.SIGINT, handler)


def module(
    framework: Any, *, fails_at: int | None = None, error: type[BaseException] = Boom, manual: bool = False
) -> Any:
    class Module(framework.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = not manual
            self.fc = nn.Linear(3, 1)
            self.batches = 0

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x)

        def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
            if self.batches == fails_at:
                raise error("batch")
            self.batches += 1
            loss = self(batch).square().mean()
            if manual:
                optimizer = self.optimizers(use_pl_optimizer=False)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            return loss

        def validation_step(self, batch: Tensor, batch_idx: int) -> None:
            self(batch)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    torch.manual_seed(0)
    return Module()


def trainer(framework: Any, folder: Path, *callbacks: Any, **options: Any) -> Any:
    quiet = ("enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger", "barebones")
    plain = {"accelerator": "cpu", "devices": 1, "max_steps": 4, **dict.fromkeys(quiet, False)}
    return framework.Trainer(callbacks=list(callbacks), default_root_dir=folder, **{**plain, **options})


def batches(rows: int = 16) -> DataLoader[Tensor]:
    return DataLoader(torch.arange(rows * 3).reshape(rows, 3) / rows, batch_size=2)


@pytest.mark.parametrize("name", NAMES)
def test_a_training_is_recorded_step_by_step(name: str, tmp_path: Path) -> None:
    framework = import_module(name)
    record = LightningCallback(only=["training_step.loss", "fc", "fc.weight", "fc.weight.grad"], to=tmp_path / "run.h5")
    model = module(framework)
    before = model.fc.weight.detach().clone()
    trainer(framework, tmp_path, record).fit(model, batches(), batches())
    assert is_clean()
    with insitu.load(tmp_path / "run.h5") as run:
        assert run.complete and sorted(run) == ["fc", "fc.weight", "fc.weight.grad", "training_step.loss"]
        assert [run[path].steps.tolist() for path in run] == [[0, 1, 2, 3]] * 4
        weights = run["fc.weight"].to_torch()
    assert weights[-1].equal(model.fc.weight) and not weights[0].equal(before)


@pytest.fixture
def framework() -> Any:
    return import_module(NAMES[0])


def test_recording_changes_nothing(framework: Any, tmp_path: Path) -> None:
    ends = []
    for callbacks in ([], [LightningCallback()]):
        model = module(framework)
        trainer(framework, tmp_path, *callbacks).fit(model, batches())
        ends.append(model.fc.weight)
    assert ends[0].equal(ends[1])


def test_a_step_is_an_update_and_an_evaluation_is_in_none(framework: Any, tmp_path: Path) -> None:
    record = LightningCallback(only=["fc", "fc.bias.grad"], every=2)
    options = {"accumulate_grad_batches": 2, "max_steps": 5, "val_check_interval": 2, "check_val_every_n_epoch": None}
    trainer(framework, tmp_path, record, **options).fit(module(framework), batches(), batches())
    assert record.recorded is not None
    assert record.recorded["fc"].steps.tolist() == [0, 0, 2, 2, 4, 4]
    assert {*record.recorded["fc.bias.grad"].steps.tolist()} == {0, 2, 4}


def test_a_training_that_is_resumed_goes_on_counting(framework: Any, tmp_path: Path) -> None:
    first = trainer(framework, tmp_path, max_steps=2)
    first.fit(module(framework), batches())
    first.save_checkpoint(tmp_path / "two.ckpt")
    record = LightningCallback(only="fc.weight")
    trainer(framework, tmp_path, record).fit(module(framework), batches(), ckpt_path=tmp_path / "two.ckpt")
    assert record.recorded is not None and record.recorded["fc.weight"].steps.tolist() == [2, 3]


def test_where_the_module_updates_itself_a_step_is_a_batch(framework: Any, tmp_path: Path) -> None:
    record = LightningCallback(only="training_step.loss")
    trainer(framework, tmp_path, record, max_steps=-1, max_epochs=1).fit(module(framework, manual=True), batches())
    assert record.recorded is not None and record.recorded["training_step.loss"].steps.tolist() == [*range(8)]


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt])
def test_a_training_that_ends_badly_leaves_its_file_and_nothing_else(
    framework: Any, tmp_path: Path, error: type[BaseException]
) -> None:
    record = LightningCallback(only="training_step.loss", to=tmp_path / "run.h5")
    with pytest.raises(SystemExit if error is KeyboardInterrupt else error):
        trainer(framework, tmp_path, record).fit(module(framework, fails_at=2, error=error), batches())
    assert is_clean()
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["training_step.loss"].steps.tolist() == [0, 1]
        assert [event.text for event in run.events if event.kind == "raised"] == [error.__name__]


def test_a_pattern_that_cannot_match_is_refused_when_the_training_begins(framework: Any, tmp_path: Path) -> None:
    with pytest.raises(insitu.PatternError, match="fc"):
        trainer(framework, tmp_path, LightningCallback(only="fd.weight")).fit(module(framework), batches())
    assert is_clean()


def test_the_callback_can_be_sent_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(LightningCallback(only="fc", every=3)))._options["every"] == 3
