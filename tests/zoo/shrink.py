"""A small config of any architecture of transformers: its default one, with small numbers for known names of fields."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.zoo.exceptions import FIELDS


@dataclass(frozen=True)
class Way:
    """How to shrink: to so many layers, and the widths too or not."""

    layers: int = 2
    widths: bool = True


# Those that work for most come first: some take features of four layers, some have widths that depend on each other.
WAYS = (Way(), Way(layers=4), Way(layers=4, widths=False))

DEEP = re.compile(r"(.*_)?(num_hidden_layers|num_layers|n_layers?|layers|depth|num_blocks|num_residual_layers)")
WIDE: tuple[tuple[str, int], ...] = (
    # 4 heads of 16 are a hidden size of 64.
    (r"(num_key_value_heads|num_kv_heads|n_head_kv|.*_kv_heads|linear_num_key_heads)", 2),
    (r".*(qk_rope_head_dim|rotary_dim|rope_head_dim|index_topk)", 8),
    (r".*qk_head_dim", 24),
    (r".*(head_dim|dim_head|d_head|d_kv|kv_channels|head_size)", 16),
    (r".*(lora_rank|o_groups|num_groups|n_groups)", 8),
    (r".*(mamba_n_heads|n_mamba_heads|mamba_num_heads)", 8),
    (r".*(num_attention_heads|attention_heads|num_heads|n_heads?|resampler_heads|head_num)", 4),
    (
        r".*(intermediate_size|intermediate_dim|ffn_dim|d_ff|dff|dim_ff|mlp_dim|n_inner|d_inner|ffn_hidden_size"
        r"|feedforward_dim|dim_feedforward|feed_forward_hidden_size)",
        128,
    ),
    (
        r"(.*_)?(hidden_size|hidden_dim|hidden_channels|d_model|n_embd|embed_dim|embedding_dim|embedding_size|emb_dim"
        r"|model_dim|out_hidden_size|output_dim|projection_dim|projection_size|proj_dim|latent_dim|query_dim)",
        64,
    ),
    (r".*(d_state|state_size)", 8),
)
OTHER: tuple[tuple[str, int], ...] = (
    (r".*(first_k_dense_replace|num_dense_layers|max_window_layers|num_nextn_predict_layers)", 1),
    (r".*(num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|top_k|experts_top_k)", 2),
    (r"(num_expert_group|n_group|topk_group|num_limited_groups)", 1),
    (r".*(num_experts|num_local_experts|n_routed_experts|moe_num_experts)", 4),
    (r"type_vocab_size", 2),
    (r".*vocab_size(_per_layer_input)?|.*num_embeddings", 128),
    (
        r".*(max_position_embeddings|n_positions|max_source_positions|max_target_positions|n_ctx|max_seq_len"
        r"|max_length|model_max_length|context_length|max_ep_len|context_size)",
        64,
    ),
    (r".*(sliding_window|local_attention|attention_window|attention_chunk_size)", 8),
    (r".*image_size|resolution|input_size|crop_size", 32),
    (r"(.*_)?patch_size", 8),
    (r".*(num_mel_bins|mel_dim)", 16),
    (r".*(num_queries|num_denoising|two_stage_num_proposals|resampler_n_latents|num_query_tokens|num_latents)", 8),
    (r".*(codebook_size|codebook_dim)", 32),
)
# Ids of tokens, in the small vocabulary.
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "sep_token_id": 2}
NUMBERS = re.compile(r"(.*_)?(token_id|token_index)s?")
DEPTHS = re.compile(r"(.*_)?(depths?|num_blocks|layers|block_sizes|repeats|blocks_per_stage|numb_of_layers)")
HEADS = re.compile(r".*(num_heads|num_attention_heads|num_attention_heads_per_stage|num_groups)")
INDICES = re.compile(r".*(index|indexes|indices|_ids|_idxs)|.*(extract|target|feature|cross_attention)_layers?")
WIDTHS = re.compile(r".*(sizes|channels|dims?|channel_list|embed_dim_per_stage|embedding_size|units)")
KERNELS = re.compile(r".*(kernel|window|patch|stride|pool|roi).*")


def small(config_class: type, way: Way = WAYS[0]) -> Any:
    """A small config of a class, and of the configs in it."""
    default = config_class()
    return config_class(**{**numbers(default, way), **FIELDS.get(default.model_type, {})})


def numbers(default: Any, way: Way) -> dict[str, Any]:
    """The fields of a config to set, with small values."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(default):
        value = vars(default).get(field.name)
        if is_config(value):
            found[field.name] = inner(value, way)
        elif way.widths and isinstance(value, dict) and "rope_type" in value:
            found[field.name] = {**value, "mrope_section": sections(value.get("partial_rotary_factor", 1))}
        elif field.default is not None:  # what is derived from other fields is derived again
            smaller = shrunk(field.name, value, way)
            if smaller != value:
                found[field.name] = smaller
    return {**found, **equal_heads(default, found), **tokens(default)}


