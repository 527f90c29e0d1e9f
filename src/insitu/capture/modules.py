"""Module calls: the one function of torch that is replaced while tracing, the one that runs a module.

Hooks would cost more, see no keyword arguments before the call and no KeyboardInterrupt, and make torch.compile
compile again. The replacement is put in when the first session starts and taken out when the last one ends; in a
thread with no probe it calls the original and does nothing else.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor, nn

from insitu.capture.arguments import make_argument_writer
from insitu.capture.fused import question
from insitu.capture.modes import as_anchor, skip_when_compiling
from insitu.capture.names import ModuleCallee
from insitu.capture.outline import outline
from insitu.capture.tape import END, FORWARD, LEFT, OUTERMOST, RECOMPUTE, RESULT, RUNNING, START
from insitu.capture.tensors import Value, Values, guarded
from insitu.capture.torch_internals import (
    graph_task_id,
    module_call,
    replace_module_call,
    tracing_state,
)
from insitu.capture.torch_parts import report_missing
from insitu.operating_system import at_fork

if TYPE_CHECKING:
    from insitu.capture.probe import Probe

_getframe = sys._getframe
get_ident = threading.get_ident


class Joinable(Protocol):
    """A session that also takes what other threads do."""

    def join(self, module: nn.Module | None) -> Probe | None:
        """The probe for this thread, which calls a module or, with None, a watched function; None to leave it alone."""


class ValueProbe(Protocol):
    """Records the outputs of some modules."""

    modules: dict[int, Any]

    def on_module(self, run: Callable[..., Any], module: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        """Run one of the modules."""

    def enter(self, module: nn.Module) -> bool:
        """One of the modules begins to run in a compiled region; the result is passed to `leave`."""

    def leave(self, module: nn.Module, result: Any, error: BaseException | None, *, is_step: bool) -> None:
        """The compiled region has ended."""


class Patch:
    """The replacement of the function that runs a module, and who listens to it."""

    def __init__(self) -> None:
        self.probes: dict[int, tuple[Probe, ...]] = {}
        self.sessions: tuple[Joinable, ...] = ()
        self.value_probes: tuple[ValueProbe, ...] = ()
        self.compiled: set[int] = set()  # the threads in which a compiled region runs: nothing is taken in there
        self.original: Callable[..., Any] = module_call()
        self.inner = self.original  # what the value probes run
        self._lock = threading.RLock()
        self._pauses = 0

    def begin(self, session: Joinable) -> None:
        """A session starts."""
        report_missing()
        with self._lock:
            self._learn_original()
            self.sessions = (*self.sessions, session)
            self._install()

    def end(self, session: Joinable) -> None:
        """A session has ended."""
        with self._lock:
            self.sessions = tuple(other for other in self.sessions if other is not session)
            self._install()
            if not self.sessions:
                question.reset()

    def add_value_probe(self, value_probe: ValueProbe) -> None:
        """A recording of values starts."""
        report_missing()
        with self._lock:
            self._learn_original()
            self.value_probes = (*self.value_probes, value_probe)
            self._install()

    def remove_value_probe(self, value_probe: ValueProbe) -> None:
        """A recording of values has ended."""
        with self._lock:
            self.value_probes = tuple(other for other in self.value_probes if other is not value_probe)
            self._install()

    def _learn_original(self) -> None:
        if not self.sessions and not self.value_probes:  # others may have replaced it too, and stay in it
            self.original = self.inner = module_call()

    def expect_sessions(self) -> None:
        """A value probe may start a session when it hears of a call: that call is recorded, too."""
        self.inner = call_when_heard

    def pause(self, by: int) -> None:
        """Take the replacement out for a while (1), or put it back (-1): dynamo must see the original."""
        with self._lock:
            self._pauses = max(0, self._pauses + by)
            self._install()

    def _install(self) -> None:
        is_idle = not self.sessions and not self.value_probes
        if is_idle:
            self._pauses = 0
        is_ours = module_call() in (self.original, call_for_probes, call_for_value_probes)
        if is_ours:  # a patch of others stays
            replace_module_call(self._wanted_call())

    def _wanted_call(self) -> Callable[..., Any]:
        """How modules are called now."""
        if self._pauses:
            return self.original
        if self.value_probes:
            return call_for_value_probes
        if self.sessions:
            return call_for_probes
        return self.original

    def listen(self, probe: Probe) -> None:
        """The probe hears the module calls of this thread."""
        ident = get_ident()
        self.probes[ident] = (*self.probes.get(ident, ()), probe)

    def unlisten(self, probe: Probe, ident: int) -> None:
        """The probe hears them no more."""
        left = tuple(other for other in self.probes.get(ident, ()) if other is not probe)
        if left:
            self.probes[ident] = left
        else:
            self.probes.pop(ident, None)

    def joining(self, module: nn.Module | None) -> tuple[Probe, ...]:
        """The probes of the sessions that want to hear this thread, which none of them has seen."""
        probes = [session.join(module) for session in self.sessions]
        return tuple(filter(None, probes))

    @contextmanager
    def joined(self, probes: tuple[Probe, ...]) -> Iterator[None]:
        """These hear this thread for a while."""
        for probe in probes:
            self.listen(probe)
            probe.start()
        try:
            yield
        finally:
            for probe in reversed(probes):
                probe.modes.leave()
                self.unlisten(probe, get_ident())

    def abandon(self) -> None:
        """This process is the child of a fork: the sessions go on in the parent, not here."""
        self._lock = threading.RLock()
        for probe in [probe for probes in self.probes.values() for probe in probes]:
            probe.silence()
        self.probes.clear()
        self.sessions, self.value_probes = (), ()
        self.compiled.clear()
        self._install()


patch = Patch()
at_fork(after_in_child=patch.abandon)


def call_for_probes(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Runs a module while a session records."""
    probes = patch.probes.get(get_ident())
    if probes is None:
        return call_in_new_thread(self, args, kwargs)
    if tracing_state() is not None:  # torch.jit.trace records each look at a tensor
        return call_unrecorded(self, probes, args, kwargs)
    if len(probes) == 1:
        (probe,) = probes
        callee = probe.callee(self)
        if callee is None:
            return patch.original(self, *args, **kwargs)
        return probe.on_module(callee, patch.original, self, *args, **kwargs)
    run = patch.original
    for probe in probes:
        callee = probe.callee(self)
        if callee is not None:
            run = partial(probe.on_module, callee, run)
    return run(self, *args, **kwargs)


