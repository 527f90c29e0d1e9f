"""The verbs that trace: `record` and `watch`. They choose what is captured and where it goes, and always undo it."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from threading import get_ident
from types import TracebackType
from typing import IO, Any

import torch
from torch import Tensor, nn

from insitu import view as views
from insitu.capture.keep import make_keep
from insitu.capture.live import Sink
from insitu.capture.names import unwrapped
from insitu.capture.recorder import LEVELS, Recorder
from insitu.errors import PatternError, SubjectError, choose, tell
from insitu.trace.event import Event
from insitu.trace.path import compiled, require
from insitu.trace.trace import Trace
from insitu.tracebacks import without_own_frames
from insitu.view.terminal import Terminal

Keep = str | Callable[[Tensor], Any]


def record(
    subject: nn.Module | None = None,
    *,
    level: str = "functions",
    keep: Keep = "meta",
    only: str | Iterable[str] | None = None,
) -> Session:
    """Record what a model does, or what torch does in a block, as a `Trace`.

    >>> import torch, insitu
    >>> model = torch.nn.Linear(3, 2)
    >>> with insitu.record(model) as trace:
    ...     _ = model(torch.ones(4, 3))
    >>> trace.calls[0].outputs
    (f32[4, 2],)

    `level` is "modules", "functions" or "aten", each with those before it. `keep` is "meta", "stats", or a function
    that makes something small of each new tensor. `only` is path patterns: just these modules and what runs in them.
    """
    return Session("record", subject, level=level, keep=keep, only=only)


def watch(
    subject: nn.Module | None = None,
    *,
    view: str | views.View = "tree",
    level: str | None = None,
    keep: Keep = "meta",
    only: str | Iterable[str] | None = None,
    name: str | None = None,
    file: IO[str] | None = None,
    color: bool | None = None,
    width: int | None = None,
) -> Session:
    """Print what a model does, or what torch does in a block, while it runs.

    >>> import torch, insitu
    >>> model = torch.nn.Linear(3, 2)
    >>> with insitu.watch(model, view="classic"):
    ...     _ = model(torch.ones(4, 3))
      ● TRACING Linear STARTED
      │
      ● (Linear) (in_features: 3, out_features: 2)
      ├─ Input: Tensor [4, 3] @ cpu
      └─ Output: Tensor [4, 2] @ cpu
      │
      ● TRACING Linear COMPLETE

    `view` is "tree", "classic", "code", "table", or a view of your own (`insitu.view.View`); `name` is what the
    header of the classic view says. The rest is as for `record`.
    """
    if isinstance(view, type) or not all(callable(getattr(view, name, None)) for name in ("begin", "finish")):
        choose("view", view, views.VIEWS)
    level = level or ("aten" if view == "code" else "functions")
    title = name or name_of(subject) or "torch"
    terminal = Terminal(file, color=color, width=width)
    return Session("watch", subject, level=level, keep=keep, only=only, printer=lambda: Printer(view, title, terminal))


class Session:
    """A `with` block that traces. It can be entered again, also inside itself; each time is a recording of its own."""

    def __init__(
        self,
        verb: str,
        subject: nn.Module | None,
        *,
        level: str,
        keep: Keep,
        only: str | Iterable[str] | None,
        printer: Callable[[], Printer] | None = None,
    ) -> None:
        self._subject = checked_subject(verb, subject)
        self._level = choose("level", level, LEVELS)
        make_keep(keep, lambda what, error: None)  # an unknown one is refused here, not when the block is entered
        self._keep = keep
        self._only = checked_patterns(only, subject)
        self._printer = printer
        self._running: list[tuple[int, Running]] = []

    def __enter__(self) -> Trace:
        off = os.environ.get("INSITU") == "0"
        running = Running.off() if off else self._start(sys._getframe(1))
        self._running.append((get_ident(), running))
        return running.trace

    def _start(self, frame: Any) -> Running:
        printer = self._printer() if self._printer else None
        sinks: tuple[Sink, ...] = (printer,) if printer else ()
        recorder = Recorder(
            self._subject, level=self._level, keep=self._keep, only=self._only, sinks=sinks, rank=current_rank()
        )
        trace = Trace(about=about(self._subject, self._level))
        # What is watched is printed and not kept.
        trace._attach(recorder.events if printer is None else list, recorder.step)
        running = Running(recorder, trace, printer)
        if printer:
            running.print(printer.begin)
        recorder.start(frame)
        return running

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        mine = [index for index, (ident, _) in enumerate(self._running) if ident == get_ident()]
        _, running = self._running.pop(mine[-1] if mine else -1)  # it may be left in another thread
        running.stop()
        without_own_frames(tb)


class Running:
    """One entry of a session: what to undo when it ends."""

    def __init__(self, recorder: Recorder | None, trace: Trace, printer: Printer | None) -> None:
        self.recorder, self.trace, self.printer = recorder, trace, printer

    @classmethod
    def off(cls) -> Running:
        """One that does nothing: the tool is switched off."""
        trace = Trace()
        trace._attach(list, lambda: None)
        return cls(None, trace, None)

    def stop(self) -> None:
        """End the recording and say what did not match."""
        if self.recorder is not None:
            self.recorder.stop()
        self.trace._detach()
        if self.printer is not None:
            self.print(self.printer.finish)
        if self.recorder is not None:
            for text in self.recorder.complaints():
                tell(text)

    def print(self, write: Callable[[], None]) -> None:
        """Print the head or the foot; a view that fails there does not reach the user's code."""
        try:
            write()
        except Exception as error:
            if self.recorder is not None:
                self.recorder.trouble("printing", error)


