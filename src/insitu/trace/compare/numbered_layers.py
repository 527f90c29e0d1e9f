"""Layers that have another number in the other run, because one was put in or taken out before them.

The numbered layers of a container, as of `Sequential` and `ModuleList`, are put side by side by their weights as far
as these are known, then by class and settings, then by class alone. They keep their numbers unless others fit better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any

from insitu.trace.compare.align import Match, align
from insitu.trace.compare.change import MovedLayers, Remark
from insitu.trace.compare.rename import Renamer
from insitu.trace.event import NUMBERS, Call, Event, ModuleFacts, TensorFacts, Variable
from insitu.trace.forest import value_key

MOST_VALUES = 8  # of a weight that was kept: enough to know it by
_DIGITS = 4  # statistics of one weight on two devices agree as far


@dataclass(slots=True, eq=False)
class Layer:
    """A numbered module: `make` is its class and settings and those of all in it, `known` these with its weights."""

    number: int
    path: str
    type: str
    make: Any
    known: Any = None


class NumberedLayers:
    """The modules of a run, and those that are numbered layers of a container; `paths` are those of variables too."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._modules = _modules(events)
        variables = [event.name for event in events if type(event) is Variable]
        self.paths = {*self._modules, *variables}
        self.containers: dict[str, dict[int, list[str]]] = {}
        for path in sorted(self._modules):
            for container, number in _numbers(path):
                self.containers.setdefault(container, {}).setdefault(number, []).append(path)

    def layers(self, container: str) -> list[Layer]:
        """The layers of a container by their numbers; what is known of their weights is left out."""
        by_number = sorted(self.containers.get(container, {}).items())
        return [self._layer(container, number, below) for number, below in by_number]

    def _layer(self, container: str, number: int, below: list[str]) -> Layer:
        path = _layer_path(container, number)
        make = tuple([self._make(name, path) for name in below])
        if path in self._modules:
            return Layer(number, path, self._modules[path].type, make)
        return Layer(number, path, "", make)

    def _make(self, name: str, layer: str) -> Any:
        """The path of a module within its layer, its class and its settings."""
        module = self._modules[name]
        return name[len(layer) :], module.type, value_key(module.settings)

    def weigh(self, container: str, layers: list[Layer]) -> None:
        """Write into each layer what is known of its weights."""
        for layer in layers:
            below = self.containers[container][layer.number]
            weights = [tuple(self._weights.get(path, {}).values()) for path in below]
            layer.known = (layer.make, tuple(weights))

    @cached_property
    def _weights(self) -> dict[str, dict[Any, Any]]:
        """For each module the parameters that its calls were first given."""
        found: dict[str, dict[Any, Any]] = {}
        for call in filter(_is_operation, self._events):
            assert type(call) is Call
            for place, facts in enumerate(call.inputs):
                if facts.type == "Parameter":
                    found.setdefault(call.path, {}).setdefault((call.name, place), _weight(facts))
        return found


def _is_operation(event: Event) -> bool:
    return type(event) is Call and event.kind != "module"


def _modules(events: list[Event]) -> dict[str, ModuleFacts]:
    """The modules of a run by their paths."""
    by_identity: dict[int, ModuleFacts] = {}
    for event in events:
        if type(event) is Call and event.module is not None:
            by_identity[id(event.module)] = event.module
    return {module.path: module for module in by_identity.values()}


def _layer_path(container: str, number: int) -> str:
    return f"{container}.{number}".lstrip(".")


class Renumbering:
    """Gives paths of a the names that they have in b; `remarks` say which layers only one of them has."""

    def __init__(self, a: NumberedLayers, b: NumberedLayers, renamer: Renamer) -> None:
        self.remarks: list[Remark] = []
        self._renamer = renamer
        self._new_paths: dict[str, str] = {}
        self._a, self._b = a, b
        for container in sorted(a.containers, key=len):  # outer ones first
            if not self._has_rule(container):
                self._renumber(container, self(container))

    def _has_rule(self, container: str) -> bool:
        """Whether a rule of the user says how layers of a container are called."""
        for number, below in self._a.containers[container].items():
            length = len(_layer_path(container, number))
            if any(self._renamer.names(path, length) for path in below):
                return True
        return False

    def __call__(self, path: str) -> str:
        """The name in b of a path of a."""
        if not self._new_paths:
            return self._renamer(path)
        outer = path
        while outer:
            if outer in self._new_paths:
                return self._new_paths[outer] + path[len(outer) :]
            outer = outer.rpartition(".")[0]
        return self._renamer(path)

    def _renumber(self, container: str, other: str) -> None:
        a, b = self._a.layers(container), self._b.layers(other)
        if not b or _makes(a) == _makes(b):
            return
        self._a.weigh(container, a)
        self._b.weigh(other, b)
        pairs = _match_layers(a, b)
        if _likeness(pairs, a, b) <= _likeness(_same_numbers(a, b), a, b):
            return
        self._new_paths |= {layer.path: f"{layer.path} only in a" for layer in a}
        self._new_paths |= {a[i].path: b[j].path for i, j in pairs}
        self.remarks.append(_moved_layers(pairs, a, b))


