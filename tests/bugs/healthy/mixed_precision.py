"""Training under autocast in bfloat16, with gradient clipping: coarse numbers, but sound ones."""

import torch
import torch.nn.functional as F
from torch import nn


def build():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4))


def run(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x, labels = torch.randn(16, 8), torch.randint(4, (16,))
    for _ in range(3):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
        loss = F.cross_entropy(logits.float(), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return loss
