"""The graph behind the exports: calls as its nodes, tensors between them, and the modules around them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, TensorFacts
from insitu.trace.folded_steps import Steps, by_step, fold_steps
from insitu.trace.forest import Forest, Node, beginning
from insitu.trace.operation import operation
from insitu.trace.order import completion_order
from insitu.trace.path import relative
from insitu.trace.trace import Trace
from insitu.view.name import function_name, module_type
from insitu.view.tree_name import step_title
from insitu.view.value import safe


@dataclass(slots=True, frozen=True)
class Edge:
    """A tensor from an output of one call, or from outside if `source` is None, to an input of another call."""

    source: int | None
    output: int
    target: int
    input: int
    tensor: TensorFacts


@dataclass(slots=True)
class StepGraph:
    """The calls of one step, and the tensors between them; identical steps are one graph, `title` says which."""

    title: str
    calls: list[Call] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)


def step_graphs(trace: Trace) -> list[StepGraph]:
    """A graph for each step; several that are the same are one."""
    groups = step_groups(trace)
    ranks = {group.folds[0].nodes[0].first.rank for group in groups}
    return [_graph(group, ranked=len(ranks) > 1) for group in groups]


def step_groups(trace: Trace) -> list[Steps]:
    """The events of a trace by step, nested, and identical ones folded."""
    forest = Forest()
    events = (event for event in completion_order(trace.events) if not _is_step(event))
    roots = [root for root in map(forest.add, events) if root is not None]
    return fold_steps(by_step(sorted([*roots, *forest.rest()], key=beginning)))


def _is_step(event: Event) -> bool:
    """Whether an event marks a step; each event has its step itself."""
    return isinstance(event, Mark) and event.kind == "step"


def _graph(group: Steps, *, ranked: bool) -> StepGraph:
    title = step_title(group, ranked)
    if group.count > 1:
        title = f"{title}, {group.count} alike"
    graph = StepGraph(title)
    roots = [node for fold in group.folds for node in fold.nodes[: fold.count]]
    graph.calls = operations(node.first for node in _walk(roots))
    graph.edges = list(_edges(graph.calls))
    return graph


def _walk(roots: list[Node]) -> Iterator[Node]:
    """The nodes in the order they began; a stack, because programs recurse deeper than Python."""
    waiting = roots[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.children[::-1]


def operations(events: Iterable[Event]) -> list[Call]:
    """The calls that produce something themselves: the innermost ones, and those with an output of no call inside."""
    calls = [event for event in events if isinstance(event, Call)]
    parents = {call.parent for call in calls}
    return [call for call in calls if _is_operation(call, has_calls_inside=call.id in parents)]


def _is_operation(call: Call, *, has_calls_inside: bool) -> bool:
    if operation(call.kind, call.name).is_incidental:
        return False
    if not has_calls_inside:
        return True
    return any(facts.producer == call.id for facts in call.outputs)


def _edges(calls: list[Call]) -> Iterator[Edge]:
    outputs: dict[int, dict[int, int]] = {}
    for call in calls:
        places = outputs[call.id] = {}
        for place, facts in enumerate(call.outputs):
            places.setdefault(facts.id, place)
    for call in calls:
        for place, facts in enumerate(call.inputs):
            maker = facts.producer
            is_known = maker in outputs and maker != call.id
            if maker is not None and is_known:
                yield Edge(maker, outputs[maker].get(facts.id, 0), call.id, place, facts)
            elif facts.type != "Parameter":
                yield Edge(None, 0, call.id, place, facts)


class Layers:
    """The modules of a trace, each in the nearest one around it that is known."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.modules: dict[str, ModuleFacts] = {}
        for call in calls:
            if call.module is not None:
                self.modules.setdefault(call.module.path, call.module)
        self._above: dict[str, str | None] = {}
        self._around: dict[str, list[str]] = {}

    def above(self, path: str) -> str | None:
        """The path of the module around this one; None for an outermost one.

        >>> modules = [ModuleFacts("", "GPT"), ModuleFacts("h.0", "Block")]
        >>> Layers(Call(0, None, "module", facts.type, facts) for facts in modules).above("h.0")
        ''
        """
        if path not in self._above:
            self._above[path] = self._find_above(path)
        return self._above[path]

    def _find_above(self, path: str) -> str | None:
        while path:
            path = path.rpartition(".")[0]
            if path in self.modules:
                return path
        return None

    def around(self, path: str) -> list[str]:
        """The paths from the outermost module to this one."""
        found = self._around.get(path)
        if found is None:
            found = self._around[path] = [path]
            while (above := self.above(found[0])) is not None:
                found.insert(0, above)
        return found

    def name(self, path: str) -> str:
        """The name of a module in the one around it; of the outermost, its class."""
        own = safe(relative(path, self.above(path) or ""))
        return own or safe(self.modules[path].type)

    def title(self, path: str) -> str:
        """Name and class: `attn  Attention`."""
        own = safe(relative(path, self.above(path) or ""))
        kind = module_type(self.modules[path])
        if own:
            return f"{own}  {kind}"
        return kind


def call_name(call: Call) -> str:
    """The name of a call as a user writes it, without arguments: `h.0.attn  Attention`, `F.softmax`, `@`, `aten.mm`.

    >>> call_name(Call(0, None, "function", "torch.nn.functional.softmax"))
    'F.softmax'
    """
    if call.kind == "module":
        return f"{safe(call.path)}  {safe(call.name)}".lstrip()
    if call.operator is not None:
        return safe(call.operator)
    if call.kind == "aten":
        return safe(call.name)
    return function_name(call.name)


def code_at(site: Site | None) -> dict[str, str]:
    """Where something was called, and the code of that line."""
    if site is not None:
        return {"source": place(site), "code": safe(site.text)}
    return {}


@lru_cache(maxsize=4096)
def place(site: Site) -> str:
    """File and line, in full."""
    return f"{safe(site.file)}:{site.line}"
