"""An architecture of the zoo, as every family gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True, slots=True)
class Model:
    """A name such as "transformers/bert", and what builds the model and a program that runs it once."""

    name: str
    build: Callable[[], tuple[nn.Module, Callable[[], Any]]]
