"""The cache of keys and values belongs to the model and is never emptied: the next prompts find those before them."""

import torch
from torch import nn

FOUND_BY = "explain"
RAISES = "Sizes of tensors must match except in dimension 1"
REPAIR = 'past = {"keys": [], "values": []}'


class Decoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.past = {"keys": [], "values": []}
        self.embed = nn.Embedding(words, width)
        self.qkv = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, words)

    def forward(self, ids, past):
        q, k, v = self.qkv(self.embed(ids)).chunk(3, dim=-1)
        past["keys"].append(k)
        past["values"].append(v)
        keys, values = torch.cat(past["keys"], dim=1), torch.cat(past["values"], dim=1)
        scores = q @ keys.transpose(1, 2) / k.shape[-1] ** 0.5
        return self.head(scores.softmax(-1) @ values)


@torch.no_grad()
def answer(model, prompts, length):
    past = model.past  # FAULT
    ids, words = prompts, []
    for _ in range(length):
        ids = model(ids, past)[:, -1:].argmax(-1)
        words.append(ids)
    return torch.cat(words, dim=1)


def run():
    torch.manual_seed(0)
    model = Decoder(50, 16)
    first = answer(model, torch.randint(50, (2, 4)), length=3)
    second = answer(model, torch.randint(50, (3, 5)), length=3)
    return first, second
