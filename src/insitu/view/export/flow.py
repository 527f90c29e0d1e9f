"""The forward pass at the level of modules: innermost modules, joins of their tensors, and the tensors between them."""

from __future__ import annotations

from itertools import pairwise

from insitu.trace.event import Call, Event
from insitu.trace.folded_steps import Steps
from insitu.trace.trace import Trace
from insitu.view.export.graph import Layers, call_name, operations, step_groups
from insitu.view.value import result

Key = str | int  # an innermost module by its path, a join by the id of its call
KNOWN, ORDER = "-->", "-.->"


class Flow:
    """Innermost modules and joins as `nodes`, in order, and what gives to what as `arrows`.

    A function outside of them with inputs from one node only is not a node: its outputs count as those of that node. A
    function with inputs from several nodes is a join. Only the first of identical blocks and steps is a node, and all
    arrows lead to it.
    """

    def __init__(self, trace: Trace) -> None:
        self._calls = {call.id: call for call in trace.calls if call.phase == "forward"}
        self._layers = Layers(self._calls.values())
        self._first: dict[int, int] = {}
        self._alike: dict[str, tuple[str, int]] = {}
        self._fold(step_groups(trace))
        self.nodes: dict[Key, Call] = {}
        self.arrows: dict[tuple[Key, Key], str] = {}
        self._made_by: dict[int, Key] = {}
        self._results: dict[Key, dict[str, None]] = {}  # what comes out of a node, each form once
        for call in operations(self._calls.values()):
            self._add(call)
        if trace.about.get("level") == "modules":
            self._put_in_order()

    def _fold(self, groups: list[Steps]) -> None:
        """Find the call that represents each call in a fold."""
        waiting = [fold for group in groups for fold in group.folds]
        while waiting:
            fold = waiting.pop()
            event, last = fold.nodes[0].first, fold.nodes[fold.count - 1].first
            for node in fold.nodes:
                self._first[node.first.id] = event.id
            if fold.count > 1 and isinstance(last, Call):
                self._note_alike(event, last, fold.count)
            waiting += fold.children()

    def _note_alike(self, event: Event, last: Call, count: int) -> None:
        """Keep the first and the last of several calls of modules that are alike."""
        if isinstance(event, Call) and event.kind == "module":
            self._alike.setdefault(event.path, (last.path, count))

    def _add(self, call: Call) -> None:
        first = self._calls[self._first[call.id]]
        sources = self._sources(call)
        if call.module is not None and call.module.leaf:
            self._put(first.path, first, sources)
            self._results.setdefault(first.path, {})[result(self._outermost(call).result)] = None
            self._ended(call, first.path)
            return
        if call.kind == "module":
            return  # the producer of its output was not recorded: `_ended` takes the last module inside instead
        if len(sources) > 1:
            self._put(first.id, first, sources)
            sources = {first.id: None}
        for source in sources:
            self._made_by[call.id] = source

    def _sources(self, call: Call) -> dict[Key, None]:
        """The nodes that the inputs of a call come from, without the module around it."""
        found: dict[Key, None] = {}
        for facts in call.inputs:
            maker = self._call(facts.producer)
            if maker is None or maker.id not in self._made_by:
                continue
            if not _is_inside(call, maker):
                found[self._made_by[maker.id]] = None
        return found

    def _call(self, id: int | None) -> Call | None:
        """The call with this id, if there is one in the forward pass."""
        if id is None:
            return None
        return self._calls.get(id)

    def _put(self, key: Key, call: Call, sources: dict[Key, None]) -> None:
        self.nodes.setdefault(key, call)
        for source in sources:
            self.arrows[source, key] = KNOWN

    def _ended(self, call: Call, key: Key) -> None:
        """Take a node as the producer of what all calls around it return: it ran last in them."""
        around: Call | None = call
        while around is not None:
            self._made_by[around.id] = key
            around = self._call(around.parent)

    def _put_in_order(self) -> None:
        """Add an arrow from the node before to each node without a known source."""
        places = {key: place for place, key in enumerate(self.nodes)}
        reached = {target for source, target in self.arrows if places[source] < places[target]}
        for before, key in pairwise(self.nodes):
            if key not in reached:
                self.arrows[before, key] = ORDER

    def frames(self, key: Key) -> list[str]:
        """The paths of the modules around a node, the outermost first."""
        call = self.nodes[key]
        if call.module is None:
            return []
        paths = self._layers.around(call.path)
        if isinstance(key, str):
            return paths[:-1]
        return paths

    def title(self, path: str) -> str:
        """The name of a module with its class; of identical ones, the first and the last."""
        if path not in self._alike:
            return self._layers.title(path)
        last, count = self._alike[path]
        names = self._layers.name(path)
        if last != path:
            names = f"{names} … {self._layers.name(last)}"
        return f"{names}  × {count}  {self._layers.modules[path].type}"

    def label(self, key: Key) -> tuple[str, str]:
        """The text of a box: the name, and the outputs."""
        call = self.nodes[key]
        if not isinstance(key, str):
            return call_name(call), ""
        output, *others = self._results[key]
        if others:
            output = f"{output} and others"
        return self.title(key), output

    def _outermost(self, call: Call) -> Call:
        """The call of the module around a call."""
        while call.kind != "module" and call.parent in self._calls:
            call = self._calls[call.parent]
        return call


def _is_inside(call: Call, maker: Call) -> bool:
    """Whether both calls are part of how one leaf module does its work."""
    if call.module is None:
        return False
    return call.module.leaf and maker.path == call.path
