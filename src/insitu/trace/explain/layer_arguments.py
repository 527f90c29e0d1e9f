"""The arguments of torch's layers that decide sizes: of their parameters, and of what they return."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.slices.attributes import member_points
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.rules.size_rule import WINDOWS
from insitu.trace.explain.slices.user_file import keyword_of


@dataclass(slots=True, frozen=True)
class LayerArgument:
    """An argument of a constructor: its index and its name."""

    index: int
    name: str


IN, OUT = LayerArgument(0, "in_channels"), LayerArgument(1, "out_channels")
FIRST, SECOND = LayerArgument(0, "input_size"), LayerArgument(1, "hidden_size")
# The arguments that decide the sizes of `weight`, for each of its dimensions.
WEIGHTS: dict[str, tuple[LayerArgument, ...]] = {
    "Linear": (LayerArgument(1, "out_features"), LayerArgument(0, "in_features")),
    "Embedding": (LayerArgument(0, "num_embeddings"), LayerArgument(1, "embedding_dim")),
    "EmbeddingBag": (LayerArgument(0, "num_embeddings"), LayerArgument(1, "embedding_dim")),
    **dict.fromkeys(("Conv1d", "Conv2d", "Conv3d"), (OUT, IN)),
    **dict.fromkeys(("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"), (IN, OUT)),
    **dict.fromkeys(("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"), (LayerArgument(0, "num_features"),)),
    "LayerNorm": (LayerArgument(0, "normalized_shape"),),
    "RMSNorm": (LayerArgument(0, "normalized_shape"),),
    "GroupNorm": (LayerArgument(1, "num_channels"),),
    **dict.fromkeys(("GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNCell"), (SECOND, FIRST)),
}
# How the names of layers begin whose arguments change the sides of an image.
WINDOWED = (
    *("Conv", "MaxPool", "AvgPool", "Adaptive", "LPPool", "Fractional", "Upsample", "Pixel", "Unfold", "Fold"),
    *("ZeroPad", "ReflectionPad", "ReplicationPad", "ConstantPad", "CircularPad"),
)
# Layers whose first two arguments are channels, not windows.
WITH_CHANNELS = frozenset(name for name in WEIGHTS if name.startswith("Conv"))


def weight_argument(call: Point, dimension: int) -> Point | None:
    """The argument of a constructor that decides a size of the layer's parameters."""
    wanted = WEIGHTS.get(called_name(call.node), ())
    if not isinstance(call.node, ast.Call) or dimension >= len(wanted):
        return None
    argument = wanted[dimension]
    node = keyword_of(call.node, argument.name)
    if node is None and argument.index < len(call.node.args):
        node = call.node.args[argument.index]
    return None if node is None else call.part(node)


def layer_points(resolver: Resolver, model: Point, path: list[str]) -> list[Point]:
    """The expressions that construct the layer of a model with a path: `["encoder", "0"]`."""
    points = resolver.ends(model)
    for name in path:
        points = [found for point in points for found in _child(resolver, point, name)]
    return points


def _child(resolver: Resolver, point: Point, name: str) -> Iterator[Point]:
    """A child module: an attribute of a model of the user, or an item of a container such as nn.Sequential."""
    for instance in resolver.instances(point):
        for found in member_points(point.part(point.node), instance, name):
            yield from resolver.ends(found)
    if name.isdigit() and isinstance(point.node, ast.Call):
        yield from _container_item(resolver, point, point.node.args, int(name))


def _container_item(resolver: Resolver, point: Point, args: list[ast.expr], index: int) -> Iterator[Point]:
    """The layer at a place of `nn.Sequential(a, b)`, `nn.Sequential(*layers)` or `nn.ModuleList(layers)`."""
    lists = [each.value for each in args if isinstance(each, ast.Starred)]
    if len(args) == 1 and not isinstance(args[0], ast.Call):
        lists = [lists[0] if lists else args[0]]
    if not lists and index < len(args):
        yield from resolver.ends(point.part(args[index]))
    for each in lists:
        yield from resolver.ends(Point(point.scope, each, (index,)))


def window_arguments(resolver: Resolver, layer: Point, path: list[str]) -> Iterator[Point]:
    """The strides, paddings and kernel sizes of a layer, by its path in the module that an expression refers to."""
    for end in layer_points(resolver, layer, path):
        node = end.node
        if not isinstance(node, ast.Call) or not called_name(node).startswith(WINDOWED):
            continue
        skipped = 2 if called_name(node) in WITH_CHANNELS else 0
        yield from (end.part(each) for each in node.args[skipped:])
        yield from (end.part(word.value) for word in node.keywords if word.arg in WINDOWS)
