"""`guard`: an error at the call that produces NaN or Inf; at the end, what is wrong with a training."""

from __future__ import annotations

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial, wraps
from types import FrameType, TracebackType
from typing import Any, TypeVar

import torch
from torch import nn

from insitu.capture.flight_checks import FlightChecks
from insitu.capture.guard.check import GuardChecks, names
from insitu.capture.guard.method_calls import MethodListener, loss_scaling
from insitu.capture.guard.training import Training
from insitu.capture.recorder import Recorder
from insitu.errors import NonFiniteError, PatternError, SubjectError, brief, choose, tell
from insitu.session.dist import current_rank
from insitu.session.flight_options import FlightOptions, flight_options
from insitu.session.flight_recorder import FlightRecorder
from insitu.session.record import explain_error
from insitu.session.session import Entry, Session
from insitu.session.signals import ExitMethod
from insitu.session.subject import check_subject, module_paths, pattern_list
from insitu.session.switch import is_off
from insitu.trace.crash import CrashKind
from insitu.trace.findings import Finding
from insitu.trace.path import suggestion
from insitu.view.finding_card import CountedFinding, guard_title

ACTIONS = ("raise", "warn", "record")

Function = TypeVar("Function", bound=Callable[..., Any])


def guard(
    subject: nn.Module | None = None,
    *,
    action: str = "raise",
    allow: str | Iterable[str] = (),
    last: int | None = None,
    to: str | os.PathLike[str] | None = None,
    values: str | Iterable[str] = (),
    watchdog: float | None = None,
    memory: int | str | None = None,
) -> Guard:
    """Raise `NonFiniteError` for NaN or Inf that a call produces from finite inputs, forward or backward.

    A guard is a `with` block, or decorates a function. It checks all torch functions in the block; another thread is
    checked while it runs a module. Only the call that produces NaN or Inf counts, not the calls that pass it on, and
    only what leaves a torch function.

    NaN and Inf may heal: a mask computed by `torch.log`, a quotient that `torch.where` or `nan_to_num` replaces. They
    are reported when they reach a loss, a gradient or the result of a model, when a call spreads NaN or several calls
    pass it on, when they leave torch as a number or an array, or when no call has used them by the end of the block.
    Infinities that the program writes itself (a mask of `-inf`), the least number of a dtype in a mask, and
    uninitialised memory are ignored.

    Numbers on an accelerator are read once a step: there, NaN and Inf are raised at the end of the step, before the
    optimizer steps, and not at the call, which is named all the same.

    Some findings only warn: NaN from before the block; NaN or Inf that the program has written itself, once a loss
    contains it; metrics of a block that trains; and findings after an exception has ended the block. At the end of the
    block, a warning names parameters that never get a gradient or never change, gradients that vanish, explode or are
    not set to zero, activations that die or saturate, unusual updates and spikes of the loss. Parameters that are
    frozen from the beginning, while the rest learns, are only in the findings.

    With `last`, `to`, `values`, `watchdog` or `memory`, the guard is a flight recorder, too: it keeps the last steps,
    and writes them to a file, with a page beside it, when an exception ends the block, when it finds NaN or Inf, when
    the loss jumps, on SIGTERM, or when the watchdog fires. The file has the facts of every call, and statistics of each
    twentieth step. `insitu.load` reads it, and `trace.crash` says why it was written. A process that is killed
    (SIGKILL, `os._exit`) writes nothing.

    Args:
        subject: A model. It only names the parameters whose training is checked; without a model, these are the
            parameters of the optimizers that step and of the modules that own them.
        action: "raise", "warn" (once for each place) or "record". `guard.findings` always has all findings.
        allow: Functions ("log", "torch.log") and modules ("h.*.attn") that may produce NaN and Inf.
        last: How many steps are kept; 20 if another option asks for the recorder. A step is an outermost call of the
            model; once an optimizer has stepped, it ends with the update of an optimizer. 0 keeps none.
        to: The file, "crash.h5" by default. No file is replaced: the next one is "crash-2.h5". Each rank has its own.
        values: Path patterns of modules: the values that go into them and come out are kept as well.
        watchdog: After so many seconds without a step or a call of the model, the last steps are written, with the
            stacks of all threads. The program goes on.
        memory: How much the last steps may take, as in "500MB"; the default is 256 MiB. Beyond that, fewer are kept.

    Examples:
        >>> import torch, insitu
        >>> with insitu.guard(action="record") as guard:
        ...     _ = torch.log(torch.tensor([1.0, 0.0], requires_grad=True))
        >>> print(guard.findings[0].text)  # doctest: +ELLIPSIS
        <doctest ...>:2: torch.log produced Inf from finite inputs
        ...
          why   the logarithm of 0 is -inf: clamp it first; ...
    """
    check_subject("guard", subject)
    flight = flight_options(subject, last=last, to=to, values=values, watchdog=watchdog, memory=memory)
    return Guard(subject, action=action, allow=allow, flight=flight)


