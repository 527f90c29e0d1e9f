"""Events under those that made them, and which of them are the same but for values, times and places."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from insitu.trace.event import Call, Event, Fields, Mark, ModuleFacts, Opaque, TensorFacts, Variable
from insitu.trace.path import relative


@dataclass(slots=True, eq=False)
class Node:
    """An event and the events inside it; nodes with the same `signature` differ only in values, times and places."""

    event: Event | Group
    children: list[Node]
    signature: Hashable

    @property
    def first(self) -> Event:
        """The event, or the first of the group."""
        if isinstance(self.event, Group):
            return self.event.first
        return self.event


@dataclass(slots=True, eq=False)
class Group:
    """Siblings that belong together although no call of the trace holds them; the event of a node of its own.

    An "expression" is what one expression of the user's code made a library do: `optimizer.step()`. A "pass" is one of
    several passes of a loop: the same calls from the same lines, again and again.
    """

    kind: Literal["expression", "pass"]
    nodes: list[Node]

    @property
    def first(self) -> Event:
        """The first event of all."""
        return self.nodes[0].first

    @property
    def last(self) -> Event:
        """The event that began last, of those that lie in no other."""
        event = self.nodes[-1].event
        if isinstance(event, Group):
            return event.last
        return event

    @property
    def duration(self) -> int:
        """The nanoseconds from the beginning of the first to the end of all."""
        return max(map(_end, self.nodes)) - self.start

    @property
    def start(self) -> int:
        """When the first began."""
        return self.first.start

    def calls(self) -> Iterator[Call]:
        """The calls that it stands for."""
        return calls_of(self.nodes)


def _end(node: Node) -> int:
    duration: int | None = getattr(node.event, "duration", None)
    return node.event.start + (duration or 0)


def calls_of(nodes: Iterable[Node]) -> Iterator[Call]:
    """The calls that nodes stand for: their own, or those of a group."""
    for node in nodes:
        if isinstance(node.event, Group):
            yield from node.event.calls()
        elif isinstance(node.event, Call):
            yield node.event


@dataclass(slots=True, eq=False)
class Forest:
    """Nests events as they complete; with `folding` off no node is like another."""

    folding: bool = True
    _known: dict[Any, int] = field(default_factory=dict)
    _modules: dict[ModuleFacts, int] = field(default_factory=dict)
    _waiting: dict[int, list[Node]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def add(self, event: Event) -> Node | None:
        """Put an event in its place; returned is the node if it lies in no other."""
        children = self._waiting.pop(event.id, [])
        if len(children) > 1:
            children.sort(key=_beginning)  # threads do not end in the order they began
        node = Node(event, children, self._signature(event, children) if self.folding else next(self._numbers))
        if event.parent is None:
            return node
        self._waiting.setdefault(event.parent, []).append(node)
        return None

    def forget(self) -> None:
        """Forget the structures seen so far, which a long run would heap up; no number is given out again."""
        self._known.clear()
        self._modules.clear()

    def rest(self) -> list[Node]:
        """The nodes whose parents never came."""
        left = sorted((node for nodes in self._waiting.values() for node in nodes), key=_beginning)
        self._waiting.clear()
        return left

    def _signature(self, event: Event, children: list[Node]) -> int:
        """A number for the structure of the event; equal structures get the same one."""
        if isinstance(event, Mark):
            return self._number((event.kind, event.text if event.kind != "step" else None))
        if isinstance(event, Variable):
            return self._number(("variable", event.name))  # its changes on one line are one row, whatever they are
        module = event.module
        base = module.path if module is not None else ""
        inside = tuple([_within(node, base) for node in children])
        called = self._module(module) if module is not None and event.kind == "module" else event.name
        kwargs = value_key(event.kwargs) if event.kwargs else None
        how = (called, event.kind, event.operator, event.raised, event.phase)
        return self._number((how, _item_keys(event.args), kwargs, result_key(event.result), inside))

    def _module(self, module: ModuleFacts) -> int:
        number = self._modules.get(module)
        if number is None:
            key = ("module", module.type, value_key(module.settings), module.parameters)
            number = self._modules[module] = self._number(key)
        return number

    def _number(self, key: Any) -> int:
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = next(self._numbers)
        return number


def _within(node: Node, base: str) -> Any:
    """What a node adds to the signature of its parent: modules also their name there, variables what became of them."""
    event = node.event
    if isinstance(event, Variable):
        value = event.value
        return (node.signature, event.changes, float if type(value) is float else value_key(value))
    if isinstance(event, Call) and event.kind == "module":
        return (relative(event.path, base), node.signature)
    return node.signature


def _beginning(node: Node) -> int:
    return node.first.id


def result_key(result: Any) -> Any:
    """What was returned, to be compared: numbers are values, as those of a tensor are."""
    if isinstance(result, (int, float, complex)):
        return type(result)
    if type(result) is list:  # of `tolist`
        return (list, *map(result_key, result))
    return value_key(result)


def value_key(value: Any) -> Any:
    """A value as something that can be compared and hashed: of tensors the shape and dtype, of strangers the type."""
    kind = type(value)
    if kind is TensorFacts:
        return _tensor_key(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is tuple or kind is list:
        return (kind, _item_keys(value))
    if kind is dict:
        if value:
            return (dict, *[(name, value_key(item)) for name, item in value.items()])
        return dict
    if isinstance(value, Fields):
        return (value.type, value_key(value.items))
    if isinstance(value, (float, bool, complex)):
        return (kind, value if value == value else "nan")  # True and 1.0 are not 1 here, and NaN is NaN
    if isinstance(value, str):
        return str(value)
    return (kind, value.type if isinstance(value, Opaque) else None)


def _item_keys(items: Iterable[Any]) -> tuple[Any, ...]:
    # tensors first, without a call: they are most of what there is
    return tuple([_tensor_key(item) if type(item) is TensorFacts else value_key(item) for item in items])


def _tensor_key(facts: TensorFacts) -> Any:
    """Dtype and shape, and whether there is NaN: a block that makes it is not like the others."""
    if facts.stats is not None and facts.stats.nan:
        return (facts.dtype, facts.shape, "nan")
    return (facts.dtype, facts.shape)
