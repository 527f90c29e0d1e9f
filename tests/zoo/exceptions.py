"""Where the general way fails for an architecture of transformers: fields to set, and what is left out and why."""

from __future__ import annotations

from typing import Any

# By the type of a config, also of one inside another.
FIELDS: dict[str, dict[str, Any]] = {
    # Halved three times, there must be a window left.
    **{kind: {"image_size": 32, "patch_size": 2, "window_size": 2} for kind in ("swin", "swinv2", "donut-swin")},
    "blt": {"encoder_hash_byte_group_vocab": 100},
    "bamba": {"attn_layer_indices": [1]},
    "bailing_hybrid": {"layer_group_size": 2},
    "bridgetower": {"hidden_size": 64, "num_attention_heads": 4},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "patchtst": {"context_length": 32, "prediction_length": 4},
    "patchtsmixer": {"context_length": 32, "prediction_length": 4},
    "autoformer": {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 2},
    "informer": {"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 2},
    "time_series_transformer": {
        **{"prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 2},
    },
}
LEFT_OUT: dict[str, str] = {}
# These also generate, with a class that can.
GENERATED = {
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "t5": "T5ForConditionalGeneration",
    "mamba": "MambaForCausalLM",
    "whisper": "WhisperForConditionalGeneration",
}