def call_for_value_probes(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Runs a module while values are recorded, and perhaps a session records too.

    A second replacement: without a recording of values, a module call costs one function call less.
    """
    run: Callable[..., Any] = call_for_probes if patch.sessions else patch.inner
    for value_probe in patch.value_probes:
        if id(self) in value_probe.modules and get_ident() not in patch.compiled:
            run = partial(value_probe.on_module, run)
    return run(self, *args, **kwargs)


def call_when_heard(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
    """Runs a module after the value probes have heard of the call."""
    if patch.sessions:
        return call_for_probes(self, *args, **kwargs)
    return patch.original(self, *args, **kwargs)


def call_unrecorded(module: nn.Module, probes: tuple[Probe, ...], args: Any, kwargs: Any) -> Any:
    """Call a module while none of the probes records anything."""
    states = [(probe, probe.taking, probe.paused) for probe in probes]
    for probe in probes:
        probe.taking, probe.paused = False, True
    try:
        return patch.original(module, *args, **kwargs)
    finally:
        for probe, taking, paused in states:
            probe.taking, probe.paused = taking, paused


def call_in_new_thread(module: nn.Module, args: Any, kwargs: Any) -> Any:
    """The outermost module call of a thread that no session has seen: the sessions that want it join for the call."""
    probes = patch.joining(module)
    if not probes:
        return patch.original(module, *args, **kwargs)
    with patch.joined(probes):
        return call_for_probes(module, *args, **kwargs)


def make_on_module(probe: Probe, values: Values) -> Callable[..., Any]:
    """The handler of module calls. The function mode is on while it runs: facts are read with care."""
    tape, stack, close, clock = probe.tape, probe.stack, probe.close, probe.clock
    is_lazy, deferral, check = probe.scope.is_lazy, probe.services.deferral, probe.check
    values = guarded(values)
    extend, write_arguments = tape.extend, make_argument_writer(values)
    record_tensor, record_result = make_module_result(probe, values)

    def on_module(callee: ModuleCallee, run: Callable[..., Any], self: nn.Module, /, *args: Any, **kwargs: Any) -> Any:
        at, outer = -1, (probe.parent, probe.function, probe.taking, probe.module, probe.recomputes)
        try:
            task = graph_task_id()  # in a backward pass, a module runs forward code again
            # The list of `tape.new_record` in line: a call would cost more than the list.
            record = [callee, RUNNING, outer[0], 0.0, 0.0, RECOMPUTE if task != -1 else FORWARD, 0, len(args), 0, 0]
            write_arguments(record, args, kwargs)
            stack(_getframe(1), record)
            at = len(tape)  # now: looking at arguments may have run code of the user
            if at >= probe.due:
                at = probe.cut()
            record[START] = clock()
            extend(record)
            probe.parent, probe.function, probe.taking, probe.module, probe.recomputes = at, False, True, callee, task
        except BaseException as error:
            at = probe.give_up(at, error)
        if at < 0:
            return run(self, *args, **kwargs)
        try:
            if callee.fused or outer[1] or (is_lazy and not outer[2]):
                result = run_specially(probe, callee, partial(run, self, *args, **kwargs), outer[1], outer[2])
            else:
                result = run(self, *args, **kwargs)
            tape[at + END] = clock()
        except BaseException as error:
            probe.failed(at, error)
            raise
        else:
            is_one = type(result) is Tensor
            tape[at + RESULT] = (record_tensor if is_one else record_result)(result, at, callee.in_place)
            if check is not None and check.marks is not None and outer[0] == OUTERMOST:  # it may raise
                check.end_model_call(at)
            return result
        finally:
            probe.parent, probe.function, probe.taking, probe.module, probe.recomputes = outer
            if close is not None:
                close(probe, at)
            elif probe.follows:
                extend((LEFT, at))
            if deferral is not None and outer[0] == OUTERMOST:
                probe.end_step(callee)

    return as_anchor(on_module)


def run_specially(
    probe: Probe, callee: ModuleCallee, run: Callable[[], Any], in_function: bool, was_taking: bool
) -> Any:
    """Run a module that may choose a fused kernel, that is called from inside a torch function (recomputation), or
    with which recording begins: there, modes must be switched off, or on."""
    if probe.scope.is_lazy and not was_taking:
        probe.modes.enter()
        try:
            return run_fused(callee, run)
        finally:
            probe.modes.leave()
    mode = probe.modes.function
    if not in_function or mode is None:
        return run_fused(callee, run)
    mode.enter()  # torch switched it off for the function we are in
    try:
        return run_fused(callee, run)
    finally:
        mode.remove()


def run_fused(callee: ModuleCallee, run: Callable[[], Any]) -> Any:
    """Run a module, and let it take a fused path where torch would."""
    if not callee.fused:
        return run()
    with question.replaced():
        return run()


def make_module_result(probe: Probe, values: Values) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The functions that record a tensor that a module returned, mostly one with a value, and any other result."""
    get, gradients, fresh, renew = probe.table.get, probe.gradients, values.fresh, values.renew

    def record_tensor(tensor: Tensor, at: int, in_place: bool) -> Value | None:
        try:
            known = get(id(tensor))
            if known is not None and known() is tensor and (known.producer >= at or not in_place):
                value = renew(known, tensor, at)
            else:
                value = fresh(tensor, at)
            if value is known:
                return value
            if gradients is not None:
                gradients.follow(value, tensor)
            return value
        except Exception as error:
            probe.trouble("recording a result", error)
            return None

    def record_result(result: Any, at: int, in_place: bool) -> Any:
        try:
            return outline(result, partial(record_tensor, at=at, in_place=in_place))
        except Exception as error:
            probe.trouble("recording a result", error)
            return None

    return record_tensor, record_result


skip_when_compiling(
    *(call_for_probes, call_for_value_probes, call_when_heard, call_unrecorded, call_in_new_thread),
    *(run_specially, run_fused, Patch.joining),
)
