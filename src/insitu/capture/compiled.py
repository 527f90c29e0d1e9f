"""Compiled regions: they stay compiled, and each is one call in the trace.

Dynamo guards on the stack of function modes, so while a compiled region runs, the function mode is off. The region is
recognised where dynamo switches itself on and off, in a function that the wrapper around everything compiled calls on
entry and on exit. While something is being compiled, the function that runs a module is the original.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

from torch import nn

from insitu.capture.arguments import make_argument_writer
from insitu.capture.compiled_results import CaughtResult, KeptResult, catches, result_of
from insitu.capture.explain.note import add_note
from insitu.capture.fused import question
from insitu.capture.modes import skip_when_compiling
from insitu.capture.modules import Patch, ValueProbe, get_ident, patch
from insitu.capture.outline import outline
from insitu.capture.probe import Probe
from insitu.capture.tape import COMPILED, Raised, new_record
from insitu.capture.tensors import guarded
from insitu.capture.torch_internals import (
    DYNAMO,
    LIFTS_DISPATCH_MODES,
    compilation_callbacks,
    compiled_call,
    frame_switch,
    is_compiled_wrapper,
    pass_over_files,
    replace_frame_switch,
)
from insitu.capture.torch_parts import report_missing
from insitu.operating_system import at_fork


class Regions:
    """Sees compiled regions begin and end, while any session runs."""

    def __init__(self) -> None:
        self._sessions = 0
        self._lock = threading.Lock()
        self._original: Any = None  # kept when all is undone: another thread may be in the switch at that moment
        self._installed = False
        self._passes_over = False  # whether dynamo knows which files it passes over
        self._open: dict[int, OpenRegion] = {}
        self._finder = _Finder(self)
        # Called with 1 when a region begins, with -1 when it ends: what is replaced must be the original there.
        self.pausing: list[Callable[[int], None]] = [question.pause]

    def abandon(self) -> None:
        """This process is the child of a fork, and whoever held the lock is not here."""
        self._lock = threading.Lock()

    def begin(self) -> None:
        """A session starts."""
        with self._lock:
            self._sessions += 1
            if self._sessions == 1:
                self._install()

    def end(self) -> None:
        """A session has ended."""
        with self._lock:
            self._sessions -= 1
            if self._sessions == 0:
                self._uninstall()

    def _install(self) -> None:
        module = sys.modules.get(DYNAMO)
        if module is None:
            # Dynamo comes with the first compilation. Another thread may be going through the list that is there.
            sys.meta_path = [self._finder, *sys.meta_path]
        else:
            self.install_in(module)

    def install_in(self, module: ModuleType) -> None:
        """Listen to dynamo's switch."""
        self._original = frame_switch(module)
        report_missing()
        if self._original is not None:
            self._installed = True
            replace_frame_switch(module, self._switch)
            compilations = compilation_callbacks()
            compilations.register_start_callback(_compiling)
            compilations.register_end_callback(_compiled)

    def _uninstall(self) -> None:
        self._finder.leave()
        if self._installed:
            self._installed = False
            replace_frame_switch(sys.modules[DYNAMO], self._original)
            compilations = compilation_callbacks()
            compilations.remove_start_callback(_compiling)
            compilations.remove_end_callback(_compiled)
        for opened in self._open.values():
            opened.result.take()
            self._pause(-1)
        patch.compiled.clear()
        self._open.clear()  # regions that outlive all sessions end unseen

    def _pause(self, by: int) -> None:
        for pause in self.pausing:
            pause(by)

    def _pass_over_files(self) -> None:
        """Now, and not when dynamo is imported: its rules come later."""
        if not self._passes_over:
            self._passes_over = True
            pass_over_files(own_modules())

    def _switch(self, callback: Any) -> Any:
        """In place of the switch of dynamo: only the outermost compiled wrapper of a thread makes a region."""
        frame, ident, original = sys._getframe(1), get_ident(), self._original
        opened = self._open.get(ident)
        if opened is not None and opened.frame is frame:
            del self._open[ident]
            switched = original(callback)  # first: what follows is not to be compiled
            _leave(opened)
            self._pause(-1)
            return switched
        if opened is None and callable(callback) and is_compiled_wrapper(frame):
            self._pass_over_files()
            self._pause(1)
            self._open[ident] = OpenRegion(frame, _enter(frame, ident), result_of(frame))
        return original(callback)


def own_modules() -> list[str]:
    """The modules of insitu with functions that may run in a compiled region, and that no program compiles.

    A program that calls `module.compile()` in a session compiles the replacement of the function that runs a module.
    """
    compiled_by_programs = ("insitu.demo", Patch.__module__)
    modules = [name for name, module in sys.modules.items() if not hasattr(module, "__path__")]
    return [name for name in modules if name.startswith("insitu.") and not name.startswith(compiled_by_programs)]


