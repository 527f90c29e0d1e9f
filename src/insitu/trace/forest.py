"""The forest of events: each inside the call that made it, with a signature that calls which are alike share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, Literal

from insitu.trace.event import (
    Call,
    Event,
    Fields,
    Loop,
    Mark,
    ModuleFacts,
    Opaque,
    Site,
    TensorFacts,
    Variable,
    tensors,
)
from insitu.trace.operation import operation
from insitu.trace.path import relative
from insitu.trace.place import Places

# What is in a node or inside of it, as bits of `Node.marks`.
ODD = 1  # a call that raised or produced NaN
BACKWARD = 2  # a backward pass
MODEL = 4  # a call of a module with parameters

GroupKind = Literal["expression", "line", "rest", "function", "loop", "pass", "token"]


@dataclass(slots=True, eq=False)
class Node:
    """An event and the events inside it.

    Nodes with the same `signature` are alike: the same calls from the same places, with other values, shapes, literals
    and times. `marks` say what is in it, `size` is the number of events in it.
    """

    event: Event | Group
    children: list[Node]
    signature: int
    marks: int = 0
    size: int = 1

    @property
    def first(self) -> Event:
        """The event, or the first of the group."""
        if isinstance(self.event, Group):
            return self.event.first
        return self.event


@dataclass(slots=True, eq=False)
class Group:
    """Siblings that belong together although no call of the trace holds them; the event of a node of its own.

    - "expression": what one expression of the user's code made a library do, `optimizer.step()`
    - "line": the calls of one statement, or of a function that it calls
    - "rest": what a library did beside the calls that have rows of their own
    - "function": a function of the user that a library calls, again and again if there are several "pass" groups in it
    - "loop": a loop of the source, and in it a "pass" for each time its body ran; one that `is_unsure` is around or
      inside a loop that does nothing else, so that only the passes of the inner one can be counted
    - "token": what a library did to generate one token, whose `number` begins at 1
    """

    kind: GroupKind
    nodes: list[Node]
    first: Event
    last: Event
    calls: int
    # Nanoseconds from the start of the first event to the end of the last; of a rest, those of its calls. None if no
    # event has times.
    duration: int | None
    site: Site | None = None
    loop: Loop | None = None
    is_unsure: bool = False
    number: int = 0

    @property
    def has_passes(self) -> bool:
        """Whether it ran again and again: the nodes in it are passes."""
        return self.kind in ("loop", "function")

    @property
    def is_wrapper(self) -> bool:
        """Whether it only surrounds what it holds, of which it says no more than the source does."""
        return self.has_passes or self.kind == "line"

    @property
    def time(self) -> int | None:
        """The nanoseconds of its calls; what ran between them, and was not recorded, does not count."""
        if self.duration is None:
            return None
        return sum(call.duration or 0 for call in calls_of(self.nodes))

    @property
    def start(self) -> int:
        """The start of the first event."""
        return self.first.start


def group_of(kind: GroupKind, nodes: list[Node], *, site: Site | None = None, loop: Loop | None = None) -> Group:
    """The group of these nodes."""
    last = nodes[-1].event
    if isinstance(last, Group):
        last = last.last
    return Group(
        kind, nodes, nodes[0].first, last, sum(map(_call_count, nodes)), _duration(kind, nodes), site=site, loop=loop
    )


def _duration(kind: GroupKind, nodes: list[Node]) -> int | None:
    """The duration of a group. Those inside it have theirs already: programs recurse deeper than Python."""
    if all(_own_duration(node) is None for node in nodes):
        return None
    if kind == "rest":
        return sum(_end(node) - node.event.start for node in nodes)
    return max(map(_end, nodes)) - nodes[0].first.start


def _call_count(node: Node) -> int:
    """The number of outermost calls in a node."""
    if isinstance(node.event, Group):
        return node.event.calls
    return int(isinstance(node.event, Call))


def _own_duration(node: Node) -> int | None:
    duration: int | None = getattr(node.event, "duration", None)
    return duration


def _end(node: Node) -> int:
    return node.event.start + (_own_duration(node) or 0)


def time_of(event: Event | Group) -> int | None:
    """The nanoseconds of a call, or of the calls of a group; None for what has no time."""
    if isinstance(event, Group):
        return event.time
    return getattr(event, "duration", None)


def calls_of(nodes: Iterable[Node]) -> Iterator[Call]:
    """The outermost calls of nodes: the event of each, or the calls of a group."""
    waiting = list(nodes)[::-1]
    while waiting:
        event = waiting.pop().event
        if isinstance(event, Group):
            waiting += event.nodes[::-1]
        elif isinstance(event, Call):
            yield event


@dataclass(slots=True, eq=False)
class Forest:
    """Nests events as they complete; with `folding` off, each node has a signature of its own."""

    folding: bool = True
    places: Places = field(default_factory=Places)
    _known: dict[Any, int] = field(default_factory=dict)
    _modules: dict[ModuleFacts, int] = field(default_factory=dict)
    _functions: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    _waiting: dict[int, list[Node]] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def add(self, event: Event) -> Node | None:
        """Add an event; return its node if the event is not inside another one."""
        children = self._waiting.pop(event.id, [])
        if len(children) > 1:
            children.sort(key=beginning)  # threads do not end in the order they began
        node = Node(event, children, 0)
        if not self.folding:
            node.signature = next(self._numbers)
        elif type(event) is Call:
            self._describe_call(node, event, children)
        else:
            node.signature = self._signature(event)
        if event.parent is None:
            return node
        self._waiting.setdefault(event.parent, []).append(node)
        return None

    def forget(self) -> None:
        """Forget all structures: in a long run they would fill the memory. Later signatures have new numbers."""
        self._known.clear()
        self._modules.clear()
        self._functions.clear()
        self.places = Places()

    def rest(self) -> list[Node]:
        """The nodes whose parents were not added."""
        left = sorted(chain.from_iterable(self._waiting.values()), key=beginning)
        self._waiting.clear()
        return left

    def number(self, key: Any) -> int:
        """A number for a key; equal keys have the same one."""
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = next(self._numbers)
        return number

    def group(self, group: Group) -> Node:
        """The node of a group; groups of the same kind with the same nodes at the same place are alike."""
        key: list[Any] = [group.kind, group.loop]
        if group.site is not None:
            key += (group.site.file, group.site.line, group.site.start, group.site.function)
        marks = 0
        size = 0
        for node in group.nodes:
            key.append(node.signature)
            marks |= node.marks
            size += node.size
        return Node(group, group.nodes, self.number(tuple(key)), marks, size)

    def _signature(self, event: Event) -> int:
        """The number of an event that is not a call."""
        if isinstance(event, Variable):
            return self.number(("variable", event.name))  # all changes on one line are one row
        if isinstance(event, Mark) and event.kind != "step":
            return self.number((event.kind, event.text))
        return self.number("step")

    def _describe_call(self, node: Node, call: Call, children: list[Node]) -> None:
        """Set the signature, the marks and the size of a call."""
        module = call.module
        if call.kind == "module" and module is not None:
            callee, marks = self._module_number(module), MODEL * (module.parameters > 0)
        else:
            callee, marks = self._function(call.kind, call.name)
        is_odd = call.raised is not None or _produced_nan(call)
        marks |= is_odd
        key: list[Any] = [callee, call.operator, call.phase, call.raised, is_odd]
        if children:
            base, site = call.path, call.site
            position = self.places.position
            for child in children:
                event = child.event
                key += (position(getattr(event, "site", None), site).number, child.signature)
                if type(event) is Variable:
                    key.append(event.changes)
                elif type(event) is Call and event.kind == "module":
                    key.append(relative(event.path, base))
                marks |= child.marks
                node.size += child.size
        node.signature, node.marks = self.number(tuple(key)), marks

    def _function(self, kind: str, name: str) -> tuple[int, int]:
        """The number and the marks of a function or operator."""
        known = self._functions.get((kind, name))
        if known is None:
            runs_backward = kind == "function" and operation("function", name).runs_backward
            known = self._functions[kind, name] = self.number((kind, name)), BACKWARD * runs_backward
        return known

    def _module_number(self, module: ModuleFacts) -> int:
        number = self._modules.get(module)
        if number is None:
            key = ("module", module.type, value_key(module.settings), module.parameters)
            number = self._modules[module] = self.number(key)
        return number


def _produced_nan(call: Call) -> bool:
    """Whether there is NaN in the result, which is not memory as it was found."""
    result = call.result
    if type(result) is TensorFacts:
        if result.stats is None or not result.stats.nan:
            return False
    elif not any(map(_has_nan, tensors(result))):
        return False
    return not operation(call.kind, call.name).is_uninitialized


def _has_nan(facts: TensorFacts) -> bool:
    return facts.stats is not None and facts.stats.nan > 0


def own_key(event: Event) -> Any:
    """The arguments and the result of a call: what calls that are alike may differ in."""
    if not isinstance(event, Call):
        return None
    kwargs = value_key(event.kwargs) if event.kwargs else None
    return (_item_keys(event.args), kwargs, result_key(event.result))


def have_same_shapes(one: Node, other: Node) -> bool:
    """Whether the same shapes and variables are inside two nodes that are alike."""
    waiting = [(one, other)]
    while waiting:
        one, other = waiting.pop()
        if _shape_key(one.event) != _shape_key(other.event):
            return False
        waiting += zip(one.children, other.children, strict=True)
    return True


def _shape_key(event: Event | Group) -> Any:
    if isinstance(event, Call):
        return result_key(event.result)
    if isinstance(event, Variable):
        return _variable_key(event.value)
    return None


def _variable_key(value: Any) -> Any:
    """The key of a variable's value; floats differ from pass to pass, as the values of tensors do."""
    if type(value) is float:
        return float
    return value_key(value)


def beginning(node: Node) -> int:
    """The key to sort nodes by when they began."""
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
