"""Lengths are expanded over the time steps without a dimension to expand along."""

import torch

FOUND_BY = "explain"
RAISES = "must match the existing size"
SAYS = "lengths.unsqueeze(-1).expand"


def padding_mask(lengths, steps):
    positions = torch.arange(steps).expand(len(lengths), steps)
    limits = lengths.expand(len(lengths), steps)  # FAULT
    return positions >= limits


def masked_mean(hidden, lengths):
    mask = padding_mask(lengths, hidden.shape[1])
    hidden = hidden.masked_fill(mask.unsqueeze(-1), 0.0)
    return hidden.sum(1) / lengths.unsqueeze(-1)


def run():
    hidden = torch.randn(4, 9, 8)
    lengths = torch.tensor([9, 3, 5, 1])
    return masked_mean(hidden, lengths)
