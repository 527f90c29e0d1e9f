"""The call tree of Tensor Tracker: watched functions, their arguments and results, and each change of a variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from insitu.trace.event import Call, Event, Mark, Site, Variable
from insitu.view.describe import describe
from insitu.view.line import Column, Line, Span, TimeSpan, ViewTraits
from insitu.view.name import named_arguments, spot
from insitu.view.number import call_time
from insitu.view.tree_variable import mark_span
from insitu.view.value import safe, short

COLUMNS = (Column("changes"),)
GUIDE = "│   "
MOST_DEPTH = 32  # deeper calls are not indented any further
MOST_NAME = 24
MOST_PLACES = 3
IN, OUT, YIELD = "in   ", "out  ", "yield "
CHANGE_INKS = {"new": "green", "deleted": "red"}


@dataclass(slots=True)
class _RunningCall:
    """A call that has begun and is not over."""

    name: str
    depth: int
    thread: int
    file: str | None = None


OUTSIDE = _RunningCall("", -1, 0)


class Variables:
    """Shows each call of a watched function when it begins, then what happens in it, then how it ends.

    >>> from insitu.trace.event import TensorFacts
    >>> view, x = Variables(), TensorFacts(0, (3,), "f32", "cpu")
    >>> call = Call(0, None, "python", "double", kwargs={"x": x}, result=x, defined=Site("run.py", 7, "double"))
    >>> for line in [*view.opened(call), *view(Variable(1, 0, "y", x, ("new",), Site("run.py", 8, "double")))]:
    ...     print(line)
    ┌── [run.py:7] double
    ├─ in   x  f32[3] cpu
    │   ├─ y @8 → f32[3] cpu  new
    >>> print(*view(call))
    └─ out  f32[3] cpu
    """

    traits = ViewTraits(
        level="python",
        closely=True,
        nested=True,
        if_empty='no watched function ran in this trace: @insitu.watch("x") on a function records its variable x',
    )

    def __init__(self) -> None:
        self._open: dict[int, _RunningCall] = {}
        self._thread = 0

    def begin(self) -> Iterable[Line]:
        """No lines: the head of each call names its place."""
        return ()

    def opened(self, call: Call) -> Iterator[Line]:
        """The head of a call that begins: what is called from where, with which arguments."""
        if call.kind != "python":
            return
        depth = self._depth_in(self._around(call))
        if self._open and call.thread == 0:  # another thread is named in its head
            yield from self._turned_to(call.thread)
        self._thread = call.thread
        running = _RunningCall(call.name, depth, call.thread)
        if call.defined is not None:
            running.file = call.defined.file
        self._open[call.id] = running
        yield _head_line(depth, ((_guide(depth) + "┌── ", "grey"), *self._head(call)))
        yield from self._arguments(call, depth)

    def _arguments(self, call: Call, depth: int) -> Iterator[Line]:
        """A line for each argument."""
        arguments = named_arguments(call)
        names = {name: short(safe(str(name)), MOST_NAME) for name in arguments}
        width = max(map(len, names.values()), default=0)
        for name, item in arguments.items():
            yield _line(depth, "├─ ", (IN, "grey"), (f"{names[name]:{width}}  ", "bold"), *describe(item))

    def _depth_in(self, call: _RunningCall | None) -> int:
        """The depth of an event inside a call, or outside of all."""
        if call is None:
            return 0
        return call.depth + 1

    def __call__(self, event: Event) -> Iterable[Line]:
        """The lines for a change, a mark, or the end of a call."""
        if type(event) is Variable:
            return self._variable(event)
        if type(event) is Call:
            if event.kind == "python":
                return self._closed(event)
            return ()
        if isinstance(event, Mark) and event.kind != "step":
            return self._mark(event)
        return ()

    def finish(self) -> Iterator[Line]:
        """A line for each call that is still running."""
        for call in reversed(self._open.values()):
            yield from self._turned_to(call.thread)
            yield _line(call.depth, "└─ ", ("still running", "yellow"))
        self._open.clear()

    def _around(self, event: Event) -> _RunningCall | None:
        """The open call around an event; calls of modules may be between them, which are seen only when they end."""
        if event.parent is None:
            return None
        found = self._open.get(event.parent)
        if found is None:
            found = next((call for call in reversed(self._open.values()) if call.thread == event.thread), None)
        return found

    def _turned_to(self, thread: int) -> Iterator[Line]:
        """A line with the name of the thread, if the line before is of another thread."""
        if thread != self._thread:
            self._thread = thread
            yield _head_line(0, (("", "grey"), (f"── thread {thread}", "grey")))

    def _head(self, call: Call) -> Iterator[Span]:
        if call.defined is not None:
            yield (f"[{spot(call.defined)}] ", "grey")
        yield (safe(call.name), "bold")
        if call.site is not None:
            yield (_called_from(call.site), "grey")
        if call.thread:
            yield (f"  thread {call.thread}", "yellow")

    def _variable(self, variable: Variable) -> Iterable[Line]:
        call = self._around(variable)
        line = self._change(variable, call)
        if variable.thread == self._thread:
            return (line,)
        return (*self._turned_to(variable.thread), line)

    def _change(self, variable: Variable, call: _RunningCall | None) -> Line:
        call = call or OUTSIDE
        changes = variable.changes
        if changes == ("yielded",):
            return _line(max(call.depth, 0), "├─ ", (YIELD, "grey"), *describe(variable.value))
        where = ""
        if variable.site is not None:
            where = _where(variable.site, call.name, call.file)
        name = (safe(variable.name), "bold")
        if changes == ("deleted",):
            text, ink = _changes(changes)
            return _change_line(call.depth, name, (where, "grey"), (" " + text, ink))
        line = _change_line(call.depth, name, (where + " → ", "grey"), *describe(variable.value))
        return replace(line, cells=(_changes(changes),), columns=COLUMNS)

    def _closed(self, call: Call) -> Iterator[Line]:
        if call.id not in self._open:  # nobody said that it began
            yield from self.opened(call)
        yield from self._turned_to(call.thread)
        depth = self._open.pop(call.id).depth
        time: tuple[Span, ...] = ()
        if call.duration is not None:
            time = (TimeSpan("   " + call_time(call.duration, is_launch=call.has_launch_time), "green"),)
        if call.raised is not None:
            yield _line(depth, "└─ ", (f"raised {safe(call.raised)}", "red"), *time)
        else:
            yield _line(depth, "└─ ", (OUT, "grey"), *describe(call.result), *time)

    def _mark(self, mark: Mark) -> Iterator[Line]:
        depth = self._depth_in(self._around(mark))
        yield _head_line(depth, ((_guide(depth), "grey"), mark_span(mark)))


def _head_line(depth: int, spans: tuple[Span, ...]) -> Line:
    """The first line of a call inside so many others; all else about the call is one level further in."""
    return Line(spans, (), (), 2 * depth + 1)


def _line(depth: int, branch: str, *spans: Span) -> Line:
    """A line about a call inside so many others."""
    return Line(((_guide(depth) + branch, "grey"), *spans), (), (), 2 * depth + 2)


def _change_line(depth: int, *spans: Span) -> Line:
    """A change in a call inside so many others, drawn one level further in; outside of all calls, the depth is -1."""
    return Line(((_guide(depth + 1) + "├─ ", "grey"), *spans), (), (), max(1, 2 * depth + 2))


def _guide(depth: int) -> str:
    return GUIDE * min(depth, MOST_DEPTH)


@lru_cache(maxsize=256)
def _changes(changes: tuple[str, ...]) -> Span:
    """The kinds of a change: `new`, `deleted`, or the facts that changed."""
    if not changes:
        return ("", "yellow")
    text = ", ".join(changes)
    if text in CHANGE_INKS:
        return (text, CHANGE_INKS[text])
    return (f"{text} changed", "yellow")


@lru_cache(maxsize=4096)
def _where(site: Site, watched: str, file: str | None) -> str:
    """The line, with the function and the file if these differ from those of the watched function."""
    function = site.function.rpartition("<locals>.")[2]
    if function == watched or watched.endswith("." + function):
        return f" @{site.line}"
    if file in (None, site.file):
        return f" @{site.line} in {safe(function)}"
    return f" @{spot(site)} in {safe(function)}"


@lru_cache(maxsize=4096)
def _called_from(site: Site) -> str:
    """The caller and its line, and the sites that led there."""
    places: list[str] = []
    place: Site | None = site
    while place is not None and len(places) < MOST_PLACES:
        places.append(spot(place))
        place = place.caller
    caller = safe(site.function.rpartition(".")[2])
    return f" called from {caller}:{site.line} ({' <- '.join(places)})"
