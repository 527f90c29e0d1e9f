"""The probe of one thread: the state that its handlers share, the modes, the tape.

The handlers (ops.py, modules.py) are the hot path. They append to the tape and do nothing that can wait: they make no
text and keep no frame, no tensor and no object of the user. Whatever fails in them is the tool's own trouble: it is
reported, and the user's call goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from torch import nn

from insitu.capture.backward import TensorGradients
from insitu.capture.contents import content_of
from insitu.capture.explain.note import add_note
from insitu.capture.modes import AtenMode, FunctionMode, ProbeModes
from insitu.capture.modules import make_on_module
from insitu.capture.names import ModuleCallee, ModuleNames
from insitu.capture.ops import make_on_aten, make_on_function
from insitu.capture.python import PythonCalls
from insitu.capture.segment import THREAD_STRIDE, Ids
from insitu.capture.sites import INSTRUCTIONS, STOP, TOP, Base, Codes
from insitu.capture.tape import (
    FRAMES,
    OUTERMOST,
    START,
    MarkEntry,
    Raised,
    Tape,
    VariableEntry,
    new_record,
)
from insitu.capture.tensors import Content, Keep, Table, guarded, make_values
from insitu.capture.torch_internals import HAS_DISPATCH_MODES, HAS_FUNCTION_MODES
from insitu.capture.variables.variable_tracker import VariableTracker
from insitu.capture.writes import Writes
from insitu.trace.event import MarkKind

if TYPE_CHECKING:
    from insitu.capture.budget import Budget
    from insitu.capture.compiled_graphs.graph_session import GraphSession
    from insitu.capture.deferral import Deferral
    from insitu.capture.guard.check import GuardChecks

NEVER = (1 << 63) - 1  # the length of a tape that is not cut

Trouble = Callable[[str, Exception], None]
Stack = Callable[[FrameType | None, list[Any]], None]


class Delivery(Protocol):
    """Hands on events as soon as they are complete."""

    def open(self, probe: Probe, at: int) -> None:
        """The call of a watched function at an offset begins."""

    def close(self, probe: Probe, at: int) -> None:
        """The record at an offset is complete."""

    def change(self, probe: Probe, entry: VariableEntry, value: Any) -> None:
        """A variable has changed."""

    def cleared(self, probe: Probe) -> tuple[int, int]:
        """From where on the tape was cleared last, and how much of it so far."""

    def deliver(self) -> None:
        """What waited on the devices has come over: hand on the records that waited for it."""


@dataclass(frozen=True, slots=True)
class ProbeScope:
    """What the probes of a recording record: the level, `keep`, and which calls.

    With `everywhere` they record every call, otherwise only inside the modules that are wanted. With
    `follows_backward` they record a backward pass that runs outside these modules as well.
    """

    level: str
    keep: Keep | None
    everywhere: bool
    follows_backward: bool

    @property
    def is_lazy(self) -> bool:
        """Whether the modes are off until a wanted module is called."""
        return not self.everywhere and not self.follows_backward

    @property
    def has_functions(self) -> bool:
        """Whether torch functions are recorded."""
        return self.level in ("functions", "aten") and HAS_FUNCTION_MODES

    @property
    def has_operators(self) -> bool:
        """Whether ATen operators are recorded."""
        return self.level == "aten" and HAS_DISPATCH_MODES


@dataclass(frozen=True, slots=True)
class Services:
    """What the probes of a recording share: the names of modules, who takes their records, who hears of trouble.

    With a `live`, records are handed on as soon as they are complete. A `budget` limits the length of the tapes. With
    `graphs`, the graphs that run in compiled regions are recorded.
    """

    names: ModuleNames
    trouble: Trouble
    live: Delivery | None = None
    checks: GuardChecks | None = None
    budget: Budget | None = None
    deferral: Deferral | None = None
    graphs: GraphSession | None = None


class Probe:
    """Records what one thread does, onto a tape.

    Its state: `taking` says whether calls are recorded now, `parent` is the offset of the innermost call that has not
    returned, `function` whether that is a torch function, `backward` whether one that runs a backward pass has not
    returned, `recomputes` the number of the backward pass in which forward code runs again, -1 outside of one,
    `module` the innermost running module, `spent` the seconds that went into statistics and printing: the clock of
    the calls leaves them out, `follows` how many watched calls that follow variables run, `suspended` how many
    generators have not ended. A tape that is `due` slots long is cut before the next record; `ids` are those of its
    records. `paused` says that nothing is recorded for a moment, `over` that nothing will be any more.
    """

    _STATE = (
        *("backward", "due", "follows", "follows_backward", "function", "ids", "module", "over"),
        *("parent", "paused", "recomputes", "spent", "suspended", "taking"),
    )
    _RECORDED = ("gradients", "table", "tape", "tracker", "values", "variants", "writes")
    _HANDLERS = ("check", "clock", "close", "codes", "modes", "on_module", "open", "stack", "_python")
    # Also in `services`, but asked for so often that one look-up is enough.
    _SHARED = ("live", "names", "trouble")
    __slots__ = (*_STATE, *_RECORDED, *_HANDLERS, *_SHARED, "scope", "services")

    def __init__(self, scope: ProbeScope, services: Services, *, thread: int, base: Base) -> None:
        self.scope, self.services = scope, services
        self.names, self.trouble, self.live = services.names, services.trouble, services.live
        self._begin(thread)
        self.tape = Tape(thread=thread, level=scope.level)
        self.table: Table = {}
        self.writes, self.tracker = Writes(), VariableTracker(self)
        self.variants: dict[Any, Any] = {}
        live, checks = services.live, services.checks
        self.close = live.close if live is not None else None
        self.open = live.open if live is not None else None
        is_timed = scope.keep is not None or (live is not None and checks is None)
        self.clock = perf_counter if not is_timed else lambda: perf_counter() - self.spent
        self.codes = Codes()
        self.stack = make_stack(self, base)
        self.modes = ProbeModes()
        self.values = make_values(self, scope.keep, content_or_later(services.deferral))
        if self.modes.is_careful:
            self.values = guarded(self.values)
        follows_gradients = scope.keep is not None and scope.level != "python"
        self.gradients = TensorGradients(self, self.values.fresh) if follows_gradients else None
        self.check = checks.of(self) if checks is not None else None
        self._python: PythonCalls | None = None
        self._make_handlers()

    def _begin(self, thread: int) -> None:
        """Nothing runs yet."""
        budget = self.services.budget
        self.taking, self.follows_backward = self.scope.everywhere, self.scope.follows_backward
        self.function = self.paused = self.backward = self.over = False
        self.follows = self.suspended = 0
        self.parent, self.recomputes, self.spent = OUTERMOST, -1, 0.0
        self.module: ModuleCallee | None = None
        self.ids = Ids(thread * THREAD_STRIDE)
        self.due = budget.length if budget is not None else NEVER

    def _make_handlers(self) -> None:
        self.on_module = make_on_module(self, self.values)
        on_function = make_on_function(self, self.values)
        self.codes.stop_at(self.on_module.__code__, on_function.__code__)
        if self.scope.has_functions:
            self.modes.function = FunctionMode(on_function)
        if self.scope.has_operators:
            self.modes.operator = AtenMode(make_on_aten(self, self.values))

    @property
    def python(self) -> PythonCalls:
        """What records watched functions, which most sessions do not have."""
        if self._python is None:
            self._python = PythonCalls(self, self.values)
            self.codes.stop_at(self._python.on_call.__code__, self._python.on_step.__code__)
        return self._python

    def end_step(self, callee: ModuleCallee) -> None:
        """An outermost call of a module has ended: that of the first one brings over what waits on the devices."""
        deferral = self.services.deferral
        if deferral is None or self.over or self.check is not None:
            return
        try:
            if deferral.ends_step(callee):
                deferral.fetch()
                if self.live is not None:
                    self.live.deliver()
        except Exception as error:
            self.trouble("reading what waits on a device", error)

    def start(self) -> None:
        """Switch the modes on from the start, if they are needed outside the modules that are recorded."""
        if not self.scope.is_lazy:
            self.modes.enter()

    def rest(self) -> None:
        """Record nothing until `resume`. The modes belong to a thread: only there they can be switched off."""
        self.paused, self.taking = True, False
        self.modes.leave()
        self.table.clear()  # what is known of tensors may not be true any more when it goes on
        self.writes.clear()

    def resume(self) -> None:
        """Record again, once the modes are on."""
        if not self.over:
            self.paused, self.taking = False, self.scope.everywhere

    def silence(self) -> None:
        """Record nothing any more, even where a mode could not be switched off, and free what only recording needs."""
        self.modes.silence()
        self.taking = self.follows_backward = False
        self.due = NEVER
        if not self.over:
            self.tape.end = len(self.tape)  # a function that still runs may go on writing
        self.paused = self.over = True
        self.table.clear()
        self.variants.clear()
        self.tracker.forget()

    def callee(self, module: nn.Module) -> ModuleCallee | None:
        """The callee of a module that is called now; None if the call is not recorded."""
        if self.paused:
            return None
        callee = self.names.callees.get(id(module))
        if callee is None or callee.ref() is not module:
            callee = self._learn(module)
        if callee is None or callee.transparent or not (self.taking or callee.wanted):
            return None
        if not callee.called:
            self._describe(callee, module)
        return callee

    def _learn(self, module: nn.Module) -> ModuleCallee | None:
        try:
            return self.names.learn(module, self.module, self._call_of(self.module))
        except Exception as error:
            self.trouble("naming a module", error)
            return None

    def _call_of(self, callee: ModuleCallee | None) -> int:
        """The offset of the innermost call of a module that runs."""
        at, tape = self.parent, self.tape
        while 0 <= at < len(tape) and tape[at] is not callee:
            at = tape.parent(at)
        return at

    def _describe(self, callee: ModuleCallee, module: nn.Module) -> None:
        try:
            self.names.describe(callee, module)
        except Exception as error:
            self.trouble("describing a module", error)

    def cut(self) -> int:
        """Make the tape shorter before the next record; where that record will be."""
        taking, paused = self.taking, self.paused
        self.taking, self.paused = False, True
        try:
            if self.services.budget is not None:
                self.services.budget.cut(self)
        except Exception as error:
            self.due = NEVER
            self.trouble("keeping the trace within its memory", error)
        finally:
            self.taking, self.paused = taking, paused
        return len(self.tape)

    @property
    def cleared(self) -> tuple[int, int]:
        """From where on the tape was cleared last, and how much of it so far: what ids count on from."""
        return self.live.cleared(self) if self.live is not None else (self.ids.begin, self.ids.cleared)

    def give_up(self, at: int, error: BaseException) -> int:
        """Recording a call failed: remove its record, report an error, pass on an interrupt. Returns -1."""
        if at >= 0:
            del self.tape[at:]
        if not isinstance(error, Exception):
            raise error
        self.trouble("recording a call", error)
        return -1

    def failed(self, at: int, error: BaseException) -> None:
        """Record that an exception has ended the call at an offset."""
        self.tape.finish(at, self.clock(), Raised(error))
        add_note(error, self, at)

    def change(self, entry: VariableEntry, value: Any) -> None:
        """Record the change of a variable."""
        if self.live is not None:
            self.live.change(self, entry, value)
        else:
            if len(self.tape) >= self.due:
                self.cut()
            self.tape += (entry, value)

    def append(self, record: list[Any]) -> int:
        """Put a record on the tape now; its offset. The handlers of the hot path do the same in line."""
        at = len(self.tape) if len(self.tape) < self.due else self.cut()
        record[START] = self.clock()
        self.tape.extend(record)
        return at

    def mark(self, mark: MarkKind, text: str, number: int | None = None) -> None:
        """Put a mark on the tape."""
        at = self.append(new_record(MarkEntry(mark, text, number), self.parent))
        self.tape.finish(at, self.tape.start(at), None)
        if self.close is not None:
            self.close(self, at)


def content_or_later(deferral: Deferral | None) -> Content:
    """The function that digests what a tensor holds; the fingerprint of one whose numbers wait stays on its device."""
    if deferral is None:
        return content_of

    def content(tensor: Any) -> Any:
        if deferral.applies_to(tensor):
            return deferral.content(tensor)
        return content_of(tensor)

    return content


def make_stack(probe: Probe, base: Base) -> Stack:
    """The function that walks from a frame up to the call that this probe recorded last, or to the base.

    It adds (code, instruction) pairs of the frames that are shown to a record. Codes are looked up by id: hashing one
    compares all of it. Instructions are shared ints: there are many, and each would be an object of its own.
    """
    base_id, base_code = base.id, base.code
    shown, learn, ints, most = probe.codes.shown, probe.codes.learn, INSTRUCTIONS, len(INSTRUCTIONS)

    def stack(frame: FrameType | None, record: list[Any]) -> None:
        before = len(record)
        while frame is not None:
            code = frame.f_code
            try:
                show = shown[id(code)]
            except KeyError:
                show = learn(code)
            if show:
                if show == STOP:
                    break
                lasti = frame.f_lasti
                record.append(code)
                record.append(ints[lasti] if lasti < most else lasti)
            if code is base_code and id(frame) == base_id and base.is_below(frame.f_back):
                break
            frame = frame.f_back
        else:
            record += TOP
        record[FRAMES] = len(record) - before

    return stack
