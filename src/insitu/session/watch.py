"""`watch`: the sessions that print, as `with` block and as decorator."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from torch import nn

from insitu import view as views
from insitu.capture.keep import closely
from insitu.capture.recorder import Recorder
from insitu.capture.variables.functions import Alone, alone
from insitu.capture.variables.patterns import valid_patterns
from insitu.errors import SubjectError, brief, choose
from insitu.session.about import name_of
from insitu.session.decorate import decorated
from insitu.session.dist import current_rank
from insitu.session.session import Keep, Running, Session
from insitu.session.signals import begun, ended
from insitu.trace.event import Call, Event
from insitu.view.streams import place_of, stream
from insitu.view.terminal import Terminal
from insitu.view.words import WORDS


def watch(
    *subject: Any,
    view: str | views.View | type[views.View] | None = None,
    level: str | None = None,
    keep: Keep | None = None,
    only: str | Iterable[str] | None = None,
    name: str | None = None,
    lang: str | None = None,
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

    `view` is "tree", "classic", "code", "table", "variables", or a view of your own (`insitu.view.View`), or a class of
    such views: each thread that calls a watched function then has one of its own. `name` is
    what the header of the classic view says, `lang` the language of the variables view ("en", "zh"). `file` is where
    to print: a file, a logger, or a path (with {pid}, {thread}, {rank} one file for each). The rest is as for `record`.
    """
    if len(subject) == 1 and is_to_decorate(subject[0], session_options=(view, level, only, name)):
        options = {"keep": keep, "only": only, "name": name, "lang": lang, "file": file, "color": color, "width": width}
        return watch(view=view, level=level, **options)(subject[0])
    patterns = valid_patterns(subject) if subject and all(isinstance(item, str) for item in subject) else ()
    model = subject[0] if len(subject) == 1 and not patterns else None
    if len(subject) > 1 and not patterns:
        raise SubjectError(f"insitu.watch takes one model, or names of variables, not {', '.join(map(brief, subject))}")
    if view is not None:
        check_view(view)
    if lang is not None:
        choose("lang", lang, WORDS)
    texts = {"name": name or name_of(model) or "torch"} | ({"lang": lang} if lang is not None else {})
    out = stream(file)
    return Watch(
        model,
        patterns=patterns,
        view=view,
        level=level,
        keep=keep,
        only=only,
        printer=lambda chosen: Printer(chosen, texts, Terminal(out, color=color, width=width)),
        place=(view if isinstance(view, str) else id(view), lang, place_of(out), color, width),
        is_chosen=file is not None or not isinstance(view, str | None),
    )


def is_to_decorate(subject: object, session_options: tuple[object, ...]) -> bool:
    """Whether something is to be decorated; a class of models that nobody decorates was meant to be a model."""
    if isinstance(subject, (nn.Module, str)):
        return False
    if isinstance(subject, type) and issubclass(subject, nn.Module):
        return session_options == (None,) * 4 and not subject.__module__.startswith("torch.")
    return callable(subject) or isinstance(subject, (staticmethod, classmethod, property))


def check_view(view: object) -> None:
    """Refuse what is no view, and no class of views."""
    if not all(callable(getattr(view, name, None)) for name in ("begin", "__call__", "finish")):
        choose("view", view, views.VIEWS)


# What each view needs to be recorded, where it is not what most need.
LEVELS = {"code": "aten", "variables": "python"}


class Watch(Session):
    """A session that prints: a `with` block, and a decorator.

    What it decorates is recorded by the sessions that run in its thread; where there is none, it prints by itself.
    """

    def __init__(
        self,
        model: Any,
        *,
        patterns: tuple[str, ...],
        view: str | views.View | type[views.View] | None,
        level: str | None,
        keep: Keep | None,
        only: str | Iterable[str] | None,
        printer: Callable[[str | views.View | type[views.View]], Printer],
        place: Hashable,
        is_chosen: bool,
    ) -> None:
        chosen = view if view is not None else ("variables" if patterns else "tree")
        usual = LEVELS.get(chosen, "functions") if isinstance(chosen, str) else "functions"
        super().__init__(
            "watch",
            model,
            level=level or usual,
            keep=keep if keep is not None else (closely if chosen == "variables" else "meta"),
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
        if os.environ.get("INSITU") == "0":
            return function
        alone = Alone(self._light, self._is_chosen, self._is_on) if self._is_light else Alone(self._full)
        return decorated(function, self._variables, alone)

    @contextmanager
    def _full(self) -> Iterator[None]:
        frame = sys._getframe(1)
        running = begun(lambda: self.start(frame), Running.undo_all)
        sound = False
        try:
            yield
            sound = True
        finally:
            ended(running.undo_all)
            running.report(sound=sound)

    @contextmanager
    def _light(self) -> Iterator[None]:
        standing, ident = self._standing(), threading.get_ident()
        others = alone.get(ident, ())
        alone[ident] = (*others, standing.probe)
        try:
            yield
        finally:
            if others:
                alone[ident] = others
            else:
                alone.pop(ident, None)
            standing.printer.terminal.flush()

    def _is_on(self) -> bool:
        return self._standing().probe in alone.get(threading.get_ident(), ())

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


class Printer:
    """A sink that prints through a view."""

    def __init__(self, view: str | views.View | type[views.View], options: dict[str, Any], terminal: Terminal) -> None:
        self.view: views.View = made(view, options)
        self.terminal = terminal
        self._outermost: str | None = None
        if hasattr(self.view, "opened"):
            self.opened = self._opened

    def begin(self) -> None:
        """Print the head."""
        self.terminal.write(self.view.begin())

    def __call__(self, event: Event) -> None:
        self.terminal.write(self.view(event))

    def _opened(self, call: Call) -> None:
        """Print the head of a call; what one function needs for its columns is nothing to the next one."""
        if call.parent is None and call.name != self._outermost:
            self._outermost = call.name
            self.terminal.forget_widths()
        self.terminal.write(self.view.opened(call))  # type: ignore[attr-defined]

    def finish(self) -> None:
        """Print what the view has held back, and the foot."""
        self.terminal.write(self.view.finish())
        self.terminal.flush()


def made(view: Any, options: dict[str, Any]) -> views.View:
    """The view that is meant: by its name, with those of the options that it has, or as a class, or as it is."""
    if isinstance(view, type):
        return view()  # type: ignore[no-any-return]
    if not isinstance(view, str):
        return view  # type: ignore[no-any-return]
    mine = {"classic": ("name",), "variables": ("lang",)}.get(view, ())
    return views.make(view, **{name: value for name, value in options.items() if name in mine})
