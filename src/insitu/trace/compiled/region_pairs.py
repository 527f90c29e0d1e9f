"""An eager run beside a compiled one: modules that are one call there are made one call here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from insitu.trace.event import Call, Event, Fields, Mark, TensorFacts, Variable
from insitu.trace.trace import Trace


def compiled_paths(trace: Trace) -> set[str]:
    """The paths of the modules that ran compiled."""
    return {call.path for call in trace.calls if call.kind == "module" and call.mode == "compiled"}


def with_closed_modules(trace: Trace, paths: set[str]) -> Trace:
    """The trace without what ran inside the modules with these paths; they made what came out of them."""
    if not paths:
        return trace
    closing = _Closing(paths)
    kept = [event for event in trace.events if closing.keeps(event)]
    return Trace([closing.with_makers(event) for event in kept], about=trace.about)


class _Closing:
    """Leaves out events, and gives their results to the modules around them."""

    def __init__(self, paths: set[str]) -> None:
        self._paths = paths
        self._makers: dict[int, int] = {}  # the module that is now the maker, by the id of a call that is left out
        self._closed: set[int] = set()
        self._facts: dict[int, tuple[TensorFacts, TensorFacts]] = {}

    def keeps(self, event: Event) -> bool:
        """Whether an event is outside the modules; events come in the order in which they began."""
        owner = self._owner(event.parent)
        if owner is not None:
            self._makers[event.id] = owner
            return False
        if isinstance(event, Call) and self._closes(event):
            self._closed.add(event.id)
        return True

    def _closes(self, call: Call) -> bool:
        return call.kind == "module" and call.path in self._paths and call.mode == "eager"

    def _owner(self, parent: int | None) -> int | None:
        if parent in self._closed:
            return parent
        return self._makers.get(parent) if parent is not None else None

    def with_makers(self, event: Event) -> Event:
        """The event with tensors whose makers are in the trace."""
        if isinstance(event, Mark):
            return event
        if isinstance(event, Variable):
            return replace(event, value=self._plain(event.value))
        return replace(
            event, args=self._plain(event.args), kwargs=self._plain(event.kwargs), result=self._plain(event.result)
        )

    def _plain(self, item: Any) -> Any:
        if isinstance(item, TensorFacts):
            return self._tensor(item)
        if type(item) in (list, tuple):
            return type(item)([self._plain(part) for part in item])
        if type(item) is dict:
            return {key: self._plain(part) for key, part in item.items()}
        if isinstance(item, Fields):
            return Fields(item.type, self._plain(item.items))
        return item

    def _tensor(self, facts: TensorFacts) -> TensorFacts:
        if facts.producer not in self._makers:
            return facts
        if id(facts) not in self._facts:
            self._facts[id(facts)] = (facts, replace(facts, producer=self._makers[facts.producer]))
        return self._facts[id(facts)][1]
