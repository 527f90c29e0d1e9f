"""A hand-written normalisation takes care of zero vectors in forward, and forgets them in backward."""

import torch
from torch import nn

FOUND_BY = "guard"
REPAIR = "unit = x / length.clamp(min=1e-8)"


class Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        length = x.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(x, length)
        return x / length.clamp(min=1e-8)

    @staticmethod
    def backward(ctx, grad):
        x, length = ctx.saved_tensors
        unit = x / length  # FAULT
        along = (grad * unit).sum(-1, keepdim=True)
        return (grad - unit * along) / length.clamp(min=1e-8)


class Retrieval(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.project = nn.Linear(width, width, bias=False)

    def forward(self, ids):
        return Unit.apply(self.project(self.embed(ids)))


def run():
    torch.manual_seed(0)
    model = Retrieval(20, 6)
    questions, answers = torch.tensor([[4, 9, 2], [7, 5, 0]]), torch.tensor([[1, 8, 3], [6, 11, 0]])
    similar = (model(questions) * model(answers)).sum(-1)
    loss = (1 - similar).mean()
    loss.backward()
    return model.project.weight.grad
