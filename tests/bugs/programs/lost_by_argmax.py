"""The loss compares predicted classes instead of logits: argmax has no gradient."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "element 0 of tensors does not require grad"


def predict(model, x):
    logits = model(x)
    return logits.argmax(dim=1).float()  # FAULT


def run():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, labels = torch.randn(10, 4), torch.randint(3, (10,))
    loss = F.mse_loss(predict(model, x), labels.float())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
