"""Recording: what is captured, where it goes, and how it is always undone. `watch` is in watching.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from threading import get_ident
from types import FrameType, TracebackType
from typing import Any, Protocol, TypeVar

from torch import Tensor, nn

from insitu.capture.explain.note import add_note
from insitu.capture.keep import make_keep
from insitu.capture.live import Sink
from insitu.capture.recorder import LEVELS, Recorder
from insitu.capture.values.targets import targets
from insitu.capture.variables.following import in_block
from insitu.capture.variables.functions import hearing
from insitu.errors import ChoiceError, InsituError, PatternError, SubjectError, brief, choose, not_entered, tell
from insitu.session.about import about_trace
from insitu.session.dist import current_rank
from insitu.session.recording import Recording, is_recording, patterns
from insitu.session.signals import Dropped, Exit, Undisturbed, begun, ended, undone_with
from insitu.store.trace.archive import Archive
from insitu.trace.capacity import MEMORY, capacity
from insitu.trace.event import Event
from insitu.trace.path import compiled, require
from insitu.trace.trace import Trace
from insitu.tracebacks import without_own_frames

OVERFLOWS = ("drop", "disk")

Keep = str | Callable[[Tensor], Any]
Entry = TypeVar("Entry")


def record(
    subject: nn.Module | None = None,
    *,
    level: str = "functions",
    keep: Keep | dict[str, Keep] = "meta",
    only: str | Iterable[str] | None = None,
    every: int = 1,
    when: str | None = None,
    to: Any = None,
    overwrite: bool = False,
    resume: bool = False,
    compression: str = "none",
    memory: int | str | None = None,
    overflow: str | None = None,
) -> Any:
    """Record what a model does, or what torch does in a block, as a `Trace`; or values over a whole run.

    >>> import torch, insitu
    >>> model = torch.nn.Linear(3, 2)
    >>> with insitu.record(model) as trace:
    ...     _ = model(torch.ones(4, 3))
    >>> trace.calls[0].outputs
    (f32[4, 2],)

    `level` is "python" (only watched functions), "modules", "functions" or "aten", each with those before it. `keep`
    is "meta", "stats", or a function that makes something small of each tensor, and of its gradient; `torch.clone`
    keeps all values. `only` is path patterns: just these modules and what runs in them. A trace takes at most `memory`,
    as in "500MB"; the default is 1 GiB. Beyond that its oldest steps are dropped; with `overflow="disk"` they go to
    a temporary folder, and `insitu.save(trace, "run.h5")` writes them as well. `trace.missing` says what is not there.

    With `keep="values"`, or any of `every`, `when` and `to`, the values that the paths name are recorded at each step,
    and no calls: outputs (`encoder.1`), variables (`encoder.*.forward.scores`), parameters (`head.weight`), gradients
    (`head.weight.grad`). A step is one outermost call of the model, or what `recorded.step()` says; `every=4` takes
    each fourth, `when="train"` those in training. Outputs and variables are taken when they come to be, several in a
    step if there are; gradients when an optimizer is about to use them; parameters and buffers after the update. Each
    is written as soon as it is final, so a killed process loses nothing of a step that has ended. `keep` is "values",
    "stats" (`head.weight.mean`, …), a function of a tensor, or these by pattern.

    `to="run.h5"` writes to a file while the run goes on, each rank a journal in `run.h5.parts`, merged in the end; a
    function is called with path, value, step and rank; without it the values are in a temporary folder. A file that is
    there is kept unless `overwrite`; with `resume` the run in it goes on as a new attempt, or begins if there is none.
    `compression` is "none", "gzip", "lzf", or "blosc2" with hdf5plugin.

    >>> with insitu.record(model, only=["forward.input", "weight"], keep="values") as recorded:
    ...     for _ in range(3):
    ...         _ = model(torch.ones(4, 3))
    >>> recorded["forward.input"].values.shape, recorded["weight"].steps.tolist()
    ((3, 4, 3), [0, 1, 2])
    """
    if isinstance(keep, str):
        choose("keep", keep, ("meta", "stats", "values"))
    if is_recording(keep=keep, every=every, when=when, to=to):
        if memory is not None or overflow is not None:
            raise ChoiceError("memory and overflow are for traces: recorded values are written to disk at each step")
        chosen = "values" if keep == "meta" else keep
        return Recording(
            subject,
            only=patterns(only),
            keep=chosen,
            every=every,
            when=when,
            to=to,
            overwrite=overwrite,
            resume=resume,
            compression=compression,
        )
    assert not isinstance(keep, dict)
    return Session("record", subject, level=level, keep=keep, only=only, memory=memory, overflow=overflow)


class Printing(Protocol):
    """A sink that prints, with a head and a foot."""

    def begin(self) -> None:
        """Print the head."""

    def __call__(self, event: Event) -> None:
        """Print an event."""

    def finish(self) -> None:
        """Print the foot."""


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
        printer: Callable[[], Printing] | None = None,
        variables: tuple[str, ...] = (),
        memory: int | str | None = None,
        overflow: str | None = None,
        folder: str | None = None,
    ) -> None:
        self._memory = MEMORY if memory is None else capacity("memory", memory)
        self._overflow = choose("overflow", overflow or "drop", OVERFLOWS)
        self._folder = folder  # where what does not fit into memory goes, if not to a temporary folder
        self._subject = checked_subject(verb, subject)
        self._level = choose("level", level, LEVELS)
        make_keep(keep, lambda what, error: None)  # an unknown one is refused here, not when the block is entered
        self._keep = keep
        self._only = checked_patterns(only, subject)
        self._printer = printer
        self._variables = variables
        self._running: list[tuple[int, Running]] = []

    def __getattr__(self, name: str) -> Any:
        raise not_entered(self, name, Trace, "trace")

    def __enter__(self) -> Trace:
        return self.enter(sys._getframe(1))

    def enter(self, frame: FrameType) -> Trace:
        """Begin a recording in a frame; `__exit__` ends it."""
        return begun(lambda: self._entered(frame), self._abandon).trace

    def _entered(self, frame: FrameType) -> Running:
        off = os.environ.get("INSITU") == "0"
        running = Running.off() if off else self.start(frame, self._variables)
        self._running.append((get_ident(), running))
        running.dropped = undone_with(self, partial(self._abandon, running))
        return running

    def _abandon(self, running: Running) -> None:
        """Roll back: an interrupt came while the block was entered, or kept `__exit__` from running."""
        running.undo_all()
        self._forget(running)

    def _forget(self, running: Running) -> None:
        running.dropped = None
        self._running = [entry for entry in self._running if entry[1] is not running]

    def start(self, frame: FrameType, variables: tuple[str, ...] = ()) -> Running:
        """Begin a recording in a frame, of which these variables are followed."""
        printer = self._printer() if self._printer else None
        sinks: tuple[Sink, ...] = (printer,) if printer else ()
        trace = Trace(about=about_trace(self._subject, self._level))
        trace._archive = Archive(self._folder, shield=Undisturbed) if self._overflow == "disk" else None
        recorder = self._recorder(sinks, trace._archive)
        # What is watched is printed and not kept.
        trace._attach(recorder.events if printer is None else nothing, recorder.step)
        running = Running(recorder, trace, printer)
        if printer:
            running.print(printer.begin)
        recorder.start(frame)
        try:
            if variables:
                recordings = [probe for probe in hearing() if probe.live is None]  # they keep what is printed here
                probes = tuple(dict.fromkeys((recorder.probes[0], *recordings)))
                running.undo.enter_context(in_block(frame, probes, variables))
        except Exception as error:
            recorder.trouble("following variables", error)
        except BaseException:
            running.undo_all()
            raise
        return running

    def _recorder(self, sinks: tuple[Sink, ...], archive: Archive | None) -> Recorder:
        return Recorder(
            self._subject,
            level=self._level,
            keep=self._keep,
            only=self._only,
            sinks=sinks,
            rank=current_rank(),
            memory=self._memory,
            archive=archive,
        )

    def _leave(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        running = last_entry(self._running)
        ended(lambda: self._left(running, error))
        running.report(sound=error is None)
        without_own_frames(tb)

    __exit__ = Exit(_leave)

    def _left(self, running: Running, error: BaseException | None) -> None:
        explain(error, running.recorder)
        running.undo_all()
        self._forget(running)


class Running:
    """One entry of a session: what to undo when it ends."""

    def __init__(self, recorder: Recorder | None, trace: Trace, printer: Printing | None) -> None:
        self.recorder, self.trace, self.printer = recorder, trace, printer
        self.undo = ExitStack()
        self.dropped: Dropped = None

    @classmethod
    def off(cls) -> Running:
        """One that does nothing: the tool is switched off."""
        trace = Trace()
        trace._attach(nothing, lambda: None)
        return cls(None, trace, None)

    def undo_all(self) -> None:
        """End the recording."""
        try:
            self.undo.close()
        finally:
            if self.recorder is not None:
                self.recorder.stop()
            self.trace._detach()

    def report(self, *, sound: bool) -> None:
        """Print the foot and say what did not match, if the block came to its end: else who knows what would have."""
        if self.printer is not None:
            self.print(self.printer.finish)
        if self.recorder is not None and sound:
            for text in self.recorder.complaints():
                tell(text)

    def print(self, write: Callable[[], None]) -> None:
        """Print the head or the foot; a view that fails there does not reach the user's code."""
        try:
            write()
        except Exception as error:
            if self.recorder is not None:
                self.recorder.trouble("printing", error)


