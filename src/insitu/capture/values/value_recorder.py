"""Values of a model, step by step: what path patterns name in it, taken while an unchanged training loop runs.

A step is one outermost call of the model, one update of an optimizer, or what `begin_step` announces. Each value is
written as soon as it is final: outputs and variables when the call ends; gradients, and parameters after the update,
when an optimizer has used them.
An update that nobody announces, such as one by hand, is read when the next step begins, and replaces the value that
was written before.

An exception may come from a signal at any moment. It never loses a value that was fully copied and never writes one
twice: a value that could not be written stays in the `StepWriter`, and is written the next time. A value whose copying
was interrupted is named in `run.missing`. Nothing here waits for another process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from threading import RLock, get_ident
from types import FrameType
from typing import Any
from weakref import WeakSet

import torch
from torch import nn

from insitu.capture.compiled import regions
from insitu.capture.deferral import new_deferral
from insitu.capture.isolation import run_isolated
from insitu.capture.modes import skip_all_when_compiling, skip_when_compiling
from insitu.capture.modules import patch
from insitu.capture.program_calls import ProgramCalls
from insitu.capture.step_rule import StepEnd, StepRule
from insitu.capture.updates import Updates
from insitu.capture.values.intake import Intake, Keep, ValueSink, text_of
from insitu.capture.values.loop_targets import LoopTarget
from insitu.capture.values.loop_values import LoopValues
from insitu.capture.values.methods import MethodValues
from insitu.capture.values.model_calls import ModelCalls, Output
from insitu.capture.values.parameter_gradients import ParameterGradients, ids_of
from insitu.capture.values.parameters import ParameterValues
from insitu.capture.values.step_clock import StepClock
from insitu.capture.values.step_values import StepValues
from insitu.capture.values.step_writer import StepWriter
from insitu.capture.values.targets import Targets
from insitu.errors import is_interrupt
from insitu.operating_system import at_fork
from insitu.trace.path import Segments

WHOLE = frozenset[Segments]([()])


class ValueRecorder:
    """Records the values of one session in this process: tells the parts below when to take and when to write.

    `keep_of` says what is kept of each tensor, by its path and the path of the value that it is an item of.
    """

    def __init__(
        self,
        model: nn.Module | None,
        targets: Targets,
        *,
        keep_of: Callable[[str, str], Keep | None],
        every: int,
        when: str | None,
        sink: ValueSink,
        trouble: Callable[[str, Exception], None],
        rule: StepRule | None = None,
        step: StepEnd = "call",
    ) -> None:
        self.targets, self.trouble = targets, trouble
        # Without a model, steps are passes of a loop until there is an optimizer. A rule from outside hears calls.
        self._counts_calls = model is not None and rule is None
        self.rule = rule or StepRule(step if self._counts_calls else "value")
        self.counts_updates = self._counts_calls and step == "update"
        self.rule.listeners.append(self._begin_by_rule)
        self.is_open_to_more = rule is not None  # targets are found while the program runs
        self.lock = RLock()
        self.afterwards: Callable[[], None] | None = None  # to be done once nothing is being written
        self._undo = ExitStack()
        self.clock = StepClock(every, when)
        self.deferral = new_deferral()
        self.writer = StepWriter(sink, trouble, is_deferred=self.deferral is not None)
        self._intake = Intake(keep_of, sink, self.deferral)
        self._calls = ModelCalls(model if model is not None else nn.Module(), targets)
        self.modules = self._calls.modules
        self._parameters = ParameterValues(self)
        self._gradients = ParameterGradients(self)
        self._methods = MethodValues(self)
        self._loops = LoopValues(self)
        self.updates = Updates(self.rule, self._commit_loops, is_fixed=self._counts_calls, counts=self._trains_model)

    # ---- what its parts and its session ask

    @property
    def sink(self) -> ValueSink:
        """Where the values go."""
        return self.writer.sink

    @property
    def now(self) -> StepValues:
        """The values of the current step."""
        return self.writer.now

    @property
    def step(self) -> int:
        """The number of the current step."""
        return self.clock.step.number

    @property
    def is_active(self) -> bool:
        """Whether the values of the current step are recorded."""
        return self.clock.step.is_recorded

    @property
    def seen(self) -> set[str]:
        """The paths that had a value."""
        return self._intake.seen

    @property
    def has_unwritten(self) -> bool:
        """Whether a value was taken that is not written."""
        return self.writer.has_batch or self.is_active

    def is_busy(self) -> bool:
        """Whether this thread is taking or writing values."""
        return self.lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def keep_of(self, path: str) -> Keep | None:
        """What is kept of the tensor at a path; None for its values."""
        return self._intake.keep_of(path, path)

    # ---- begin and end

    def start(self, frame: FrameType | None = None) -> None:
        """Begin to record; `frame` is the one whose block is recorded."""
        with ExitStack() as undo:
            regions.begin()  # code that is compiled meanwhile must be the original
            undo.callback(regions.end)
            patch.add_value_probe(self)
            undo.callback(patch.remove_value_probe, self)
            self._start_model(undo, self.targets)
            if self.targets.loops or self.is_open_to_more or self.counts_updates:
                self.updates.start(undo)
            if not self._counts_calls and not self.is_open_to_more:
                ProgramCalls(self.rule, is_counted=False).start(undo)
            self._loops.start(undo, frame)
            self._undo = undo.pop_all()
            _started.add(self)

    def abandon(self) -> None:
        """This process is the child of a fork: the hooks on its optimizers stay, and its parent records."""
        self.lock = RLock()
        self.clock.is_announced = True
        self.clock.step, self.writer.now = self.clock.step.ended(), StepValues(self.step)

    def _start_model(self, undo: ExitStack, targets: Targets) -> None:
        self._gradients.start(undo, targets)
        if targets.methods or targets.functions:
            self._methods.start(undo, targets)

    def add_model(self, model: nn.Module, targets: Targets) -> None:
        """Record a model that was called for the first time."""
        with self.lock:
            self.targets.extend(targets)
            self._calls.add(model, targets)
            self._start_model(self._undo, targets)

    def add_loop(self, target: LoopTarget) -> None:
        """Record variables of a function that was defined just now."""
        with self.lock:
            self._loops.add(target, self._undo)

    def stop(self) -> None:
        """Write the last step and undo everything; called again after an interrupt, it does the rest."""
        try:
            self._loops.stop_lines()
            self._finish_step(is_last=True)
            self.rule.is_over = True
        finally:
            self._undo.close()

    def release(self) -> None:
        """Release the model: the recording is over."""
        self.targets = Targets()
        self._intake.keep_of = lambda path, whole: None
        self._calls = ModelCalls(nn.Module(), self.targets)
        self.modules = self._calls.modules
        self._parameters = ParameterValues(self)
        self._gradients, self._methods, self._loops = ParameterGradients(self), MethodValues(self), LoopValues(self)

    def begin_step(self, number: int | None = None) -> None:
        """Begin a step with this number, or the next one; from now on nothing else begins one."""
        self.clock.is_announced = True
        self._begin(self._calls.model.training, number)

    def begin_pass(self) -> None:
        """A pass of a loop begins, or a function whose variables are recorded: that may begin a step."""
        if self.rule.is_over and not self.clock.is_announced:
            with self.lock:
                self.rule.begin()
            self._do_afterwards()

    def begin_method(self) -> None:
        """A method begins whose variables are recorded: it may begin an update before it calls the model."""
        begins = self.counts_updates and not self.clock.is_announced
        if begins and self.rule.is_over and torch.is_grad_enabled():
            with self.lock:
                self.rule.begin()
            self._do_afterwards()

    def end_step(self) -> None:
        """End the step: values before the next one begins belong to no step."""
        self.clock.is_announced = True
        self._finish_step(is_last=True)

    def drop_batch(self) -> None:
        """Do not write the values that an interrupt has kept from being written."""
        self.writer.drop_batch()

    # ---- calls of modules

    def on_module(self, run: Callable[..., Any], module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """Run a module and take its output."""
        ident = get_ident()
        is_step = self._calls.is_outermost(module, ident)
        try:
            if is_step:
                self._begin_call(module, ident)
            result = run(module, *args, **kwargs)
            self._add_output(module, result, is_step=is_step)
        finally:
            if is_step:
                self._calls.threads.discard(ident)
        self._after_call(is_step=is_step)
        return result

    def enter(self, module: nn.Module) -> bool:
        """A compiled region of a module begins; whether it is the outermost call of the model in this thread."""
        ident = get_ident()
        if not self._calls.is_outermost(module, ident):
            return False
        try:
            self._begin_call(module, ident)
        except BaseException:
            self._calls.threads.discard(ident)
            raise
        return True

    def leave(self, module: nn.Module, result: Any, error: BaseException | None, *, is_step: bool) -> None:
        """The compiled region, with which `enter` was called, has ended."""
        try:
            if error is None:
                self._add_output(module, result, is_step=is_step)
        finally:
            if is_step:
                self._calls.threads.discard(get_ident())
        if error is None:
            self._after_call(is_step=is_step)

    def _begin_call(self, module: nn.Module, ident: int) -> None:
        with self.lock:
            is_first = not self._calls.threads  # calls of several threads at a time are one step
            counts = is_first and not self.clock.is_announced and self._counts_calls
            if counts and self.counts_updates:
                self._begin_for_update(training=module.training)
            elif counts and self.targets.loops:
                self._begin_at_call(training=module.training)
            elif counts:  # nothing but a call can begin a step
                self._begin(module.training)
            self._calls.threads.add(ident)

    def _begin_for_update(self, *, training: bool) -> None:
        """A call begins a step that ends with an update; between two updates, one without gradients is in no step."""
        if self.rule.is_over and not torch.is_grad_enabled():
            self._finish_step(is_last=True)
        else:
            self._begin_at_call(training=training)

    def _begin_at_call(self, *, training: bool) -> None:
        """A call of the model begins a step, or is in the step that a pass of a loop began."""
        self.rule.begin(training)
        if not self.clock.step.is_settled:
            self.clock.step = self.clock.settled(training=training)
            if not self.is_active:
                self.writer.now = StepValues(self.step)
        self.rule.note("call")

    def _trains_model(self, optimizer: Any) -> bool:
        """Whether an update ends a step: with steps that are updates, that of an optimizer that has the model."""
        if not self.counts_updates:
            return True
        owned = ids_of(optimizer)
        return any(id(parameter) in owned for parameter in self._calls.model.parameters())

    def _add_output(self, module: nn.Module, result: Any, *, is_step: bool) -> None:
        if self.clock.step.is_recorded:
            self._calls.add_output(module, result, is_step=is_step)

    def _after_call(self, *, is_step: bool) -> None:
        if self._calls.outputs:
            self._take_outputs()
        if is_step:
            self._end_call()

    def _take_outputs(self) -> None:
        """Take the outputs of modules; after an interrupt, those that it has left."""
        outputs = self._calls.outputs
        with self.lock:
            while outputs:
                now = self.writer.now
                mark = len(now.taken)
                try:
                    run_isolated(partial(self._take_output, now, outputs[0]))
                except BaseException:
                    now.take_back(mark)
                    raise
                del outputs[0]

    def _take_output(self, now: StepValues, output: Output) -> None:
        if not self.clock.step.is_recorded:
            return
        for path, rests in output.wanted.items():
            try:
                self._intake.add_all(now, path, output.value, rests)
            except Exception as error:
                if is_interrupt(error):
                    raise
                self.leave_out(path, text_of(error))

    def _end_call(self) -> None:
        """An outermost call has ended: write the values that are final now."""
        with self.lock:
            if self.is_active and self.sink.is_early and not self._calls.threads:
                may_train = torch.is_grad_enabled()
                if not may_train:
                    self._collect(self._parameters.take_all)
                is_waiting = may_train and bool(self.targets.parameters or self.targets.gradients)
                is_waiting = is_waiting or len(self._loops) > 0
                if not (may_train and self._waits_on_device):
                    self.writer.commit(is_open=self.clock.is_announced or is_waiting)
        self._do_afterwards()

    @property
    def _waits_on_device(self) -> bool:
        """Whether values of this recording are on their way from an accelerator: they come over once a step."""
        return self.deferral is not None and self.deferral.is_used

    def after_update(self, owned: Collection[int]) -> None:
        """An optimizer has used gradients and updated the parameters with these ids: mostly, they are final."""
        if not self.is_active or not self.sink.is_early:
            return
        with self.lock:
            self._collect(lambda: self._parameters.take_updated(owned))
            is_waiting = not self._parameters.are_taken or self._gradients.are_pending or len(self._loops) > 0
            self.writer.commit(is_open=self.clock.is_announced or is_waiting)
        self._do_afterwards()

    def _commit_loops(self) -> None:
        """An optimizer has made an update: write the variables of the loop so far. More may follow in this step."""
        if not self.is_active or not self.sink.is_early:
            return
        with self.lock:
            if self.now.taken:
                self.writer.commit(is_open=True)
        self._do_afterwards()

    # ---- steps

    def _begin_by_rule(self, training: bool | None) -> None:
        if not self.clock.is_announced:
            self._begin(training)

    def _begin(self, training: bool | None, number: int | None = None) -> None:
        self._finish_step()
        step = self.clock.following(training=training, number=number)
        self.clock.step, self.writer.now = step, StepValues(step.number)  # one assignment, as in `commit`

    def _finish_step(self, *, is_last: bool = False) -> None:
        """End the step: write all of it that is not written yet; `is_last` if no step follows at once."""
        with self.lock:
            if self.is_active:
                self._collect(self._take_rest)
                self.writer.commit(is_open=bool(self._calls.threads), is_last=is_last)
                self.clock.step, self.writer.now = self.clock.step.ended(), StepValues(self.step)
                if not self._calls.threads:
                    self._methods.forget()
            self.writer.write()
        self._do_afterwards()

    def _take_rest(self) -> None:
        self._take_outputs()
        self._parameters.take_all()
        self._gradients.take_rest()

    def _collect(self, collect: Callable[[], None]) -> None:
        """Take values; an error of the tool ends neither the step nor the program."""
        try:
            run_isolated(collect)
        except Exception as error:
            if is_interrupt(error):
                raise
            self.trouble("recording a step", error)
            self.leave_out(f"step {self.step}", text_of(error))

    def _do_afterwards(self) -> None:
        if self.afterwards is not None and not self.is_busy():
            work, self.afterwards = self.afterwards, None
            work()

    # ---- single values

    def leave_out(self, path: str, reason: str) -> None:
        """Name a value that is not recorded, and why; each reason once."""
        self._intake.leave_out(path, reason, self.step)

    def take(self, path: str, value: Any, rests: Collection[Segments] = WHOLE) -> None:
        """Take a value, or what the rests name in it; of a container, each of the values in it."""
        if not self.clock.step.is_recorded:  # not `is_active`: this runs for each value, and a property is a call
            return
        with self.lock:
            now = self.writer.now
            mark = len(now.taken)
            try:
                run_isolated(lambda: self._intake.add_all(now, path, value, rests))
            except BaseException as error:
                self._failed(path, error, mark)
        if self.afterwards is not None:
            self._do_afterwards()

    def _failed(self, path: str, error: BaseException, mark: int) -> None:
        """A value was not taken whole. If an interrupt cut it short, its first part is taken back: the rest is lost."""
        if not is_interrupt(error):
            self.leave_out(path, text_of(error))
            return
        self.now.take_back(mark)
        self.leave_out(path, f"{type(error).__name__} while it was taken")
        raise error

    def settle(self, path: str, value: Any, call: int) -> None:
        """Take the value that this step has at a path; taken again, it replaces the one before."""
        now = self.writer.now
        self._intake.add(now, path, value, self.keep_of(path), partial(now.set, call))


_started: WeakSet[ValueRecorder] = WeakSet()


def _abandon_all() -> None:
    for recorder in list(_started):
        recorder.abandon()


at_fork(after_in_child=_abandon_all)
_hooks = (ValueRecorder.on_module, ValueRecorder.enter, ValueRecorder.leave)
skip_when_compiling(*_hooks, ValueRecorder._add_output, ValueRecorder._after_call)
_works = (ValueRecorder._take_outputs, ValueRecorder._finish_step, ValueRecorder.take)
skip_all_when_compiling(ValueRecorder._begin_call, ValueRecorder._end_call, *_works)
