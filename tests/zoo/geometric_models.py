"""The architectures of torch_geometric: networks and layers on a small random graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from tests.zoo.model import Model
from tests.zoo.programs import Program, training
from torch import Tensor, nn

NODES, EDGES, WIDTH = 12, 40, 8
Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]

# Networks and layers that take the features of the nodes and the edges between them.
NETWORKS: dict[str, dict[str, Any]] = {
    "GCN": {"hidden_channels": 8, "num_layers": 2, "dropout": 0.3},
    "GraphSAGE": {"hidden_channels": 8, "num_layers": 2, "jk": "cat"},
    "GIN": {"hidden_channels": 8, "num_layers": 2, "norm": "batch_norm"},
    "GAT": {"hidden_channels": 8, "num_layers": 2, "heads": 2, "v2": True},
    "EdgeCNN": {"hidden_channels": 8, "num_layers": 2},
    "PNA": {
        **{"hidden_channels": 8, "num_layers": 2, "aggregators": ["mean", "max", "std"]},
        **{"scalers": ["identity", "amplification"], "deg": torch.tensor([0, 3, 5, 4])},
    },
    "PMLP": {"hidden_channels": 8, "out_channels": 8, "num_layers": 2},
}
LAYERS: dict[str, dict[str, Any]] = {
    **{
        name: {}
        for name in (
            *("GCNConv", "SAGEConv", "GraphConv", "ResGatedGraphConv", "GATv2Conv", "TransformerConv", "TAGConv"),
            *("ARMAConv", "SGConv", "MFConv", "SuperGATConv", "LEConv", "ClusterGCNConv", "GENConv", "GeneralConv"),
            *("FiLMConv", "FeaStConv"),
        )
    },
    "ChebConv": {"K": 3},
    "SSGConv": {"alpha": 0.1},
    "EGConv": {"num_heads": 2},
    "GATConv": {"heads": 2, "dropout": 0.2},
    "RGCNConv": {"num_relations": 3},
    "RGATConv": {"num_relations": 3},
}


def models() -> Iterator[Model]:
    """Networks, layers, and what takes something else."""
    for name, options in NETWORKS.items():
        yield Model(f"torch_geometric/{name}", partial(trained, partial(network, name, options)))
    for name, options in LAYERS.items():
        yield Model(f"torch_geometric/{name}", partial(trained, partial(layer, name, options)))
    for name, make in OTHERS.items():
        yield Model(f"torch_geometric/{name}", partial(trained, make))


def trained(make: Callable[[], Made]) -> Program:
    """A model that trains on what it is made with."""
    torch.manual_seed(2)
    model, given, named = make()
    return training(model, *given, **named)


def graph() -> tuple[Tensor, Tensor]:
    """The features of the nodes, and the edges."""
    return torch.randn(NODES, WIDTH), torch.randint(0, NODES, (2, EDGES))


def network(name: str, options: dict[str, Any]) -> Made:
    """A network of several layers."""
    import torch_geometric.nn

    return getattr(torch_geometric.nn, name)(in_channels=WIDTH, **options), graph(), {}


def layer(name: str, options: dict[str, Any]) -> Made:
    """One layer; those with relations take the type of each edge too."""
    import torch_geometric.nn

    more = {"edge_type": torch.randint(0, 3, (EDGES,))} if "num_relations" in options else {}
    return getattr(torch_geometric.nn, name)(WIDTH, WIDTH, **options), graph(), more


def graph_unet() -> Made:
    from torch_geometric.nn import GraphUNet

    return GraphUNet(WIDTH, 16, 4, depth=2), graph(), {}


def autoencoder() -> Made:
    from torch_geometric.nn import GCN, VGAE

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.spread = GCN(WIDTH, 8, 2, 4), GCN(WIDTH, 8, 2, 4)

        def forward(self, x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
            return self.mean(x, edges), self.spread(x, edges)

    class Loss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.coder = VGAE(Encoder())

        def forward(self, x: Tensor, edges: Tensor) -> Tensor:
            return self.coder.recon_loss(self.coder.encode(x, edges), edges) + self.coder.kl_loss()

    return Loss(), graph(), {}


def infomax() -> Made:
    from torch_geometric.nn import GCN, DeepGraphInfomax

    def corrupted(x: Tensor, edges: Tensor) -> tuple[Tensor, Tensor]:
        return x[torch.randperm(len(x))], edges

    model = DeepGraphInfomax(8, GCN(WIDTH, 8, 1), lambda z, *rest: z.mean(0).sigmoid(), corrupted)
    return model, graph(), {}


def light_gcn() -> Made:
    from torch_geometric.nn import LightGCN

    return LightGCN(NODES, 8, 2), (graph()[1],), {}


def link_net() -> Made:
    from torch_geometric.nn import LINKX

    x, edges = graph()
    return LINKX(NODES, WIDTH, 8, 4, num_layers=1), (x, edges), {}


def atoms() -> Made:
    from torch_geometric.nn import SchNet

    class Alone(nn.Module):
        """The graph of near atoms is given, which else takes a compiled package."""

        def forward(self, place: Tensor, batch: Tensor) -> tuple[Tensor, Tensor]:
            pairs = torch.combinations(torch.arange(len(place))).T
            return pairs, (place[pairs[0]] - place[pairs[1]]).norm(dim=-1)

    model = SchNet(16, 16, 2, num_gaussians=8, interaction_graph=Alone())
    return model, (torch.tensor([6, 1, 1, 8]), torch.randn(4, 3)), {}


def attentive() -> Made:
    from torch_geometric.nn import AttentiveFP

    x, edges = graph()
    batch = torch.arange(NODES) // 6
    return (
        AttentiveFP(WIDTH, 8, 4, edge_dim=3, num_layers=2, num_timesteps=2),
        (x, edges, torch.randn(EDGES, 3), batch),
        {},
    )


def molecules() -> Made:
    from torch_geometric.nn import NeuralFingerprint

    return NeuralFingerprint(WIDTH, 8, 4, 2), (*graph(), torch.arange(NODES) // 6), {}


def gated() -> Made:
    from torch_geometric.nn import GatedGraphConv

    return GatedGraphConv(WIDTH, 3), graph(), {}


def several_types() -> Made:
    from torch_geometric.nn import HeteroConv, SAGEConv

    kinds = {
        ("user", "rates", "item"): SAGEConv((WIDTH, WIDTH), 4),
        ("item", "of", "user"): SAGEConv((WIDTH, WIDTH), 4),
    }
    nodes = {"user": torch.randn(5, WIDTH), "item": torch.randn(5, WIDTH)}
    return HeteroConv(kinds), (nodes, {kind: torch.randint(0, 5, (2, 9)) for kind in kinds}), {}


OTHERS: dict[str, Callable[[], Made]] = {
    "GraphUNet": graph_unet,
    "VGAE": autoencoder,
    "DeepGraphInfomax": infomax,
    "LightGCN": light_gcn,
    "LINKX": link_net,
    "SchNet": atoms,
    "AttentiveFP": attentive,
    "NeuralFingerprint": molecules,
    "GatedGraphConv": gated,
    "HeteroConv": several_types,
}
