"""The architectures of transformers: each from a small random config, called with what its forward asks for."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import process_time
from typing import Any

import torch
from tests.zoo.exceptions import GENERATED, LEFT_OUT
from tests.zoo.inputs import candidates
from tests.zoo.model import Model
from tests.zoo.programs import Program, inferring, training
from tests.zoo.shrink import WAYS, Way, small
from tests.zoo.torchvision_ops import load_torchvision
from torch import nn

# More than this is no small model: a rule of shrink.py is missing.
MOST_PARAMETERS = 60_000_000
MOST_SECONDS = 10  # to look for a way to call it


@dataclass(frozen=True)
class Recipe:
    """What was found to work for an architecture: a class, a config, inputs by name, and how to use it."""

    build: Callable[[], nn.Module]
    inputs: str
    use: Callable[..., Program]


def models() -> Iterator[Model]:
    """A model of each type that transformers has a class for, and a few that generate."""
    for kind in kinds():
        yield Model(f"transformers/{kind}", functools.partial(program, kind))
    for kind in GENERATED:
        yield Model(f"transformers/{kind} generate", functools.partial(generating, kind))


@functools.cache
def kinds() -> list[str]:
    """The types of models that have a class of their own."""
    load_torchvision()  # transformers imports it where it is there
    from transformers import CONFIG_MAPPING

    return [kind for kind in CONFIG_MAPPING if kind not in LEFT_OUT and class_names(kind)]


@functools.cache
def class_names(kind: str) -> list[str]:
    """The classes of a type, the plain model first, then those with heads."""
    from transformers.models.auto import modeling_auto

    tables = [name for name in vars(modeling_auto) if name.startswith("MODEL_FOR_") and name.endswith("_NAMES")]
    found: dict[str, None] = {}
    for table in ["MODEL_MAPPING_NAMES", *sorted(tables, key=lambda name: "BACKBONE" in name)]:
        named = getattr(modeling_auto, table).get(kind, ())
        found |= dict.fromkeys([named] if isinstance(named, str) else list(named)[:1])
    return list(found)


def program(kind: str) -> Program:
    """Build a model and its program by the recipe that works for its type."""
    found = recipe(kind)
    model = found.build()
    return found.use(model, **inputs(model, found.inputs))


def generating(kind: str) -> Program:
    """A model that generates a few tokens at random after its input."""
    import transformers

    config = small_config(kind)
    model = getattr(transformers, GENERATED[kind])(config).eval()
    given = {name: value for name, value in inputs(model).items() if name != "decoder_input_ids"}
    wanted = {"max_new_tokens": 4, "do_sample": True, "bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}
    return model, lambda: model.generate(**given, **wanted)


def inputs(model: nn.Module, wanted: str | None = None) -> dict[str, Any]:
    """The inputs of a name, or the first ones, with the same numbers each time."""
    torch.manual_seed(2)
    return next(make() for name, make in candidates(model) if wanted in (None, name))


@functools.cache
def recipe(kind: str) -> Recipe:
    """Try the classes of a type with what they may take until one runs, if possible forward and backward."""
    failures: list[Exception] = []
    until = process_time() + MOST_SECONDS
    for way, name in itertools.product(WAYS, class_names(kind)[:3]):
        try:
            found = usable(functools.partial(build_class, kind, name, way), failures)
        except Exception as error:
            failures.append(error)
        else:
            if found is not None:
                return found
        if process_time() > until:
            break
    raise failures[0]


def usable(build: Callable[[], nn.Module], failures: list[Exception]) -> Recipe | None:
    """The first way to use a model of a class."""
    model = build()
    for name, _ in list(candidates(model)):
        found = None
        for use in (inferring, training):
            try:
                use(model, **inputs(model, name))[1]()
            except Exception as error:
                failures.append(error)
                break
            found = Recipe(build, name, use)
        if found is not None:
            return found
    return None


def build_class(kind: str, name: str, way: Way) -> nn.Module:
    """A small model of a class, unless it is not small."""
    import transformers

    config, model_class = small_config(kind, way), getattr(transformers, name)
    count = parameters(model_class, config)
    if count > MOST_PARAMETERS:
        raise ValueError(f"{name} has {count / 1e6:.0f} million parameters in its smallest config")
    return model_class(config)


def small_config(kind: str, way: Way = WAYS[0]) -> Any:
    """A small config of a type."""
    from transformers import CONFIG_MAPPING

    return small(CONFIG_MAPPING[kind], way)


def parameters(model_class: Any, config: Any) -> int:
    """How many parameters a model would have; 0 if that cannot be known without making it."""
    try:
        with warnings.catch_warnings(), torch.device("meta"):
            warnings.simplefilter("ignore")
            return sum(parameter.numel() for parameter in model_class(config).parameters())
    except Exception:
        return 0