class Region:
    """A compiled region as one probe sees it: one call, inside which nothing is recorded."""

    def __init__(self, probe: Probe, called: Any, args: Any, kwargs: Any, frame: FrameType) -> None:
        self.probe, self.at = probe, -1
        self.lifted = probe.modes.lift(operators=LIFTS_DISPATCH_MODES)
        try:
            self._open(called, args, kwargs, frame)
        except Exception as error:
            probe.trouble("recording a compiled call", error)
        self.taking, probe.taking, probe.paused = probe.taking, False, True
        if probe.services.graphs is not None:
            probe.services.graphs.enter(probe, self.at)

    def _open(self, called: Any, args: Any, kwargs: Any, frame: FrameType) -> None:
        probe = self.probe
        callee = (
            probe.callee(called) if isinstance(called, nn.Module) else CompiledCallee(called) if probe.taking else None
        )
        if callee is None:
            return
        record = new_record(callee, probe.parent, phase=COMPILED, args=len(args))
        make_argument_writer(guarded(probe.values))(record, args, kwargs)
        probe.stack(frame, record)
        self.at = probe.append(record)

    def close(self, result: Any, error: BaseException | None) -> None:
        """The region has ended."""
        probe, at = self.probe, self.at
        if probe.services.graphs is not None:
            probe.services.graphs.leave(probe)
        if probe.over:
            return
        probe.taking, probe.paused = self.taking, False
        try:
            if at >= 0:
                self._record_end(result, error)
        except Exception as trouble:
            probe.trouble("recording a compiled result", trouble)
        self.lifted.put_back()

    def _record_end(self, result: Any, error: BaseException | None) -> None:
        """Record what the region returned, or the exception that ended it."""
        probe, at = self.probe, self.at
        if error is not None:
            add_note(error, probe, at)
            probe.tape.finish(at, probe.clock(), Raised(error))
        else:
            end = probe.clock()
            probe.tape.finish(at, end, outline(result, lambda tensor: probe.values.fresh(tensor, at)))
        if probe.close is not None:
            probe.close(probe, at)


class ValueRegion:
    """A compiled region of a module whose output, or whose steps, somebody takes."""

    def __init__(self, value_probe: ValueProbe, module: nn.Module) -> None:
        self._value_probe, self._module = value_probe, module
        self._is_step = value_probe.enter(module)

    def close(self, result: Any, error: BaseException | None) -> None:
        """The region has ended."""
        self._value_probe.leave(self._module, result, error, is_step=self._is_step)


class CompiledCallee:
    """A compiled function that is not a module."""

    __slots__ = ("kind", "name")

    def __init__(self, function: Any) -> None:
        self.kind = "function"
        self.name = f"torch.compile.{getattr(function, '__qualname__', type(function).__name__)}"


def _compiling(*_: Any) -> None:
    patch.pause(1)


def _compiled(*_: Any) -> None:
    patch.pause(-1)


@dataclass(frozen=True, slots=True)
class OpenRegion:
    """A compiled region that runs: the frame of its wrapper, as each probe sees the region, and its result."""

    frame: FrameType
    regions: list[Region | ValueRegion]
    result: KeptResult | CaughtResult


def _enter(frame: FrameType, ident: int) -> list[Region | ValueRegion]:
    function, (_, args, kwargs) = catches.function(frame), compiled_call(frame)
    owner = getattr(function, "__self__", None)
    if owner is None:
        owner = getattr(function, "__wrapped__", None)
    called: Any = owner if isinstance(owner, nn.Module) else function
    value_probes = patch.value_probes if isinstance(called, nn.Module) else ()
    opened: list[Region | ValueRegion] = [
        ValueRegion(each, called) for each in value_probes if id(called) in each.modules
    ]
    patch.compiled.add(ident)
    probes = patch.probes.get(ident, ())  # now: a value probe may have started a session
    opened += [Region(probe, called, args, kwargs, frame) for probe in probes]
    return opened


def _leave(opened: OpenRegion) -> None:
    has_returned, result = opened.result.take()
    error = None if has_returned else sys.exc_info()[1]
    patch.compiled.discard(get_ident())
    for region in reversed(opened.regions):
        region.close(result, error)


class _Finder:
    """Waits in `sys.meta_path` for the import of dynamo, and then replaces its switch."""

    def __init__(self, regions: Regions) -> None:
        self.regions = regions

    def leave(self) -> None:
        """Find nothing any more."""
        if self in sys.meta_path:
            sys.meta_path = [finder for finder in sys.meta_path if finder is not self]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of dynamo's module as the next finder has it, with a loader that tells us."""
        if name != DYNAMO:
            return None
        self.leave()
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute, install = spec.loader.exec_module, self.regions.install_in

            def exec_module(module: ModuleType) -> None:
                execute(module)
                install(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


regions = Regions()
at_fork(after_in_child=regions.abandon)
skip_when_compiling(Regions._switch, Regions._pass_over_files, own_modules, Regions._pause, _enter, _leave)
