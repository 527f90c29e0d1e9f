"""A trace: the events of a run, and the questions that it answers about them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from numbers import Integral
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from insitu.errors import InsituError, MissingError, SubjectError, choose
from insitu.trace.collective import Collective, collective_of
from insitu.trace.compiled.compiled_graph import CompiledGraph, graphs_of
from insitu.trace.crash import Crash, crash_of
from insitu.trace.event import (
    STATISTICS,
    Call,
    Event,
    Kind,
    Mark,
    ModuleFacts,
    Phase,
    Site,
    Stats,
    TensorFacts,
    Variable,
)
from insitu.trace.explain.explanation import Explanation
from insitu.trace.explain.explanation_data import explanation_of
from insitu.trace.missing import Missing, missing_of
from insitu.trace.order import children_by_parent
from insitu.trace.path import Pattern

if TYPE_CHECKING:
    import pandas


SomeEvent = TypeVar("SomeEvent", bound=Event)
# Returns the events of a session so far, and what is missing of them; the argument says whether this is the last read.
Source = Callable[[bool], tuple[list[Event], Missing | None]]


class _Index:
    """The look-up tables of a list of events."""

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.by_id: dict[int | None, Event] = {event.id: event for event in events}
        self.children = children_by_parent(events)

    @cached_property
    def consumers(self) -> dict[int, list[Call]]:
        """The calls that each tensor went into, by the id of the tensor."""
        found: defaultdict[int, list[Call]] = defaultdict(list)
        for call in _instances(self.events, Call):
            for number in dict.fromkeys(map(attrgetter("id"), call.inputs)):
                found[number].append(call)
        return found


class Trace:
    """The events of a run, in the order they began, as plain data.

    >>> trace = Trace([Call(0, None, "module", "Linear"), Call(1, 0, "function", "torch.nn.functional.linear")])
    >>> [call.name for call in trace.children(trace[0])]
    ['torch.nn.functional.linear']
    """

    def __init__(self, events: list[Event] | None = None, *, about: dict[str, Any] | None = None) -> None:
        self.about: dict[str, Any] = about or {}
        self._events: list[Event] = [] if events is None else events
        self._source: Source | None = None
        self._open = False
        self._cached_index: _Index | None = None
        self._archive: Any = None  # holds the events that are missing here; saving the trace reads it
        self._on_step: Callable[[], None] | None = None

    def _attach(self, source: Source, on_step: Callable[[], None]) -> None:
        """Read the events from a running session; used by the session itself."""
        self._source, self._on_step, self._open = source, on_step, True

    def _detach(self) -> None:
        """End the session: the next reader of the events reads them from it for the last time."""
        self._open, self._on_step = False, None

    def step(self) -> None:
        """Begin a new step here; without this call, each outermost call of the subject is a step."""
        if self._on_step is None:
            raise InsituError("trace.step() is for a running session: call it inside the `with` block")
        self._on_step()

    @property
    def events(self) -> list[Event]:
        """Every event, in the order they began."""
        if self._source is not None:
            self._read(self._source)
        return self._events

    def _read(self, source: Source) -> None:
        self._events, missing = source(not self._open)
        self._cached_index = None
        if missing is not None:
            self.about["missing"] = missing.plain()
        if not self._open:
            self._source = None

    @property
    def missing(self) -> Missing | None:
        """The recorded events that are no longer here, because memory ran out; None if all are here."""
        if self._source is not None:
            self._read(self._source)
        return missing_of(self.about.get("missing"))

    @property
    def explanation(self) -> Explanation | None:
        """Why the exception was raised that ended the recording; None if no exception did.

        It is what `insitu.explain` says of the exception. Files in HDF5 contain it, too.
        """
        return explanation_of(self.about.get("explanation"))

    @property
    def crash(self) -> Crash | None:
        """Why a guard wrote the last steps of a run; None for any other trace."""
        return crash_of(self.about.get("crash"))

    @property
    def graphs(self) -> dict[str, CompiledGraph]:
        """The graphs that torch.compile captured and that ran, by the names of their calls; none if nothing did."""
        return graphs_of(self.about.get("compiled")) or {}

    @property
    def _index(self) -> _Index:
        events = self.events
        if self._cached_index is None or self._cached_index.events is not events:
            self._cached_index = _Index(events)
        return self._cached_index

    @property
    def calls(self) -> list[Call]:
        """Every call, in the order they began."""
        return _instances(self.events, Call)

    @property
    def marks(self) -> list[Mark]:
        """Every mark, in order."""
        return _instances(self.events, Mark)

    @property
    def modules(self) -> dict[str, ModuleFacts]:
        """Every module that was called, by path, in the order of the first call."""
        found = [call.module for call in self.calls if call.kind == "module"]
        return {module.path: module for module in found if module is not None}

    def variables(self, pattern: str | None = None) -> list[Variable]:
        """Every change of a watched variable, in order; with a path pattern, of the variables whose name it matches.

        >>> trace = Trace([Variable(0, None, "state.step", 1, ("new",)), Variable(1, None, "x", 2, ("new",))])
        >>> [change.value for change in trace.variables("state.*")]
        [1]
        """
        found = _instances(self.events, Variable)
        if pattern is None:
            return found
        wanted = Pattern.of(pattern).matches({change.name for change in found}, what="variable")
        return [change for change in found if change.name in wanted]

    def collectives(self) -> list[Collective]:
        """The calls that communicate with other processes, in order: group, size in bytes, and the call itself.

        >>> x = TensorFacts(0, (4, 8), "f32", "cpu")
        >>> trace = Trace([Call(0, None, "aten", "_c10d_functional.all_reduce", args=(x, "sum", "0"))])
        >>> [(found.name, found.group.name, found.bytes) for found in trace.collectives()]
        [('all_reduce', '0', 128)]
        """
        return list(filter(None, map(collective_of, self.calls)))

    @property
    def roots(self) -> list[Event]:
        """The events that are not inside another event."""
        return self._index.children.get(None, [])

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
        """The events directly inside this one."""
        return self._index.children.get(event.id, [])

    def producer(self, tensor: TensorFacts) -> Call | None:
        """The call that made this tensor; None if it was there before the trace began, or if the call is `missing`."""
        _require_tensor(tensor)
        producer = self._index.by_id.get(tensor.producer)
        if isinstance(producer, Call):
            return producer
        return None

    def consumers(self, tensor: TensorFacts) -> list[Call]:
        """The calls that this tensor went into."""
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
        """The calls that match all arguments: a path pattern, a pattern of names, a kind, a step, a rank, a phase.

        A path without a name or a kind finds the calls of the modules at that path or, with `phase="backward"`, all
        calls that computed gradients for them. A pattern of names follows the rules of paths, and may leave out the
        first segments of a name: `softmax` finds `torch.nn.functional.softmax`, and so does `soft*`. A name can also
        be a Python operator: `@`. A path pattern that matches nothing in the whole trace raises `PatternError`, with
        the nearest path. A name that matches nothing is not an error: the answer is an empty list.
        """
        is_path_alone = path is not None and name is None and kind is None
        if is_path_alone and phase != "backward":
            kind = "module"
        facts = {"kind": kind, "step": step, "rank": rank, "phase": phase}
        found = _with_facts(self.calls, facts)
        if name is not None:
            found = _with_name(found, name)
        if path is not None:
            found = self._at(path, found)
        return found

    def _at(self, path: str, calls: list[Call]) -> list[Call]:
        """Those of the calls whose path matches; a pattern that matches no call of the trace raises."""
        pattern = Pattern.of(path)
        paths = {call.path for call in self.calls}
        if not paths:
            return []  # nothing has run yet, or the tool is switched off
        wanted = pattern.matches(paths)
        return [call for call in calls if call.path in wanted]

    def to_pandas(self) -> pandas.DataFrame:
        """A table with one row for each call; times are nanoseconds, statistics are those of the first output.

        If a call has several outputs, `others` has the statistics of the others: a dict for each, or None.
        """
        try:
            import pandas
        except ImportError:
            raise MissingError("to_pandas() needs pandas: pip install pandas") from None
        frame = pandas.DataFrame([row(call) for call in self.calls], columns=COLUMNS).set_index("id")
        return frame.astype({"parent": "Int64", "duration": "Int64", "line": "Int64"})

    def __str__(self) -> str:
        from insitu.view import render  # only print(trace) needs a view

        return render(self) or "(no calls)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.view.notebook import trace_forms  # only a notebook needs it

        return trace_forms(self, include, exclude)

    def __repr__(self) -> str:
        events = self.events
        counts = f"{len(events)} events, {len(self.modules)} modules"
        if self.missing is None:
            return f"<Trace: {counts}>"
        return f"<Trace: {counts}, {self.missing.events} more are missing>"


_STATISTICS = tuple(row.name for row in STATISTICS if row.is_column)
_CALL_COLUMNS = ("operator", "phase", "mode", "step", "rank", "thread", "raised")
_SITE_COLUMNS = ("file", "line", "function")
COLUMNS = (
    *("id", "parent", "kind", "name", "path", "type", "inputs", "output", "start", "duration"),
    *_SITE_COLUMNS,
    *_CALL_COLUMNS,
    *_STATISTICS,
    *("kept", "others"),
)
_call_columns = attrgetter(*_CALL_COLUMNS)
_site_columns = attrgetter(*_SITE_COLUMNS)
_statistics = attrgetter(*_STATISTICS)


def row(call: Call) -> tuple[Any, ...]:
    """A call as a row of a table with the columns `COLUMNS`."""
    return (
        *(call.id, call.parent, call.kind, call.name, call.path, _module_type(call)),
        *(", ".join(map(repr, call.inputs)), ", ".join(map(repr, call.outputs)), call.start, call.duration),
        *_site_cells(call.site),
        *_call_columns(call),
        *_output_cells(call.outputs),
    )


def _module_type(call: Call) -> str | None:
    if call.module is None:
        return None
    return call.module.type


def _site_cells(site: Site | None) -> tuple[Any, ...]:
    if site is None:
        return (None,) * len(_SITE_COLUMNS)
    return tuple(_site_columns(site))


def _output_cells(outputs: tuple[TensorFacts, ...]) -> tuple[Any, ...]:
    """The statistics and the kept value of the first output, and the statistics of the others."""
    if not outputs:
        return (*_statistics_cells(None), None, None)
    first = outputs[0]
    return (*_statistics_cells(first.stats), first.kept, _others(outputs[1:]))


def _statistics_cells(stats: Stats | None) -> tuple[Any, ...]:
    if stats is None:
        return (None,) * len(_STATISTICS)
    return tuple(_statistics(stats))


def _others(outputs: tuple[TensorFacts, ...]) -> list[dict[str, Any] | None] | None:
    """The statistics of outputs; None if none of them has any."""
    found = [_statistics_by_name(facts.stats) for facts in outputs]
    if any(found):
        return found
    return None


def _statistics_by_name(stats: Stats | None) -> dict[str, Any] | None:
    if stats is None:
        return None
    return dict(zip(_STATISTICS, _statistics(stats), strict=True))


def _instances(events: list[Event], kind: type[SomeEvent]) -> list[SomeEvent]:
    """The events of one class."""
    return [event for event in events if isinstance(event, kind)]


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
    refusal = f"trace[...] takes the id of an event, a number, not {item!r:.80}"
    if isinstance(item, str):
        return f"{refusal}: trace.find({item!r:.80}) finds calls by path"
    return f"{refusal}: trace.events is a list"


def _require_tensor(item: object) -> None:
    if not isinstance(item, TensorFacts):
        raise SubjectError(
            f"a {type(item).__name__} is not a tensor of a trace: give call.inputs[0] or call.outputs[0]"
        )


def _with_name(calls: list[Call], name: str) -> list[Call]:
    """The calls whose name ends with the segments of a pattern, or whose operator is the name."""
    if not name:
        return []
    Pattern.of(name)  # raises for a text that is not a pattern, with the words of the user
    pattern = Pattern.of(f"**.{name}")
    return [call for call in calls if name == call.operator or pattern.match(call.name)]
