from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.integrations.training import Boom, Model, is_clean
from torch import Tensor
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import insitu
from insitu.integrations.huggingface import HuggingFaceCallback


class Data(Dataset[dict[str, Tensor]]):
    """Rows that tell their number."""

    def __init__(self, rows: int = 8) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": torch.full((3,), float(index)), "labels": torch.tensor(float(index))}


def trainer(
    folder: Path, *callbacks: Any, model: Any = None, data: Any = None, kind: type[Trainer] = Trainer, **options: Any
) -> Trainer:
    plain = {"report_to": "none", "disable_tqdm": True, "use_cpu": True, "save_strategy": "no", "max_steps": 4}
    plain |= {"per_device_train_batch_size": 2, "logging_strategy": "no", "dataloader_pin_memory": False, "seed": 0}
    arguments = TrainingArguments(str(folder / "out"), **{**plain, **options})
    return kind(
        model or Model(), arguments, train_dataset=data or Data(), eval_dataset=Data(), callbacks=list(callbacks)
    )


def test_a_training_is_recorded_step_by_step(tmp_path: Path) -> None:
    record = HuggingFaceCallback(only=["forward.loss", "fc.weight", "fc.weight.grad"], to=tmp_path / "run.h5")
    training = trainer(tmp_path, record)
    before = training.model.fc.weight.detach().clone()
    training.train()
    assert is_clean()
    with insitu.load(tmp_path / "run.h5") as run:
        assert run.complete and run.paths == ["forward.loss", "fc.weight.grad", "fc.weight"]
        assert [run[path].steps.tolist() for path in run] == [[0, 1, 2, 3]] * 3
        weights = run["fc.weight"].to_torch()
    assert weights[-1].equal(training.model.fc.weight) and not weights[0].equal(before)
    assert record.recorded is not None and record.recorded["forward.loss"].shape == ()


def test_recording_changes_nothing(tmp_path: Path) -> None:
    torch.manual_seed(0)
    plain = trainer(tmp_path, model=Model())
    torch.manual_seed(0)
    recorded = trainer(tmp_path, HuggingFaceCallback(), model=Model())
    for training in (plain, recorded):
        training.train()
    assert all(a.equal(b) for a, b in zip(plain.model.parameters(), recorded.model.parameters(), strict=True))


def test_a_step_is_an_update_and_not_a_batch(tmp_path: Path) -> None:
    record = HuggingFaceCallback(only=["forward.loss", "fc.bias.grad"], every=2)
    trainer(tmp_path, record, gradient_accumulation_steps=2, max_steps=5).train()
    assert record.recorded is not None
    assert record.recorded["forward.loss"].steps.tolist() == [0, 0, 2, 2, 4, 4]
    assert record.recorded["fc.bias.grad"].steps.tolist() == [0, 2, 4]


def test_an_evaluation_is_in_no_step(tmp_path: Path) -> None:
    record = HuggingFaceCallback(only="forward.loss")
    training = trainer(tmp_path, record, eval_strategy="steps", eval_steps=1, eval_on_start=True)
    training.train()
    assert record.recorded is not None and record.recorded["forward.loss"].steps.tolist() == [0, 1, 2, 3]


def test_a_training_that_is_resumed_goes_on_counting(tmp_path: Path) -> None:
    trainer(tmp_path, save_strategy="steps", save_steps=2).train()
    record = HuggingFaceCallback(only="forward.loss")
    trainer(tmp_path, record).train(resume_from_checkpoint=str(tmp_path / "out" / "checkpoint-2"))
    assert record.recorded is not None and record.recorded["forward.loss"].steps.tolist() == [2, 3]


class BadData(Data):
    def __getitem__(self, index: int) -> dict[str, Tensor]:
        if index == 7:  # of the batch after the next one: it is fetched ahead
            raise Boom
        return super().__getitem__(index)


class Sudden(TrainerCallback):
    """Another callback, in which the user presses Ctrl-C."""

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("where", ["data", "callback", "model"])
def test_a_training_that_ends_badly_leaves_its_file_and_nothing_else(tmp_path: Path, where: str, late: bool) -> None:
    record = HuggingFaceCallback(only="forward.loss", to=tmp_path / "run.h5")
    model, data = Model(2 if where == "model" else None), BadData() if where == "data" else Data()
    others = [Sudden()] if where == "callback" else []
    options = {"train_sampling_strategy": "sequential"}
    training = trainer(tmp_path, *others, *([] if late else [record]), model=model, data=data, **options)
    if late:
        training.add_callback(record)
    error = KeyboardInterrupt if where == "callback" else Boom
    with pytest.raises(error):
        training.train()
    assert is_clean()
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["forward.loss"].steps.tolist() == [0, 1]
        assert [event.text for event in run.events if event.kind == "raised"] == [error.__name__]


def test_a_training_that_begins_anew_with_smaller_batches(tmp_path: Path) -> None:
    class Large(Model):
        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            loss = super().forward(x, labels)["loss"]
            if len(x) > 3 and self.calls == 2:
                raise RuntimeError("CUDA out of memory.")
            return {"loss": loss}

    record = HuggingFaceCallback(only="forward.x", to=tmp_path / "run.h5")
    options = {"auto_find_batch_size": True, "per_device_train_batch_size": 4}
    trainer(tmp_path, record, model=Large(), **options).train()
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["forward.x"].steps.tolist() == [0, 1, 2, 3] and len(run["forward.x"].values[0]) <= 3


def test_a_pattern_that_cannot_match_is_refused_when_the_training_begins(tmp_path: Path) -> None:
    with pytest.raises(insitu.PatternError, match="fc"):
        trainer(tmp_path, HuggingFaceCallback(only="fd.weight")).train()
    assert is_clean()


def test_a_language_model(tmp_path: Path) -> None:
    class Tokens(Data):
        def __getitem__(self, index: int) -> dict[str, Tensor]:
            return {"input_ids": torch.arange(4) + index, "labels": torch.arange(4) + index}

    settings = GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    record = HuggingFaceCallback(only=["transformer.h.*.mlp", "**.attn.c_attn.weight.grad"], keep="stats")
    trainer(tmp_path, record, model=GPT2LMHeadModel(settings), data=Tokens(), max_steps=2).train()
    assert record.recorded is not None
    run = record.recorded.run
    assert run["transformer.h.1.mlp.mean"].steps.tolist() == [0, 1]
    assert len(run.find("**.attn.c_attn.weight.grad.std")) == 2


def test_the_callback_can_be_sent_to_other_processes(tmp_path: Path) -> None:
    record = HuggingFaceCallback(only="fc", every=3)
    trainer(tmp_path, record)
    assert pickle.loads(pickle.dumps(record))._options["every"] == 3
