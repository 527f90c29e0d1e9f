"""`guard`: an error at the call that produces NaN or Inf; at the end, what is wrong with a training."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from threading import get_ident
from types import FrameType, TracebackType
from typing import Any, TypeVar

import torch
from torch import nn

from insitu.capture.guard.check import Checks, names
from insitu.capture.guard.health import Health
from insitu.capture.guard.scaling import scaling
from insitu.capture.recorder import Recorder
from insitu.errors import NonFiniteError, PatternError, SubjectError, brief, choose, tell
from insitu.session.dist import current_rank
from insitu.session.session import checked_subject, explain, last_entry, module_paths
from insitu.session.signals import Dropped, Exit, begun, ended, undone_with
from insitu.trace.findings import Finding
from insitu.trace.path import compiled, suggestion
from insitu.tracebacks import without_own_frames

ACTIONS = ("raise", "warn", "record")

Function = TypeVar("Function", bound=Callable[..., Any])


def guard(subject: nn.Module | None = None, *, action: str = "raise", allow: str | Iterable[str] = ()) -> Guard:
    """Raise `NonFiniteError` at the call that produces NaN or Inf from finite inputs, forward or backward.

    >>> import torch, insitu
    >>> with insitu.guard(action="record") as guard:
    ...     _ = torch.log(torch.tensor([1.0, 0.0], requires_grad=True))
    >>> print(guard.findings[0].text)  # doctest: +ELLIPSIS
    <doctest ...>:2: torch.log produced Inf from finite inputs
    ...
      why   the logarithm of 0 is -inf: clamp it first; for a probability, use log_softmax or logsigmoid on the scores

    It is a `with` block, or decorates a function. All torch functions in the block are checked; the model only says
    whose parameters to look after. Without a model, these are the parameters of the optimizers that step and of the
    modules that they belong to. Other threads are checked while they run modules: from the first call of one on, until
    it returns. `allow` names functions ("log", "torch.log") and modules ("h.*.attn") that may produce NaN and Inf.

    Only the call that produces NaN or Inf counts, not those that pass it on, and only what leaves a torch function. In
    a tensor that needs no gradient, Inf (outside modules NaN, too) may heal: a mask made by `torch.log`, a reciprocal
    whose infinities are replaced. It is reported when it reaches a loss or a gradient, when NaN is computed from it,
    when it leaves torch as a number or an array, or when no call has used it by the end of the block. Infinities that
    are written down (a mask of `-inf`), least numbers that masks are made of and uninitialised memory are ignored.

    `action` is "raise", "warn" (once for each place) or "record"; in any case all is in `guard.findings`. Some findings
    only warn: NaN that was there before the block; NaN or Inf that was written down in it, once a loss contains it;
    metrics of a block that trains; and what comes to light when an exception has ended the block. At the end of the
    block, a warning says what is wrong with a training: parameters that never get a gradient or never change,
    gradients that vanish, explode or are not set to zero. Parameters that were frozen from the beginning, while the
    rest learns, are only in the findings.
    """
    return Guard(subject, action=action, allow=allow)


class Guard:
    """A `with` block, or a decorator, that checks; `findings` is what it has found."""

    def __init__(self, subject: nn.Module | None, *, action: str, allow: str | Iterable[str]) -> None:
        self._subject = checked_subject("guard", subject)
        self._action = choose("action", action, ACTIONS)
        self._allow = checked_names(allow, subject)
        self._running: list[tuple[int, Running]] = []
        self._places: dict[tuple[object, ...], Finding] = {}
        self._times: Counter[Finding] = Counter()
        self.findings: list[Finding] = []

    def __enter__(self) -> Guard:
        self.enter(sys._getframe(1), self)
        return self

    def enter(self, frame: FrameType | None, entered: object) -> None:
        """Begin to guard in a frame, whose `with` statement has entered this object; `leave` ends it."""
        begun(lambda: self._entered(frame, entered), self.abandon)

    def _entered(self, frame: FrameType | None, entered: object) -> Running:
        running = Running(self._report)
        if os.environ.get("INSITU") != "0":
            running.start(self._subject, self._allow, frame)
        self._running.append((get_ident(), running))
        running.dropped = undone_with(entered, partial(self.abandon, running))
        return running

    def abandon(self, running: Running) -> None:
        """Roll back: an interrupt came while the block was entered, or kept `__exit__` from running."""
        running.undo.close()
        self._forget(running)

    def _forget(self, running: Running) -> None:
        running.dropped = None
        self._running = [entry for entry in self._running if entry[1] is not running]

    def leave(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """End what was entered last, and report what it has found."""
        running = last_entry(self._running)
        for finding in ended(lambda: self._left(running, error)):
            self._report(finding, may_raise=error is None)
        without_own_frames(tb)

    __exit__ = Exit(leave)

    def _left(self, running: Running, error: BaseException | None) -> list[Finding]:
        explain(error, running.recorder)
        found = running.stop(error)
        self._forget(running)
        return found

    def __call__(self, function: Function) -> Function:
        """The function, guarded whenever it runs."""
        refuse_what_runs_later(function)

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            with _Call(self, sys._getframe(1)):
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
            tell(finding.text)

    def times(self, finding: Finding) -> int:
        """How often a finding of this guard was found at its place."""
        return self._times[finding]

    def __repr__(self) -> str:
        return f"<Guard: {len(self.findings)} findings>"


class _Call:
    """The call of a guarded function: a guard that is entered for the frame that called it."""

    def __init__(self, guard: Guard, frame: FrameType) -> None:
        self._guard, self._frame = guard, frame

    def __enter__(self) -> None:
        self._guard.enter(self._frame, self)

    def _leave(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._guard.leave(kind, error, tb)

    __exit__ = Exit(_leave)


class Running:
    """One entry of a guard: what to undo when it ends."""

    def __init__(self, report: Callable[[Finding], None]) -> None:
        self.report = report
        self.recorder: Recorder | None = None
        self.checks: Checks | None = None
        self.health: Health | None = None
        self.undo = ExitStack()
        self.dropped: Dropped = None

    def start(self, subject: nn.Module | None, allow: tuple[str, ...], frame: FrameType | None) -> None:
        """Begin to check."""
        self.checks = checks = Checks(self.report, allow)
        self.recorder = Recorder(subject, level="functions", keep="meta", only=(), rank=current_rank(), checks=checks)
        self.health = Health(subject, checks, self.recorder.trouble)
        with ExitStack() as undo:
            undo.callback(checks.stop)
            scaling.begin(checks.note_scaling)
            undo.callback(scaling.end, checks.note_scaling)
            self.recorder.start(frame)
            undo.callback(self.recorder.stop)
            self.health.start(undo)
            self.undo = undo.pop_all()

    def stop(self, error: BaseException | None) -> list[Finding]:
        """End: what nobody has used so far, and what is wrong with the training, unless an error has ended it."""
        found: list[Finding] = []
        is_interrupted = isinstance(error, KeyboardInterrupt)
        try:
            if self.health is not None and self.checks is not None:
                found += self.checks.rest(is_complete=error is None)
                found += self.health.findings() if error is None or is_interrupted else []
        except Exception as own:
            if self.recorder is not None:
                self.recorder.trouble("looking at the training", own)
        finally:
            self.undo.close()
        return found


def refuse_what_runs_later(function: Callable[..., Any]) -> None:
    """Refuse to decorate what does nothing when it is called."""
    later = (inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(is_such(function) for is_such in later):
        raise SubjectError(
            f"insitu.guard cannot decorate {brief(function)}: it runs later, in turns with others. "
            f"Write `with insitu.guard(...):` around the loop, or the run, that uses it"
        )


def checked_names(allow: str | Iterable[str], subject: nn.Module | None) -> tuple[str, ...]:
    """The patterns as a tuple, each of them one that can name something."""
    patterns = (allow,) if isinstance(allow, str) or not isinstance(allow, Iterable) else tuple(allow)
    paths = [] if subject is None else [*module_paths(subject), *dict(subject.named_parameters())]
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise PatternError(f"allow={brief(pattern)} names nothing: write 'log', 'torch.log' or 'encoder.*'")
        compiled(pattern)
        if subject is not None and not is_function(pattern) and not any(names(pattern, "", path) for path in paths):
            raise PatternError(f"no function of torch and no module matches {pattern!r}{suggestion(pattern, paths)}")
    return patterns


def is_function(pattern: str) -> bool:
    """Whether torch has a function of this name."""
    last = pattern.rpartition(".")[2]
    return any(hasattr(owner, last) or hasattr(owner, f"__{last}__") for owner in FUNCTIONS)


FUNCTIONS = (torch, torch.Tensor, torch.nn.functional, torch.linalg, torch.special, torch.fft, torch.sparse)
