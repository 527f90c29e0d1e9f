"""A run as a row of stops that can be laid beside those of another run.

A stop is a call at the finest level people write at: a function of torch, an ATen operator that no function called,
as in backward, a module or a watched function in which nothing else was seen, a variable that changed. What lies
around them, modules and watched functions, has a stop where it begins and one where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any, Literal, NamedTuple

from insitu.trace.event import Call, Event, Kind, Phase, TensorFacts, Variable
from insitu.trace.operation import UNKNOWN, Operation, operation

Role = Literal["call", "begin", "end", "variable"]
Group = tuple[int, int, int]


class Stop(NamedTuple):
    """A place in a run. Stops that share `exact` belong together, else those that share `loose`."""

    event: Call | Variable
    role: Role
    name: str
    exact: Any
    loose: Any
    operation: Operation = UNKNOWN


@dataclass(slots=True, eq=False)
class Side:
    """One of the two runs: its stops by rank, thread and step, and for each call the stop that contains it."""

    groups: dict[Group, list[Stop]] = field(default_factory=dict)
    within: dict[int, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """How many calls and variables there are."""
        stops = chain.from_iterable(self.groups.values())
        return sum(stop.role in ("call", "variable") for stop in stops)


def kinds(events: Iterable[Event]) -> set[str]:
    """The kinds of events there are."""
    return set(map(_kind, events)) - {""}


def _kind(event: Event) -> str:
    """The kind of a call, "variable" for a variable, and nothing for what is never compared."""
    if type(event) is Call:
        return event.kind
    if type(event) is Variable:
        return "variable"
    return ""


def side(events: list[Event], level: Container[str], rename: Callable[[str], str], shared: Container[str]) -> Side:
    """The stops of a run. `level` are the kinds to look at, `shared` the new paths that both runs have."""
    visible = _visible(events, level)
    builder = _SideBuilder(_open_calls(events, visible), rename, shared)
    for event in events:
        if type(event) is Call or type(event) is Variable:
            builder.add(event, event.id in visible)
    builder.close_all()
    return builder.side


class _SideBuilder:
    """Lays the events of one run out as stops, in their order.

    `_stacks` are the ends to come of the calls that are open, by group, and `_holders` says for an event which open
    call is around what is in it.
    """

    def __init__(self, open_calls: set[int], rename: Callable[[str], str], shared: Container[str]) -> None:
        self.side = Side()
        self._open_calls = open_calls
        self._rename = rename
        self._shared = shared
        self._names: dict[str, str | None] = {}
        self._stacks: dict[Group, list[Stop]] = {}
        self._holders: dict[int, int | None] = {}

    def add(self, event: Call | Variable, is_visible: bool) -> None:
        """Put the stops of the next event; an event within a stop has none of its own."""
        within, parent, number = self.side.within, event.parent, event.id
        if parent in within:
            within[number] = within[parent]
            return
        above = None if parent is None else self._holders.get(parent)
        if not is_visible:
            self._holders[number] = above
            return
        group = (event.rank, event.thread, event.step)
        stops = self.side.groups.setdefault(group, [])
        stack = self._stacks.setdefault(group, [])
        _close(stack, stops, above)
        path = self._name(_path(event))
        if number in self._open_calls:
            self._holders[number] = number
            stack.append(_stop(event, "end", path))
            stops.append(_stop(event, "begin", path))
        else:
            within[number] = number
            stops.append(_stop(event, "call", path))

    def close_all(self) -> None:
        """Put the ends of the calls that are still open."""
        for group, stack in self._stacks.items():
            _close(stack, self.side.groups[group], None)

    def _name(self, path: str) -> str | None:
        """The new name of a path, if both runs have it."""
        try:
            return self._names[path]
        except KeyError:
            name = self._rename(path)
            self._names[path] = name if name in self._shared else None
            return self._names[path]


def _visible(events: list[Event], level: Container[str]) -> set[int]:
    """The events to look at: those of the chosen kinds that are not mere questions about a tensor."""
    visible: set[int] = set()
    for event in events:
        if _kind(event) in level and not _is_query(event):
            visible.add(event.id)
    return visible


def _is_query(event: Event) -> bool:
    return type(event) is Call and operation(event.kind, event.name).family == "query"


def _path(event: Call | Variable) -> str:
    if type(event) is Variable:
        return event.name
    if type(event) is Call and event.module is not None:
        return event.module.path
    return ""


def _close(stack: list[Stop], stops: list[Stop], above: int | None) -> None:
    """Put the ends of the calls that are over; a call in which another thread or step goes on has ended there."""
    if not stack or stack[-1].event.id == above:
        return
    open_ids = [stop.event.id for stop in stack]
    if above is None:
        first = 0
    elif above in open_ids:
        first = open_ids.index(above) + 1
    else:
        return
    stops += reversed(stack[first:])
    del stack[first:]


def _open_calls(events: list[Event], visible: set[int]) -> set[int]:
    """The calls whose inside is looked at: not how a function does its work, unless modules or backward are in it."""
    by_id = {event.id: event for event in events}
    found: set[int] = set()
    for event in events:
        if event.parent is not None and event.id in visible:
            _open_calls_above(event, by_id, found)
    return found


def _open_calls_above(event: Event, by_id: dict[int, Event], found: set[int]) -> None:
    """Add the calls around an event, up to one that is not opened for it."""
    closed = _CLOSED
    if _is_inner_operator(event):
        closed = _CLOSED_TO_OPERATORS
    parent = event.parent
    while parent is not None and parent not in found:
        above = by_id.get(parent)
        if type(above) is not Call or above.kind in closed:
            return
        found.add(parent)
        parent = above.parent


# The kinds of calls that are not opened for what is in them.
_CLOSED = frozenset(("aten",))
_CLOSED_TO_OPERATORS = frozenset(("aten", "function"))


def _is_inner_operator(event: Event) -> bool:
    return type(event) is Call and event.kind == "aten" and event.phase != "backward"


def inputs(call: Call) -> tuple[TensorFacts, ...]:
    """The tensors whose values go into a call: not the one that it only writes to."""
    found = call.inputs
    if operation(call.kind, call.name).overwrites:
        return found[1:]
    return found


def returned_input(stop: Stop) -> int | None:
    """The place of the input that a call returns as it is, as dropout does in evaluation; None if it makes a result."""
    call = stop.event
    if type(call) is not Call or len(call.outputs) != 1:
        return None
    for place, facts in enumerate(call.inputs):
        if _is_returned(facts, call.outputs[0], call):
            return place
    return None


def _is_returned(facts: TensorFacts, output: TensorFacts, call: Call) -> bool:
    """Whether an output is the very tensor that goes in, and the call has not written to it."""
    if facts.id != output.id or output.producer == call.id:
        return False
    return (facts.producer, facts.shape, facts.dtype) == (output.producer, output.shape, output.dtype)


def _stop(event: Call | Variable, role: Role, path: str | None) -> Stop:
    if type(event) is Variable:
        own = ("variable", event.name if path is None else path)
        return Stop(event, "variable", event.name, own, own)
    assert type(event) is Call
    what, exact, loose = _keys(event.kind, event.name, event.phase, role, path)
    if what.reads_attribute:  # a program that reads all gradients, as an optimizer does, reads them in order
        exact = (*exact, *[facts.shape for facts in event.inputs])
    return Stop(event, role, what.name, exact, loose, what)


@lru_cache(maxsize=4096)
def _keys(kind: Kind, name: str, phase: Phase, role: Role, path: str | None) -> tuple[Operation, Any, Any]:
    """The operation, and what a call is known by: the same objects for all that are alike."""
    what = operation(kind, name)
    own = what.name
    if kind == "module":  # known by its path: it may be of another class in the other run
        return what, (role, "module", own if path is None else path), (role, "module", own)
    if role != "call" or kind == "python":
        return what, (role, kind, own, path), (role, kind, own)
    return what, (own, path, phase), (what.base or own, phase)
