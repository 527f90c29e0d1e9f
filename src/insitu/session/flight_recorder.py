"""The flight recorder of a guard: the last steps of a program, written to a file when the run ends badly.

Five events write a file, each the first time that it happens in the block: an exception that ends it, a finding of NaN
or Inf, a spike of the loss, SIGTERM, and a watchdog. A watchdog may fire, and a loss may jump, some times before it
matters. No event replaces the file of an earlier one.

The order of reading: `capture/ring.py` keeps the last steps, `capture/flight_checks.py` fills the ring,
`capture/flight_steps.py` says where a step begins,
`session/watchdog.py` and `FlightRecorder` here notice the events, and `trace/crash.py` says what a file holds.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from insitu.capture.flight_steps import FlightSteps
from insitu.capture.isolation import run_isolated
from insitu.capture.ring import Ring, RingContents
from insitu.errors import NonFiniteError, StoreError
from insitu.session import dist
from insitu.session.about import about_trace
from insitu.session.flight_options import FlightOptions
from insitu.session.signals import SignalShield, Termination
from insitu.session.watchdog import Watchdog, thread_stacks
from insitu.store import RUN_SUFFIXES
from insitu.store import save as save_trace
from insitu.store.files import write_whole
from insitu.store.rank_files import rank_file
from insitu.trace.crash import Crash, CrashFinding, CrashKind, ThreadStack
from insitu.trace.event import Call, Event
from insitu.trace.explain.explanation_data import plain_explanation
from insitu.trace.failed_call import failed_call
from insitu.trace.findings import Finding
from insitu.trace.trace import Trace
from insitu.view.crash_text import written_text

if TYPE_CHECKING:
    from insitu.capture.flight_checks import FlightChecks
    from insitu.capture.recorder import Recorder
    from insitu.trace.explain.explanation import Explanation

PAGE = ".html"
MOST_ON_PAGE = 50_000  # events of the last steps that are on the page; the file has all
MOST_NAMES = 1000  # crash.h5, crash-2.h5, …
# Of each kind of event, so many are written in one block. A watchdog may fire while data is prepared, or a model is
# compiled; a loss that jumps may stay high, because the task has changed.
MOST_FILES: dict[CrashKind, int] = {"watchdog": 3, "spike": 3}
MOST_OF_GUARD = 10  # files for one kind of event: a guard may decorate a function that is called at every step
FOREVER = -1.0
PATIENCE = 10.0  # seconds that the handler of SIGTERM waits for a file that another thread is writing


@dataclass(frozen=True)
class CrashFile:
    """A file that was written, and how many steps it has."""

    path: Path
    steps: int

    @property
    def text(self) -> str:
        """Where the last steps are."""
        return written_text(self.steps, shown_path(self.path))


@dataclass(frozen=True)
class CrashEvent:
    """Why the last steps are written: its kind, a line about it, and the exception, the finding or the stacks."""

    kind: CrashKind
    text: str
    error: BaseException | None = None
    finding: Finding | None = None
    stacks: tuple[ThreadStack, ...] = ()


@dataclass(frozen=True)
class FlightSource:
    """Where the last steps come from while the block runs."""

    recorder: Recorder
    checks: FlightChecks


class FlightRecorder:
    """Keeps the last steps of one entry of a guard, and writes them.

    `findings` are those of the guard so far, and `written_by_guard` how many files all its entries have written for
    each kind of event.
    """

    def __init__(
        self,
        options: FlightOptions,
        subject: nn.Module | None,
        say: Callable[[str], None],
        findings: Sequence[Finding],
        written_by_guard: Counter[CrashKind],
    ) -> None:
        self._options, self._say, self._findings = options, say, findings
        self._written: Counter[CrashKind] = Counter()
        self._written_by_guard = written_by_guard
        self.values = options.values
        self._about = about_trace(subject, "functions")
        self._subject = subject
        self.ring = Ring(options.last, options.memory)
        self._source: FlightSource | None = None
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._has_ended = False
        self._last_findings: Sequence[Finding] = ()  # of the end, which are not reported yet
        self._places: set[tuple[object, ...]] = set()  # of the findings that were written
        self._unsaid: dict[tuple[object, ...], CrashFile] = {}  # files of findings, by place, until these are reported

    def start(self, recorder: Recorder, checks: FlightChecks, undo: ExitStack) -> None:
        """Count the steps, and listen to the losses, to SIGTERM and to the clock."""
        self._source = FlightSource(recorder, checks)
        undo.callback(self._let_go)
        checks.on_spike = self._on_spike
        steps = FlightSteps(checks, self._subject)
        steps.start(undo)
        termination = Termination(self._on_termination, lambda end: False, chains=True)
        undo.callback(termination.forget)
        if self._options.watchdog is not None:
            watchdog = Watchdog(self._options.watchdog, lambda: steps.signs, self._on_silence)
            watchdog.start()
            undo.callback(watchdog.stop)

    def _let_go(self) -> None:
        """The block has ended: there is nothing to write any more."""
        self._source = None

    # Events.

    def report(self, finding: Finding, report: Callable[[Finding], None]) -> None:
        """Write the last steps if a finding is serious, and let the guard report it; then say where they are.

        For the findings of the end, `end` has written them.
        """
        self._write_finding(finding)
        file = self._unsaid.pop(finding.place, None)
        if file is None:
            report(finding)
            return
        try:
            report(finding)
        except NonFiniteError as error:
            add_text(error, file.text)
            raise
        self._say(file.text)

    def _write_finding(self, finding: Finding) -> None:
        if finding.severity != "error":
            return
        file = self._write(CrashEvent("finding", first_line(finding.text), finding=finding))
        if file is not None:
            self._places.add(finding.place)
            self._unsaid[finding.place] = file

    def _on_spike(self, finding: Finding) -> None:
        """A loss is far above those before it: write the steps before it now, for they are gone at the end."""
        text = first_line(finding.text)
        file = self._write(CrashEvent("spike", text, finding=finding))
        if file is not None:
            self._say(f"{text}: {file.text}")

    def end(self, error: BaseException | None, findings: Sequence[Finding]) -> None:
        """The block ends, with these findings: write the last steps if it ends badly; once, even if Ctrl-C arrives."""
        if self._has_ended:
            return
        self._has_ended, self._last_findings = True, findings
        for finding in findings:
            self._write_finding(finding)
        has_more_to_say = error is not None and ends_badly(error) and not self._has_file(error)
        if error is None or not has_more_to_say:
            return
        file = self._write(CrashEvent("exception", error_line(error), error=error))
        if file is None:
            return
        add_text(error, file.text)
        if isinstance(error, SystemExit):  # whose notes nobody prints
            self._say(file.text)

    def _has_file(self, error: BaseException) -> bool:
        """Whether the file of a finding is that of the exception, too: the guard has raised it."""
        finding = error.finding if isinstance(error, NonFiniteError) else None
        return finding is not None and finding.place in self._places

    def _on_termination(self) -> None:
        file = self._write(CrashEvent("sigterm", "SIGTERM arrived"), patience=PATIENCE)
        if file is not None:
            self._say(file.text)

    def _on_silence(self, seconds: float) -> None:
        """The watchdog fires, in a thread of its own; the program goes on."""
        text = f"no step for {seconds:.3g} s"
        file = self._write(CrashEvent("watchdog", text, stacks=thread_stacks()))
        if file is not None:
            self._say(f"{text}: {file.text}")

    # The file.

    def _write(self, event: CrashEvent, *, patience: float = FOREVER) -> CrashFile | None:
        """Write the last steps, if this kind of event was not written before; None if nothing is written.

        `patience` is how many seconds to wait for a thread that is writing another file. The handler of a signal must
        not wait for ever: the code that it interrupts may hold what the other thread waits for.
        """
        if os.getpid() != self._pid:  # the child of a fork leaves it to its parent
            return None
        with SignalShield():
            if not self._lock.acquire(timeout=patience):
                return None
            try:
                return self._write_alone(event)
            finally:
                self._lock.release()

    def _write_alone(self, event: CrashEvent) -> CrashFile | None:
        """Write the last steps while no other thread does."""
        source = self._source
        if source is None or self._has_enough(event.kind):
            return None
        try:
            trace = self._trace(source, event)
            is_empty = not trace.calls and not event.stacks
            if is_empty:  # such as a script that was never run
                return None
            path = self._save(trace)
        except Exception as own:
            source.recorder.trouble("writing the last steps", own)
            return None
        self._written[event.kind] += 1
        self._written_by_guard[event.kind] += 1
        try:
            save_page(trace, path)
        except Exception as own:
            source.recorder.trouble("making the page of the last steps", own)
        return CrashFile(path, trace.crash.count if trace.crash is not None else 0)

    def _has_enough(self, kind: CrashKind) -> bool:
        """Whether no more files are written for this kind of event."""
        if self._written_by_guard[kind] >= MOST_OF_GUARD:
            return True
        return self._written[kind] >= MOST_FILES.get(kind, 1)

    def _trace(self, source: FlightSource, event: CrashEvent) -> Trace:
        """The last steps, and why they are written."""
        contents = source.checks.contents(source.recorder.decoder, reads_devices=event.kind != "watchdog")
        crash = self._crash(event, contents)
        about = {**self._about, "crash": crash.plain()}
        explanation = explanation_of(event, source.recorder)
        if explanation is not None:
            about["explanation"] = plain_explanation(explanation)
        return Trace(contents.events, about=about)

    def _crash(self, event: CrashEvent, contents: RingContents) -> Crash:
        call = call_at_fault(contents.events, event)
        return Crash(
            event.kind,
            event.text,
            contents.step,
            contents.first,
            self._options.last,
            is_cut=contents.is_cut,
            with_statistics=contents.with_statistics,
            call=None if call is None else call.id,
            kept_from=contents.kept_from,
            findings=tuple(CrashFinding(each.severity, each.text) for each in self._findings_with(event.finding)),
            stacks=event.stacks,
        )

    def _findings_with(self, finding: Finding | None) -> list[Finding]:
        """The findings of the guard so far, with those that it reports later."""
        findings = {each.place: each for each in (*self._findings, *self._last_findings)}
        if finding is not None:
            findings.setdefault(finding.place, finding)
        return list(findings.values())

    def _save(self, trace: Trace) -> Path:
        """Write the file; into the folder for temporary files if that is not possible where it should be."""
        target = self._target()
        try:
            return save_under_free_name(trace, target)
        except StoreError as error:
            path = save_under_free_name(trace, Path(tempfile.gettempdir()) / target.name)
            self._say(f"{error}; the last steps are in {str(path)!r} instead")
            return path

    def _target(self) -> Path:
        """The file of this rank."""
        if dist.world_size() == 1:
            return self._options.to
        return Path(rank_file(str(self._options.to), RUN_SUFFIXES, dist.current_rank()))


def save_page(trace: Trace, path: Path) -> None:
    """Write the page of a file beside it."""
    from insitu.view.html import page  # only a crash needs it

    text = page(trace, steps=steps_on_page(trace.events), title=path.name)
    write_whole(path.with_suffix(PAGE), text.encode(), overwrite=False)


def explanation_of(event: CrashEvent, recorder: Recorder) -> Explanation | None:
    """The explanation of the exception that ended the block; None for other events."""
    from insitu.session.record import explanation_for

    if event.error is None:
        return None
    try:
        return explanation_for(event.error)
    except Exception as own:
        recorder.trouble("explaining the exception", own)
        return None


def ends_badly(error: BaseException) -> bool:
    """Whether an exception ends a run as nobody planned it; `sys.exit(0)` and the end of a generator do not."""
    if isinstance(error, SystemExit):
        return error.code not in (None, 0)
    return isinstance(error, (Exception, KeyboardInterrupt))


def add_text(error: BaseException, text: str) -> None:
    """Add a note to an exception; its class may be one of the user that accepts none."""
    with suppress(Exception):
        BaseException.add_note(error, text)


def first_line(text: str) -> str:
    """The first line of a text."""
    return text.partition("\n")[0]


def error_line(error: BaseException) -> str:
    """An exception in a line, whatever its class makes of itself: its text may compute something."""
    try:
        message = first_line(run_isolated(lambda: str(error)))
    except Exception:
        message = ""
    name = type(error).__name__
    if not message:
        return name
    return f"{name}: {message}"


def call_at_fault(events: list[Event], event: CrashEvent) -> Call | None:
    """The call that raised the exception, or that a finding is about; None if it is not known."""
    if event.error is not None:
        return failed_call(events, type(event.error).__name__)
    if event.finding is None or event.finding.call is None:
        return None
    place = place_of(event.finding.call)
    same = (each for each in reversed(events) if isinstance(each, Call) and place_of(each) == place)
    return next(same, None)


def place_of(call: Call) -> tuple[str, str, str, int]:
    """What a call is, and where."""
    file, line = (call.site.file, call.site.line) if call.site is not None else ("", 0)
    return call.name, call.path, file, line


def steps_on_page(events: list[Event]) -> list[int] | None:
    """The last steps that a page has room for; None if that is all of them."""
    if len(events) <= MOST_ON_PAGE:
        return None
    first = events[-MOST_ON_PAGE].step + 1
    last = events[-1].step
    return list(range(min(first, last), last + 1))


def save_under_free_name(trace: Trace, path: Path) -> Path:
    """Write a trace to a file that does not exist, nor the page beside it: `crash.h5`, `crash-2.h5`, …"""
    for number in range(1, MOST_NAMES):
        free = path if number == 1 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        if os.path.lexists(free) or os.path.lexists(free.with_suffix(PAGE)):
            continue
        try:
            save_trace(trace, free)
        except StoreError:
            if os.path.lexists(free):  # another process was faster
                continue
            raise
        return free
    raise StoreError(f"{str(path)!r} and {MOST_NAMES} names like it are taken: remove some of these files")


def shown_path(path: Path) -> str:
    """A path as the user would write it."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the current directory was removed, or is on another drive
        return str(path)
    if relative.startswith(os.pardir):
        return str(path)
    return relative
