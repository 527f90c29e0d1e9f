"""The program of seed 002 in small: a package that has, at the same lines, the source that the seed shows."""

from __future__ import annotations

from pathlib import Path

from tests.dropins.running import write_at

GENERIC = [
    (960, "from functools import wraps\n"),
    (965, "def can_return_tuple(func):\n    @wraps(func)\n    def wrapper(self, *args, **kwargs):"),
    (969, "        output = func(self, *args, **kwargs)\n        return output\n\n    return wrapper"),
]
MODELING = [
    (1, "import torch\nfrom torch import nn\n\nfrom transformers.utils.generic import can_return_tuple"),
    (
        136,
        """
class Gemma3TextScaledWordEmbedding(nn.Embedding):
    def __init__(self, *args, embed_scale, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("embed_scale", torch.tensor(embed_scale, device="meta", dtype=self.weight.dtype))
""",
    ),
    (143, "    def forward(self, input_ids):"),
    (144, "        return super().forward(input_ids) * self.embed_scale.to(self.weight.dtype)"),
    (
        1030,
        """
class Gemma3Model(nn.Module):
    def __init__(self):
        super().__init__()
        options = {"device": "meta", "dtype": torch.bfloat16}
        self.embed_tokens = Gemma3TextScaledWordEmbedding(262208, 2560, 0, embed_scale=2560**0.5, **options)

    def get_input_embeddings(self):
        return self.embed_tokens

    def _update_causal_mask(self, inputs_embeds, target_length):
        dtype, device = inputs_embeds.dtype, inputs_embeds.device
        sequence_length = inputs_embeds.shape[1]
        min_dtype = torch.finfo(dtype).min
""",
    ),
    (
        1050,
        """
        causal_mask = torch.full(
            (sequence_length, target_length), fill_value=min_dtype, dtype=dtype, device=device
        )
""",
    ),
    (1056, "        causal_mask = torch.triu(causal_mask, diagonal=1)\n        return causal_mask"),
    (
        1160,
        "    @can_return_tuple\n    def forward(self, input_ids, past_seen_tokens):\n        llm_input_ids = input_ids",
    ),
    (1175, "        inputs_embeds = self.get_input_embeddings()(llm_input_ids)"),
    (
        1179,
        """
        cache_position = torch.arange(
            past_seen_tokens, past_seen_tokens + inputs_embeds.shape[1], device=inputs_embeds.device
        )
""",
    ),
    (
        1205,
        """
        causal_mask = self._update_causal_mask(
            inputs_embeds, past_seen_tokens + len(cache_position)
        )
        return inputs_embeds, causal_mask
""",
    ),
]
TEST = [
    (1, "import sys\n\nsys.path.insert(0, 'site-packages')\n\nimport torch"),
    (20, "from torch_code_tracing import TracingMode"),
    (21, "from transformers.models.gemma3.modeling_gemma3 import Gemma3Model"),
    (30, "model = Gemma3Model()"),
    (31, "input_ids = torch.ones(2, 3, dtype=torch.long, device='meta')"),
    (32, "example_kwargs = {'input_ids': input_ids, 'past_seen_tokens': 30}"),
    (40, "with TracingMode(succinct=True, color=True):"),
    (41, "    out = model(**example_kwargs)"),
]


def write_gemma(folder: Path) -> Path:
    """Write the package and the program that traces it; the program."""
    package = folder / "site-packages" / "transformers"
    for part in ("", "utils", "models", "models/gemma3"):
        write_at(package / part / "__init__.py", [])
    write_at(package / "utils" / "generic.py", GENERIC)
    write_at(package / "models" / "gemma3" / "modeling_gemma3.py", MODELING)
    write_at(folder / "test.py", TEST)
    return folder / "test.py"
