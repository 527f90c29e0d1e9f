"""A trace: the events of a run, and the questions one asks of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any, get_args

from insitu.errors import InsituError, MissingError, SubjectError, choose
from insitu.trace.event import STATISTICS, Call, Event, Kind, Mark, ModuleFacts, Phase, TensorFacts, Variable
from insitu.trace.missing import Missing, missing_of
from insitu.trace.path import Pattern

if TYPE_CHECKING:
    import pandas


# The events of a session so far and what is missing of them; True for the last time that they are read.
Source = Callable[[bool], tuple[list[Event], Missing | None]]


class _Index:
    """What is looked up often, computed once for a list of events."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.by_id = {event.id: event for event in events}
        self.children: defaultdict[int | None, list[Event]] = defaultdict(list)
        for event in events:
            known = event.parent if event.parent in self.by_id else None
            self.children[known].append(event)

    @cached_property
    def consumers(self) -> dict[int, list[Call]]:
        found: defaultdict[int, list[Call]] = defaultdict(list)
        for event in self.events:
            if isinstance(event, Call):
                for number in dict.fromkeys(tensor.id for tensor in event.inputs):
                    found[number].append(event)
        return found


class Trace:
    """The events of a run, in the order they began, as plain data.

    >>> trace = Trace([Call(0, None, "module", "Linear"), Call(1, 0, "function", "torch.nn.functional.linear")])
    >>> [call.name for call in trace.children(trace[0])]
    ['torch.nn.functional.linear']
    """

    def __init__(self, events: list[Event] | None = None, *, about: dict[str, Any] | None = None) -> None:
        self.about: dict[str, Any] = about or {}
        self._events: list[Event] = events if events is not None else []
        self._source: Source | None = None
        self._open = False
        self._cached_index: _Index | None = None
        self._archive: Any = None  # what holds the events that are missing here, for those who save the trace
        self._on_step: Callable[[], None] | None = None

    def _attach(self, source: Source, on_step: Callable[[], None]) -> None:
        """Read the events from a running session; used by the session itself."""
        self._source, self._on_step, self._open = source, on_step, True

    def _detach(self) -> None:
        """The session has ended: its events are read once more, when they are asked for, and kept."""
        self._open, self._on_step = False, None

    def step(self) -> None:
        """Say that a new step begins here; without it, each outermost call of the subject is a step."""
        if self._on_step is None:
            raise InsituError("trace.step() is for a running session: call it inside the `with` block")
        self._on_step()

    @property
    def events(self) -> list[Event]:
        """Every event, in the order they began."""
        if self._source is not None:
            self._events, missing = self._source(not self._open)
            if missing is not None:
                self.about["missing"] = missing.plain()
            self._cached_index = None
            if not self._open:
                self._source = None
        return self._events

    @property
    def missing(self) -> Missing | None:
        """What was recorded and is no longer here, because there was no memory for it; None if nothing is missing."""
        if self._source is not None:
            _ = self.events
        return missing_of(self.about.get("missing"))

    @property
    def _index(self) -> _Index:
        events = self.events
        if self._cached_index is None or self._cached_index.events is not events:
            self._cached_index = _Index(events)
        return self._cached_index

    @property
    def calls(self) -> list[Call]:
        """Every call, in the order they began."""
        return [event for event in self.events if isinstance(event, Call)]

    @property
    def marks(self) -> list[Mark]:
        """Every mark, in order."""
        return [event for event in self.events if isinstance(event, Mark)]

    @property
    def modules(self) -> dict[str, ModuleFacts]:
        """Every module that was called, by path, in the order of the first call."""
        return {call.module.path: call.module for call in self.calls if call.kind == "module" and call.module}

    def variables(self, pattern: str | None = None) -> list[Variable]:
        """Every change of a watched variable, in order; with a path pattern, of the variables whose name it matches.

        >>> trace = Trace([Variable(0, None, "state.step", 1, ("new",)), Variable(1, None, "x", 2, ("new",))])
        >>> [change.value for change in trace.variables("state.*")]
        [1]
        """
        found = [event for event in self.events if isinstance(event, Variable)]
        if pattern is None:
            return found
        names = {change.name for change in found}
        Pattern.of(pattern).require(names, what="variable")
        wanted = {name for name in names if Pattern.of(pattern).match(name)}
        return [change for change in found if change.name in wanted]

    @property
    def roots(self) -> list[Event]:
        """The events that lie in no other."""
        return self._index.children[None]

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __getitem__(self, id: int) -> Event:
        try:
            return self._index.by_id[id]
        except (KeyError, TypeError):
            if not isinstance(id, Integral):
                raise SubjectError(_not_an_id(id)) from None
            raise KeyError(f"no event {id!r} in this trace of {len(self)} events") from None

    def children(self, event: Event) -> list[Event]:
        """The events that lie directly in this one."""
        return self._index.children.get(event.id, [])

    def producer(self, tensor: TensorFacts) -> Call | None:
        """The call that made this tensor; None if it was there before the trace began, or if the call is `missing`."""
        _require_tensor(tensor)
        made_by = self._index.by_id.get(tensor.producer) if tensor.producer is not None else None
        if isinstance(made_by, Call):
            return made_by
        return None

    def consumers(self, tensor: TensorFacts) -> list[Call]:
        """The calls that were given this tensor."""
        _require_tensor(tensor)
        return self._index.consumers.get(tensor.id, [])

    def find(
        self,
        path: str | None = None,
        *,
        name: str | None = None,
        kind: Kind | None = None,
        step: int | None = None,
        rank: int | None = None,
        phase: Phase | None = None,
    ) -> list[Call]:
        """The calls that fit all that is asked: a path pattern, a name (`*` allowed), a kind, a step, a rank, a phase.

        With a path and neither name nor kind, the calls of the modules at that path, or, with `phase="backward"`, all
        that computed gradients for them; a name may leave out what stands before its last dots: `softmax` finds
        `torch.nn.functional.softmax`. A path pattern that matches nothing in the whole trace raises `PatternError` and
        names the nearest; a name that nothing has is no error, for that is how to ask whether something was called.
        """
        is_path_alone = path is not None and name is None and kind is None
        if is_path_alone and phase != "backward":
            kind = "module"
        facts = {"kind": kind, "step": step, "rank": rank, "phase": phase}
        found = _with_facts(self.calls, facts)
        if name is not None:
            found = [call for call in found if _named(name, call)]
        if path is not None:
            found = self._at(path, found)
        return found

    def _at(self, path: str, calls: list[Call]) -> list[Call]:
        """Those of the calls whose path matches; a pattern that matches no call of the trace raises."""
        pattern = Pattern.of(path)
        found = [call for call in calls if pattern.match(call.path)]
        paths = set() if found else {call.path for call in self.calls}
        if paths:  # without a call, nothing has run yet, or the tool is switched off
            pattern.require(paths)
        return found

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each call; start and duration are nanoseconds, the statistics those of the first output.

        Where a call has several outputs, `others` has the statistics of the others: a dict for each, or None.
        """
        try:
            import pandas
        except ImportError:
            raise MissingError("to_pandas() needs pandas: pip install pandas") from None
        frame = pandas.DataFrame([row(call) for call in self.calls], columns=COLUMNS).set_index("id")
        return frame.astype({"parent": "Int64", "duration": "Int64", "line": "Int64"})

    def __str__(self) -> str:
        from insitu.view import render  # a trace knows no view, except for print(trace)

        return render(self) or "(no calls)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.view.notebook import trace_bundle  # as with print(trace)

        return trace_bundle(self, include, exclude)

    def __repr__(self) -> str:
        events = self.events
        missing = f", {self.missing.events} more are missing" if self.missing is not None else ""
        return f"<Trace: {len(events)} events, {len(self.modules)} modules{missing}>"


_STATISTICS = tuple(row.name for row in STATISTICS if row.is_column)
COLUMNS = (
    *("id", "parent", "kind", "name", "path", "type", "inputs", "output", "start", "duration"),
    *("file", "line", "function", "operator", "phase", "step", "rank", "thread", "raised"),
    *_STATISTICS,
    *("kept", "others"),
)


def row(call: Call) -> tuple[Any, ...]:
    """A call as a row of a table with the columns `COLUMNS`."""
    site, outputs = call.site, call.outputs
    stats = outputs[0].stats if outputs else None
    return (
        *(call.id, call.parent, call.kind, call.name, call.path, call.module.type if call.module else None),
        *(", ".join(map(repr, call.inputs)), ", ".join(map(repr, call.outputs)), call.start, call.duration),
        *((site.file, site.line, site.function) if site else (None, None, None)),
        *(call.operator, call.phase, call.step, call.rank, call.thread, call.raised),
        *[getattr(stats, name) if stats else None for name in _STATISTICS],
        outputs[0].kept if outputs else None,
        _others(outputs),
    )


def _others(outputs: tuple[TensorFacts, ...]) -> list[dict[str, Any] | None] | None:
    """The statistics of all outputs but the first; None where nothing is known of them."""
    if all(facts.stats is None for facts in outputs[1:]):
        return None
    return [
        {name: getattr(facts.stats, name) for name in _STATISTICS} if facts.stats else None for facts in outputs[1:]
    ]


_CHOICES = {"kind": get_args(Kind), "phase": get_args(Phase)}


def _with_facts(calls: list[Call], facts: dict[str, Any]) -> list[Call]:
    """The calls that have these facts; a fact that is None may be anything."""
    for fact, wanted in facts.items():
        if wanted is None:
            continue
        if fact in _CHOICES:
            choose(fact, wanted, _CHOICES[fact])
        calls = [call for call in calls if getattr(call, fact) == wanted]
    return calls


def _not_an_id(item: object) -> str:
    instead = f"trace.find({item!r:.80}) finds calls by path" if isinstance(item, str) else "trace.events is a list"
    return f"trace[...] takes the id of an event, a number, not {item!r:.80}: {instead}"


def _require_tensor(item: object) -> None:
    if not isinstance(item, TensorFacts):
        raise SubjectError(
            f"a {type(item).__name__} is not a tensor of a trace: give call.inputs[0] or call.outputs[0]"
        )


def _named(pattern: str, call: Call) -> bool:
    if call.operator is not None and pattern == call.operator:
        return True
    return fnmatchcase(call.name, pattern) or fnmatchcase(call.name, f"*.{pattern}")
