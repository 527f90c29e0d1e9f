"""What is computed once from events and shared by all views: order, selection, nesting, identical blocks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import Any

from insitu.trace.event import Call, Event, Fields, Mark, ModuleFacts, Opaque, TensorFacts, Variable
from insitu.trace.path import matches, require


def completed(events: Iterable[Event]) -> Iterator[Event]:
    """The events in the order they ended, children before parents, from the order they began.

    >>> outer, inner = Call(0, None, "module", "A"), Call(1, 0, "module", "B")
    >>> [call.name for call in completed([outer, inner])]
    ['B', 'A']
    """
    every = list(events)
    known = {event.id for event in every}
    children: dict[int | None, list[Event]] = {}
    for event in every:
        children.setdefault(event.parent if event.parent in known else None, []).append(event)
    open_: list[tuple[Event | None, Iterator[Event]]] = [(None, iter(children.get(None, ())))]
    while open_:
        parent, rest = open_[-1]
        following = next(rest, None)
        if following is not None:
            open_.append((following, iter(children.get(following.id, ()))))
            continue
        open_.pop()
        if parent is not None:
            yield parent


def moments(events: Iterable[Event]) -> Iterator[tuple[Event, bool]]:
    """The events as they came while the program ran: each when it was complete, and the calls of watched functions
    also when they began, which the flag tells.

    >>> outer, inner = Call(0, None, "python", "f"), Variable(1, 0, "x", 1, ("new",))
    >>> [(event.id, begins) for event, begins in moments([outer, inner])]
    [(0, True), (1, False), (0, False)]
    """
    every = list(events)
    ending = _endings(every)
    for index, event in enumerate(every):
        for call in ending.get(index, ()):
            yield call, False
        if type(event) is not Call:
            yield event, False
        elif event.kind == "python":
            yield event, True
    for call in ending.get(len(every), ()):
        yield call, False


def _endings(every: list[Event]) -> dict[int, list[Call]]:
    """The calls by the number of the event before which they end.

    That is the first event after all that lies in the call. By the clock it may be a later one: a generator that
    waits, or a call in another thread, is still open when the next event begins.
    """
    place = {event.id: index for index, event in enumerate(every)}
    last = list(range(len(every)))
    ends = [event.start + (event.duration or 0) if type(event) is Call else event.start for event in every]
    for index in range(len(every) - 1, -1, -1):
        above = place.get(every[index].parent)  # type: ignore[arg-type]
        if above is not None and above < index:
            last[above] = max(last[above], last[index])
            ends[above] = max(ends[above], ends[index])
    starts = list(accumulate((event.start for event in every), max))
    found: dict[int, list[tuple[int, int, Call]]] = {}
    for index, event in enumerate(every):
        if type(event) is Call:
            after = last[index] + 1
            if event.duration is not None and after < len(every) and every[after].start > event.start:
                after = max(after, bisect_left(starts, ends[index]))
            found.setdefault(after, []).append((ends[index], -index, event))
    return {after: [call for *_, call in sorted(calls)] for after, calls in found.items()}


def select(events: Iterable[Event], only: str | Iterable[str] | None) -> list[Event]:
    """The calls of the modules whose path matches, all that lies in them, their backward calls, and all around these.

    Variables are chosen by their names in the same way. A pattern that matches neither a module nor a variable raises
    `PatternError` and names the nearest.
    """
    every = list(events)
    if not only:
        return every
    patterns = [only] if isinstance(only, str) else list(only)
    paths = dict.fromkeys(path for event in every if (path := _address(event)) is not None)
    for pattern in patterns:
        require(pattern, paths)
    wanted = {path for path in paths if any(matches(pattern, path) for pattern in patterns)}
    parents = {event.id: event.parent for event in every}
    inside: set[int] = set()
    around: set[int] = set()
    for event in every:
        if event.parent in inside:
            inside.add(event.id)
        elif _address(event) in wanted or (isinstance(event, Call) and event.forward in inside):
            inside.add(event.id)
            above = event.parent
            while above is not None and above not in around and above in parents:
                around.add(above)
                above = parents[above]
    return [event for event in every if event.id in inside or event.id in around]


def _address(event: Event) -> str | None:
    """What a pattern names: the path of a module that is called, the name of a variable."""
    if isinstance(event, Variable):
        return event.name
    return event.path if isinstance(event, Call) and event.kind == "module" else None


def relative(path: str, base: str) -> str:
    """A path as seen from another one.

    >>> relative("h.0.attn", "h.0"), relative("head", ""), relative("wte", "head"), relative("h.0", "h.0")
    ('attn', 'head', 'wte', '')
    """
    if not base:
        return path
    if path.startswith(base) and (len(path) == len(base) or path[len(base)] == "."):
        return path[len(base) + 1 :]
    return path


@dataclass(slots=True, eq=False)
class Node:
    """An event and what lies in it; nodes with the same `signature` are the same but for values, times and places."""

    event: Event
    children: list[Node]
    signature: int


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
        kwargs = frozen(event.kwargs) if event.kwargs else None
        how = (called, event.kind, event.operator, event.raised, event.phase)
        return self._number((how, _frozen_items(event.args), kwargs, frozen(event.result), inside))

    def _module(self, module: ModuleFacts) -> int:
        number = self._modules.get(module)
        if number is None:
            key = ("module", module.type, frozen(module.settings), module.parameters)
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
        return (node.signature, event.changes, float if type(value) is float else frozen(value))
    if isinstance(event, Call) and event.kind == "module":
        return (relative(event.path, base), node.signature)
    return node.signature


def _beginning(node: Node) -> int:
    return node.event.id


def frozen(value: Any) -> Any:
    """A value as something that can be compared and hashed: of tensors the shape and dtype, of strangers the type."""
    kind = type(value)
    if kind is TensorFacts:
        return _frozen_tensor(value)
    if kind is int or kind is str or value is None:
        return value
    if kind is tuple or kind is list:
        return (kind, _frozen_items(value))
    if kind is dict:
        return (dict, *[(name, frozen(item)) for name, item in value.items()]) if value else dict
    if isinstance(value, Fields):
        return (value.type, frozen(value.items))
    if isinstance(value, (float, bool, complex)):
        return (kind, value if value == value else "nan")  # True and 1.0 are not 1 here, and NaN is NaN
    return str(value) if isinstance(value, str) else (kind, value.type if isinstance(value, Opaque) else None)


def _frozen_items(items: Iterable[Any]) -> tuple[Any, ...]:
    # tensors first, without a call: they are most of what there is
    return tuple([_frozen_tensor(item) if type(item) is TensorFacts else frozen(item) for item in items])


def _frozen_tensor(facts: TensorFacts) -> Any:
    """Dtype and shape, and whether there is NaN: a block that makes it is not like the others."""
    if facts.stats is not None and facts.stats.nan:
        return (facts.dtype, facts.shape, "nan")
    return (facts.dtype, facts.shape)


@dataclass(slots=True, eq=False)
class Fold:
    """Nodes that one row stands for: the first `count` are siblings, the others their likes in identical blocks."""

    nodes: list[Node]
    count: int = 1

    @property
    def event(self) -> Event:
        """The event of the first node."""
        return self.nodes[0].event

    def children(self) -> list[Fold]:
        """What lies in these nodes, identical blocks folded."""
        first = self.nodes[0].children
        if not first:
            return []
        if len(self.nodes) == 1:
            return fold(first, self.event)
        columns = [node.children for node in self.nodes]
        return [
            Fold([node for children in columns for node in children[start:end]], end - start)
            for start, end in _runs(first, self.event)
        ]


def fold(nodes: list[Node], base: Event | None = None) -> list[Fold]:
    """Siblings with each run of identical ones as one: modules `h.0`, `h.1`, …, or one line of a loop run again."""
    return [Fold(nodes[start:end], end - start) for start, end in _runs(nodes, base)]


def _runs(nodes: list[Node], base: Event | None) -> list[tuple[int, int]]:
    """Where each run of identical siblings begins and ends."""
    if len(nodes) == 1:
        return [(0, 1)]
    path = base.path if isinstance(base, Call) else ""
    runs: list[tuple[int, int]] = []
    start = 0
    for index in range(1, len(nodes)):
        first, node = nodes[start], nodes[index]
        if node.signature != first.signature or _place(node.event, path) != _place(first.event, path):
            runs.append((start, index))
            start = index
    runs.append((start, len(nodes)))
    return runs


def _place(event: Event, base: str) -> Any:
    """What identical siblings must share to be folded: numbered modules their list, other calls their line."""
    if isinstance(event, Mark):
        return event.id
    if isinstance(event, Variable) or event.kind != "module":
        return event.site
    return ["#" if part.isdigit() else part for part in relative(event.path, base).split(".")]


@dataclass(slots=True, eq=False)
class Steps:
    """Identical steps that follow each other, and what happened in each of them."""

    first: int
    last: int
    count: int
    folds: list[Fold]


def steps(roots: list[Node]) -> list[Steps]:
    """The roots by step, identical steps folded."""
    every: list[list[Node]] = []
    place: tuple[int, int] | None = None
    for node in roots:
        if (node.event.rank, node.event.step) != place:
            place = (node.event.rank, node.event.step)
            every.append([])
        every[-1].append(node)
    groups: list[list[list[Node]]] = []
    for nodes in every:
        if groups and _same(groups[-1][0], nodes):
            groups[-1].append(nodes)
        else:
            groups.append([nodes])
    return [_steps(alike) for alike in groups]


def _same(one: list[Node], other: list[Node]) -> bool:
    alike = one[0].event.rank == other[0].event.rank and len(one) == len(other)
    return alike and all(a.signature == b.signature for a, b in zip(one, other, strict=True))


def _steps(alike: list[list[Node]]) -> Steps:
    folds = [
        Fold([node for nodes in alike for node in nodes[start:end]], end - start)
        for start, end in _runs(alike[0], None)
    ]
    return Steps(alike[0][0].event.step, alike[-1][0].event.step, len(alike), folds)
