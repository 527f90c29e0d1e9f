"""`record`: the calls of a model, or of everything in a block, as a `Trace`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from insitu.capture.explain.note import add_note, note_of
from insitu.capture.keep import make_keep
from insitu.capture.live import Sink
from insitu.capture.recorder import LEVELS, Recorder
from insitu.capture.variables.function_watch import probes_here
from insitu.capture.variables.variants import in_block
from insitu.errors import InsituError, choose, not_entered, tell
from insitu.session.about import about_trace
from insitu.session.dist import current_rank
from insitu.session.session import Entry, Session
from insitu.session.signals import SignalShield
from insitu.session.subject import check_subject, module_patterns
from insitu.session.switch import is_off
from insitu.session.trace_gate import TraceGate
from insitu.store.trace.archive import Archive
from insitu.trace.capacity import MEMORY, capacity
from insitu.trace.event import Event
from insitu.trace.explain.explanation import Explanation
from insitu.trace.explain.explanation_data import plain_explanation
from insitu.trace.trace import Trace

OVERFLOWS = ("drop", "disk")

Keep = str | Callable[[Tensor], Any]


def record(
    subject: nn.Module | None = None,
    *,
    level: str = "functions",
    keep: Keep = "meta",
    only: str | Iterable[str] | None = None,
    memory: int | str | None = None,
    overflow: str | None = None,
    inside_compiled: bool = False,
) -> TraceSession:
    """Record the calls of a model, or of everything that torch does in a block, as a `Trace`.

    `insitu.record_run` records values over a whole training run, into a file.

    Args:
        subject: A model. Without one, everything that torch does in the block is recorded.
        level: "python" (only watched functions), "modules", "functions" or "aten"; each includes those before it.
        keep: How much of each tensor, and of its gradient, is kept: "meta" (shape, dtype, device), "stats", "values",
            or a function that returns something small for a tensor.
        only: Path patterns: only these modules and what runs in them.
        memory: How much the trace may take, as in "500MB"; the default is 1 GiB. Beyond that, its oldest steps leave
            the memory, and `trace.missing` says so.
        overflow: Where the oldest steps go: "drop" (the default), or "disk", a temporary folder from which
            `insitu.save(trace, "trace.h5")` writes them as well.
        inside_compiled: Whether the graphs of compiled functions also run call by call, for the values inside. The
            results of the program remain those of the compiled code.

    Examples:
        >>> import torch, insitu
        >>> model = torch.nn.Linear(3, 2)
        >>> with insitu.record(model) as trace:
        ...     _ = model(torch.ones(4, 3))
        >>> trace.calls[0].outputs
        (f32[4, 2],)
    """
    return TraceSession(
        "record",
        subject,
        level=level,
        keep=keep,
        only=only,
        memory=memory,
        overflow=overflow,
        inside_compiled=inside_compiled,
    )


class SessionPrinter(Protocol):
    """A sink that prints events, with a header and a footer."""

    def begin(self) -> None:
        """Print the header."""

    def __call__(self, event: Event) -> None:
        """Print an event."""

    def finish(self) -> None:
        """Print the footer."""

    def flush(self) -> None:
        """Let a reader see all that was printed."""


class TraceSession(Session["TraceEntry"]):
    """A `with` block that records calls: into a `Trace` or, with a printer, onto the terminal."""

    def __init__(
        self,
        verb: str,
        subject: nn.Module | None,
        *,
        level: str,
        keep: Keep,
        only: str | Iterable[str] | None,
        printer: Callable[[FrameType | None], SessionPrinter] | None = None,
        variables: tuple[str, ...] = (),
        memory: int | str | None = None,
        overflow: str | None = None,
        folder: str | None = None,
        gate: TraceGate | None = None,
        inside_compiled: bool = False,
    ) -> None:
        super().__init__()
        self._inside_compiled = inside_compiled
        self._gate = gate
        self._memory = MEMORY if memory is None else capacity("memory", memory)
        self._overflow = choose("overflow", overflow or "drop", OVERFLOWS)
        self._folder = folder  # for events beyond the memory; None for a temporary folder
        self._subject = check_subject(verb, subject)
        self._level = choose("level", level, LEVELS)
        self._keep = torch.clone if keep == "values" else keep
        make_keep(self._keep, lambda what, error: None)  # refuse an unknown `keep` here, not when the block is entered
        self._only = module_patterns(only, subject)
        self._printer = printer
        self._variables = variables

    def __getattr__(self, name: str) -> Any:
        raise not_entered(self, name, Trace, "record", "trace")

    def __enter__(self) -> Trace:
        return self.enter(sys._getframe(1)).trace

    def open(self, frame: FrameType | None) -> TraceEntry:
        """Start to record in a frame, whose variables are followed if the session names some."""
        if is_off():
            return TraceEntry(Trace(), None, None)
        return self.start(frame, self._variables)

    def start(self, frame: FrameType | None, variables: tuple[str, ...] = ()) -> TraceEntry:
        """Start to record in a frame, and follow these variables of it."""
        printer = None if self._printer is None else self._printer(frame)
        trace = Trace(about=about_trace(self._subject, self._level))
        if self._overflow == "disk":
            trace._archive = Archive(self._folder, shield=SignalShield)
        entry = TraceEntry(trace, self._recorder(printer, trace), printer)
        entry.start(frame, variables)
        if self._gate is not None and entry.recorder is not None:
            self._gate.start(entry.recorder, entry.undo)
        return entry

    def _recorder(self, printer: Sink | None, trace: Trace) -> Recorder:
        return Recorder(
            self._subject,
            level=self._level,
            keep=self._keep,
            only=self._only,
            sinks=() if printer is None else (printer,),
            rank=current_rank(),
            memory=self._memory,
            archive=trace._archive,
            inside_compiled=self._inside_compiled,
        )


class TraceEntry(Entry):
    """One entry of a session that records calls; without a recorder, the environment has turned insitu off."""

    def __init__(self, trace: Trace, recorder: Recorder | None, printer: SessionPrinter | None) -> None:
        super().__init__()
        self.trace, self.recorder, self.printer = trace, recorder, printer
        # Printed events are not kept.
        if recorder is None or printer is not None:
            trace._attach(no_events, recorder.step if recorder is not None else do_nothing)
        else:
            trace._attach(recorder.events, recorder.step)

    def start(self, frame: FrameType | None, variables: tuple[str, ...]) -> None:
        """Start the recorder, and follow variables of the frame."""
        assert self.recorder is not None
        if self.printer is not None:
            self._print(self.printer.begin)
        self.recorder.start(frame)
        try:
            if variables and frame is not None:
                self._follow(frame, variables)
        except Exception as error:
            self.recorder.trouble("following variables", error)
        except BaseException:
            self.stop(None)
            raise

    def _follow(self, frame: FrameType, variables: tuple[str, ...]) -> None:
        """Report changes of variables to this entry, and to the recordings around it, which keep the printed events."""
        assert self.recorder is not None
        recordings = [probe for probe in probes_here() if probe.live is None]
        probes = tuple(dict.fromkeys((self.recorder.probes[0], *recordings)))
        self.undo.enter_context(in_block(frame, probes, variables))

    def stop(self, error: BaseException | None) -> None:
        """Undo everything; let an exception that no call has seen explain itself."""
        explain_error(error, self.recorder)
        try:
            self.undo.close()
        finally:
            if self.recorder is not None:
                self.recorder.stop()
                self._keep_graphs(self.recorder)
            self.trace._detach()

    def _keep_graphs(self, recorder: Recorder) -> None:
        """Let the trace say which graphs ran in compiled regions."""
        if recorder.graphs is None or self.printer is not None:
            return
        try:
            found = recorder.graphs.graphs()
            if found:
                self.trace.about["compiled"] = [graph.plain() for graph in found]
        except Exception as own:
            recorder.trouble("reading compiled graphs", own)

    def report(self, error: BaseException | None) -> None:
        """Print the footer. If the block ended normally, warn about patterns that matched nothing."""
        if self.printer is not None:
            self._print(self.printer.finish)
        if self.recorder is None:
            return
        if error is not None:
            self._keep_explanation(error, self.recorder)
            return
        for text in self.recorder.complaints():
            tell(text)

    def _keep_explanation(self, error: BaseException, recorder: Recorder) -> None:
        """Let the trace say why the exception was raised; now, because the explanation reads tensors that die soon."""
        if self.printer is not None:
            return
        try:
            found = explanation_for(error)
            if found is not None:
                self.trace.about["explanation"] = plain_explanation(found)
        except Exception as own:
            recorder.trouble("explaining the exception", own)

    def _print(self, write: Callable[[], None]) -> None:
        """Print the header or the footer; a view that fails there does not reach the user's code."""
        try:
            write()
        except Exception as error:
            if self.recorder is not None:
                self.recorder.trouble("printing", error)


def no_events(last: bool) -> tuple[list[Event], None]:
    """The events of a session that keeps none."""
    return [], None


def do_nothing() -> None:
    """A step of a session that is off."""


def explanation_for(error: BaseException) -> Explanation | None:
    """The explanation in the note of an exception; an error of insitu explains itself. None for Ctrl-C and the like."""
    if isinstance(error, InsituError):
        return Explanation(type(error).__name__, str(error))
    note = note_of(error)
    if note is None:
        return None
    return note.explanation


def explain_error(error: BaseException | None, recorder: Recorder | None) -> None:
    """Let an exception that ends a block explain itself, if no call has seen it."""
    if error is not None and recorder is not None:
        add_note(error, recorder.probes[0], None)
