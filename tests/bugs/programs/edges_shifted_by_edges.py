"""Graphs are joined to a batch, and the node numbers are shifted by the number of edges instead of nodes."""

import torch
from torch import nn
from torch.utils.data import DataLoader

FOUND_BY = "explain"
RAISES = "index out of range in self"
REPAIR = "shift += nodes.shape[0]"


def collate(graphs):
    features, edges, shift = [], [], 0
    for nodes, links in graphs:
        features.append(nodes)
        edges.append(links + shift)
        shift += links.shape[1]  # FAULT
    return torch.cat(features), torch.cat(edges, dim=1)


class Messages(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.send = nn.Linear(width, width)

    def forward(self, nodes, edges):
        source, target = edges
        messages = self.send(nodes).index_select(0, source)
        return nodes + torch.zeros_like(nodes).index_add(0, target, messages)


def graph(nodes, edges):
    return torch.randn(nodes, 4), torch.randint(nodes, (2, edges))


def run():
    torch.manual_seed(0)
    graphs = [graph(4, 3), graph(3, 7), graph(5, 6)]
    layers = nn.ModuleList([Messages(4), Messages(4)])
    for nodes, edges in DataLoader(graphs, batch_size=3, collate_fn=collate):
        for layer in layers:
            nodes = layer(nodes, edges)
    return nodes.mean()
