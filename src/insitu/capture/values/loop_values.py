"""Variables outside of the model, recorded while the functions, the block or the script that have them run."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.changes import print_of
from insitu.capture.tensor_swaps import swaps as tensor_swaps
from insitu.capture.tensors import TensorRef
from insitu.capture.torch_internals import DisableTorchFunction, version_counter
from insitu.capture.values.copies import PLAIN
from insitu.capture.values.intake import text_of
from insitu.capture.values.loop_targets import CodePlace, LoopTarget
from insitu.capture.variables.follow.code_variables import ATOMS
from insitu.capture.variables.follow.definitions import NoSource, find
from insitu.capture.variables.follow.lines import LineFollower, reported_frame
from insitu.capture.variables.follow.report_plan import Extras
from insitu.capture.variables.follow.rewrite import COMPREHENSIONS, ReportPoint
from insitu.capture.variables.frame_states import FrameStates
from insitu.capture.variables.reporters import recordings
from insitu.capture.variables.swaps import swaps
from insitu.errors import is_interrupt

if TYPE_CHECKING:
    from insitu.capture.values.value_recorder import ValueRecorder

PASSES = Extras(passes=True)
MOST_LOOKS = 100  # at the frames in which a step ends: by then, all functions in which that happens are known


@dataclass(slots=True)
class LoopCall:
    """A running call: by path, what is known of the value that a variable had last; and whether a pass has begun."""

    code: CodeType
    is_in_pass: bool
    known: dict[str, Any] = field(default_factory=dict)


class LoopValues:
    """Takes a variable each time that it is bound, and when the object that it refers to has changed.

    Functions report by rewritten code; a block that runs already, and functions without source, line by line.
    """

    probes = ()  # for swapped tensors: no probe of ours has values

    def __init__(self, recorder: ValueRecorder) -> None:
        self._recorder = recorder
        self._rule, self._clock = recorder.rule, recorder.clock
        self._targets: dict[CodePlace, LoopTarget] = {}
        self._calls: FrameStates[LoopCall] = FrameStates()
        self._lines = ExitStack()
        self._looks = 0  # for the functions in which steps end

    def __len__(self) -> int:
        return len(self._targets)

    def start(self, undo: ExitStack, frame: FrameType | None) -> None:
        """Record the targets that are known; `frame` is that of the block."""
        self._targets = dict(self._recorder.targets.loops)
        if not self._targets and not self._recorder.is_open_to_more:
            return
        tensor_swaps.hold(self)
        recordings.append(self.hear)
        undo.callback(recordings.remove, self.hear)
        undo.callback(self.stop_lines)
        self._rule.at_end.append(self._look_around)
        undo.callback(self._rule.at_end.remove, self._look_around)
        for target in self._targets.values():
            self._start(target, undo, frame)

    def add(self, target: LoopTarget, undo: ExitStack) -> None:
        """Record a function that was found while the program runs."""
        self._targets[target.place] = target
        self._start(target, undo, None)

    def stop_lines(self) -> None:
        """Report what the last line has changed, and follow lines no more."""
        self._lines.close()

    def _start(self, target: LoopTarget, undo: ExitStack, frame: FrameType | None) -> None:
        """Let the code of a target report its variables, in the quickest way that it allows."""
        names = tuple(sorted(target.variables))
        is_block = frame is not None and frame.f_code is target.code
        if is_block:
            self._follow_lines([], names, frame)
        elif target.function is None:
            return  # a script, which reports by itself
        elif has_source(swaps.original(target.function)):
            undo.enter_context(swaps.swapped([target.function], names, PASSES))
        else:
            self._follow_lines([target.code], names, None)

    def _follow_lines(self, codes: list[CodeType], names: tuple[str, ...], frame: FrameType | None) -> None:
        """Compare the variables of code, or of a frame that runs already, after each line."""
        follower = LineFollower()

        def report(point: ReportPoint, value: Any) -> None:
            reported = reported_frame()
            if reported is not None:
                self.hear(point, value, reported, is_joined=frame is not None)

        follower.start(codes, frozenset(names).__contains__, report, frame=frame, closely=True)
        self._lines.callback(follower.stop)

    def hear(self, point: ReportPoint, value: Any, frame: FrameType, *, is_joined: bool = False) -> None:
        """A variable was reported, or a pass of a loop; what a block had before it was joined is not recorded."""
        moment = point.moment
        is_same_atom = moment == "maybe" and id(type(value)) in ATOMS  # a number that is not bound again is the same
        target = None if is_same_atom else self._targets.get((point.file, point.function))
        if target is None:
            return
        try:
            if moment in ("entered", "pass"):
                self._begin_pass(target, frame, is_call=moment == "entered")
            elif point.name in target.variables and moment != "deleted":
                is_before = is_joined and moment == "given"
                self._hear_variable(target, point, value, frame, is_taken=not is_before)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._recorder.leave_out(f"{point.function}.{point.name}", text_of(error))

    def _begin_pass(self, target: LoopTarget, frame: FrameType, *, is_call: bool) -> None:
        """A pass begins, or a call, which is a pass if the function has no loops: that may begin a step."""
        if self._rule.is_over and self._may_begin(target, frame):
            self._recorder.begin_pass()
        if is_call:
            self._calls.enter(frame, LoopCall(frame.f_code, is_in_pass=not target.has_loops))
        else:
            self._call_in(target, frame).is_in_pass = True

    def _may_begin(self, target: LoopTarget, frame: FrameType) -> bool:
        """Whether a step may begin here: it is the first one, or steps end in this function.

        What is called later in a pass does not begin a step: neither the function that computes a loss from an output,
        nor an evaluation after the update.
        """
        is_first = self._clock.step.number < 0
        if is_first:
            return True
        if self._rule.end == "value":
            return not self._is_inside_pass(frame)
        return target.has_end

    def _is_inside_pass(self, frame: FrameType) -> bool:
        """Whether a pass runs in one of the frames around this one."""
        around = frame.f_back
        while around is not None:
            call = self._calls.get(id(around))
            if call is not None and call.is_in_pass and call.code is around.f_code:
                return True
            around = around.f_back
        return False

    def _look_around(self) -> None:
        """A step has just ended: learn which of the functions that are recorded run now."""
        if self._looks >= MOST_LOOKS or self._rule.end == "value":
            return
        self._looks += 1
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            target = self._targets.get((frame.f_code.co_filename, frame.f_code.co_qualname))
            if target is not None:
                target.has_end = True
            frame = frame.f_back

    def _hear_variable(
        self, target: LoopTarget, point: ReportPoint, value: Any, frame: FrameType, *, is_taken: bool
    ) -> None:
        """A variable was bound, or may have changed. What is not taken now is known later."""
        is_taken = is_taken and self._clock.step.is_recorded
        if frame.f_code.co_name in COMPREHENSIONS and frame.f_back is not None:
            frame = frame.f_back  # a name that `:=` binds in a comprehension belongs to the function around it
        call = self._call_in(target, frame)
        is_bound = point.moment != "maybe"
        for path, item in target.values(point.name, value):
            now = state_of(item)
            is_new = is_bound or call.known.get(path) != now
            call.known[path] = now
            if is_new and is_taken:
                self._recorder.take(path, item)
                if call.is_in_pass:
                    self._rule.note("value")

    def _call_in(self, target: LoopTarget, frame: FrameType) -> LoopCall:
        """The call that runs in a frame."""
        call = self._calls.get(id(frame))
        if call is None:
            call = self._calls.enter(frame, LoopCall(frame.f_code, is_in_pass=not target.has_loops))
        return call


class TensorState:
    """Which tensor it is, and its version, which costs less than its contents; the tensor is not kept alive.

    The id would not do: a tensor often has that of one that was freed just before.
    """

    __slots__ = ("_tensor", "_version")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor, self._version = TensorRef(tensor), version_of(tensor)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorState):
            return False
        return self._version == other._version and self._tensor() is other._tensor()

    __hash__ = None  # type: ignore[assignment]


def state_of(value: Any) -> Any:
    """What tells that a value has changed, or is another one."""
    if type(value) in PLAIN:
        return TensorState(value)
    return print_of(value)


def version_of(tensor: Tensor) -> int:
    """How often a tensor was written to; 0 for one of inference mode, which does not count."""
    with DisableTorchFunction():  # modes are not to see this
        if tensor.is_inference():
            return 0
        return version_counter(tensor)


def has_source(code: CodeType) -> bool:
    """Whether a function can be rewritten."""
    try:
        find(code)
    except NoSource:
        return False
    return True
