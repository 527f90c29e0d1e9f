"""A model that fits in no memory, on the meta device."""

from __future__ import annotations

import pytest
import torch

import insitu


@pytest.mark.slow
def test_llama_70b_on_meta() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8}
    with torch.device("meta"):
        model = LlamaForCausalLM(LlamaConfig(**sizes, intermediate_size=28672, vocab_size=128256))
    tokens = torch.zeros(1, 128, dtype=torch.long, device="meta")
    with torch.no_grad(), insitu.record(model, level="aten") as trace:
        logits = model(tokens).logits
    assert logits.shape == (1, 128, 128256)
    assert len(trace) > 10_000
    assert not trace.marks
    assert trace.modules[""].parameters > 70e9
    assert len(trace.find("model.layers.*")) == 80
    (root,) = trace.find("**", kind="module")[:1]
    assert (root.outputs[0].shape, root.outputs[0].device) == ((1, 128, 128256), "meta")
