"""The hidden state is carried from one chunk of text to the next without detaching it: the graph is gone by then."""

import torch
import torch.nn.functional as F
from torch import nn

FOUND_BY = "explain"
RAISES = "Trying to backward through the graph a second time"
SAYS = "state = state.detach()"


class CharModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 8)
        self.rnn = nn.GRU(8, 16, batch_first=True)
        self.out = nn.Linear(16, 30)

    def forward(self, ids, state):
        outputs, state = self.rnn(self.embed(ids), state)
        return self.out(outputs), state


def run():
    torch.manual_seed(0)
    model = CharModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    text = torch.randint(30, (2, 25))
    state = None
    for start in range(0, 24, 8):
        ids, following = text[:, start : start + 8], text[:, start + 1 : start + 9]
        logits, state = model(ids, state)
        loss = F.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()  # FAULT
        optimizer.step()
