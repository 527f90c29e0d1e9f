"""The checks of a guard: that the output of each torch function is finite, with one sum where it is looked at.

handlers.py says which outputs are looked at; `trace.origin` decides where a NaN or Inf began, on facts that forward.py,
loss.py and gradient.py collect; nodes.py checks the backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from sys import _getframe
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.explain.note import save_waiting_tapes
from insitu.capture.explain.reading import Reading, values
from insitu.capture.finite import careful_total, is_finite
from insitu.capture.guard.arrays import ArraySources
from insitu.capture.guard.deferred_findings import step_findings
from insitu.capture.guard.facts import alive, holds_nonfinite
from insitu.capture.guard.finite_marks import FiniteMarks
from insitu.capture.guard.forward import incoming_finding, opaque_finding, report_waiting, waiting_behind
from insitu.capture.guard.handlers import CONTAINERS, ChosenStrategy, make_after, make_before
from insitu.capture.guard.hooks import Hooks
from insitu.capture.guard.index_range import late_index_finding
from insitu.capture.guard.nodes import Nodes
from insitu.capture.guard.pause import Pause
from insitu.capture.guard.risk import can_produce
from insitu.capture.guard.waiting import Wait, Waiting
from insitu.capture.modes import skip_when_compiling
from insitu.capture.tape import ARGS, FIXED, KWARGS, OUTERMOST, Raised, Tape, VariableEntry
from insitu.capture.tensors import FORGOTTEN, GIVEN, ParameterValue, Value
from insitu.capture.torch_internals import DisableTorchFunction
from insitu.trace.findings import Finding, NonFiniteResult
from insitu.trace.operation import own_name
from insitu.trace.path import Pattern

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

# A tape is cleared after a backward pass when it is longer than the first, anyway when it is longer than the second.
SOON, LATE = 1 << 14, 1 << 18


class GuardChecks:
    """The checks of one guard, in all its threads. It also keeps the tapes short: a guard runs for a whole training.

    `report` takes what is found, and raises if that is wanted.
    """

    def __init__(self, report: Callable[[Finding], None], allow: Iterable[str]) -> None:
        self.report, self.allow = report, tuple(allow)
        self.has_found = False  # whether a NaN or Inf was found: what comes later may follow from it
        self.has_incoming = False  # whether a NaN or Inf that no checked call produced was reported
        self.passes = 0  # how many backward passes have begun
        self.checks: list[ProbeChecks] = []
        self.on_backward: Callable[[Probe, int | None], None] = lambda probe, at: None
        self.on_loss: Callable[[ProbeChecks, int, Any], None] = lambda check, at, args: None
        self.on_spike: Callable[[Finding], None] = lambda finding: None  # before the next losses confirm it
        self.is_scaled = False  # whether losses were scaled for half precision: their gradients may overflow
        self.looks_at_calls = False  # whether the tensors of each call are kept, too (flight_checks.py)
        self.is_scaling = False  # whether a loss is being scaled
        self.has_optimizer = False  # whether an optimizer has stepped: the steps end there
        self.runs_user_code = False  # whether the function mode is switched on for code of the user in a backward pass
        self.array_sources = ArraySources()
        self._allowed: dict[tuple[str, str], bool] = {}

    def of(self, probe: Probe) -> ProbeChecks:
        """The checks of a new probe."""
        check = ProbeChecks(probe, self)
        self.checks.append(check)
        return check

    def is_allowed(self, name: str, path: str) -> bool:
        """Whether a function, or any call in a module, may produce NaN and Inf."""
        key = (name, path)
        if key not in self._allowed:
            self._allowed[key] = any(names(pattern, name, path) for pattern in self.allow)
        return self._allowed[key]

    @property
    def may_explain_gradients(self) -> bool:
        """Whether a gradient that is not finite may follow from what was reported, or is expected."""
        is_reported = self.has_found or self.has_incoming
        is_expected = self.is_scaled or bool(self.allow)
        return is_reported or is_expected

    @property
    def has_trained(self) -> bool:
        """Whether a backward pass has run."""
        return self.passes > 0

    def begin_scaling(self, scaler: Any, args: Any, kwargs: Any) -> None:
        """A `GradScaler` is about to scale a loss: then gradients may overflow, and the scaler skips that step."""
        if scaler.is_enabled():
            self.is_scaled = self.is_scaling = True

    def end_scaling(self) -> None:
        """The loss was scaled, or an exception ended that."""
        self.is_scaling = False

    def open(self, probe: Probe, at: int) -> None:
        """A watched function is called: a guard ignores it."""

    def change(self, probe: Probe, entry: VariableEntry, value: Any) -> None:
        """A variable has changed: a guard ignores it."""

    def close(self, probe: Probe, at: int) -> None:
        """A call has ended, by an exception or not: the tape may be too long."""
        callee, check = probe.tape[at], probe.check
        if check is None:
            return
        if self.looks_at_calls:
            self.look_at_call(probe, at)
        is_function = type(callee) is FunctionCallee
        is_opaque = not is_function and callee.kind in ("module", "function")
        if is_opaque:
            check.look_at_opaque(at, is_ours=_getframe(1).f_code is probe.on_module.__code__)
            if probe.module is None and check.waiting:
                check.tell(check.model_finding, at)
        if len(probe.tape) > SOON or self.runs_user_code:
            check.end_call(is_backward=is_function and callee.runs_backward)

    def rest(self, *, is_complete: bool) -> list[Finding]:
        """The findings of outputs that nobody checked and, in a block that is complete, that nobody used."""
        with DisableTorchFunction():  # modes of others are not to see this
            found: list[Finding] = []
            for check in self.checks:
                found += check.late_findings(is_last=True)
            for check in self.checks:
                found += check.rest()
            for check in self.checks:
                found += check.waiting.unused() if is_complete else check.waiting.at_exception()
            return found

    def cleared(self, probe: Probe) -> tuple[int, int]:
        """From where on the tape was cleared last, which is its beginning, and how much of it so far."""
        return 0, probe.check.gone if probe.check is not None else 0

    def deliver(self) -> None:
        """What waited on the devices has come over: a guard has no events to hand on."""

    def look_at_call(self, probe: Probe, at: int) -> None:
        """A call has ended, and its tensors are still there: a guard that keeps no steps ignores it."""

    def forget_calls(self, check: ProbeChecks, values: Iterable[Value]) -> None:
        """A tape is about to be cleared: the tensors that are still there forget which call produced them."""
        for value in values:
            value.producer, value.facts = FORGOTTEN, None

    def stop(self) -> None:
        """Let go of everything: hooks may stay on the nodes of a graph that the user keeps."""
        for check in self.checks:
            check.forget()
        self.checks.clear()
        self.report = lambda finding: None
        self.on_backward = lambda probe, at: None
        self.on_loss = lambda check, at, args: None
        self.on_spike = lambda finding: None


def names(pattern: str, name: str, path: str) -> bool:
    """Whether a pattern names a function, or a module that a path is in.

    >>> names("log", "torch.Tensor.log", ""), names("h.*.attn", "torch.div", "h.0.attn.c_proj"), names("log", "x", "h")
    (True, True, False)
    """
    if pattern in (name, own_name("function", name).strip("_")):
        return True
    return bool(path) and Pattern.of(pattern).covers(path)


class ProbeChecks:
    """The checks of one probe; `past` is what was on its tape before it was cleared last.

    `unchecked` are the calls whose outputs nobody has looked at, or that got such outputs; `nonfinite` are the calls
    whose outputs are not finite, be that news or not.
    """

    def __init__(self, probe: Probe, checks: GuardChecks) -> None:
        self.probe, self.checks = probe, checks
        self.past = Tape()
        self.unchecked: set[int] = set()
        self.nonfinite: set[int] = set()
        self.overflows: dict[int, NonFiniteResult] = {}  # of calls that the next call is to report
        self.waiting = Waiting(self)
        self.nodes, self.hooks, self.pause = Nodes(self), Hooks(self), Pause(probe)
        self.strategies: dict[str, ChosenStrategy] = {}  # of the functions that were met, by name
        self.gone = 0  # how much of the tape was cleared so far
        deferral = probe.services.deferral
        self.marks = FiniteMarks(self, deferral) if deferral is not None else None
        before, after = make_before(self), make_after(self)
        self.pair = (with_modes_off(before), with_modes_off(after)) if probe.modes.is_careful else (before, after)

    @property
    def path(self) -> str:
        """The path of the module that runs."""
        if self.probe.module is not None:
            return self.probe.module.path
        return ""

    def is_allowed(self, reading: Reading, at: int) -> bool:
        """Whether the call at an offset may produce NaN and Inf."""
        call = reading.call(at)
        return self.checks.is_allowed(call.name, call.path)

    def value_of(self, tensor: Tensor) -> Value | None:
        """What the tape knows about a tensor."""
        value = self.probe.table.get(id(tensor))
        if value is not None and value() is tensor:
            return value
        return None

    def is_checked(self, at: int) -> bool:
        """Whether the outputs of a call were checked; of modules and compiled regions nobody knows what they call."""
        callee = self.probe.tape.callee(at)
        if not isinstance(callee, FunctionCallee):
            return True
        return at not in self.unchecked and can_produce(callee)

    def is_suspect(self, call: int) -> bool:
        """Whether the outputs of a call were not checked, or are not finite."""
        return call in self.unchecked or call in self.nonfinite

    def has_suspect(self, at: int) -> bool:
        """Whether an argument of a call was not checked, or is not finite; parameters can still be checked later."""
        tape, unchecked, nonfinite = self.probe.tape, self.unchecked, self.nonfinite
        first = at + FIXED  # `tape.inputs` in line: this runs for most calls
        for item in tape[first : first + tape[at + ARGS] + tape[at + KWARGS]]:
            kind = type(item)
            if kind is Value:
                producer = item.producer
                if producer == GIVEN or producer in unchecked or producer in nonfinite:
                    return True
            elif kind is ParameterValue:
                if item.producer in nonfinite:
                    return True
            elif kind in CONTAINERS and any(map(self._is_suspect_value, values(item))):
                return True
        return False

    def _is_suspect_value(self, value: Value) -> bool:
        return value.producer == GIVEN or self.is_suspect(value.producer)

    def hidden_inputs(self, at: int, look: Callable[[Tensor], float]) -> list[Tensor]:
        """The arguments of a call that were not checked and are not finite, which its output may hide."""
        tape, unchecked = self.probe.tape, self.unchecked
        first, found = at + FIXED, []  # `tape.inputs` in line: this runs for many calls
        for item in tape[first : first + tape[at + ARGS] + tape[at + KWARGS]]:
            if not isinstance(item, Value) or item.producer not in unchecked:
                continue
            tensor = item()
            if tensor is None:
                continue
            if not isfinite(look(tensor)):
                found.append(tensor)
            elif isinstance(tape.result(item.producer), Value):  # else it is one of several
                unchecked.discard(item.producer)
        return found

    def end_model_call(self, at: int) -> None:
        """An outermost call of a module has returned: without an optimizer, and without a gradient, a step ends."""
        is_trained = any(value.requires_grad for value in values(self.probe.tape.result(at)))
        if not self.checks.has_optimizer and not is_trained:
            self.end_step()

    def end_step(self) -> None:
        """A step has ended: report what its tensors contain whose numbers were on their device until now."""
        for finding in self.late_findings(is_last=False):
            self.checks.report(finding)

    def late_findings(self, *, is_last: bool) -> list[Finding]:
        """The findings of the tensors whose numbers wait on their device; at the end of the block (`is_last`), -inf
        that nobody has used counts."""
        found: list[Finding] = []
        if self.marks is None:
            return found
        try:
            with DisableTorchFunction():
                found += self._index_findings(self.marks)
                found += self._step_findings(self.marks, is_last=is_last)
        except Exception as error:
            self.probe.trouble("looking at the marks of a step", error)
        return found

    def _step_findings(self, marks: FiniteMarks, *, is_last: bool) -> list[Finding]:
        found = marks.take()
        if found is None:
            return []
        return step_findings(self, found, is_last=is_last)

    def _index_findings(self, marks: FiniteMarks) -> list[Finding]:
        """The findings of indices out of range; a device that has failed because of them cannot be read any more."""
        found = [late_index_finding(self, each) for each in marks.take_ranges()]
        return [finding for finding in found if finding is not None]

    def look_at_opaque(self, at: int, *, is_ours: bool) -> None:
        """A module, or a compiled region, has ended: check the outputs that no function returned which was seen.

        Not where dynamo would be interrupted: there, the next call finds them.
        """
        result = self.probe.tape.result(at)
        if type(result) is Value and result.producer != at:  # as most often: a function returned it
            return
        if isinstance(result, Raised):
            return
        own = [value for value in values(result) if value.producer == at]
        if not own:
            return
        if not is_ours:
            self.unchecked.add(at)
            return
        if self.marks is not None and self.marks.apply_to_one(alive(own)):
            self.marks.see_result(at)
            return
        for tensor in alive(own):
            if not isfinite(careful_total(tensor)):
                self.nonfinite.add(at)
                self.tell(opaque_finding, self, at, tensor)

    def model_finding(self, at: int) -> Finding | None:
        """The finding of a NaN, or of an Inf with a gradient, that waits and that the outermost module returns."""
        result = self.probe.tape.result(at)
        if isinstance(result, Raised):
            return None
        bad = [value for value in values(result) if holds_nonfinite(value)]
        wait = self.waiting_behind(bad) if bad else None
        if wait is None:
            return None
        is_mask = wait.is_data or not any(tensor.requires_grad for tensor in alive(bad))
        is_harmless = is_mask and not wait.holds_nan
        if is_harmless:
            return None
        with Reading(self.probe.tape) as reading:
            return report_waiting(self, wait, "model", reading, at)

    def waiting_behind(self, found: list[Value]) -> Wait | None:
        """The finding that waits behind one of some values."""
        return waiting_behind(self, found)

    def rest(self) -> Iterator[Finding]:
        """The findings of outputs that nobody has used, and that were not checked therefore."""
        for at in sorted(self.unchecked):
            if self.checks.has_found:
                return
            finding = self._finding_of(at)
            if finding is not None:
                yield finding

    def _finding_of(self, at: int) -> Finding | None:
        """The finding of an unchecked call that nobody has used the outputs of."""
        if not can_produce(self.probe.tape.callee(at)):
            return None
        tensors = alive(values(self.probe.tape.result(at)))
        is_marked = self.marks is not None and self.marks.apply_to_one(tensors)
        if is_marked or all(map(is_finite, tensors)):
            return None
        return incoming_finding(self, at, tensors, "")

    def end_call(self, *, is_backward: bool) -> None:
        """A call has ended and the tape is long, or a backward pass ran code of the user."""
        probe = self.probe
        if is_backward:
            self.nodes.end()
        is_outermost = probe.parent == OUTERMOST and not probe.suspended
        is_due = is_backward or len(probe.tape) > LATE
        if is_outermost and is_due:
            self.clear()

    def clear(self) -> None:
        """Move what is on the tape into the past: a backward pass may still ask for it."""
        probe = self.probe
        save_waiting_tapes(probe)
        self.end_step()
        if self.marks is not None:
            self.marks.clear_tape()
        self.waiting.clear_tape()
        self.past[:] = probe.tape
        kept = {key: value for key, value in probe.table.items() if value() is not None}
        self.checks.forget_calls(self, kept.values())
        probe.table.clear()
        probe.table.update(kept)
        self.gone += len(probe.tape)
        self.unchecked.clear()
        self.nonfinite.clear()
        self.overflows.clear()
        probe.tape.clear()
        probe.codes.clear()

    def forget(self) -> None:
        """The guard has ended."""
        save_waiting_tapes(self.probe)
        self.past.clear()
        self.probe.tape.clear()
        self.nodes.end()
        self.hooks.end()

    def tell(self, look: Callable[..., Finding | None], *args: Any) -> None:
        """Report what a closer look finds; if that fails, it is the tool's own trouble."""
        try:
            with DisableTorchFunction():  # the getters of a subclass are the user's code
                finding = look(*args)
        except Exception as error:
            self.probe.trouble("finding a cause", error)
            return
        if finding is not None:
            self.checks.report(finding)


def with_modes_off(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for where function modes of others are on: they are not to see how tensors are read."""

    def call(*args: Any) -> Any:
        with DisableTorchFunction():
            return function(*args)

    skip_when_compiling(call)
    return call
