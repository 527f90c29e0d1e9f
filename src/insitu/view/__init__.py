"""Views: events as lines of text, the same while a program runs and when a trace is read back."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import IO, Any

from insitu.errors import ChoiceError, SubjectError, choose
from insitu.trace.analysis import completed, moments, select
from insitu.trace.collector import collector_paused
from insitu.trace.counting import counted
from insitu.trace.event import Event
from insitu.trace.trace import Trace
from insitu.view.classic import Classic
from insitu.view.code import Code
from insitu.view.line import CountingView, Line, OpeningView, View
from insitu.view.missing_text import missing_lines
from insitu.view.table import Table
from insitu.view.terminal import Terminal, write_all
from insitu.view.tree import Tree
from insitu.view.variables import Variables

__all__ = [
    "VIEWS",
    "CountingView",
    "Line",
    "OpeningView",
    "Terminal",
    "View",
    "ViewFactory",
    "make",
    "render",
    "replay",
    "show",
]

ViewFactory = Callable[..., View]
VIEWS: dict[str, ViewFactory] = {
    "tree": Tree,
    "classic": Classic,
    "code": Code,
    "table": Table,
    "variables": Variables,
}


def make(name: str, /, **options: Any) -> View:
    """A view by its name, with the options it has.

    >>> view = make("classic", name="MHA")
    >>> [str(line) for line in view.begin()]
    ['  ● TRACING MHA STARTED', '  │']
    """
    factory = VIEWS[choose("view", name, VIEWS)]
    known = inspect.signature(factory).parameters
    for option in options:
        if option not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ChoiceError(f"the view {name!r} has no option {option!r}: {has}")
    return factory(**options)


def replay(events: Iterable[Event], view: View, only: str | Iterable[str] | None = None) -> Iterator[Line]:
    """The lines that a view makes of events that are over, the same as while they happened.

    A view that makes none may have a sentence, `nothing`, that says what to record for it.
    """
    line = None
    for line in _lines(list(events), view, only):
        yield line
    if line is None and (nothing := getattr(view, "nothing", None)) is not None:
        yield Line(((nothing, "grey"),))


def _lines(every: list[Event], view: View, only: str | Iterable[str] | None) -> Iterator[Line]:
    chosen = select(every, only)
    opened, left_out = getattr(view, "opened", None), getattr(view, "left_out", None)
    yield from view.begin()
    if left_out is not None and len(chosen) < len(every):
        shown = {event.id for event in chosen}
        for event in completed(every):
            if event.id in shown:
                yield from view(event)
            else:
                left_out(event)
    elif opened is None:
        for event in counted(completed(chosen), len(chosen), "arranging calls"):
            yield from view(event)
    else:
        for event, begins in moments(chosen):
            yield from opened(event) if begins else view(event)
    yield from view.finish()


def render(
    trace: Trace,
    view: str = "tree",
    *,
    only: str | Iterable[str] | None = None,
    color: bool = False,
    width: int | None = None,
    **options: Any,
) -> str:
    """A trace as text.

    >>> from insitu.trace.event import Call, TensorFacts
    >>> zeros = Call(0, None, "function", "torch.zeros", args=(2, 3), result=TensorFacts(0, (2, 3), "f32", "cpu"))
    >>> print(render(Trace([zeros])))
    torch.zeros(2, 3)  f32[2, 3]
    """
    file = io.StringIO()
    show(trace, view, file=file, color=color, width=width, only=only, **options)
    return file.getvalue().removesuffix("\n")


def show(
    trace: Trace,
    view: str = "tree",
    *,
    file: IO[str] | None = None,
    color: bool | None = None,
    width: int | None = None,
    only: str | Iterable[str] | None = None,
    **options: Any,
) -> None:
    """Print a trace through a view: "tree", "classic", "code", "table" or "variables".

    `only` is path patterns, `width` the columns to use, `color` overrides what the terminal says. The tree also takes
    `unfold=True`: every one of several blocks that are alike, and what the leaf modules do inside; `costs=True`: own
    time, memory, parameters, operations; `backward=True`: gradients and backward times beside the forward calls, of a
    trace with `level="aten"`. "variables" takes `lang="zh"`, for Chinese.

    >>> from insitu.trace.event import Call, TensorFacts
    >>> show(Trace([Call(0, None, "function", "torch.ones", args=(3,), result=TensorFacts(0, (3,), "f32", "cpu"))]))
    torch.ones(3)  f32[3]
    """
    if not isinstance(trace, Trace):
        raise SubjectError(
            f"insitu.show takes a trace, not a {type(trace).__name__}: `with insitu.record(...) as trace`"
        )
    if file is not None and not callable(getattr(file, "write", None)):
        raise SubjectError(f"file={file!r:.80} can take no lines: give an open file, or anything with write()")
    if width is not None and width < 1:
        raise ChoiceError(f"width={width!r} is no number of columns")
    if view == "tree":
        options.setdefault("live", False)
    lines = replay(trace.events, make(view, **options), only)
    with collector_paused():
        write_all(chain(missing_lines(trace), lines), file, color, width)
