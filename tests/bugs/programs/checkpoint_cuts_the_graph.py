"""Re-entrant checkpointing keeps the graph only if an input of the block has one, and here the embedding is frozen."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

FOUND_BY = "explain"
RAISES = "element 0 of tensors does not require grad"
REPAIR = "hidden = checkpoint(block, hidden, use_reentrant=False)"


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return x + self.mix(self.norm(x)).relu()


class LanguageModel(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width).requires_grad_(False)
        self.blocks = nn.ModuleList([Block(width), Block(width)])

    def forward(self, ids):
        hidden = self.embed(ids)
        for block in self.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=True)  # FAULT
        return hidden @ self.embed.weight.T


def run():
    torch.manual_seed(0)
    model = LanguageModel(20, 8)
    ids = torch.randint(20, (2, 7))
    logits = model(ids[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    return loss