class Guard(Session["GuardEntry"]):
    """A `with` block, or a decorator, that checks; `findings` is what it has found, `tell` warns of one."""

    def __init__(
        self,
        subject: nn.Module | None,
        *,
        action: str,
        allow: str | Iterable[str],
        tell: Callable[[str], None] = tell,
        flight: FlightOptions | None = None,
    ) -> None:
        super().__init__()
        self._tell, self._flight = tell, flight
        self._subject = check_subject("guard", subject)
        self._action = choose("action", action, ACTIONS)
        self._allow = allowed_names(allow, subject)
        self._places: dict[tuple[object, ...], Finding] = {}
        self._times: Counter[Finding] = Counter()
        self.findings: list[Finding] = []
        self._crash_files: Counter[CrashKind] = Counter()

    def __enter__(self) -> Guard:
        self.enter(sys._getframe(1))
        return self

    def open(self, frame: FrameType | None) -> GuardEntry:
        """Start to check what runs in a frame."""
        flight = None
        if self._flight is not None and not is_off():
            flight = FlightRecorder(self._flight, self._subject, self._tell, self.findings, self._crash_files)
        entry = GuardEntry(self._report, flight)
        if not is_off():
            entry.start(self._subject, self._allow, frame)
        return entry

    def __call__(self, function: Function) -> Function:
        """The function, guarded whenever it runs."""
        refuse_what_runs_later(function)

        @wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with GuardedCall(self, sys._getframe(1)):
                return function(*args, **kwargs)

        return guarded  # type: ignore[return-value]

    def _report(self, finding: Finding, *, may_raise: bool = True) -> None:
        """Take a finding: keep the first of each place, and raise or warn as the user wants it."""
        is_new = finding.place not in self._places
        first = self._places.setdefault(finding.place, finding)
        self._times[first] += 1
        if is_new:
            self.findings.append(finding)
        if may_raise and self._action == "raise" and finding.severity == "error":
            raise NonFiniteError(first.text, first)
        if is_new and self._action != "record" and finding.severity != "info":
            self._tell(finding.text)

    def times(self, finding: Finding) -> int:
        """How often a finding of this guard was found at its place."""
        return self._times[finding]

    def _counted(self) -> list[CountedFinding]:
        return [CountedFinding(finding, self.times(finding)) for finding in self.findings]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.view.notebook import guard_forms  # only a notebook needs it

        return guard_forms(self._counted(), is_running=bool(self._entries), include=include, exclude=exclude)

    def __repr__(self) -> str:
        return f"<{guard_title(self._counted(), is_running=bool(self._entries))}>"


