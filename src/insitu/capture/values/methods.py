"""Variables and results of methods, recorded while an unchanged training loop runs."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from insitu.capture.changes import Print, print_of
from insitu.capture.values.intake import text_of
from insitu.capture.values.leaves import parts
from insitu.capture.values.method_patch import MethodPatch
from insitu.capture.values.targets import MethodTarget, Targets
from insitu.capture.variables.follow.rewrite import ReportPoint
from insitu.capture.variables.frame_states import FrameStates
from insitu.capture.variables.reporters import recordings
from insitu.capture.variables.swaps import swaps
from insitu.errors import is_interrupt

if TYPE_CHECKING:
    from insitu.capture.values.value_recorder import ValueRecorder


@dataclass(slots=True)
class MethodCall:
    """A running call of a method: what is wanted of it, and a print of each variable that was recorded."""

    target: MethodTarget
    prints: dict[str, Print] = field(default_factory=dict)


class MethodValues:
    """Records variables and results of methods, and variables of functions that the model calls.

    `VariableTracker` follows variables for a probe: in one thread, and it says what has changed. A recording hears all
    threads, and takes the value of a variable each time that it is bound.
    """

    def __init__(self, recorder: ValueRecorder) -> None:
        self._recorder = recorder
        self._clock = recorder.clock
        self._methods = recorder.targets.methods
        self._with_variables: dict[tuple[str, str], MethodTarget] = {}
        self._calls: FrameStates[MethodCall] = FrameStates()

    def start(self, undo: ExitStack, targets: Targets) -> None:
        """Let the functions report their variables, and the methods their results: those of one model."""
        if self.hear not in recordings:
            recordings.append(self.hear)
            undo.callback(recordings.remove, self.hear)
        following = [target for target in targets_in(targets) if target.variables]
        self._with_variables.update((place_of(target.function), target) for target in following)
        for function, names in variables_by_function(following):
            undo.enter_context(swaps.swapped([function], tuple(sorted(names))))
        with_results = {(target.owner, target.name) for target in targets.methods.values() if target.result}
        for owner, name in with_results:
            method = MethodPatch.of(owner, name)
            undo.callback(method.forget, method.listen(functools.partial(self._take_result, name)))

    def forget(self) -> None:
        """No call of the model runs: all frames have ended."""
        self._calls.clear()

    def hear(self, point: ReportPoint, value: Any, frame: FrameType) -> None:
        """A variable was reported."""
        if self._recorder.counts_updates and point.moment == "entered":
            self._begin_method(point)
        if not self._clock.step.is_recorded:
            return
        try:
            if point.moment == "entered":
                self._enter(point, frame)
            elif point.moment != "deleted" and (point.file, point.function) in self._with_variables:
                call = self._calls.get(id(frame))
                if call is not None:
                    self._take_variable(call, point, value)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._recorder.leave_out(f"{point.function}.{point.name}", text_of(error))

    def _begin_method(self, point: ReportPoint) -> None:
        """With steps that are updates, a method may begin one."""
        if (point.file, point.function) in self._with_variables:
            self._recorder.begin_method()

    def _enter(self, point: ReportPoint, frame: FrameType) -> None:
        """A call begins."""
        known = self._with_variables.get((point.file, point.function))
        target = self._target_in(frame, known) if known is not None else None
        if target is None:
            self._calls.pop(id(frame), None)
        else:
            self._calls.enter(frame, MethodCall(target))

    def _target_in(self, frame: FrameType, known: MethodTarget) -> MethodTarget | None:
        """What is wanted of a function for the module that it runs for; a static function runs for all modules."""
        if known.is_free:
            return known
        owner = id(frame.f_locals.get(frame.f_code.co_varnames[0]))
        target = self._methods.get((owner, known.name))
        if target is not None and target.function is known.function:
            return target
        return None

    def _take_variable(self, call: MethodCall, point: ReportPoint, value: Any) -> None:
        rests = call.target.variables.get(point.name, ())
        for path, item in parts(f"{call.target.path}.{point.name}", value, rests).items():
            now = print_of(item)
            if point.moment != "maybe" or call.prints.get(path, now) != now:
                self._recorder.take(path, item)
            call.prints[path] = now

    def _take_result(self, name: str, owner: Any, result: Any) -> None:
        """A method has returned; the owner of a static one is None: it is not known for which module it ran."""
        target = self._methods.get((id(owner), name)) if owner is not None else self._any_target(name)
        if target is not None and target.result:
            self._recorder.take(target.path, result, target.result)

    def _any_target(self, name: str) -> MethodTarget | None:
        return next((target for target in self._methods.values() if target.name == name and target.result), None)


def targets_in(targets: Targets) -> list[MethodTarget]:
    """The methods of a model, and the functions that it calls."""
    return [*targets.methods.values(), *targets.functions.values()]


def variables_by_function(targets: list[MethodTarget]) -> list[tuple[FunctionType, set[str]]]:
    """The functions, each once, with the variables of it that any module wants."""
    names: dict[int, tuple[FunctionType, set[str]]] = {}
    for target in targets:
        names.setdefault(id(target.function), (target.function, set()))[1].update(target.variables)
    return list(names.values())


def place_of(function: FunctionType) -> tuple[str, str]:
    """The file and the qualified name of a function, as its reports have them."""
    return function.__code__.co_filename, function.__code__.co_qualname
