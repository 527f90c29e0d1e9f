"""Layers that have another number in the other run, because one was put in or taken out before them.

The numbered layers of a container, as of `Sequential` and `ModuleList`, are laid side by side by their weights as far
as these are known, then by class and settings, then by class alone. They keep their numbers unless others fit better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from insitu.trace.compare.align import Match, align
from insitu.trace.compare.change import MovedLayers, Remark
from insitu.trace.compare.rename import Renamer
from insitu.trace.event import NUMBERS, Call, Event, TensorFacts, Variable
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


class Numbered:
    """The modules of a run, and those that are numbered layers of a container; `paths` are those of variables too."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        calls = [event.module for event in events if type(event) is Call and event.module is not None]
        found = {id(module): module for module in calls}
        self._modules = {module.path: module for module in found.values()}
        self.paths = {*self._modules, *(event.name for event in events if type(event) is Variable)}
        self.containers: dict[str, dict[int, list[str]]] = {}
        for path in sorted(self._modules):
            for container, number in _numbers(path):
                self.containers.setdefault(container, {}).setdefault(number, []).append(path)

    def layers(self, container: str) -> list[Layer]:
        """The layers of a container by their numbers; what is known of their weights is left out."""
        numbered = sorted(self.containers.get(container, {}).items())
        return [self._layer(f"{container}.{number}".lstrip("."), number, below) for number, below in numbered]

    def _layer(self, path: str, number: int, below: list[str]) -> Layer:
        inner = [(name[len(path) :], self._modules[name]) for name in below]
        make = tuple([(name, module.type, value_key(module.settings)) for name, module in inner])
        return Layer(number, path, self._modules[path].type if path in self._modules else "", make)

    def weigh(self, container: str, layers: list[Layer]) -> None:
        """Note in each layer what is known of its weights."""
        for layer in layers:
            below = self.containers[container][layer.number]
            layer.known = (layer.make, tuple([tuple(self._weights.get(path, {}).values()) for path in below]))

    @cached_property
    def _weights(self) -> dict[str, dict[Any, Any]]:
        """For each module the parameters that its calls were first given."""
        found: dict[str, dict[Any, Any]] = {}
        for event in self._events:
            if type(event) is not Call or event.kind == "module":
                continue
            for place, facts in enumerate(event.inputs):
                if facts.type == "Parameter":
                    found.setdefault(event.path, {}).setdefault((event.name, place), _weight(facts))
        return found


class Renumbering:
    """Gives paths of a the names that they have in b; `remarks` say which layers only one of them has."""

    def __init__(self, a: Numbered, b: Numbered, renamed: Renamer) -> None:
        self.remarks: list[Remark] = []
        self._renamed = renamed
        self._moved: dict[str, str] = {}
        self._a, self._b = a, b
        for container in sorted(a.containers, key=len):  # outer ones first
            if not any(renamed.names(*inner) for inner in _inner(a.containers[container], container)):
                self._renumber(container, self(container))

    def __call__(self, path: str) -> str:
        """The name in b of a path of a."""
        outer = path if self._moved else ""
        while outer:
            if outer in self._moved:
                return self._moved[outer] + path[len(outer) :]
            outer = outer.rpartition(".")[0]
        return self._renamed(path)

    def _renumber(self, container: str, other: str) -> None:
        a, b = self._a.layers(container), self._b.layers(other)
        if not b or [(one.number, one.make) for one in a] == [(one.number, one.make) for one in b]:
            return
        self._a.weigh(container, a)
        self._b.weigh(other, b)
        pairs = _paired(a, b)
        if _likeness(pairs, a, b) <= _likeness(_as_numbered(a, b), a, b):
            return
        self._moved |= {layer.path: f"{layer.path} only in a" for layer in a}
        self._moved |= {a[i].path: b[j].path for i, j in pairs}
        self.remarks.append(_moved_layers(pairs, a, b))


def _numbers(path: str) -> Iterator[tuple[str, int]]:
    """The containers that a path leads through, with the number in each.

    >>> list(_numbers("layers.3.mlp.0"))
    [('layers', 3), ('layers.3.mlp', 0)]
    """
    segments = path.split(".")
    for place, segment in enumerate(segments):
        if segment.isdecimal() and str(int(segment)) == segment:
            yield ".".join(segments[:place]), int(segment)


def _inner(layers: dict[int, list[str]], container: str) -> Iterator[tuple[str, int]]:
    """The paths in a container, and how much of each leads to a layer of it."""
    for number, below in layers.items():
        length = len(f"{container}.{number}".lstrip("."))
        yield from ((path, length) for path in below)


def _weight(facts: TensorFacts) -> Any:
    """What a parameter is known by: its statistics, or some of its values."""
    if facts.stats is not None:
        stats = facts.stats
        return (stats.count, *(_rounded(getattr(stats, row.name)) for row in NUMBERS))
    if hasattr(facts.kept, "ravel"):
        return (facts.shape, *map(_rounded, facts.kept.ravel()[:MOST_VALUES].tolist()))
    return (facts.shape, _rounded(facts.kept))


def _rounded(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    return repr(value)


def _paired(a: list[Layer], b: list[Layer]) -> list[Match]:
    """The places of layers that belong together; a layer that is like no other goes with the one in its place."""
    pairs: list[Match] = []
    for key in ("known", "make", "type"):
        for gap_a, gap_b in list(_gaps(pairs, len(a), len(b))):
            found = align([getattr(a[i], key) for i in gap_a], [getattr(b[j], key) for j in gap_b])
            pairs += [(gap_a[i], gap_b[j]) for i, j in found]
        pairs.sort()
    for gap_a, gap_b in list(_gaps(pairs, len(a), len(b))):
        pairs += zip(gap_a, gap_b, strict=True) if len(gap_a) == len(gap_b) else ()
    return sorted(pairs)


def _gaps(pairs: list[Match], length_a: int, length_b: int) -> Iterator[tuple[range, range]]:
    """The places between pairs, where both sides have some."""
    before = (0, 0)
    for i, j in [*pairs, (length_a, length_b)]:
        if before[0] < i and before[1] < j:
            yield range(before[0], i), range(before[1], j)
        before = (i + 1, j + 1)


def _as_numbered(a: list[Layer], b: list[Layer]) -> list[Match]:
    places = {layer.number: place for place, layer in enumerate(b)}
    return [(place, places[layer.number]) for place, layer in enumerate(a) if layer.number in places]


def _likeness(pairs: Sequence[Match], a: list[Layer], b: list[Layer]) -> int:
    """How much is the same in layers that are put side by side."""
    both = [(a[i], b[j]) for i, j in pairs]
    return sum((x.known == y.known) + (x.make == y.make) + (x.type == y.type) for x, y in both)


def _moved_layers(matches: list[Match], a: list[Layer], b: list[Layer]) -> MovedLayers:
    """The layers that only one side has, and those that have another number for it."""
    moved = [(a[i].path, b[j].path) for i, j in matches if a[i].number != b[j].number]
    places_a, places_b = {i for i, _ in matches}, {j for _, j in matches}
    return MovedLayers(_lone_layers(a, places_a), _lone_layers(b, places_b), tuple(moved))


def _lone_layers(layers: list[Layer], matched: set[int]) -> tuple[tuple[str, str], ...]:
    return tuple([(layer.path, layer.type) for place, layer in enumerate(layers) if place not in matched])