def _makes(layers: list[Layer]) -> list[tuple[int, Any]]:
    return [(layer.number, layer.make) for layer in layers]


def _numbers(path: str) -> Iterator[tuple[str, int]]:
    """The containers that a path leads through, with the number in each.

    >>> list(_numbers("layers.3.mlp.0"))
    [('layers', 3), ('layers.3.mlp', 0)]
    """
    segments = path.split(".")
    for place, segment in enumerate(segments):
        if segment.isdecimal() and str(int(segment)) == segment:
            yield ".".join(segments[:place]), int(segment)


def _weight(facts: TensorFacts) -> Any:
    """What a parameter is known by: its statistics, or some of its values."""
    if facts.stats is not None:
        return (facts.stats.count, *map(_digits, _numbers_of(facts.stats)))
    if hasattr(facts.kept, "ravel"):
        return (facts.shape, *map(_digits, facts.kept.ravel()[:MOST_VALUES].tolist()))
    return (facts.shape, _digits(facts.kept))


_numbers_of = attrgetter(*[row.name for row in NUMBERS])


def _digits(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    return repr(value)


def _match_layers(a: list[Layer], b: list[Layer]) -> list[Match]:
    """The places of layers that belong together; a layer that is like no other goes with the one in its place."""
    pairs: list[Match] = []
    for key in map(attrgetter, ("known", "make", "type")):
        keys_a, keys_b = list(map(key, a)), list(map(key, b))
        for gap_a, gap_b in list(_gaps(pairs, len(a), len(b))):
            found = align(keys_a[gap_a.start : gap_a.stop], keys_b[gap_b.start : gap_b.stop])
            pairs += [(gap_a[i], gap_b[j]) for i, j in found]
        pairs.sort()
    for gap_a, gap_b in list(_gaps(pairs, len(a), len(b))):
        if len(gap_a) == len(gap_b):
            pairs += zip(gap_a, gap_b, strict=True)
    return sorted(pairs)


def _gaps(pairs: list[Match], length_a: int, length_b: int) -> Iterator[tuple[range, range]]:
    """The places between pairs, where both sides have some."""
    before = (0, 0)
    for i, j in [*pairs, (length_a, length_b)]:
        if before[0] < i and before[1] < j:
            yield range(before[0], i), range(before[1], j)
        before = (i + 1, j + 1)


def _same_numbers(a: list[Layer], b: list[Layer]) -> list[Match]:
    """The places of layers that have the same number."""
    places = {layer.number: place for place, layer in enumerate(b)}
    return [(place, places[layer.number]) for place, layer in enumerate(a) if layer.number in places]


def _likeness(pairs: Sequence[Match], a: list[Layer], b: list[Layer]) -> int:
    """How much is the same in layers that are put side by side."""
    return sum(_alike(a[i], b[j]) for i, j in pairs)


def _alike(a: Layer, b: Layer) -> int:
    """How many of weights, settings and class two layers have in common."""
    return sum((a.known == b.known, a.make == b.make, a.type == b.type))


def _moved_layers(matches: list[Match], a: list[Layer], b: list[Layer]) -> MovedLayers:
    """The layers that only one side has, and those that have another number for it."""
    moved = [(a[i].path, b[j].path) for i, j in matches if a[i].number != b[j].number]
    places_a, places_b = {i for i, _ in matches}, {j for _, j in matches}
    return MovedLayers(_lone_layers(a, places_a), _lone_layers(b, places_b), tuple(moved))


def _lone_layers(layers: list[Layer], matched: set[int]) -> tuple[tuple[str, str], ...]:
    return tuple([(layer.path, layer.type) for place, layer in enumerate(layers) if place not in matched])
