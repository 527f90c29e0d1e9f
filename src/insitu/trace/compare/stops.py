"""A run as a row of stops that can be laid beside those of another run.

A stop is a call at the finest level people write at: a function of torch, an ATen operator that no function called,
as in backward, a module or a watched function in which nothing else was seen, a variable that changed. What lies
around them, modules and watched functions, has a stop where it begins and one where it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from insitu.trace.event import Call, Event, Kind, Mark, Phase, TensorFacts, Variable
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
        return sum(stop.role in ("call", "variable") for stops in self.groups.values() for stop in stops)


def kinds(events: Iterable[Event]) -> set[str]:
    """The kinds of events there are."""
    found = {event.kind if type(event) is Call else "variable" for event in events if type(event) is not Mark}
    return found - {""}


def side(events: list[Event], chosen: Container[str], renamed: Callable[[str], str], shared: Container[str]) -> Side:
    """The stops of a run. `chosen` are the kinds to look at, `shared` the paths, once renamed, that both runs have."""
    found = Side()
    opened = _opened(events, chosen)
    names: dict[str, str | None] = {}
    open_: dict[Group, list[Stop]] = {}
    holder: dict[int, int | None] = {}
    for event in events:
        if isinstance(event, Mark):
            continue
        above = _above(event, holder, found.within)
        if above is None and event.parent in found.within:
            found.within[event.id] = found.within[event.parent]
            continue
        if (event.kind if type(event) is Call else "variable") not in chosen or _is_beside(event):
            holder[event.id] = above
            continue
        group = (event.rank, event.thread, event.step)
        stack, stops = open_.setdefault(group, []), found.groups.setdefault(group, [])
        _close(stack, stops, above)
        path = _path(event)
        if path not in names:
            own = renamed(path)
            names[path] = own if own in shared else None
        if event.id in opened:
            holder[event.id] = event.id
            stack.append(_stop(event, "end", names[path]))
            stops.append(_stop(event, "begin", names[path]))
        else:
            found.within[event.id] = event.id
            stops.append(_stop(event, "call" if type(event) is Call else "variable", names[path]))
    for group, stack in open_.items():
        _close(stack, found.groups[group], None)
    return found


def _path(event: Call | Variable) -> str:
    if type(event) is Variable:
        return event.name
    if type(event) is Call and event.module is not None:
        return event.module.path
    return ""


def _above(event: Event, holder: dict[int, int | None], within: dict[int, int]) -> int | None:
    """The call around an event that has a beginning and an end here."""
    if event.parent is None or event.parent in within:
        return None
    return holder.get(event.parent)


def _close(stack: list[Stop], stops: list[Stop], above: int | None) -> None:
    """Put the ends of the calls that are over; a call in which another thread or step goes on has ended there."""
    if (stack[-1].event.id if stack else None) == above:
        return
    if above is not None and not any(stop.event.id == above for stop in stack):
        return
    while stack and stack[-1].event.id != above:
        stops.append(stack.pop())


def _opened(events: list[Event], chosen: Container[str]) -> set[int]:
    """The calls whose inside is looked at: not how a function does its work, unless modules or backward are in it."""
    by_id = {event.id: event for event in events}
    opened: set[int] = set()
    for event in events:
        if type(event) is Mark or event.parent is None:
            continue
        if (event.kind if type(event) is Call else "variable") not in chosen or _is_beside(event):
            continue
        above = by_id.get(event.parent)
        inner = type(event) is Call and event.kind == "aten" and event.phase != "backward"
        while type(above) is Call and above.id not in opened:
            if above.kind == "aten" or (inner and above.kind == "function"):
                break
            opened.add(above.id)
            above = by_id.get(above.parent) if above.parent is not None else None
    return opened


def _is_beside(event: Event) -> bool:
    return type(event) is Call and operation(event.kind, event.name).family == "query"


def inputs(call: Call) -> tuple[TensorFacts, ...]:
    """The tensors whose values go into a call: not the one that it only writes to."""
    found = call.inputs
    if operation(call.kind, call.name).overwrites:
        return found[1:]
    return found


def _stop(event: Call | Variable, role: Role, path: str | None) -> Stop:
    if type(event) is Variable:
        own = ("variable", event.name if path is None else path)
        return Stop(event, role, event.name, own, own)
    assert type(event) is Call
    what, exact, loose = _keys(event.kind, event.name, event.phase, role, path)
    if what.reads_attribute:  # who reads all gradients, as an optimizer does, reads one after the other
        exact = (*exact, *(facts.shape for facts in event.inputs))
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
