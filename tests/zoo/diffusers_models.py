"""The architectures of diffusers: denoisers, with what they are conditioned on, and autoencoders."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from tests.zoo.model import Model
from tests.zoo.programs import Program, training
from tests.zoo.torchvision_ops import load_torchvision

Options = dict[str, Any]
STEP = torch.tensor([5, 9])
TEXT = (2, 6, 32)
MASK = torch.ones(2, 6, dtype=torch.long)

UNET: Options = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8}
DOWN_UP: Options = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
}
VIDEO = {
    "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
    "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
}
HEADS: Options = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}
JOINT: Options = {**HEADS, "num_single_layers": 2, "joint_attention_dim": 32, "axes_dims_rope": (4, 6, 6)}
PLACES: Options = {"img_ids": torch.zeros(16, 3), "txt_ids": torch.zeros(6, 3)}
ENCODER: Options = {
    "block_out_channels": (16, 32),
    "norm_num_groups": 8,
    "down_block_types": ("DownEncoderBlock2D",) * 2,
    "up_block_types": ("UpDecoderBlock2D",) * 2,
}
CAUSAL: Options = {"base_dim": 8, "z_dim": 16, "num_res_blocks": 1, "dim_mult": [1, 2, 4, 4]}


def blocks(name: str, **options: Any) -> Options:
    """The options of an autoencoder of four blocks of a kind."""
    return {
        "down_block_types": (f"{name}DownBlock3D",) * 4,
        "up_block_types": (f"{name}UpBlock3D",) * 4,
        "block_out_channels": (8, 8, 16, 16),
        "layers_per_block": 1,
        "norm_num_groups": 4,
        **options,
    }


# A class, its options, and its inputs; a tuple is the shape of random numbers.
MODELS: dict[str, tuple[Options, Options]] = {
    "UNet1DModel": ({"sample_size": 64, "extra_in_channels": 64}, {"sample": (2, 2, 64), "timestep": STEP}),
    "UNet2DModel": (
        {
            **UNET,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        },
        {"sample": (2, 3, 16, 16), "timestep": STEP},
    ),
    "UNet2DConditionModel": (
        {**UNET, **DOWN_UP, "cross_attention_dim": 32, "attention_head_dim": 4},
        {"sample": (2, 4, 16, 16), "timestep": STEP, "encoder_hidden_states": TEXT},
    ),
    "UNet3DConditionModel": (
        {**UNET, **VIDEO, "cross_attention_dim": 32, "attention_head_dim": 8},
        {"sample": (2, 4, 3, 16, 16), "timestep": STEP, "encoder_hidden_states": TEXT},
    ),
    "UNetMotionModel": (
        {
            **{**UNET, "cross_attention_dim": 32, "num_attention_heads": 2, "motion_num_attention_heads": 2},
            "down_block_types": ("CrossAttnDownBlockMotion", "DownBlockMotion"),
            "up_block_types": ("UpBlockMotion", "CrossAttnUpBlockMotion"),
        },
        {"sample": (1, 4, 3, 16, 16), "timestep": STEP[:1], "encoder_hidden_states": (3, 6, 32)},
    ),
    "UNetSpatioTemporalConditionModel": (
        {
            **{"block_out_channels": (32, 64), "layers_per_block": 1, "cross_attention_dim": 32, "num_frames": 2},
            **{"num_attention_heads": (2, 4), "addition_time_embed_dim": 8},
            "projection_class_embeddings_input_dim": 24,
            "down_block_types": ("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            "up_block_types": ("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
        },
        {"sample": (2, 2, 8, 16, 16), "timestep": STEP, "encoder_hidden_states": (2, 1, 32), "added_time_ids": (2, 3)},
    ),
    "I2VGenXLUNet": (
        {**UNET, **VIDEO, "cross_attention_dim": 32, "attention_head_dim": 8},
        {
            **{"sample": (1, 4, 2, 16, 16), "timestep": STEP[:1], "fps": torch.tensor([2])},
            **{"image_latents": (1, 4, 2, 16, 16), "image_embeddings": (1, 32), "encoder_hidden_states": (1, 6, 32)},
        },
    ),
    "StableCascadeUNet": (
        {
            **{"in_channels": 4, "out_channels": 4, "conditioning_dim": 32, "block_out_channels": (16, 32)},
            **{"num_attention_heads": (2, 2), "down_num_layers_per_block": (1, 1), "up_num_layers_per_block": (1, 1)},
            "clip_text_pooled_in_channels": 32,
        },
        {"sample": (2, 4, 8, 8), "timestep_ratio": torch.tensor([0.3, 0.6]), "clip_text_pooled": (2, 1, 32)},
    ),
    "ControlNetModel": (
        {
            **{**UNET, "down_block_types": DOWN_UP["down_block_types"], "cross_attention_dim": 32},
            **{"attention_head_dim": 4, "conditioning_embedding_out_channels": (8, 16)},
        },
        {
            **{"sample": (2, 4, 16, 16), "timestep": STEP, "encoder_hidden_states": TEXT},
            "controlnet_cond": (2, 3, 32, 32),
        },
    ),
    "UVit2DModel": (
        {
            **{"hidden_size": 32, "cond_embed_dim": 32, "micro_cond_encode_dim": 8, "micro_cond_embed_dim": 40},
            **{"encoder_hidden_size": 32, "vocab_size": 64, "codebook_size": 60, "in_channels": 32},
            **{"block_out_channels": 32, "num_res_blocks": 1, "block_num_heads": 2, "num_hidden_layers": 2},
            **{"num_attention_heads": 2, "intermediate_size": 64, "sample_size": 8},
        },
        {
            **{"input_ids": torch.arange(128).reshape(2, 8, 8) % 60, "encoder_hidden_states": TEXT},
            **{"pooled_text_emb": (2, 32), "micro_conds": (2, 5)},
        },
    ),
    "Transformer2DModel": ({**HEADS, "in_channels": 16, "norm_num_groups": 4}, {"hidden_states": (2, 16, 8, 8)}),
    "TransformerTemporalModel": (
        {**HEADS, "in_channels": 16, "norm_num_groups": 4},
        {"hidden_states": (4, 16, 4, 4), "num_frames": 2},
    ),
    "DiTTransformer2DModel": (
        {**HEADS, "sample_size": 8, "num_embeds_ada_norm": 10},
        {"hidden_states": (2, 4, 8, 8), "timestep": STEP, "class_labels": torch.tensor([1, 2])},
    ),
    "PixArtTransformer2DModel": (
        {
            **HEADS,
            "sample_size": 8,
            "cross_attention_dim": 32,
            "caption_channels": 32,
            "use_additional_conditions": False,
        },
        {
            **{"hidden_states": (2, 4, 8, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
            "added_cond_kwargs": {"resolution": None, "aspect_ratio": None},
        },
    ),
    "SD3Transformer2DModel": (
        {
            **{**HEADS, "sample_size": 8, "in_channels": 4, "out_channels": 4, "joint_attention_dim": 32},
            **{"caption_projection_dim": 32, "pooled_projection_dim": 32, "pos_embed_max_size": 16},
        },
        {
            **{"hidden_states": (2, 4, 8, 8), "encoder_hidden_states": TEXT, "pooled_projections": (2, 32)},
            "timestep": STEP,
        },
    ),
    "FluxTransformer2DModel": (
        {**JOINT, "in_channels": 8, "pooled_projection_dim": 32},
        {
            **{"hidden_states": (2, 16, 8), "encoder_hidden_states": TEXT, "pooled_projections": (2, 32)},
            **{"timestep": STEP, **PLACES},
        },
    ),
    "Flux2Transformer2DModel": (
        {**JOINT, "in_channels": 8, "axes_dims_rope": (4, 4, 4, 4), "timestep_guidance_channels": 16},
        {
            **{"hidden_states": (2, 16, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
            **{"img_ids": torch.zeros(16, 4), "txt_ids": torch.zeros(6, 4), "guidance": torch.ones(2)},
        },
    ),
    "ChromaTransformer2DModel": (
        {
            **JOINT,
            "in_channels": 8,
            "approximator_num_channels": 8,
            "approximator_hidden_dim": 32,
            "approximator_layers": 1,
        },
        {"hidden_states": (2, 16, 8), "encoder_hidden_states": TEXT, "timestep": STEP, **PLACES},
    ),
    "AuraFlowTransformer2DModel": (
        {
            **{"sample_size": 8, "num_mmdit_layers": 1, "num_single_dit_layers": 1, "attention_head_dim": 16},
            **{
                "num_attention_heads": 2,
                "joint_attention_dim": 32,
                "caption_projection_dim": 32,
                "pos_embed_max_size": 16,
            },
        },
        {"hidden_states": (2, 4, 8, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
    ),
    "SanaTransformer2DModel": (
        {
            **{**HEADS, "in_channels": 4, "out_channels": 4, "num_cross_attention_heads": 2, "sample_size": 8},
            **{"cross_attention_head_dim": 16, "cross_attention_dim": 32, "caption_channels": 32},
        },
        {"hidden_states": (2, 4, 8, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
    ),
    "Lumina2Transformer2DModel": (
        {
            **{"sample_size": 8, "in_channels": 4, "hidden_size": 24, "num_layers": 1, "num_refiner_layers": 1},
            **{"num_attention_heads": 3, "num_kv_heads": 1, "multiple_of": 2, "axes_dim_rope": (4, 2, 2)},
            **{"axes_lens": (128, 128, 128), "cap_feat_dim": 32},
        },
        {
            **{"hidden_states": (2, 4, 8, 8), "timestep": torch.tensor([0.2, 0.4]), "encoder_hidden_states": TEXT},
            "encoder_attention_mask": MASK.bool(),
        },
    ),
    "QwenImageTransformer2DModel": (
        {**HEADS, "in_channels": 16, "out_channels": 4, "joint_attention_dim": 32, "axes_dims_rope": (4, 6, 6)},
        {
            **{"hidden_states": (2, 16, 16), "encoder_hidden_states": TEXT, "encoder_hidden_states_mask": MASK},
            **{"timestep": torch.tensor([0.2, 0.4]), "img_shapes": [(1, 4, 4)] * 2},
        },
    ),
    "PRXTransformer2DModel": (
        {
            **{"in_channels": 4, "context_in_dim": 32, "hidden_size": 32, "num_heads": 2, "depth": 2},
            "axes_dim": [8, 8],
        },
        {"hidden_states": (2, 4, 8, 8), "timestep": torch.tensor([0.2, 0.4]), "encoder_hidden_states": TEXT},
    ),
    "CogView4Transformer2DModel": (
        {
            **{**HEADS, "in_channels": 4, "out_channels": 4, "text_embed_dim": 32, "time_embed_dim": 16},
            **{"condition_dim": 8, "pos_embed_max_size": 8, "sample_size": 8, "rope_axes_dim": (16, 16)},
        },
        {
            **{"hidden_states": (2, 4, 8, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
            **{"original_size": (2, 2), "target_size": (2, 2), "crop_coords": (2, 2)},
        },
    ),
    "CogVideoXTransformer3DModel": (
        {
            **{**HEADS, "in_channels": 4, "out_channels": 4, "time_embed_dim": 8, "text_embed_dim": 32},
            **{"sample_width": 8, "sample_height": 8, "sample_frames": 8, "max_text_seq_length": 6},
        },
        {"hidden_states": (2, 2, 4, 8, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
    ),
    "WanTransformer3DModel": (
        {**HEADS, "in_channels": 4, "out_channels": 4, "text_dim": 32, "freq_dim": 32, "ffn_dim": 64},
        {"hidden_states": (2, 4, 2, 8, 8), "timestep": STEP, "encoder_hidden_states": TEXT},
    ),
    "LTXVideoTransformer3DModel": (
        {**HEADS, "in_channels": 8, "out_channels": 8, "cross_attention_dim": 32, "caption_channels": 32},
        {
            **{"hidden_states": (2, 32, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
            **{"encoder_attention_mask": MASK, "num_frames": 2, "height": 4, "width": 4},
        },
    ),
    "MochiTransformer3DModel": (
        {**HEADS, "in_channels": 4, "pooled_projection_dim": 16, "text_embed_dim": 32, "time_embed_dim": 8},
        {
            **{"hidden_states": (2, 4, 2, 8, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
            "encoder_attention_mask": MASK.bool(),
        },
    ),
    "HunyuanVideoTransformer3DModel": (
        {
            **{**HEADS, "in_channels": 4, "out_channels": 4, "num_single_layers": 1, "num_refiner_layers": 1},
            **{"text_embed_dim": 32, "pooled_projection_dim": 8, "rope_axes_dim": (4, 6, 6)},
        },
        {
            **{"hidden_states": (2, 4, 2, 8, 8), "timestep": STEP, "encoder_hidden_states": TEXT},
            **{"encoder_attention_mask": MASK, "pooled_projections": (2, 8), "guidance": torch.ones(2)},
        },
    ),
    "AllegroTransformer3DModel": (
        {
            **{**HEADS, "cross_attention_dim": 32, "caption_channels": 32, "sample_height": 8, "sample_width": 8},
            "sample_frames": 2,
        },
        {
            **{"hidden_states": (2, 4, 2, 8, 8), "encoder_hidden_states": TEXT, "timestep": STEP},
            **{"attention_mask": torch.ones(2, 2, 8, 8), "encoder_attention_mask": MASK},
        },
    ),
    "LatteTransformer3DModel": (
        {
            **{**HEADS, "in_channels": 4, "out_channels": 8, "cross_attention_dim": 32, "attention_bias": True},
            **{"sample_size": 8, "patch_size": 2, "num_embeds_ada_norm": 10, "norm_type": "ada_norm_single"},
            **{"caption_channels": 32, "video_length": 2, "activation_fn": "gelu-approximate"},
        },
        {"hidden_states": (2, 4, 2, 8, 8), "timestep": STEP, "encoder_hidden_states": TEXT},
    ),
    "StableAudioDiTModel": (
        {
            **{**HEADS, "sample_size": 8, "in_channels": 4, "out_channels": 4, "num_key_value_attention_heads": 1},
            **{
                "cross_attention_dim": 16,
                "time_proj_dim": 8,
                "global_states_input_dim": 8,
                "cross_attention_input_dim": 32,
            },
        },
        {
            **{"hidden_states": (2, 4, 8), "timestep": STEP.float(), "encoder_hidden_states": TEXT},
            **{"global_hidden_states": (2, 1, 8), "rotary_embedding": (torch.ones(9, 8), torch.ones(9, 8))},
        },
    ),
    "AutoencoderKL": (ENCODER, {"sample": (2, 3, 16, 16), "sample_posterior": True}),
    "AutoencoderKLTemporalDecoder": (
        {"block_out_channels": (32, 64), "down_block_types": ("DownEncoderBlock2D",) * 2},
        {"sample": (2, 3, 16, 16), "num_frames": 2},
    ),
    "AsymmetricAutoencoderKL": (
        {
            **{"down_block_out_channels": (16, 32), "up_block_out_channels": (16, 32), "norm_num_groups": 8},
            **{"down_block_types": ("DownEncoderBlock2D",) * 2, "up_block_types": ("UpDecoderBlock2D",) * 2},
        },
        {"sample": (2, 3, 16, 16)},
    ),
    "AutoencoderTiny": (
        {
            **{"encoder_block_out_channels": (16, 16), "decoder_block_out_channels": (16, 16)},
            **{"num_encoder_blocks": (1, 1), "num_decoder_blocks": (1, 1)},
        },
        {"sample": (2, 3, 16, 16)},
    ),
    "AutoencoderDC": (
        {
            **{"latent_channels": 4, "attention_head_dim": 4, "encoder_block_out_channels": (8, 16)},
            **{"decoder_block_out_channels": (8, 16), "encoder_layers_per_block": (1, 1)},
            **{"decoder_layers_per_block": (1, 1), "encoder_qkv_multiscales": ((), (5,))},
            **{"decoder_qkv_multiscales": ((), (5,)), "encoder_block_types": ("ResBlock", "EfficientViTBlock")},
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
        },
        {"sample": (2, 3, 16, 16)},
    ),
    "AutoencoderKLFlux2": ({**ENCODER, "layers_per_block": 1, "latent_channels": 4}, {"sample": (2, 3, 16, 16)}),
    "VQModel": ({**ENCODER, "num_vq_embeddings": 16}, {"sample": (2, 3, 16, 16)}),
    "AutoencoderOobleck": (
        {
            **{"encoder_hidden_size": 8, "downsampling_ratios": [2, 4], "channel_multiples": [1, 2]},
            **{"decoder_channels": 8, "decoder_input_channels": 4},
        },
        {"sample": (2, 2, 64)},
    ),
    "AutoencoderKLWan": (CAUSAL, {"sample": (1, 3, 5, 16, 16)}),
    "AutoencoderKLQwenImage": (CAUSAL, {"sample": (1, 3, 1, 16, 16)}),
    "AutoencoderKLCogVideoX": (blocks("CogVideoX", latent_channels=4), {"sample": (1, 3, 8, 16, 16)}),
    "AutoencoderKLHunyuanVideo": (blocks("HunyuanVideo", latent_channels=4), {"sample": (1, 3, 5, 16, 16)}),
    "AutoencoderKLMochi": (
        {
            **{"encoder_block_out_channels": (32, 32, 32, 32), "decoder_block_out_channels": (32, 32, 32, 32)},
            **{"latent_channels": 4, "layers_per_block": (1, 1, 1, 1, 1)},
        },
        {"sample": (1, 3, 7, 16, 16)},
    ),
}


def models() -> Iterator[Model]:
    """Denoisers and autoencoders."""
    for name, (options, given) in MODELS.items():
        yield Model(f"diffusers/{name}", partial(program, name, options, given))


def program(name: str, options: Options, given: Options) -> Program:
    """A model that trains on random numbers."""
    load_torchvision()  # diffusers imports it
    import diffusers

    model = getattr(diffusers, name)(**options)
    torch.manual_seed(2)
    shaped = {key: torch.randn(value) if is_shape(value) else value for key, value in given.items()}
    return training(model, **shaped)


def is_shape(value: Any) -> bool:
    """Whether an input is given by its shape."""
    return isinstance(value, tuple) and all(isinstance(size, int) for size in value)
