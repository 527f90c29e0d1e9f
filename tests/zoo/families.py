"""All models of the zoo, by the libraries that are installed."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.util import find_spec

from tests.zoo import diffusers_models, geometric_models, timm_models, torchvision_models, transformers_models
from tests.zoo.model import Model

FAMILIES = {
    "transformers": transformers_models.models,
    "torchvision": torchvision_models.models,
    "timm": timm_models.models,
    "diffusers": diffusers_models.models,
    "torch_geometric": geometric_models.models,
}


def models() -> Iterator[Model]:
    """Every model of every library that is there."""
    for library, family in FAMILIES.items():
        if find_spec(library) is not None:
            yield from family()


def chosen(names: list[str], patterns: list[str]) -> list[str]:
    """The names that fit one of the patterns; all if there are none."""
    return [name for name in names if not patterns or any(fnmatch(name, pattern) for pattern in patterns)]
