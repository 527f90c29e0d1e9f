"""The architectures of timm: the smallest model of each of its modules, on small images where it takes any size."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import torch
from tests.zoo.model import Model
from tests.zoo.programs import Program, inferring, training
from tests.zoo.torchvision_ops import load_torchvision

SIDES = (64, 96, 128, 224, 256)


def models() -> Iterator[Model]:
    """A model of each module of timm."""
    load_torchvision()  # timm imports it
    import timm

    for module in timm.list_modules():
        if timm.list_models(module=module):
            yield Model(f"timm/{module}", partial(image_model, module))


def image_model(module: str) -> Program:
    """The smallest model of a module, and the smallest image that it takes, if possible to train on."""
    name, side, use = recipe(module)
    model = build(name, side)
    torch.manual_seed(2)
    return use(model, torch.rand(2, 3, side, side))


def build(name: str, side: int) -> Any:
    """A model for images of a size, if it depends on it."""
    import timm

    try:
        return timm.create_model(name, num_classes=10, img_size=side)
    except TypeError:  # it takes any size
        return timm.create_model(name, num_classes=10)


@cache
def recipe(module: str) -> tuple[str, int, Any]:
    """What works for a module: a model, a size of images, and whether it trains on two of them."""
    name, failures = smallest(module), []
    for side in SIDES:
        for use in (training, inferring):
            try:
                use(build(name, side), torch.rand(2, 3, side, side))[1]()
            except Exception as error:
                failures.append(error)
            else:
                return name, side, use
    raise failures[-1]


def smallest(module: str) -> str:
    """The model of a module with the fewest parameters, among the names that sound small."""
    import timm

    names = timm.list_models(module=module)
    words = ("tiny", "nano", "pico", "femto", "atto", "small", "xxs", "xs", "_s", "mini", "test", "b0", "lite", "050")
    named = [name for name in names if any(word in name for word in words)]
    return min((named or names)[:5] + names[:2], key=size)


@cache
def size(name: str) -> int:
    """The number of parameters of a model."""
    import timm

    try:
        with torch.device("meta"):
            return sum(parameter.numel() for parameter in timm.create_model(name).parameters())
    except Exception:
        return 1 << 40
