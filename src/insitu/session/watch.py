"""`watch`: print what a model, a block or a function does, while it runs."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from torch import nn

from insitu.capture.keep import small_values_or_statistics
from insitu.capture.variables.function_watch import OwnSession
from insitu.capture.variables.patterns import valid_patterns
from insitu.errors import SubjectError, brief
from insitu.session.decorate import decorate
from insitu.session.record import Keep, SessionPrinter, TraceEntry, TraceSession
from insitu.session.signals import run_to_completion, start_or_undo
from insitu.session.standby import Standby
from insitu.session.switch import is_off
from insitu.view.notebook.live_printer import LivePrinter, prints_to_notebook
from insitu.view.printer import Printer
from insitu.view.streams import place_of, stream
from insitu.view.terminal import Terminal
from insitu.view.views import AnyView, check_options, check_view, make, traits


def watch(
    *subject: Any,
    view: AnyView | None = None,
    level: str | None = None,
    keep: Keep | None = None,
    only: str | Iterable[str] | None = None,
    file: Any = None,
    color: bool | None = None,
    width: int | None = None,
    **options: Any,
) -> Any:
    """Print what a model, a function or a block does, while it runs.

    With a model, or with nothing, a `with` block; on a function or a class, a decorator; with names of variables
    (`"video"`, `"state.*"`), both: every change of them is shown, in the function or block and in what it calls.

    Args:
        subject: A model, a function, a class, or names of variables; nothing for everything that torch does.
        view: "tree", "code", "table" or "variables", a view of your own (`insitu.view.View`), or a class of such views:
            each thread that calls a watched function then has one of its own.
        level: The finest calls to show: "python", "modules", "functions" or "aten".
        keep: What to know of each tensor: "meta" for shape and dtype, "stats", "values", or a function of a tensor.
        only: Path patterns of modules; `*` is one name, `**` any number of names.
        file: Where to print: a file, a logger, or a path (with {pid}, {thread}, {rank} one file for each).
        color: Whether to write colours; None asks the terminal, `NO_COLOR` and `FORCE_COLOR`.
        width: The number of columns; None asks the terminal.
        options: Those of the view, as for `show`.

    Examples:
        >>> import insitu
        >>> @insitu.watch("total")
        ... def add(*numbers):
        ...     total = 0
        ...     for number in numbers:
        ...         total += number
        ...     return total
    """
    if options and view is None:
        view = "tree"
    if view is not None:
        check_view(view)
        check_options(view, options)
    target = PrintTarget(stream(file), color, width, options, is_explicit=file is not None)
    if len(subject) == 1 and is_decorable(subject[0], has_session_options=(view, level, only) != (None, None, None)):
        return Watch(None, (), view=view, level=level, keep=keep, only=only, target=target)(subject[0])
    model, patterns = split_subject(subject)
    return Watch(model, patterns, view=view, level=level, keep=keep, only=only, target=target)


def is_decorable(subject: object, *, has_session_options: bool) -> bool:
    """Whether the subject is a function or a class to decorate.

    A class of models with options of a session is not decorated: the user probably meant an instance of it.
    """
    if isinstance(subject, (nn.Module, str)):
        return False
    if isinstance(subject, type) and issubclass(subject, nn.Module):
        return not has_session_options and not subject.__module__.startswith("torch.")
    return callable(subject) or isinstance(subject, (staticmethod, classmethod, property))


def split_subject(subject: tuple[Any, ...]) -> tuple[Any, tuple[str, ...]]:
    """The model or None, and the patterns of variables, of which at most one is there."""
    if not subject:
        return None, ()
    if all(isinstance(item, str) for item in subject):
        return None, valid_patterns(subject)
    if len(subject) == 1:
        return subject[0], ()
    raise SubjectError(f"insitu.watch takes one model, or names of variables, got {', '.join(map(brief, subject))}")


@dataclass(frozen=True)
class PrintTarget:
    """Where to print, and how, with the options of the view; `is_explicit` if the user has named the file."""

    stream: Any
    color: bool | None
    width: int | None
    options: dict[str, Any]
    is_explicit: bool

    def printer(self, view: AnyView, frame: FrameType | None = None) -> SessionPrinter:
        """A printer of the view; in a notebook, blocks that are entered at the same line share a display."""
        if self._is_notebook(view):
            options = {**traits(view).unlimited, **self.options}
            return LivePrinter(make(view, **options), (self.place(view), line_of(frame)))
        return Printer(make(view, **self.options), Terminal(self.stream, color=self.color, width=self.width))

    def _is_notebook(self, view: AnyView) -> bool:
        """Whether to show HTML in a notebook; what a view of the user's own prints is text."""
        if self.is_explicit or not isinstance(view, str):
            return False
        return prints_to_notebook()

    def place(self, view: AnyView | None) -> Hashable:
        """The key of this place to print: equal keys share a printer."""
        name = view if isinstance(view, str) else id(view)
        return (name, repr(sorted(self.options.items())), place_of(self.stream), self.color, self.width)


class Watch(TraceSession):
    """A session that prints: a `with` block, and a decorator.

    The sessions that run in a thread record the functions that it decorates; without a session, it prints by itself.
    """

    def __init__(
        self,
        model: Any,
        patterns: tuple[str, ...],
        *,
        view: AnyView | None,
        level: str | None,
        keep: Keep | None,
        only: str | Iterable[str] | None,
        target: PrintTarget,
    ) -> None:
        block_view = view if view is not None else default_view(patterns)
        needs = traits(block_view)
        super().__init__(
            "watch",
            model,
            level=level or needs.level,
            keep=keep if keep is not None else default_keep(is_close=needs.closely),
            only=only,
            printer=lambda frame: target.printer(block_view, frame),
            variables=patterns,
        )
        function_view = view if view is not None else "variables"
        function_keep = keep if keep is not None else small_values_or_statistics
        self._standby = Standby(target.place(view), lambda: target.printer(function_view), function_keep)
        shows_functions = level == "python" or (level is None and view in (None, "variables"))
        # Functions alone need no session that starts and ends at each call: a recorder for each thread stands by.
        self._can_stand_by = shows_functions and model is None and not only
        # Where the user has named the place to print, calls are printed there even inside other sessions.
        self._is_always_printed = target.is_explicit or not isinstance(view, str | None)

    def __call__(self, function: Any) -> Any:
        """Watch a function, or all methods of a class."""
        if is_off():
            return function
        return decorate(function, self._variables, self._outside_sessions())

    def _outside_sessions(self) -> OwnSession:
        """How a decorated function is recorded outside of all sessions."""
        if self._can_stand_by:
            return OwnSession(self._standby.record, self._is_always_printed, self._standby.is_recording)
        return OwnSession(self._record_in_session)

    @contextmanager
    def _record_in_session(self) -> Iterator[None]:
        """Record one call of a decorated function in a session of its own."""
        frame = sys._getframe(1)
        entry = start_or_undo(lambda: self.start(frame), TraceEntry.roll_back)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            run_to_completion(lambda: entry.stop(None))
            entry.report(error)


def line_of(frame: FrameType | None) -> Hashable:
    """The line at which a frame is; the code is compared by what it does, and holds nothing of the frame."""
    if frame is None:
        return None
    return (frame.f_code, frame.f_lineno)


def default_view(patterns: tuple[str, ...]) -> str:
    """The view of a block for which the user has named none."""
    if patterns:
        return "variables"
    return "tree"


def default_keep(*, is_close: bool) -> Keep:
    """How much of each tensor a view needs."""
    if is_close:
        return small_values_or_statistics
    return "meta"
