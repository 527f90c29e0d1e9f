"""`watch`: the sessions that print, as `with` block and as decorator."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from torch import nn

from insitu.capture.keep import closely
from insitu.capture.recorder import Recorder
from insitu.capture.variables.function_watch import OwnSession, own_probes
from insitu.capture.variables.patterns import valid_patterns
from insitu.errors import SubjectError, brief
from insitu.session.decorate import decorated
from insitu.session.dist import current_rank
from insitu.session.record import Keep, TraceEntry, TraceSession
from insitu.session.signals import run_to_completion, start_or_undo
from insitu.session.switch import is_off
from insitu.view.printer import Printer
from insitu.view.registry import AnyView, check_view, make, traits
from insitu.view.streams import place_of, stream
from insitu.view.terminal import Terminal


def watch(
    *subject: Any,
    view: AnyView | None = None,
    level: str | None = None,
    keep: Keep | None = None,
    only: str | Iterable[str] | None = None,
    file: Any = None,
    color: bool | None = None,
    width: int | None = None,
) -> Any:
    """Print what a model, a function or a block does, while it runs.

    With a model, or with nothing, a `with` block; on a function or a class, a decorator; with names of variables
    (`"video"`, `"state.*"`), both: every change of them is shown, in the function or block and in what it calls.

    >>> import insitu
    >>> @insitu.watch("total")
    ... def add(*numbers):
    ...     total = 0
    ...     for number in numbers:
    ...         total += number
    ...     return total

    `view` is "tree", "code", "table" or "variables", a view of your own (`insitu.view.View`), or a class of such views:
    each thread that calls a watched function then has one of its own. `file` is where to print: a file, a logger, or a
    path (with {pid}, {thread}, {rank} one file for each). The rest is as for `record`.
    """
    if len(subject) == 1 and is_to_decorate(subject[0], session_options=(view, level, only)):
        options = {"keep": keep, "only": only, "file": file, "color": color, "width": width}
        return watch(view=view, level=level, **options)(subject[0])
    patterns = valid_patterns(subject) if subject and all(isinstance(item, str) for item in subject) else ()
    model = subject[0] if len(subject) == 1 and not patterns else None
    if len(subject) > 1 and not patterns:
        raise SubjectError(f"insitu.watch takes one model, or names of variables, not {', '.join(map(brief, subject))}")
    if view is not None:
        check_view(view)
    out = stream(file)
    return Watch(
        model,
        patterns=patterns,
        view=view,
        level=level,
        keep=keep,
        only=only,
        printer=lambda chosen: Printer(make(chosen), Terminal(out, color=color, width=width)),
        place=(view if isinstance(view, str) else id(view), place_of(out), color, width),
        is_chosen=file is not None or not isinstance(view, str | None),
    )


def is_to_decorate(subject: object, session_options: tuple[object, ...]) -> bool:
    """Whether something is to be decorated; a class of models that nobody decorates was meant to be a model."""
    if isinstance(subject, (nn.Module, str)):
        return False
    if isinstance(subject, type) and issubclass(subject, nn.Module):
        return session_options == (None,) * 3 and not subject.__module__.startswith("torch.")
    return callable(subject) or isinstance(subject, (staticmethod, classmethod, property))


class Watch(TraceSession):
    """A session that prints: a `with` block, and a decorator.

    What it decorates is recorded by the sessions that run in its thread; where there is none, it prints by itself.
    """

    def __init__(
        self,
        model: Any,
        *,
        patterns: tuple[str, ...],
        view: AnyView | None,
        level: str | None,
        keep: Keep | None,
        only: str | Iterable[str] | None,
        printer: Callable[[AnyView], Printer],
        place: Hashable,
        is_chosen: bool,
    ) -> None:
        chosen = view if view is not None else ("variables" if patterns else "tree")
        wants = traits(chosen)
        super().__init__(
            "watch",
            model,
            level=level or wants.level,
            keep=keep if keep is not None else (closely if wants.closely else "meta"),
            only=only,
            printer=lambda: printer(chosen),
            variables=patterns,
        )
        # Functions alone need no session to be started and undone at each call: a recorder for each thread stands by.
        is_python = level == "python" or (level is None and (view is None or view == "variables"))
        self._is_light = is_python and model is None and not only
        self._is_chosen = is_chosen  # where to print was said: then it is printed in sessions, too
        self._light_printer: Callable[[], Printer] = lambda: printer(view if view is not None else "variables")
        self._light_keep = keep if keep is not None else closely
        self._place = (place, id(self._light_keep))
        self._mine = threading.local()

    def __call__(self, function: Any) -> Any:
        """Watch a function, or all methods of a class."""
        if is_off():
            return function
        alone = OwnSession(self._light, self._is_chosen, self._is_on) if self._is_light else OwnSession(self._full)
        return decorated(function, self._variables, alone)

    @contextmanager
    def _full(self) -> Iterator[None]:
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

    @contextmanager
    def _light(self) -> Iterator[None]:
        standing, ident = self._standing(), threading.get_ident()
        others = own_probes.get(ident, ())
        own_probes[ident] = (*others, standing.probe)
        try:
            yield
        finally:
            if others:
                own_probes[ident] = others
            else:
                own_probes.pop(ident, None)
            standing.printer.terminal.flush()

    def _is_on(self) -> bool:
        return self._standing().probe in own_probes.get(threading.get_ident(), ())

    def _standing(self) -> Standing:
        """What stands by in this thread: one for all that print at the same place."""
        mine: Standing | None = getattr(self._mine, "standing", None)
        if mine is None:
            mine = here.standing.get(self._place)
            if mine is None:
                mine = here.standing[self._place] = Standing(self._light_printer(), self._light_keep)
            self._mine.standing = mine
        return mine


class Standing:
    """A recorder that stands by in one thread, for watched functions outside of all sessions."""

    def __init__(self, printer: Printer, keep: Keep) -> None:
        self.printer = printer
        recorder = Recorder(
            None, level="python", keep=keep, only=(), sinks=(printer,), rank=current_rank(), thread=here.number
        )
        self.probe = recorder.stand_by()


class Here(threading.local):
    """A thread: its number, and what stands by in it, by the place where it prints."""

    def __init__(self) -> None:
        self.number = 0 if threading.current_thread() is threading.main_thread() else next(thread_numbers)
        self.standing: WeakValueDictionary[Hashable, Standing] = WeakValueDictionary()


thread_numbers = itertools.count(1)
here = Here()
