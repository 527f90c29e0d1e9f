"""Everything that makes text and pictures: views of traces, pages, exports, notebook cells, sentences.

A view turns events into lines; `terminal`, `notebook` and `page` write them. A view may import `trace`, and `ipython`
to know whether a notebook runs. It never sees a tensor, and it never decides what is to blame.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from insitu.errors import ChoiceError, SubjectError
from insitu.trace.collector import pause_collector
from insitu.trace.compiled.compiled_rows import with_compiled_rows
from insitu.trace.counter import count_progress
from insitu.trace.event import Call, Event
from insitu.trace.order import completion_order, moments
from insitu.trace.selection import select
from insitu.trace.trace import Trace
from insitu.view.crash_text import crash_lines
from insitu.view.footer import Footer
from insitu.view.line import Column, CountingView, Line, OpeningView, Span, View, ViewTraits
from insitu.view.missing_text import missing_lines
from insitu.view.name import function_name, is_inner, key_settings, method_name, operands
from insitu.view.terminal import Terminal, terminal_width, write_all
from insitu.view.value import holds_tensor, safe, value_text
from insitu.view.views import VIEWS, AnyView, check_view, is_ready, make, make_for_replay, traits

if TYPE_CHECKING:
    from insitu.trace.diff import Diff
    from insitu.trace.explain.explanation import Explanation
    from insitu.trace.findings import Finding

__all__ = [
    "VIEWS",
    "AnyView",
    "Column",
    "CountingView",
    "Line",
    "OpeningView",
    "Span",
    "Terminal",
    "View",
    "ViewTraits",
    "function_name",
    "holds_tensor",
    "is_inner",
    "key_settings",
    "make",
    "make_for_replay",
    "method_name",
    "operands",
    "render",
    "replay",
    "safe",
    "show",
    "traits",
    "value_text",
]


def replay(
    events: Iterable[Event], view: View, only: str | Iterable[str] | None = None, *, remarks: Iterable[str] = ()
) -> Iterator[Line]:
    """The lines that a view makes of events that are over, the same as while they happened.

    `remarks` end the footer of the view, as in `file written: step.h5`; a view without a footer is followed by them.
    """
    footer = getattr(view, "footer", None)
    if isinstance(footer, Footer):
        footer.remark(*remarks)
        remarks = ()
    is_empty = True
    for line in _lines(list(events), view, only):
        is_empty = False
        yield line
    if is_empty and (text := traits(view).if_empty):
        yield Line(((text, "grey"),))
    yield from (Line(((text, "grey"),)) for text in remarks)


def _lines(events: list[Event], view: View, only: str | Iterable[str] | None) -> Iterator[Line]:
    chosen = select(events, only)
    yield from view.begin()
    if len(chosen) < len(events) and hasattr(view, "left_out"):
        yield from _counted_lines(events, view, {event.id for event in chosen})
    elif hasattr(view, "opened"):
        for event, begins in moments(chosen):
            if begins:
                yield from view.opened(event)
            else:
                yield from view(event)
    else:
        for event in count_progress(completion_order(chosen), len(chosen), "arranging calls"):
            yield from view(event)
    yield from view.finish()


def _counted_lines(events: list[Event], view: Any, shown: set[int]) -> Iterator[Line]:
    """The lines of the events that are shown, by a view that counts the others as well."""
    for event in completion_order(events):
        if event.id in shown:
            yield from view(event)
        else:
            view.left_out(event)


def render(
    trace: Trace,
    view: AnyView = "tree",
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
    subject: Trace | Diff | Explanation | Finding | Call,
    view: AnyView = "tree",
    *,
    file: IO[str] | None = None,
    color: bool | None = None,
    width: int | None = None,
    only: str | Iterable[str] | None = None,
    **options: Any,
) -> None:
    """Print a trace through a view; or print a diff, an explanation, a finding or a call.

    Args:
        subject: What to print. `view`, `only` and `options` are only for a `Trace`.
        view: "tree", "code", "table", "variables", or a view of your own.
        file: Where to write; standard output if None.
        color: Whether to write colours; None asks the terminal, `NO_COLOR` and `FORCE_COLOR`.
        width: The number of columns; None asks the terminal.
        only: Path patterns; the calls of other modules are left out.
        options: Those of the view. The tree takes `unfold=True`, to show each of several blocks that are alike and what
            the leaf modules do inside; `inputs=True`, for the shapes of the inputs; `costs=True`, for own time, memory,
            parameters and operations; `backward=True`, for gradients and backward times beside the forward calls of a
            trace with `level="aten"`.

    Examples:
        >>> from insitu.trace.event import TensorFacts
        >>> show(Trace([Call(0, None, "function", "torch.ones", args=(3,), result=TensorFacts(0, (3,), "f32", "cpu"))]))
        torch.ones(3)  f32[3]
    """
    if file is not None and not callable(getattr(file, "write", None)):
        raise SubjectError(f"file expects an open file or anything with write(), got {file!r:.80}")
    if width is not None and width < 1:
        raise ChoiceError(f"width expects a number of columns from 1, got {width!r}")
    check_view(view)
    if not isinstance(subject, Trace):
        from insitu.view.noun_lines import check_no_view, noun_lines  # most programs show traces

        check_no_view(subject, view, only, options)
        write_all(noun_lines(subject), file, color, width)
        return
    if not is_ready(view):
        options = {**_stream_options(view, file, width), **options}
    whole = with_compiled_rows(subject, closed=not options.get("unfold"))
    lines = replay(whole.events, make_for_replay(view, **options), only)
    with pause_collector():
        write_all(chain(crash_lines(subject), missing_lines(subject), lines), file, color, width)


def _stream_options(view: AnyView, file: IO[str] | None, width: int | None) -> Mapping[str, Any]:
    """The options of a view for the stream that it is printed to."""
    has_limit = width is not None or terminal_width(file or sys.stdout) is not None
    if has_limit:
        return {}
    return traits(view).unlimited
