"""Where a model is listened to, and how: hooks that disturb nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from tensortrace.telling import tell


class Hook:
    """A hook of a model: it never disturbs a call, and stays behind where the model is copied or pickled."""

    def __init__(self, call: Callable[..., None]) -> None:
        self._call, self._is_told = call, False

    def __call__(self, *given: Any) -> None:
        try:
            self._call(*given)
        except Exception as error:
            if not self._is_told:
                self._is_told = True
                tell(f"tensortrace failed and goes on without these values: {type(error).__name__}: {error}")

    def __reduce__(self) -> Any:
        return no_hook, ()


def no_hook() -> Callable[..., None]:
    """The placeholder for a hook in a copied model."""
    return nothing


def nothing(*given: Any) -> None:
    """Do nothing."""


def innermost(model: Any) -> nn.Module:
    """The model inside what distributes or compiles it; paths begin there."""
    from torch.nn.parallel import DataParallel, DistributedDataParallel

    while True:
        if isinstance(model, (DataParallel, DistributedDataParallel)):
            model = model.module
        elif isinstance(getattr(model, "_orig_mod", None), nn.Module):
            model = model._orig_mod
        else:
            break
    found: nn.Module = model
    return found
