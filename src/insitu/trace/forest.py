"""The forest of events: each inside the call that made it, with a signature that tells identical ones."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Literal

from insitu.trace.event import Call, Event, Fields, ModuleFacts, Opaque, TensorFacts, Variable
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
        """The outermost event that began last."""
        event = self.nodes[-1].event
        if isinstance(event, Group):
            return event.last
        return event

    @property
    def duration(self) -> int:
        """The nanoseconds from the start of the first event to the end of the last."""
        return max(map(_end, self.nodes)) - self.start

    @property
    def start(self) -> int:
        """The start of the first event."""
        return self.first.start

    def calls(self) -> Iterator[Call]:
        """The calls of the group."""
        return calls_of(self.nodes)


def _end(node: Node) -> int:
    duration: int | None = getattr(node.event, "duration", None)
    return node.event.start + (duration or 0)


def calls_of(nodes: Iterable[Node]) -> Iterator[Call]:
    """The calls of nodes: the event of each, or the calls of a group."""
    for node in nodes:
        if isinstance(node.event, Group):
            yield from node.event.calls()
        elif isinstance(node.event, Call):
            yield node.event


@dataclass(slots=True, eq=False)
class Forest:
    """Nests events as they complete; with `folding` off, each node has a signature of its own."""

    folding: bool = True
    _known: dict[Any, int] = field(default_factory=dict)
    _modules: dict[ModuleFacts, int] = field(default_factory=dict)
    _waiting: dict[int, list[Node]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def add(self, event: Event) -> Node | None:
        """Add an event; return its node if the event is not inside another one."""
        children = self._waiting.pop(event.id, [])
        if len(children) > 1:
            children.sort(key=_beginning)  # threads do not end in the order they began
        signature = self._signature(event, children) if self.folding else next(self._numbers)
        node = Node(event, children, signature)
        if event.parent is None:
            return node
        self._waiting.setdefault(event.parent, []).append(node)
        return None

    def forget(self) -> None:
        """Forget all structures: in a long run they would fill the memory. Later signatures have new numbers."""
        self._known.clear()
        self._modules.clear()

    def rest(self) -> list[Node]:
        """The nodes whose parents were not added."""
        left = sorted(chain.from_iterable(self._waiting.values()), key=_beginning)
        self._waiting.clear()
        return left

    def _signature(self, event: Event, children: list[Node]) -> int:
        """A number for the structure of an event; equal structures have the same one."""
        if isinstance(event, Call):
            return self._call_signature(event, children)
        if isinstance(event, Variable):
            return self._number(("variable", event.name))  # all changes on one line are one row
        if event.kind == "step":
            return self._number("step")
        return self._number((event.kind, event.text))

    def _call_signature(self, call: Call, children: list[Node]) -> int:
        callee: int | str = call.name
        base = ""
        if call.module is not None:
            base = call.module.path
            if call.kind == "module":
                callee = self._module_number(call.module)
        inside = tuple([_key_in_parent(node, base) for node in children])
        how = (callee, call.kind, call.operator, call.raised, call.phase)
        kwargs = value_key(call.kwargs) if call.kwargs else None
        return self._number((how, _item_keys(call.args), kwargs, result_key(call.result), inside))

    def _module_number(self, module: ModuleFacts) -> int:
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


def _key_in_parent(node: Node, base: str) -> Any:
    """What a node adds to the signature of its parent: a module also its name there, a variable also its value."""
    event = node.event
    if isinstance(event, Variable):
        return (node.signature, event.changes, _variable_key(event.value))
    if isinstance(event, Call) and event.kind == "module":
        return (relative(event.path, base), node.signature)
    return node.signature


def _variable_key(value: Any) -> Any:
    """The key of a variable's value; floats differ from pass to pass, as the values of tensors do."""
    if type(value) is float:
        return float
    return value_key(value)


def _beginning(node: Node) -> int:
    return node.first.id


def result_key(result: Any) -> Any:
    """The key of a result: numbers are values, as those of a tensor are, so only their type counts."""
    if isinstance(result, (int, float, complex)):
        return type(result)
    if type(result) is list:  # of `tolist`
        return (list, *map(result_key, result))
    return value_key(result)


def value_key(value: Any) -> Any:
    """A key that equal values share: for a tensor its dtype and shape, for an unknown object its type."""
    kind = type(value)
    if kind in _OWN_KEYS:
        return value
    make_key = _MAKE_KEY.get(kind)
    if make_key is not None:
        return make_key(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (float, complex)):
        return _number_key(value)
    return (kind, None)


def _item_keys(items: Iterable[Any]) -> tuple[Any, ...]:
    # Most items are tensors: their keys need no call of value_key.
    return tuple([_tensor_key(item) if type(item) is TensorFacts else value_key(item) for item in items])


def _tensor_key(facts: TensorFacts) -> Any:
    """Dtype and shape, and whether there is a NaN: a block that produces NaN differs from the others."""
    if facts.stats is not None and facts.stats.nan:
        return (facts.dtype, facts.shape, "nan")
    return (facts.dtype, facts.shape)


def _sequence_key(value: tuple[Any, ...] | list[Any]) -> Any:
    return (type(value), _item_keys(value))


def _dict_key(value: dict[Any, Any]) -> Any:
    if not value:
        return dict
    return (dict, *[(name, value_key(item)) for name, item in value.items()])


def _number_key(value: complex) -> Any:
    """The type and the number: True and 1.0 are not the integer 1, and NaN equals NaN."""
    if value != value:
        return (type(value), "nan")
    return (type(value), value)


_OWN_KEYS = frozenset((int, str, type(None)))
_MAKE_KEY: dict[type, Callable[[Any], Any]] = {
    TensorFacts: _tensor_key,
    tuple: _sequence_key,
    list: _sequence_key,
    dict: _dict_key,
    float: _number_key,
    bool: _number_key,
    complex: _number_key,
    Fields: lambda value: (value.type, value_key(value.items)),
    Opaque: lambda value: (Opaque, value.type),
}
