"""Layers in a plain list, tuple or dict of a module: `parameters()` does not return theirs: no optimizer has them."""

from __future__ import annotations

import weakref
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from insitu.capture.guard.definition import classes_around
from insitu.capture.guard.weights import Weight
from insitu.capture.names import ModuleCallee, join
from insitu.capture.sites import Sites
from insitu.trace.event import Site
from insitu.trace.module_source import attribute_assignment
from insitu.trace.step_health import HiddenLayers, HiddenParameter

PLAIN = (list, tuple, dict)
MOST_ITEMS = 1 << 10  # of a container: longer ones hold data
OWN_ATTRIBUTES = frozenset(vars(nn.Module()))  # in which torch itself keeps modules, parameters and hooks


@dataclass(slots=True)
class SeenContainer:
    """An attribute of a module that holds layers which are not registered, by the paths of their parameters."""

    owner: weakref.ref[nn.Module]
    path: str
    attribute: str
    kind: str
    layers: int
    samples: int = 0
    weights: dict[str, Weight] = field(default_factory=dict)

    def weight(self, path: str, parameter: Tensor) -> Weight:
        """The weight of a parameter, which may be new."""
        known = self.weights.get(path)
        if known is None or known.ref() is not parameter:
            known = self.weights[path] = Weight(parameter)
        return known


class HiddenLayerSearch:
    """Looks into the attributes of modules that were called, when an optimizer steps."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], SeenContainer] = {}

    def look(self, callees: Iterable[ModuleCallee], moved: Container[int]) -> None:
        """Look at modules that were called; `moved` are the ids of the parameters of the optimizer that steps."""
        called = [(callee, module) for callee in callees if (module := callee.ref()) is not None]
        owners = [(callee, module) for callee, module in called if any(plain_containers(module))]
        if not owners:  # as most often
            return
        roots = [module for callee, module in called if callee.anchor is None]
        hidden = {id(module) for _, module in called} - parts_of(roots)
        trained = parts_of(root for root in roots if is_moved(root, moved))
        for callee, module in owners:
            if id(module) in trained:
                self._look_into(callee, module, hidden)

    def _look_into(self, callee: ModuleCallee, owner: nn.Module, hidden: set[int]) -> None:
        """Look into the containers of a module; `hidden` are the ids of the modules that are called, not registered."""
        for name, container in plain_containers(owner):
            layers = dict(layers_in(container))
            if all(id(layer) in hidden for layer in layers.values()):
                self._see(callee, owner, name, type(container).__name__, layers)

    def _see(self, callee: ModuleCallee, owner: nn.Module, name: str, kind: str, layers: dict[str, nn.Module]) -> None:
        key = (id(owner), name)
        seen = self._seen.get(key)
        if seen is None or seen.owner() is not owner:
            path = join(callee.path, name)
            seen = self._seen[key] = SeenContainer(weakref.ref(owner), path, name, kind, len(layers))
        seen.samples += 1
        for index, layer in layers.items():
            for path, parameter in layer.named_parameters():
                weight = seen.weight(f"{seen.path}.{index}.{path}", parameter)
                weight.has_gradient = weight.has_gradient or parameter.grad is not None

    def histories(self, owned: Container[int]) -> Iterator[HiddenLayers]:
        """What was seen, as plain data; `owned` are the ids of the parameters that optimizers have."""
        for seen in self._seen.values():
            owner = seen.owner()
            if owner is None:
                continue
            parameters = tuple(
                hidden_parameter(path, weight, parameter, owned)
                for path, weight in seen.weights.items()
                if (parameter := weight.ref()) is not None
            )
            site = assignment_site(owner, seen.attribute)
            yield HiddenLayers(
                path=seen.path,
                attribute=seen.attribute,
                container=seen.kind,
                layers=seen.layers,
                samples=seen.samples,
                parameters=parameters,
                site=site,
            )


def hidden_parameter(path: str, weight: Weight, parameter: Tensor, owned: Container[int]) -> HiddenParameter:
    """A parameter of a hidden layer, as plain data."""
    return HiddenParameter(
        path=path,
        requires_grad=parameter.requires_grad,
        has_gradient=weight.has_gradient,
        has_optimizer=id(parameter) in owned,
        has_changed=weight.has_changed(parameter),
    )


def parts_of(roots: Iterable[nn.Module]) -> set[int]:
    """The ids of models and of all modules that are registered in them."""
    return {id(part) for root in roots for part in root.modules()}


def is_moved(root: nn.Module, moved: Container[int]) -> bool:
    """Whether an optimizer has a parameter of a model."""
    return any(id(parameter) in moved for parameter in root.parameters())


def plain_containers(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """The attributes of a module that are plain containers of modules only."""
    for name, value in vars(module).items():
        is_candidate = type(value) in PLAIN and name not in OWN_ATTRIBUTES
        if is_candidate and 0 < len(value) <= MOST_ITEMS and holds_modules_only(value):
            yield name, value


def holds_modules_only(container: Any) -> bool:
    """Whether each item is a module."""
    items = container.values() if isinstance(container, dict) else container
    return all(isinstance(item, nn.Module) for item in items)


def layers_in(container: Any) -> Iterator[tuple[str, nn.Module]]:
    """The modules of a container, by their keys."""
    items = container.items() if isinstance(container, dict) else enumerate(container)
    return ((str(key), layer) for key, layer in items)


def assignment_site(owner: nn.Module, name: str) -> Site | None:
    """Where the class of a module assigns an attribute; None if that is not known."""
    line = attribute_assignment(tuple(classes_around(iter([owner]))), name)
    if line is None:
        return None
    return Sites().line(line.file, line.line, "", None)
