"""The module of seed 000, and the program of it: everything after the class stands there as it does here."""

import torch
import torch.nn as nn

from tracy_nn import Tracer


class MHA(nn.Module):
    """Attention with several heads, and a window of past tokens that each token may see."""

    def __init__(self, d_in, d_out, seq_len, num_heads, context_window, dropout):
        super().__init__()
        self.num_heads, self.d_head, self.d_out = num_heads, d_out // num_heads, d_out
        self.query_weights = nn.Linear(d_in, d_out)
        self.key_weights = nn.Linear(d_in, d_out)
        self.value_weights = nn.Linear(d_in, d_out)
        self.out_projection = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("mask", torch.triu(torch.ones(context_window, context_window, dtype=torch.bool), 1))

    def split_heads(self, x):
        batch_size, seq_len, _ = x.shape
        return x.view(batch_size, seq_len, self.num_heads, self.d_head).transpose(1, 2)

    def combine_heads(self, x):
        batch_size, _, seq_len, _ = x.shape
        return x.transpose(1, 2).contiguous().view(batch_size, seq_len, self.d_out)

    def calculate_attention(self, query, key, value):
        seq_len = query.shape[-2]
        scores = query @ key.transpose(2, 3) / self.d_head**0.5
        scores.masked_fill_(self.mask[:seq_len, :seq_len], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))
        return weights @ value

    def forward(self, x):
        query, key, value = self.query_weights(x), self.key_weights(x), self.value_weights(x)
        heads = [self.split_heads(part) for part in (query, key, value)]
        return self.out_projection(self.combine_heads(self.calculate_attention(*heads)))


batch_size, seq_len, d_in, d_out, num_heads, context_window, dropout = 10, 20, 6, 6, 3, 32, 0.1

x = torch.rand(batch_size, seq_len, d_in)
mha = MHA(d_in, d_out, seq_len, num_heads, context_window, dropout)

tracer = Tracer("MHA")
tracer.start(mha)

output = mha(x)

tracer.stop()
