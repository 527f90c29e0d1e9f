"""One recording: the probes of all its threads, started and always undone, and its events."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from time import perf_counter
from types import FrameType
from typing import Any
from weakref import WeakSet

from torch import nn

from insitu.capture.backward_calls import backward_calls
from insitu.capture.budget import Budget, Overflow
from insitu.capture.collectives import work_waits
from insitu.capture.compiled import regions
from insitu.capture.compiled_graphs.graph_hooks import graph_hooks
from insitu.capture.compiled_graphs.graph_session import GraphSession
from insitu.capture.decode import Decoder
from insitu.capture.deferral import new_deferral
from insitu.capture.guard.check import GuardChecks
from insitu.capture.keep import make_keep, weighed_keep
from insitu.capture.live import Live, Sink
from insitu.capture.modules import get_ident, patch
from insitu.capture.names import ModuleNames
from insitu.capture.patience import patience
from insitu.capture.probe import Delivery, Probe, ProbeScope, Services
from insitu.capture.sites import Base
from insitu.capture.tensor_swaps import swaps as tensor_swaps
from insitu.errors import Troubles, tell
from insitu.trace.capacity import MEMORY, capacity_text
from insitu.trace.event import Event, MarkKind
from insitu.trace.missing import Missing
from insitu.trace.path import Pattern

LEVELS = ("python", "modules", "functions", "aten")


class Recorder:
    """Records one session, in the thread that starts it and in those that call its modules meanwhile.

    Without sinks, the events are decoded when they are asked for. With sinks, each event is decoded and handed on as
    soon as it is complete, and not kept.
    """

    def __init__(
        self,
        subject: nn.Module | None,
        *,
        level: str,
        keep: str | Callable[[Any], Any],
        only: Iterable[str],
        sinks: Iterable[Sink] = (),
        rank: int = 0,
        thread: int = 0,
        checks: GuardChecks | None = None,
        memory: int = MEMORY,
        archive: Overflow | None = None,
        inside_compiled: bool = False,
    ) -> None:
        self.level, self.only, self.sinks, self.rank = level, tuple(only), tuple(sinks), rank
        self.checks = checks
        self.trouble = Troubles(lambda text: self._mark("trouble", text))
        self.live: Delivery | None = None
        self.names = ModuleNames(subject, self._wanted)
        self.deferral = new_deferral()
        self.keep = make_keep(keep, self.trouble, self.deferral)
        self.keeps_values = callable(keep)
        self.memory, self.archive = memory, archive
        self.budget: Budget | None = None
        self.graphs: GraphSession | None = None
        self._inside_compiled = inside_compiled
        self.probes: list[Probe] = []
        self._numbers = itertools.count(thread)
        self._threads: dict[int, Probe] = {}
        self._earlier_threads: WeakSet[threading.Thread] = WeakSet()
        self._undo = ExitStack()
        self._is_resting = False
        tensor_swaps.hold(self)

    def _wanted(self, path: str) -> bool:
        if self.level == "python":
            return False
        return not self.only or any(Pattern.of(text).match(path) for text in self.only)

    def start(self, frame: FrameType | None) -> None:
        """Begin to record; `frame` is the one in which the session is entered."""
        self.base, self.origin = Base(frame), perf_counter()
        self.live = self._new_live() if self.sinks else self.checks
        if self.live is None:
            self._limit()
        self._earlier_threads = WeakSet(threading.enumerate())
        with ExitStack() as undo:
            patience.begin()
            undo.callback(patience.end)
            if self.level != "python":
                regions.begin()
                undo.callback(regions.end)
                self._show_graphs(undo)
            if self.level in ("functions", "aten"):
                work_waits.begin()
                undo.callback(work_waits.end)
                backward_calls.begin()
                undo.callback(backward_calls.end)
            patch.begin(self)
            undo.callback(patch.end, self)
            probe = self._probe(self.base)
            patch.listen(probe)
            undo.callback(patch.unlisten, probe, get_ident())
            probe.start()
            undo.callback(self._leave, probe, get_ident())
            self._undo = undo.pop_all()

    def _new_live(self) -> Live:
        return Live(self.decoder(), self.sinks, self.trouble, self.deferral)

    def _show_graphs(self, undo: ExitStack) -> None:
        """Record the graphs that run in compiled regions, unless events are handed on at once or only checked."""
        if self.live is None:
            self.graphs = GraphSession(inside=self._inside_compiled)
            graph_hooks.begin()
            undo.callback(graph_hooks.end)

    def _limit(self) -> None:
        """Keep what is recorded within the memory that it may take."""
        self.budget = Budget(
            self.memory,
            self.decoder,
            keeps=self.keep is not None,
            archive=self.archive,
            trouble=self.trouble,
            full=self._tell_full,
        )
        budget = self.budget
        if self.keep is not None and self.keeps_values:
            self.keep = weighed_keep(self.keep, lambda size: budget.weigh(self.probes, size))

    def _tell_full(self, on_disk: bool) -> None:
        """Say once that the trace has become too long."""
        done = "go to disk" if on_disk else "are dropped"
        less = "a larger `memory` keeps more, `only` records less"
        tell(f"the trace has reached {capacity_text(self.memory)}: from now on its oldest steps {done} ({less})")

    def stand_by(self) -> Probe:
        """Be ready to record watched functions of this thread, in no session; there is nothing to undo."""
        self.base, self.origin = Base(None), perf_counter()
        self.live = self._new_live()
        return self._probe(self.base)

    def stop(self) -> None:
        """Undo everything, whatever happened."""
        self._undo.close()
        self._threads.clear()
        if self.live is not None:
            self.live.deliver()

    def _leave(self, probe: Probe, ident: int) -> None:
        for each in self.probes:
            each.silence()
        if get_ident() == ident:  # modes belong to a thread: from another one they can only be silenced
            probe.modes.leave()

    def _probe(self, base: Base) -> Probe:
        probe = Probe(self._scope(), self._services(), thread=next(self._numbers), base=base)
        self.probes.append(probe)
        return self._threads.setdefault(get_ident(), probe)

    def _scope(self) -> ProbeScope:
        is_limited = self.names.has_subject or bool(self.only) or self.level == "python"
        return ProbeScope(
            self.level,
            self.keep,
            everywhere=self.checks is not None or not is_limited,
            follows_backward=self.level == "aten" and not self.only,
        )

    def _services(self) -> Services:
        return Services(
            self.names,
            self.trouble,
            live=self.live,
            checks=self.checks,
            budget=self.budget,
            deferral=self.deferral,
            graphs=self.graphs,
        )

    def join(self, module: nn.Module | None) -> Probe | None:
        """The probe for another thread that is about to call a module, or a watched function (None).

        None to leave that thread alone.
        """
        ident = get_ident()
        if module is None and self.checks is not None:
            return None
        if ident in self._threads:
            return self._threads[ident]
        if self._concerns_thread(module):
            return self._probe(Base(None))
        return None

    def _concerns_thread(self, module: nn.Module | None) -> bool:
        """Whether to record this thread: it calls a module of the subject or, without one, is new in the session."""
        if module is not None and self.names.has_subject:
            callee = self.names.callees.get(id(module))
            return callee is not None and callee.ref() is module
        return threading.current_thread() not in self._earlier_threads

    def step(self, number: int | None = None) -> None:
        """A new step begins, with this number or the next one."""
        self._mark("step", "", number)

    def rest(self) -> None:
        """Record nothing for a while: nothing of torch is replaced meanwhile, as far as this recording goes."""
        if self._is_resting:
            return
        self._is_resting = True
        patch.end(self)
        for ident, probe in self._threads.items():
            probe.rest()
            patch.unlisten(probe, ident)

    def resume(self) -> None:
        """Record again what this thread does, and the threads that call modules meanwhile."""
        if not self._is_resting:
            return
        self._is_resting = False
        patch.begin(self)
        for each in self.probes:
            each.resume()
        probe = self._threads.get(get_ident()) or self._probe(Base(None))
        patch.listen(probe)
        probe.start()

    def events(self, last: bool) -> tuple[list[Event], Missing | None]:
        """Every event so far that is still there, and what no longer is; the last time, the tapes are let go."""
        if self.budget is None:
            return [], None
        in_place = len(self.probes) == 1 or all(probe.over for probe in self.probes)
        found = self.budget.contents(self.probes, in_place=in_place)
        events = found.decoder.all(found.segments, renumber=found.missing is None)
        found.decoder.values.release()
        if found.missing is None:
            return events, None
        return whole_steps(events, found.missing, self.budget.archive, last=last)

    def decoder(self) -> Decoder:
        """A decoder for the tapes of this recording, which knows the paths of modules as they are now."""
        if not self.only:  # patterns were matched with the paths of the moment
            self.names.assign_paths()
        return Decoder(self.base, origin=self.origin, rank=self.rank)

    def complaints(self) -> list[str]:
        """What the user may have meant otherwise: patterns that matched nothing, a subject that was not called."""
        callees = list(self.names.callees.values())
        called = [callee.path for callee in callees if callee.called]
        expects_calls = self.names.has_subject and not self.only and self.level != "python"
        if expects_calls and not called:
            return ["the model that was to be traced was not called in this block"]
        known = [callee.path for callee in callees]
        unmatched = [text for text in self.only if not any(map(Pattern.of(text).match, called))]
        return [f"no module that was called matches {text!r}{Pattern.of(text).nearest(known)}" for text in unmatched]

    def _mark(self, kind: MarkKind, text: str, number: int | None = None) -> None:
        """Put a mark on the tape of this thread: that of another one may be written to at this very moment."""
        if not self.probes:
            return
        probe = self._threads.get(get_ident()) or self._probe(Base(None))
        probe.mark(kind, text, number)


def whole_steps(
    events: list[Event], missing: Missing, archive: Overflow | None, *, last: bool
) -> tuple[list[Event], Missing]:
    """The events of the steps that are there as a whole, if there are any, and what is missing then.

    The rest of a step goes where the beginning of it is; to an archive only when there is no more to come.
    """
    until = missing.steps[1]
    whole = [event for event in events if event.step > until]
    is_settled = archive is None or last
    if whole and is_settled:
        rest = [event for event in events if event.step <= until]
        if archive is not None:
            missing = add_to(archive, rest, missing)
        events, missing = whole, replace(missing, events=missing.events + len(rest))
    there = {event.id for event in events}
    return events, replace(missing, calls=tuple(filter(there.__contains__, missing.calls)))


def add_to(archive: Overflow, rest: list[Event], missing: Missing) -> Missing:
    """Move events to an archive; what is missing then."""
    if not rest:
        return missing
    archive.add(rest)
    return replace(missing, on_disk=missing.on_disk + len(rest))