def sections(factor: float) -> list[int]:
    """The parts of a head of 16 that turn with time, height and width; those who know them have large defaults."""
    half = int(8 * factor)
    return [half - 2 * (half // 4), half // 4, half // 4]


def is_config(value: Any) -> bool:
    """Whether a field is a config of its own."""
    return hasattr(value, "to_dict") and hasattr(value, "model_type")


def inner(config: Any, way: Way) -> Any:
    """A config inside another one: what is no size there stays as it is."""
    kept = {
        field.name: vars(config)[field.name]
        for field in dataclasses.fields(config)
        if isinstance(vars(config).get(field.name), (bool, str)) and vars(config)[field.name] != field.default
    }
    for name in ("model_type", "transformers_version"):
        kept.pop(name, None)
    return type(config)(**{**numbers(type(config)(), way), **kept, **FIELDS.get(config.model_type, {})})


def equal_heads(default: Any, found: dict[str, Any]) -> dict[str, Any]:
    """As many keys as queries where it was so."""
    names = ("num_key_value_heads", "num_attention_heads")
    if all(name in found for name in names) and len({vars(default)[name] for name in names}) == 1:
        return {names[0]: found[names[1]]}
    return {}


def shrunk(name: str, value: Any, way: Way) -> Any:
    """A small value for a field, or the value."""
    if type(value) is int and value > 0:
        return min(value, limit(name, way) or value)
    if isinstance(value, (list, tuple)) and value and all(type(item) is int for item in value):
        return type(value)(shrunk_list(name, value, way))
    return value


def limit(name: str, way: Way) -> int | None:
    """The largest value of a field, if its name is known."""
    rules = (*OTHER, *(WIDE if way.widths else ()))
    known = next((number for pattern, number in rules if re.fullmatch(pattern, name)), None)
    return known or (way.layers if DEEP.fullmatch(name) else None)


def shrunk_list(name: str, values: Sequence[int], way: Way) -> list[int]:
    """Small values for a field that has one for each layer or stage."""
    if INDICES.fullmatch(name):
        first = 1 if "out_indices" in name else 0
        return [value if value < 0 else min(place + first, way.layers) for place, value in enumerate(values)]
    if KERNELS.fullmatch(name):
        return list(values)
    if DEPTHS.fullmatch(name):
        return [min(value, 1) for value in values]
    if "image_size" in name:
        return [min(value, 32) for value in values]
    if way.widths and HEADS.fullmatch(name):
        return [min(value, 2) for value in values]
    if way.widths and WIDTHS.fullmatch(name) and max(values) > 64:
        return [max(8, value * 64 // max(values) // 8 * 8) if value > 8 else value for value in values]
    return list(values)


def tokens(default: Any) -> dict[str, Any]:
    """Give each special token a place in the small vocabulary."""
    found: dict[str, Any] = {}
    free = 10
    for field in dataclasses.fields(default):
        value = vars(default).get(field.name)
        if not NUMBERS.fullmatch(field.name) or type(value) not in (int, list, tuple):
            continue
        if field.name in TOKENS:
            found[field.name] = TOKENS[field.name]
            continue
        count = 1 if type(value) is int else len(value)
        found[field.name] = free if type(value) is int else list(range(free, free + count))
        free += count
    return found
