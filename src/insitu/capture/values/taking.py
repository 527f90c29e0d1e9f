"""Values of a model, step by step: what path patterns name in it, taken while an unchanged training loop runs.

A step is one outermost call of the model, or what `begin_step` says. Each value is written as soon as it is final:
outputs and variables when the call ends; gradients, and parameters after the update, when an optimizer has used them.
What nobody announces, as an update by hand, is read when the next step begins, and replaces what was written before.

An exception may come from a signal at any moment. It never loses a value that was fully copied and never writes one
twice: what could not be written stays in `Taking`, and is written the next time. A value whose copying was interrupted
is named in `run.missing`. Nothing here waits for another process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from functools import partial
from threading import RLock, get_ident
from typing import Any

import torch
from torch import Tensor, nn

from insitu.capture.changes import tensor_print
from insitu.capture.compiled import regions
from insitu.capture.keep import is_plain_class, local, unnoticed
from insitu.capture.modes import skip_all_when_compiling, skip_when_compiling
from insitu.capture.modules import patch
from insitu.capture.names import unwrapped, wrapping
from insitu.capture.values.copies import is_dense
from insitu.capture.values.gradients import Gradients
from insitu.capture.values.intake import Intake, Keep, ValueSink, text_of
from insitu.capture.values.methods import Variables
from insitu.capture.values.step import Batch, StepValues
from insitu.capture.values.targets import Rest, Targets
from insitu.errors import is_interrupt

WHOLE = frozenset[Rest]([()])
MISSING = object()


class Taking:
    """Takes the values of one session in this process.

    `keep_of` says what is made of each tensor, by its path and that of the whole it is an item of.
    """

    def __init__(
        self,
        model: nn.Module,
        targets: Targets,
        *,
        keep_of: Callable[[str, str], Keep | None],
        every: int,
        when: str | None,
        sink: ValueSink,
        trouble: Callable[[str, Exception], None],
    ) -> None:
        self.root, self.targets = unwrapped(model), targets
        # The model, and what is wrapped around it: the outermost one that is called makes the step.
        self._roots = {id(module) for module in wrapping(model)}
        self.modules: dict[int, dict[str, set[Rest]] | None] = {**targets.outputs}
        self.modules.update(dict.fromkeys(self._roots, targets.outputs.get(id(self.root))))
        self.step = -1
        self._intake = Intake(keep_of, sink)
        self._every, self._when, self.sink, self.trouble = every, when, sink, trouble
        self.is_active = self._said = False  # whether this step is one that is recorded
        self._fitting = 0
        self.now = StepValues(-1)
        self._batch: Batch | None = None  # what is being written
        self._results: list[tuple[dict[str, set[Rest]], Any]] = []  # outputs that are yet to be taken
        self._inside: set[int] = set()
        self.lock = RLock()
        self.afterwards: Callable[[], None] | None = None  # to be done once nothing is being written
        self._undo = ExitStack()
        self.gradients = Gradients(self)
        self.variables = Variables(self)

    def start(self) -> None:
        """Begin to take."""
        with ExitStack() as undo:
            regions.begin()  # what is compiled meanwhile must be the original
            undo.callback(regions.end)
            patch.take(self)
            undo.callback(patch.drop, self)
            self.gradients.start(undo)
            self.variables.start(undo)
            self._undo = undo.pop_all()

    def stop(self) -> None:
        """Write the last step and undo everything; after an interrupt, the rest of that."""
        try:
            self._finish_step(is_last=True)
        finally:
            self._undo.close()

    def begin_step(self, number: int | None = None) -> None:
        """A step begins here, with this number or the next one; from now on a call of the model does not say so."""
        self._said = True
        self._begin(self.root, number)

    def end_step(self) -> None:
        """The step is over: what comes before the next one begins is in none."""
        self._said = True
        self._finish_step(is_last=True)

    def is_busy(self) -> bool:
        """Whether this thread is taking or writing values."""
        return self.lock._is_owned()  # type: ignore[attr-defined, no-any-return]

    def on_module(self, run: Callable[..., Any], module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """Run a module and take its output."""
        ident = get_ident()
        is_step = id(module) in self._roots and ident not in self._inside
        try:
            if is_step:
                self._begin_call(module, ident)
            result = run(module, *args, **kwargs)
            self._note_output(module, result, is_step=is_step)
        finally:
            if is_step:
                self._inside.discard(ident)
        self._after_call(is_step=is_step)
        return result

    def enter(self, module: nn.Module) -> bool:
        """A compiled region of a module begins; whether it is the outermost call of the model in this thread."""
        ident = get_ident()
        if id(module) not in self._roots or ident in self._inside:
            return False
        try:
            self._begin_call(module, ident)
        except BaseException:
            self._inside.discard(ident)
            raise
        return True

    def leave(self, module: nn.Module, result: Any, error: BaseException | None, *, is_step: bool) -> None:
        """The compiled region, with which `enter` was called, has ended."""
        try:
            if error is None:
                self._note_output(module, result, is_step=is_step)
        finally:
            if is_step:
                self._inside.discard(get_ident())
        if error is None:
            self._after_call(is_step=is_step)

    def _note_output(self, module: nn.Module, result: Any, *, is_step: bool) -> None:
        """Keep the output of a module until it is taken; what is wrapped around the model gives the same output."""
        wanted = self.modules.get(id(module))
        is_repeated = id(module) in self._roots and not is_step
        if wanted is not None and self.is_active and not is_repeated:
            self._results.append((wanted, result))

    def _after_call(self, *, is_step: bool) -> None:
        if self._results:
            self._take_results()
        if is_step:
            self._end_call()

    def _begin_call(self, module: nn.Module, ident: int) -> None:
        with self.lock:
            if not self._inside and not self._said:  # calls of several threads at a time are one step
                self._begin(module)
            self._inside.add(ident)

    def _take_results(self) -> None:
        """Take the outputs of modules; after an interrupt, those that it has left."""
        with self.lock:
            while self._results:
                wanted, result = self._results[0]
                mark = len(self.now.taken)
                try:
                    unnoticed(lambda: self._add_results(wanted, result))  # noqa: B023
                except BaseException:
                    self.now.take_back(mark)
                    raise
                del self._results[0]

    def _add_results(self, wanted: dict[str, set[Rest]], result: Any) -> None:
        for path, rests in wanted.items() if self.is_active else ():
            try:
                self._intake.add_all(self.now, path, result, rests)
            except Exception as error:
                if is_interrupt(error):
                    raise
                self.leave_out(path, text_of(error))

    def _end_call(self) -> None:
        """An outermost call has ended: write what is final now."""
        with self.lock:
            if self.is_active and self.sink.is_early and not self._inside:
                may_train = torch.is_grad_enabled()
                if not may_train:
                    self._guarded(lambda: self._settle(self.targets.parameters))
                waits = bool(self.targets.parameters or self.targets.gradients)
                self._commit(is_open=self._said or (may_train and waits))
        self._do_afterwards()

    def after_update(self, owned: Collection[int]) -> None:
        """An optimizer has used gradients and updated the parameters with these ids: they are final, mostly."""
        if not self.is_active or not self.sink.is_early:
            return
        with self.lock:
            self._guarded(lambda: self._settle(self._updated(owned)))
            left = len(self.now.contents) < len(self.targets.parameters) or self.gradients.are_pending
            self._commit(is_open=self._said or left)
        self._do_afterwards()

    def _updated(self, owned: Collection[int]) -> Iterable[tuple[nn.Module, str, str]]:
        """What an optimizer has updated, and, once in a step, what none updates."""
        for target in self.targets.parameters:
            parameter = getattr(target[0], target[1], None)
            is_trained = isinstance(parameter, Tensor) and parameter.requires_grad
            is_due = id(parameter) in owned if is_trained else target[2] not in self.now.contents
            if is_due:
                yield target

    def _begin(self, module: nn.Module, number: int | None = None) -> None:
        self._finish_step()
        following = self.step + 1 if number is None else number
        fits = self._when is None or module.training == (self._when == "train")
        is_active = fits and self._fitting % self._every == 0
        fitting, now = self._fitting + fits, StepValues(following)
        self.step, self.is_active, self._fitting, self.now = following, is_active, fitting, now

    def _finish_step(self, *, is_last: bool = False) -> None:
        """The step is over: write all of it that is not written yet; if no step follows at once, write that, too."""
        with self.lock:
            if self.is_active:
                self._guarded(self._collect)
                self._commit(is_open=bool(self._inside), is_last=is_last)
                self.is_active, self.now = False, StepValues(self.step)
                if not self._inside:
                    self.variables.forget()
            self._write()
        self._do_afterwards()

    def _collect(self) -> None:
        self._take_results()
        self._settle(self.targets.parameters)
        self.gradients.finish()

    def _guarded(self, collect: Callable[[], None]) -> None:
        """Collect values; a mistake in that ends neither the step nor the program."""
        try:
            unnoticed(collect)
        except Exception as error:
            if is_interrupt(error):
                raise
            self.trouble("recording a step", error)
            self.leave_out(f"step {self.step}", text_of(error))

    def _commit(self, *, is_open: bool, is_last: bool = False) -> None:
        """Write what was taken and not written yet; of each step there is one frame at least."""
        self._write()
        now = self.now
        if now.has_news or (is_last and now.is_open):
            batch, rest = now.split(is_open=is_open)
            self._batch, self.now = batch, rest  # one assignment: no signal is looked for within it
            self._write()

    def _write(self) -> None:
        """Write the batch, if there is one; it stays until that is done."""
        batch = self._batch
        if batch is None:
            return
        try:
            self.sink.write(batch)
        except Exception as error:
            if is_interrupt(error):
                raise
            self.trouble("recording a step", error)
        self._batch = None

    def forget_batch(self) -> None:
        """Do not write what an interrupt has kept from being written."""
        self._batch = None

    def _do_afterwards(self) -> None:
        if self.afterwards is not None and not self.is_busy():
            work, self.afterwards = self.afterwards, None
            work()

    def release(self) -> None:
        """All is over: let go of the model."""
        self.root, self.targets = nn.Module(), Targets()
        self.modules, self._results = {}, []
        self._intake.keep_of = lambda path, whole: None
        self.gradients, self.variables = Gradients(self), Variables(self)

    @property
    def seen(self) -> set[str]:
        """The paths that had a value."""
        return self._intake.seen

    @property
    def has_unwritten(self) -> bool:
        """Whether something was taken that is not written."""
        return self._batch is not None or self.is_active

    def leave_out(self, path: str, reason: str) -> None:
        """Name a value that is not recorded, and why; each reason once."""
        self._intake.leave_out(path, reason, self.step)

    def take(self, path: str, value: Any, rests: Collection[Rest] = WHOLE) -> None:
        """Take a value, or what the rests name in it; of a container each of the values in it."""
        if not self.is_active:
            return
        with self.lock:
            mark = len(self.now.taken)
            try:
                unnoticed(lambda: self._intake.add_all(self.now, path, value, rests))
            except BaseException as error:
                self._failed(path, error, mark)
        if self.afterwards is not None:
            self._do_afterwards()

    def _failed(self, path: str, error: BaseException, mark: int) -> None:
        """A value was not taken whole. What an interrupt has cut short is taken back, for its rest is lost."""
        interrupts = is_interrupt(error)
        if interrupts:
            self.now.take_back(mark)
        self.leave_out(path, f"{type(error).__name__} while it was taken" if interrupts else text_of(error))
        if interrupts:
            raise error

    def settle(self, path: str, value: Any, call: int) -> None:
        """Take the value that this step has at a path; taken again, it replaces the one before."""
        self._intake.add(self.now, path, value, self._intake.keep_of(path, path), partial(self.now.set, call))

    def _settle(self, targets: Iterable[tuple[nn.Module, str, str]]) -> None:
        """Take parameters and buffers, those left out that this step has as they are."""
        contents = self.now.contents
        for module, name, path in targets:
            value: Any = getattr(module, name, MISSING)
            if value is MISSING:
                self.leave_out(path, f"its module has no {name!r} any more")
                continue
            keep = self._intake.keep_of(path, path)
            if path in contents and self._is_as_written(path, value, keep):
                continue
            content = tensor_print(value) if keep is not None and self.sink.is_early else None
            self.settle(path, value, 0)
            contents[path] = content

    def _is_as_written(self, path: str, value: Any, keep: Keep | None) -> bool:
        """Whether a parameter has the values that were written for it in this step."""
        tensor = value if type(value) is nn.Parameter else local(value)
        if (path, 0) in self.now.settled or not isinstance(tensor, Tensor) or not is_plain_class(tensor):
            return False
        if keep is not None:
            return bool(tensor_print(value) == self.now.contents[path])
        return is_dense(tensor) and self.sink.holds(path, tensor.detach())


skip_when_compiling(Taking.on_module, Taking.enter, Taking.leave, Taking._note_output, Taking._after_call)
skip_all_when_compiling(Taking._begin_call, Taking._take_results, Taking._end_call, Taking._finish_step, Taking.take)
