"""A fixed sample of the zoo; `make zoo` has all of it."""

from __future__ import annotations

import pytest
import torch
from tests.zoo import mortal
from tests.zoo.check import check
from tests.zoo.model import Model
from tests.zoo.programs import inferring
from tests.zoo.report import markdown, summary
from tests.zoo.transformers_models import models
from tests.zoo.workers import check_all
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("one_thread")

SAMPLE = {
    "decoders": ("gpt2", "llama", "qwen3", "gemma3_text", "falcon", "phi3"),
    "mixtures of experts": ("mixtral", "deepseek_v3"),
    "state spaces": ("mamba", "mamba2", "recurrent_gemma"),
    "encoders": ("bert", "deberta-v2", "albert", "modernbert", "longformer"),
    "encoders with decoders": ("t5", "bart"),
    "images": ("vit", "swin", "segformer", "dinov2"),
    "sounds": ("wav2vec2", "whisper"),
    "several": ("clip", "llava", "qwen2_vl"),
    "series": ("patchtst",),
    "generating": ("llama generate", "t5 generate"),
}
NAMES = [f"transformers/{kind}" for kinds in SAMPLE.values() for kind in kinds]


def test_the_sample_is_there() -> None:
    assert len(NAMES) == len(set(NAMES)) == 30
    assert set(NAMES) <= {model.name for model in models()}


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_traced_and_not_changed(name: str) -> None:
    model = next(model for model in models() if model.name == name)
    result = check(model, timed=False)
    assert (result.state, result.reasons) == ("passed", [])
    assert result.operators > 50


class Shy(nn.Module):
    """Does something else when it is watched."""

    def forward(self, x: Tensor) -> Tensor:
        watched = torch._C._len_torch_function_stack()
        return x + torch.rand(1) if watched else x + 1


def test_what_a_trace_changes_is_found() -> None:
    result = check(Model("here/shy", lambda: inferring(Shy(), torch.ones(2))), timed=False)
    assert (result.state, result.reasons) == (
        "failed",
        [
            "record: output differs",
            "record aten: output differs",
            "record aten: 2 operators, not 1 as under a bare mode",
            "guard: output or random state differs",
        ],
    )


class Overflowing(nn.Module):
    """Computes infinity and subtracts it from itself."""

    def forward(self, x: Tensor) -> Tensor:
        large = (x * 1000).exp()
        return large - large


def test_what_a_guard_finds_in_a_model_is_a_failure() -> None:
    result = check(Model("here/overflowing", lambda: inferring(Overflowing(), torch.ones(2))), timed=False)
    assert result.state == "failed"
    assert [reason.partition(":")[0] for reason in result.reasons] == ["guard finds"]


def test_a_model_that_ends_the_process_does_not_end_the_zoo() -> None:
    results = list(check_all([model.name for model in mortal.models()], mortal.models))
    assert [(result.state, result.reasons) for result in results] == [
        ("passed", []),
        ("passed", []),
        ("failed", ["ends the process with 3 when it is traced"]),
        ("not built", ["ValueError: no such config"]),
        ("not built", ["ends the process with 4"]),
    ]
    said = summary(results)
    assert "cannot be built here:\n  here/fails  ValueError: no such config" in said
    assert "failed:\n  here/dies traced  ends the process" in said
    page = markdown(results, 6)
    assert "| here | 2 | 1 | 2 |" in page and "- `here/dies traced`: ends the process" in page
    assert "5 of the 6 models of the zoo were run" in page
