"""The modules, parameters and buffers of a model by path, in the order of the model: what a path of a run names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

Role = Literal["gradient", "parameter", "output", "variable"]

GRADIENT = ".grad"
METHOD = "forward"
USUAL_PARAMETERS = ("weight", "bias")


@dataclass(frozen=True)
class ModelPaths:
    """The modules of a model in their order, each with the names of its own parameters and buffers.

    A run that was recorded without them has none: then the role of a path is a guess from its name.

    >>> model = ModelPaths({"": (), "wte": ("weight",), "head": ("weight", "bias")})
    >>> model.role("head.weight.grad"), model.role("head"), model.role("head.bias"), model.role("train.loss")
    ('gradient', 'output', 'parameter', 'variable')
    >>> model.sorted(["head.bias", "train.loss", "head.weight.grad", "wte.weight"])
    ['train.loss', 'wte.weight', 'head.weight.grad', 'head.bias']
    """

    modules: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def from_about(cls, about: dict[str, Any]) -> ModelPaths:
        """The paths that the facts about a run name; none if they do not make sense."""
        modules = about.get("modules")
        if not isinstance(modules, dict):
            return cls()
        return cls({str(path): tuple(map(str, names)) for path, names in modules.items() if _is_list(names)})

    def role(self, path: str) -> Role:
        """What a path names."""
        if path.endswith(GRADIENT):
            return "gradient"
        if path in self.modules or path == METHOD:
            return "output"
        if METHOD in path.split("."):
            return "variable"
        if path in self._tensors:
            return "parameter"
        if self.modules:
            return "variable"
        return _usual_role(path)

    def sorted(self, paths: Sequence[str]) -> list[str]:
        """The paths in the order of the model, each gradient after its parameter; paths outside of it come first."""
        if not self.modules:
            return list(paths)
        return sorted(paths, key=lambda path: (self._place(path), path.endswith(GRADIENT)))

    def _place(self, path: str) -> int:
        """The place of a tensor, or of the innermost module that a path is in."""
        path = path.removesuffix(GRADIENT)
        while path and path not in self._places:
            path = path.rpartition(".")[0]
        return self._places.get(path, 0)

    @cached_property
    def _tensors(self) -> set[str]:
        return {_joined(path, name) for path, names in self.modules.items() for name in names}

    @cached_property
    def _places(self) -> dict[str, int]:
        paths = [path for module, names in self.modules.items() for path in (module, *_tensor_paths(module, names))]
        return {path: place for place, path in enumerate(paths)}


def _tensor_paths(module: str, names: Sequence[str]) -> list[str]:
    return [_joined(module, name) for name in names]


def _joined(module: str, name: str) -> str:
    if module:
        return f"{module}.{name}"
    return name


def _is_list(names: Any) -> bool:
    return isinstance(names, (list, tuple))


def _usual_role(path: str) -> Role:
    """What a path names in most models."""
    if path.rpartition(".")[2] in USUAL_PARAMETERS:
        return "parameter"
    return "output"
