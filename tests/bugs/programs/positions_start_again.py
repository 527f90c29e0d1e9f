"""While text is generated with a cache, the position of each new token is counted from zero instead of the past."""

import torch
from torch import nn

FOUND_BY = "compare"
REPAIR = "return past + torch.arange(ids.shape[1])"


class Decoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(16, width)
        self.qkv, self.head = nn.Linear(width, 3 * width), nn.Linear(width, words)

    def place(self, ids, past):
        return past + torch.arange(ids.shape[1])

    def forward(self, ids, cache):
        past = 0 if cache is None else cache[0].shape[1]
        hidden = self.tokens(ids) + self.positions(self.place(ids, past))
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
        return self.head((q @ k.transpose(1, 2)).softmax(-1) @ v), (k, v)


class PortedDecoder(Decoder):
    def place(self, ids, past):
        return torch.arange(ids.shape[1])  # FAULT


@torch.no_grad()
def generate(kind):
    torch.manual_seed(0)
    model, cache = kind(20, 8), None
    ids, outputs = torch.randint(20, (2, 4)), []
    for step in range(4):
        logits, cache = model(ids, cache)
        outputs.append(logits[:, -1])
        ids = torch.full((2, 1), step)
    return torch.stack(outputs)


def good():
    return generate(Decoder)


def bad():
    return generate(PortedDecoder)