def nothing(last: bool) -> tuple[list[Event], None]:
    """The events of a session that keeps none."""
    return [], None


def last_entry(running: list[tuple[int, Entry]]) -> Entry:
    """What this thread has entered last, or any has: a block may be left in another thread."""
    if not running:
        raise InsituError("this session has not begun, or has ended already: `with session:` begins and ends it")
    mine = [entry for ident, entry in running if ident == get_ident()]
    return mine[-1] if mine else running[-1][1]


def explain(error: BaseException | None, recorder: Recorder | None) -> None:
    """Let an exception that ends a block explain itself, if no call has seen it."""
    if error is not None and recorder is not None:
        add_note(error, recorder.probes[0], None)


def checked_subject(verb: str, subject: object) -> nn.Module | None:
    """The subject if it is one; an error that says what it may be if not."""
    if subject is None or isinstance(subject, nn.Module):
        return subject
    hint = f": give an instance, {subject.__name__}(...)" if isinstance(subject, type) else ""
    raise SubjectError(
        f"insitu.{verb} cannot trace {brief(subject)}{hint}; "
        f"it takes a torch.nn.Module, or nothing to trace all that torch does in the block"
        f"{'; a function or a class to decorate; or names of variables' if verb == 'watch' else ''}"
    )


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
            require_module(pattern, subject)
    return patterns


def require_module(pattern: str, subject: nn.Module) -> None:
    """Refuse a pattern that names no module; if it names values, say how to record these."""
    try:
        return require(pattern, module_paths(subject), what="module")
    except PatternError:
        if not names_values(pattern, subject):
            raise
    raise PatternError(
        f"{pattern!r} names values, not a module: keep='values' or to='run.h5' records them at each step"
    )


def names_values(pattern: str, subject: nn.Module) -> bool:
    """Whether a pattern names outputs, variables, parameters or gradients."""
    try:
        return bool(targets(subject, (pattern,)))
    except PatternError:
        return False


def module_paths(subject: nn.Module) -> list[str]:
    """The clean paths of all modules of a model."""
    from insitu.capture.names import Names

    return [callee.path for callee in Names(subject, lambda path: True).callees.values()]