class Printer:
    """A sink that prints through a view."""

    def __init__(self, view: str | views.View, title: str, terminal: Terminal) -> None:
        options = {"name": title} if view == "classic" else {}
        self.view = views.make(view, **options) if isinstance(view, str) else view
        self.terminal = terminal

    def begin(self) -> None:
        """Print the head."""
        self.terminal.write(self.view.begin())

    def __call__(self, event: Event) -> None:
        self.terminal.write(self.view(event))

    def finish(self) -> None:
        """Print what the view has held back, and the foot."""
        self.terminal.write(self.view.finish())
        self.terminal.flush()


def checked_subject(verb: str, subject: object) -> nn.Module | None:
    """The subject if it is one; an error that says what it may be if not."""
    if subject is None or isinstance(subject, nn.Module):
        return subject
    hint = f": give an instance, {subject.__name__}(...)" if isinstance(subject, type) else ""
    raise SubjectError(
        f"insitu.{verb} cannot trace {brief(subject)}{hint}; "
        f"it takes a torch.nn.Module, or nothing to trace all that torch does in the block"
    )


def brief(item: object) -> str:
    """An object of the user in a few words, whatever its repr does."""
    try:
        text = repr(item)
    except Exception:
        text = "an object that cannot be printed"
    return f"{' '.join(text.split()):.80} (a {type(item).__name__})"


def checked_patterns(only: str | Iterable[str] | None, subject: nn.Module | None) -> tuple[str, ...]:
    """The patterns as a tuple, each of them one that can match."""
    if only is None:
        return ()
    patterns = (only,) if isinstance(only, str) or not isinstance(only, Iterable) else tuple(only)
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise PatternError(f"only={brief(pattern)} is no path pattern: write text such as 'encoder.*'")
        compiled(pattern)
        if subject is not None:
            require(pattern, module_paths(subject), what="module")
    return patterns


def module_paths(subject: nn.Module) -> list[str]:
    """The clean paths of all modules of a model."""
    from insitu.capture.names import Names

    return [note.path for note in Names(subject, lambda path: True).notes.values()]


def name_of(subject: object) -> str | None:
    """The class of the model inside all wrappers."""
    return type(unwrapped(subject)).__name__ if isinstance(subject, nn.Module) else None


def current_rank() -> int:
    """The rank of this process, 0 if it is alone."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank()
    text = os.environ.get("RANK", "0")
    return int(text) if text.isdigit() else 0


def about(subject: nn.Module | None, level: str) -> dict[str, Any]:
    """Where a trace comes from."""
    from insitu import __version__

    return {
        "insitu": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "subject": name_of(subject),
        "level": level,
    }
