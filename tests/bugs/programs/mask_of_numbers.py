"""The attention mask is built in the collate function as ones and zeros; attention wants truth values or floats."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

FOUND_BY = "explain"
RAISES = "Expected attn_mask dtype to be bool"
REPAIR = "mask = torch.arange(ids.shape[1]) < lengths[:, None]"


def collate(sentences):
    ids = nn.utils.rnn.pad_sequence([torch.tensor(sentence) for sentence in sentences], batch_first=True)
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()  # FAULT
    return {"input_ids": ids, "attention_mask": mask}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)


class Encoder(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.attention = Attention(width, heads=2)

    def forward(self, input_ids, attention_mask):
        wide = attention_mask[:, None, None, :].expand(-1, -1, input_ids.shape[1], -1)
        return self.attention(self.embed(input_ids), wide)


def run():
    sentences = [[4, 7, 1], [3, 3, 9, 2, 8], [5, 1]]
    model = Encoder(10, 8)
    return [model(**batch) for batch in DataLoader(sentences, batch_size=3, collate_fn=collate)]
