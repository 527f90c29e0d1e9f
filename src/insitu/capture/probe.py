"""The probe of one thread: the state that its handlers share, the modes, the tape.

The handlers (ops.py, modules.py) are the hot path. They append to the tape and do nothing that can wait: they make no
text and keep no frame, no tensor and no object of the user. Whatever fails in them is the tool's own trouble: it is
reported, and the user's call goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from torch import nn

from insitu.capture.backward import TensorGradients
from insitu.capture.contents import content_of
from insitu.capture.explain.note import add_note
from insitu.capture.modes import AtenMode, FunctionMode, sweep
from insitu.capture.modules import make_on_module
from insitu.capture.names import ModuleCallee, Names
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
from insitu.capture.tensors import Keep, Table, guarded, make_values
from insitu.capture.torch_internals import HAS_DISPATCH_MODES, HAS_FUNCTION_MODES, function_stack_length
from insitu.capture.variables.variable_tracker import VariableTracker
from insitu.capture.writes import Writes
from insitu.trace.event import MarkKind

if TYPE_CHECKING:
    from insitu.capture.budget import Budget
    from insitu.capture.guard.check import Checks

NEVER = (1 << 63) - 1  # the length of a tape that is not cut

Trouble = Callable[[str, Exception], None]
Stack = Callable[[FrameType | None, list[Any]], None]


class Delivery(Protocol):
    """Who hands on events as soon as they are complete."""

    def open(self, probe: Probe, at: int) -> None:
        """The call of a watched function at an offset begins."""

    def close(self, probe: Probe, at: int) -> None:
        """The record at an offset is complete."""

    def change(self, probe: Probe, entry: VariableEntry, value: Any) -> None:
        """A variable has changed."""

    def cleared(self, probe: Probe) -> tuple[int, int]:
        """From where on the tape was cleared last, and how much of it so far."""


class Probe:
    """Records what one thread does, onto a tape.

    `taking` says whether calls are recorded now, `parent` is the offset of the innermost call that has not returned,
    `function` whether that is a torch function, `backward` whether one that runs a backward pass has not returned,
    `recomputes` the number of the backward pass in which forward code runs again, -1 outside of one,
    `module` the innermost running module, `spent` the seconds that went into statistics and printing: the clock of
    the calls leaves them out, `follows` how many watched calls that follow variables run, `suspended` how many
    generators have not ended. With a `live`, records are handed on as soon as they are complete. A tape that is `due`
    slots long is cut before the next record; `ids` are those of its records.
    """

    _STATE = (
        *("backward", "due", "follows", "function", "ids", "module", "over"),
        *("parent", "paused", "recomputes", "spent", "suspended", "taking"),
    )
    _PARTS = (
        "aten_mode",
        "budget",
        "check",
        "clock",
        "close",
        "codes",
        "function_mode",
        "gradients",
        "live",
        "names",
        "on_module",
        "open",
        "_python",
        "tracker",
        "values",
        "variants",
    )
    _RULES = ("careful", "follows_backward", "keeps", "lazy")
    __slots__ = (*_STATE, *_PARTS, *_RULES, "stack", "table", "tape", "trouble", "writes")

    def __init__(
        self,
        names: Names,
        *,
        thread: int,
        level: str,
        keep: Keep | None,
        base: Base,
        taking: bool,
        follows_backward: bool,
        trouble: Trouble,
        live: Delivery | None,
        checks: Checks | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.function = self.paused = self.backward = self.over = False
        self.follows = self.suspended = 0
        self.recomputes = -1
        self.ids = Ids(thread * THREAD_STRIDE)
        self.budget = budget
        self.due = budget.length if budget is not None else NEVER
        self.live = live
        close = live.close if live is not None else None
        self.open = live.open if live is not None else None
        self.module: ModuleCallee | None = None
        self.parent, self.taking, self.follows_backward = OUTERMOST, taking, follows_backward
        self.lazy = not taking and not follows_backward
        self.names, self.trouble, self.close = names, trouble, close
        self.spent = 0.0
        is_timed = keep is not None or (live is not None and checks is None)
        self.clock = perf_counter if not is_timed else lambda: perf_counter() - self.spent
        self.tape = Tape(thread=thread, level=level)
        self.table: Table = {}
        self.writes = Writes()
        self.tracker = VariableTracker(self)
        self.variants: dict[Any, Any] = {}
        self.keeps = keep is not None
        self.codes = Codes()
        self.stack = make_stack(self, base)
        self.values = make_values(self, keep, content_of)
        self.careful = function_stack_length() > 0  # modes of others are not to see how facts are read
        if self.careful:
            self.values = guarded(self.values)
        self.gradients = TensorGradients(self, self.values.fresh) if keep is not None and level != "python" else None
        self.on_module = make_on_module(self, self.values)
        self.check = checks.of(self) if checks is not None else None
        on_function = make_on_function(self, self.values)
        self._python: PythonCalls | None = None
        self.codes.stop_at(self.on_module.__code__, on_function.__code__)
        has_functions = level in ("functions", "aten") and HAS_FUNCTION_MODES
        has_operators = level == "aten" and HAS_DISPATCH_MODES
        self.function_mode = FunctionMode(on_function) if has_functions else None
        self.aten_mode = AtenMode(make_on_aten(self, self.values)) if has_operators else None

    @property
    def python(self) -> PythonCalls:
        """What records watched functions, which most sessions do not have."""
        if self._python is None:
            self._python = PythonCalls(self, self.values)
            self.codes.stop_at(self._python.on_call.__code__, self._python.on_step.__code__)
        return self._python

    def start(self) -> None:
        """Switch the modes on from the start, if they are needed outside the modules that are recorded."""
        if not self.lazy:
            self.enter()

    def enter(self) -> None:
        """Switch the modes on, for this thread."""
        sweep()
        if self.function_mode is not None:
            # Below modes that came after the session, as if it had been there all the time: they do not see our reads.
            self.function_mode.enter(0 if self.careful else function_stack_length())
        if self.aten_mode is not None:
            self.aten_mode.enter()

    def leave(self) -> None:
        """Switch them off again, wherever in the stacks they are by now."""
        if self.aten_mode is not None:
            self.aten_mode.remove()
        if self.function_mode is not None:
            self.function_mode.remove()
        sweep()

    def silence(self) -> None:
        """Record nothing any more, even where a mode could not be switched off, and free what only recording needs."""
        for mode in (self.function_mode, self.aten_mode):
            if mode is not None:
                mode.silence()
        self.taking = self.follows_backward = False
        self.due = NEVER
        if not self.over:
            self.tape.end = len(self.tape)  # a function that still runs may go on writing
        self.paused = self.over = True
        self.table.clear()
        self.variants.clear()
        self.tracker.forget()

    def callee(self, module: nn.Module) -> ModuleCallee | None:
        """The note of a module that is called now; None if the call is not recorded."""
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
            if self.budget is not None:
                self.budget.cut(self)
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
        """Noting a call failed: forget what was noted, tell an error, pass on an interrupt. Returns no offset: -1."""
        if at >= 0:
            del self.tape[at:]
        if not isinstance(error, Exception):
            raise error
        self.trouble("recording a call", error)
        return -1

    def failed(self, at: int, error: BaseException) -> None:
        """Note that an exception has ended the call at an offset."""
        self.tape.finish(at, self.clock(), Raised(error))
        add_note(error, self, at)

    def change(self, entry: VariableEntry, value: Any) -> None:
        """Note a change of a variable."""
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

    def mark(self, mark: MarkKind, text: str) -> None:
        """Put a mark on the tape."""
        at = self.append(new_record(MarkEntry(mark, text), self.parent))
        self.tape.finish(at, self.tape.start(at), None)
        if self.close is not None:
            self.close(self, at)


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
