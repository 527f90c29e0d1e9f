"""What to give to a model of transformers: found from the signature of its forward and the numbers in its config."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

Inputs = dict[str, Any]
FIRST_WORD = 40  # below it are the special tokens
LENGTH = 8


def candidates(model: nn.Module) -> Iterator[tuple[str, Callable[[], Inputs]]]:
    """Ways to call a model, the fullest first: a name, and what makes the inputs."""
    taken = inspect.signature(model.forward).parameters
    facts = Facts(model)
    text = facts.text(taken)
    sounds = list(facts.sounds(taken))
    pictures = list(facts.pictures(taken))
    others = facts.others(taken)
    if text:
        for kind, picture in pictures:
            yield f"text and {kind}", lambda picture=picture: facts.joined({**text(), **others()}, picture())
        for kind, sound in sounds:
            yield f"text and {kind}", lambda sound=sound: facts.joined({**text(), **others()}, sound())
        yield "text", lambda: {**text(), **others()}
    for kind, seen in [*pictures, *sounds]:
        yield kind, lambda seen=seen: {**others(), **seen()}
        if "decoder_input_ids" in taken:
            yield f"{kind}, then text", lambda seen=seen: {**others(), **seen(), "decoder_input_ids": facts.words()}
    for kind, series in facts.series(taken):
        yield kind, series
    yield "others", others


class Facts:
    """The numbers of a config, also of the configs in it, that the shapes of inputs depend on."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.config = model, model.config

    def number(self, *names: str, default: int) -> int:
        """The first of the fields that the config or one in it has."""
        for config in [self.config, *inner_configs(self.config)]:
            for name in names:
                value = getattr(config, name, None)
                if isinstance(value, (list, tuple)) and value:
                    value = value[0]
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        return default

    def words(self, length: int = LENGTH) -> Tensor:
        """Tokens that are no special ones."""
        size = self.number("vocab_size", default=128)
        return torch.randint(min(FIRST_WORD, size // 2), size, (2, length))

    def text(self, taken: Any) -> Callable[[], Inputs] | None:
        """Tokens, and those of the decoder where there is one."""
        if "input_ids" not in taken:
            return None

        def make() -> Inputs:
            found: Inputs = {"input_ids": self.words()}
            if "decoder_input_ids" in taken:
                found["decoder_input_ids"] = self.words()
            if "bbox" in taken:
                found["bbox"] = torch.randint(0, 20, (2, LENGTH, 4)).sort(-1).values
            return found

        return make

    def pictures(self, taken: Any) -> Iterator[tuple[str, Callable[[], Inputs]]]:
        """Images, and videos where there are frames."""
        if "grid_thw" in taken and "hidden_states" in taken:
            yield "patches", lambda: self.patches("hidden_states", taken)
        size = self.number("image_size", "resolution", "img_size", default=64)
        channels = self.number("num_channels", "in_channels", "in_chans", default=3)
        for name in ("pixel_values", "pixel_values_videos", "pixel_values_images"):
            if name not in taken:
                continue
            frames = self.number("num_frames", "frames_per_clip", default=0)
            shapes = {"image": (2, channels, size, size), "large image": (2, channels, 96, 96)}
            shapes["largest image"] = (2, channels, 224, 224)
            if frames or "video" in name:
                shapes = {"video": (2, frames or 2, channels, size, size), **shapes}
            shapes["images"] = (2, 1, channels, size, size)
            for kind, shape in shapes.items():
                sizes = {"image_sizes": torch.tensor([shape[-2:]] * 2)} if "image_sizes" in taken else {}
                yield kind, lambda shape=shape, name=name, sizes=sizes: {name: torch.randn(shape), **sizes}
            if ("image_grid_thw" in taken and "videos" not in name) or "grid_thw" in taken:
                yield "patches", lambda name=name: self.patches(name, taken)

    def patches(self, name: str, taken: Any) -> Inputs:
        """Flat patches of an image of 4 times 4."""
        patch, temporal = self.number("patch_size", default=8), self.number("temporal_patch_size", default=1)
        width = self.number("in_channels", "num_channels", "in_chans", default=3) * temporal * patch * patch
        grid = "image_grid_thw" if "image_grid_thw" in taken else "grid_thw"
        return {name: torch.randn(32, width), grid: torch.tensor([[1, 4, 4], [1, 4, 4]])}

    def sounds(self, taken: Any) -> Iterator[tuple[str, Callable[[], Inputs]]]:
        """Waves, and spectra the one way and the other."""
        bins = self.number("num_mel_bins", "n_mels", "feature_size", "input_feat_per_channel", default=16)
        bins = self.number("feature_projection_input_dim", default=bins)
        length = 2 * self.number("max_source_positions", default=32)
        mask = (
            {"input_features_mask": torch.ones(2, length, dtype=torch.long)} if "input_features_mask" in taken else {}
        )
        for name in ("input_features", "audio_values", "audio_input_features"):
            if name in taken:
                for kind, shape in {
                    "spectrum": (2, bins, length),
                    "turned spectrum": (2, length, bins),
                    "spectrum with channel": (2, 1, length, bins),
                }.items():
                    yield kind, lambda shape=shape, name=name: {name: torch.randn(shape), **mask}
        if "input_values" in taken:
            for kind, shape in {
                "wave": (2, 6400),
                "wave with channel": (2, self.number("audio_channels", default=1), 6400),
                "spectrum": (2, self.number("max_length", default=64), bins),
            }.items():
                yield kind, lambda shape=shape: {"input_values": torch.randn(shape)}

    def series(self, taken: Any) -> Iterator[tuple[str, Callable[[], Inputs]]]:
        """A series of numbers to go on with, alone or with the features of each time."""
        length = self.number("context_length", default=32)
        if "past_values" in taken:
            yield (
                "series",
                lambda: {"past_values": torch.randn(2, length, self.number("num_input_channels", default=1))},
            )
        if "past_time_features" in taken:
            yield "series with features", lambda: self.series_with_features(length)

    def series_with_features(self, length: int) -> Inputs:
        """A series with the lags before it, its future, and the features of all times."""
        past = length + max(self.config.lags_sequence)
        ahead, features = self.config.prediction_length, self.config.num_time_features
        return {
            "past_values": torch.randn(2, past),
            "past_time_features": torch.randn(2, past, features),
            "past_observed_mask": torch.ones(2, past),
            "future_values": torch.randn(2, ahead),
            "future_time_features": torch.randn(2, ahead, features),
        }

    def others(self, taken: Any) -> Callable[[], Inputs]:
        """Everything else that has no default and whose name says what it is."""
        hidden = self.number("hidden_size", "d_model", "embed_dim", default=32)

        def make() -> Inputs:
            found: Inputs = {}
            for name, parameter in taken.items():
                if parameter.default is not inspect.Parameter.empty or name in KNOWN:
                    continue
                if name in ("hidden_states", "inputs_embeds", "encoder_hidden_states", "features"):
                    found[name] = torch.randn(2, LENGTH, hidden)
                elif name in ("attention_mask", "padding_mask"):
                    found[name] = torch.ones(2, LENGTH, dtype=torch.long)
            return found

        return make

    def joined(self, words: Inputs, seen: Inputs) -> Inputs:
        """Tokens with as many places for an image or a sound as the model has features of it."""
        for kind, name in (
            ("image", "get_image_features"),
            ("video", "get_video_features"),
            ("audio", "get_audio_features"),
        ):
            token = self.number(f"{kind}_token_id", f"{kind}_token_index", default=-1)
            function = getattr(self.model, name, None)
            if token < 0 or function is None or not any(fits(kind, key) for key in seen):
                continue
            with torch.no_grad():
                features = function(**{k: v for k, v in seen.items() if k in inspect.signature(function).parameters})
            count = rows(features)
            places = torch.full((2, (count + 1) // 2), token)
            words = {**words, "input_ids": torch.cat([words["input_ids"], places], 1)}
        if "mm_token_type_ids" in inspect.signature(self.model.forward).parameters:
            kinds = torch.zeros_like(words["input_ids"])
            kinds[words["input_ids"] == self.number("image_token_id", "image_token_index", default=-1)] = 1
            words["mm_token_type_ids"] = kinds
        return {**words, **seen}


KNOWN = ("self", "kwargs", "args", "input_ids", "pixel_values", "input_features", "input_values")


def fits(kind: str, name: str) -> bool:
    """Whether an input is of a kind."""
    words = {
        "image": ("pixel_values",),
        "video": ("pixel_values_videos",),
        "audio": ("input_features", "input_values", "audio_values"),
    }
    return name in words[kind]


def rows(features: Any) -> int:
    """How many vectors there are in what a model makes of an image."""
    features = getattr(features, "pooler_output", features)
    if isinstance(features, Tensor):
        return features.numel() // features.shape[-1]
    return sum(map(rows, features))


def inner_configs(config: Any) -> Iterator[Any]:
    """The configs in a config, in any depth."""
    for value in list(vars(config).values()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield value
            yield from inner_configs(value)