class GuardedCall:
    """The call of a guarded function: a guard that is entered for the frame that called it."""

    def __init__(self, guard: Guard, frame: FrameType) -> None:
        self._guard, self._frame = guard, frame

    def __enter__(self) -> None:
        self._guard.enter(self._frame, self)

    def _leave(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._guard.leave(kind, error, tb)

    __exit__ = ExitMethod(_leave)


class GuardEntry(Entry):
    """One entry of a guard: the checks it has started, and the findings of its end."""

    def __init__(self, report: Callable[..., None], flight: FlightRecorder | None) -> None:
        super().__init__()
        self._report, self._flight = report, flight
        self._last_findings: list[Finding] = []
        self.recorder: Recorder | None = None
        self.checks: GuardChecks | None = None
        self.training: Training | None = None

    def start(self, subject: nn.Module | None, allow: tuple[str, ...], frame: FrameType | None) -> None:
        """Start to check."""
        self.checks = checks = self._new_checks(allow)
        self.recorder = Recorder(subject, level="functions", keep="meta", only=(), rank=current_rank(), checks=checks)
        self.training = Training(subject, checks, self.recorder.trouble)
        with ExitStack() as undo:
            undo.callback(checks.stop)
            loss_scaling.listen(MethodListener(checks.begin_scaling, self.recorder.trouble, checks.end_scaling), undo)
            self.recorder.start(frame)
            undo.callback(self.recorder.stop)
            self.training.start(undo)
            if self._flight is not None and isinstance(checks, FlightChecks):
                self._flight.start(self.recorder, checks, undo)
            self.undo = undo.pop_all()

    def _new_checks(self, allow: tuple[str, ...]) -> GuardChecks:
        """The checks; with a flight recorder, those that keep the last steps."""
        if self._flight is None:
            return GuardChecks(self._report, allow)
        return FlightChecks(self._take, allow, self._flight.ring, self._flight.values)

    def _take(self, finding: Finding, *, may_raise: bool = True) -> None:
        """Let the flight recorder write the last steps before a finding is raised."""
        report = partial(self._report, may_raise=may_raise)
        if self._flight is not None:
            self._flight.report(finding, report)
        else:
            report(finding)

    def stop(self, error: BaseException | None) -> None:
        """Undo everything; keep what the end of the block has brought to light for `report`."""
        explain_error(error, self.recorder)
        try:
            self._last_findings = self._find_last(error)
        except Exception as own:
            if self.recorder is not None:
                self.recorder.trouble("looking at the training", own)
        finally:
            try:
                if self._flight is not None:
                    self._flight.end(error, self._last_findings)
            finally:
                self.undo.close()

    def _find_last(self, error: BaseException | None) -> list[Finding]:
        """Non-finite tensors that no call has used, and what is wrong with the training.

        Where an error ended the training, that is spikes of the loss only: what else is missing may have come later.
        """
        if self.training is None or self.checks is None:
            return []
        findings = self.checks.rest(is_complete=error is None)
        if error is None or isinstance(error, KeyboardInterrupt):
            findings += self.training.findings()
        else:
            findings += self.training.spikes()
        return findings

    def report(self, error: BaseException | None) -> None:
        """Report the findings of the end; none of them replaces an exception of the user."""
        for finding in self._last_findings:
            self._take(finding, may_raise=error is None)

    def roll_back(self) -> None:
        """Undo everything, and look at nothing: Ctrl-C arrived during `__enter__`."""
        self.undo.close()


def refuse_what_runs_later(function: Callable[..., Any]) -> None:
    """Refuse to decorate what does nothing when it is called."""
    later = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(is_such(function) for is_such in later):
        raise SubjectError(
            f"insitu.guard cannot decorate {brief(function)}: it runs later, in turns with others. "
            f"Write `with insitu.guard(...):` around the loop, or the run, that uses it"
        )


def allowed_names(allow: str | Iterable[str], subject: nn.Module | None) -> tuple[str, ...]:
    """The patterns of `allow`, each of which names a function of torch or a part of the model."""
    patterns = pattern_list("allow", allow, "'log', 'torch.log' or 'encoder.*'")
    if subject is None:
        return patterns
    paths = [*module_paths(subject), *dict(subject.named_parameters())]
    for pattern in patterns:
        is_known = is_function(pattern) or any(names(pattern, "", path) for path in paths)
        if not is_known:
            raise PatternError(f"no torch function and no module matches {pattern!r}{suggestion(pattern, paths)}")
    return patterns


def is_function(pattern: str) -> bool:
    """Whether torch has a function of this name."""
    last = pattern.rpartition(".")[2]
    return any(hasattr(owner, last) or hasattr(owner, f"__{last}__") for owner in FUNCTIONS)


FUNCTIONS = (torch, torch.Tensor, torch.nn.functional, torch.linalg, torch.special, torch.fft, torch.sparse)
