"""The checks of a guard that keeps the last steps: what it takes off its tapes goes into a ring, with statistics.

Facts of calls cost nothing, for the tape has them. Statistics are taken at one step of twenty, at the moment of each
call. When the ring is written, the tensors of other calls are looked at as well, as far as they are still there and
nothing was written into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

from torch import Tensor

from insitu.capture.explain.reading import values
from insitu.capture.guard.check import GuardChecks, ProbeChecks
from insitu.capture.isolation import run_isolated
from insitu.capture.keep import plain_tensor, size_of
from insitu.capture.names import ModuleCallee
from insitu.capture.ring import KeptTensors, Ring, RingContents, StepTensors, first_id
from insitu.capture.segment import Ids, Segment
from insitu.capture.statistics import statistics
from insitu.capture.tape import RUNNING, Raised, Tape
from insitu.capture.tensor_memory import has_values
from insitu.capture.tensors import EARLIER, FORGOTTEN, GIVEN, Value
from insitu.capture.torch_internals import version_counter
from insitu.trace.event import Stats
from insitu.trace.findings import Finding
from insitu.trace.path import Pattern

if TYPE_CHECKING:
    from insitu.capture.decode import Decoder
    from insitu.capture.probe import Probe

MOST_SECONDS = 2.0  # for the statistics of the step that runs, when the ring is written


class FlightChecks(GuardChecks):
    """The checks of a guard, which also keep the last steps. `patterns` name modules whose values are kept."""

    def __init__(
        self, report: Callable[[Finding], None], allow: Iterable[str], ring: Ring, patterns: tuple[str, ...]
    ) -> None:
        super().__init__(report, allow)
        self.ring = ring
        self._patterns = [Pattern.of(text) for text in patterns]
        self._wanted: dict[str, bool] = {}

    def begin_step(self) -> None:
        """Another step begins."""
        self.ring.begin_step()
        self.looks_at_calls = self.ring.takes_statistics or bool(self._patterns)

    def look_at_call(self, probe: Probe, at: int) -> None:
        """A call has ended: keep what is wanted of its tensors, before the tape may be cleared."""
        if self.ring.takes_statistics:
            self._take(probe, at, self._take_statistics)
        if self._patterns and type(probe.tape[at]) is ModuleCallee:
            self._take(probe, at, self._take_values)

    def _take(self, probe: Probe, at: int, take: Callable[[Probe, int, int], None]) -> None:
        if probe.check is None:
            return
        try:
            take(probe, at, at + first_id(probe.tape.thread, probe.check.gone))
        except Exception as error:
            probe.trouble("keeping the last steps", error)

    def _take_statistics(self, probe: Probe, at: int, id: int) -> None:
        own = own_outputs(probe.tape, at)
        if own:
            self.ring.keep_statistics(id, run_isolated(lambda: tuple(statistics_now(value()) for value in own)))

    def _take_values(self, probe: Probe, at: int, id: int) -> None:
        if not self._is_wanted(probe.tape.callee(at).path):
            return
        result, inputs = probe.tape.result(at), probe.tape.inputs(at)
        outputs = () if isinstance(result, Raised) else values(result)
        kept = run_isolated(
            lambda: KeptTensors(
                tuple(copy_of(value()) for value in outputs),
                tuple(copy_of(unwritten(value())) for value in values(inputs)),
            )
        )
        self.ring.keep_values(id, kept, size_of((*kept.outputs, *kept.inputs)))

    def _is_wanted(self, path: str) -> bool:
        if path not in self._wanted:
            self._wanted[path] = any(pattern.match(path) for pattern in self._patterns)
        return self._wanted[path]

    def forget_calls(self, check: ProbeChecks, values: Iterable[Value]) -> None:
        """A tape is about to be cleared: keep it, and let the tensors that are still there know where it is."""
        first = self.ring.take_tape(check.probe, check.gone)
        for value in values:
            value.facts = None
            if value.producer >= 0:
                value.producer = EARLIER - (first + value.producer)
            elif value.producer == GIVEN:
                value.producer = FORGOTTEN

    def contents(self, make_decoder: Callable[[], Decoder], *, reads_devices: bool) -> RingContents:
        """The last steps as they are now. Without `reads_devices`, only tensors in memory get statistics."""
        late = StepTensors(self.ring.step)
        current = [self._current_segment(check) for check in list(self.checks)]
        for segment in current:
            with suppress(Exception):  # such as no memory, which may be why the program ends
                self._look_at_living(segment, late, reads_devices=reads_devices)
        return self.ring.contents(current, make_decoder, late)

    def _current_segment(self, check: ProbeChecks) -> Segment:
        """A copy of what is on a tape now. Another thread may write to the tape, and clear it."""
        probe = check.probe
        while True:
            gone = check.gone
            tape = probe.tape.part(probe.tape.end)
            if check.gone == gone:
                return Segment(tape, 0, None, Ids(first_id(tape.thread, gone)))

    def _look_at_living(self, segment: Segment, late: StepTensors, *, reads_devices: bool) -> None:
        """Take statistics of outputs that are still there as they were, the latest first, for a limited time."""
        tape, first, until = segment.tape, segment.ids.cleared, perf_counter() + MOST_SECONDS
        known = self.ring.calls_with_statistics()
        for at in reversed(list(tape.calls())):
            if perf_counter() > until:
                return
            own = own_outputs(tape, at)
            if not own or first + at in known:
                continue
            found = run_isolated(partial(late_statistics, own, reads_devices=reads_devices))
            if any(stats is not None for stats in found):
                late.stats[first + at] = KeptTensors(found)


def own_outputs(tape: Tape, at: int) -> list[Value]:
    """The tensors that a call has produced."""
    result = tape.result(at)
    if type(result) is Value:  # as most often
        return [result] if result.producer == at else []
    if result is None or result is RUNNING or isinstance(result, Raised):
        return []
    return [value for value in values(result) if value.producer == at]


def statistics_now(tensor: Any) -> Stats | None:
    """The statistics of a tensor; None where they cannot be known."""
    if not isinstance(tensor, Tensor) or not has_values(tensor):
        return None
    return statistics(tensor.detach(), bins=False)


def late_statistics(own: list[Value], *, reads_devices: bool) -> tuple[Stats | None, ...]:
    """The statistics of tensors some time after they were produced; None for one that is gone, or may have changed."""
    found = []
    for value in own:
        tensor = unwritten(value())
        is_read = tensor is not None and (reads_devices or tensor.is_cpu)
        found.append(statistics_now(tensor) if is_read else None)
    return tuple(found)


def unwritten(tensor: Any) -> Tensor | None:
    """The tensor, if nothing was written into its memory since it was made, as far as torch knows."""
    if not isinstance(tensor, Tensor) or tensor.is_inference():  # which does not count its changes
        return None
    if version_counter(tensor) == 0:
        return tensor
    return None


def copy_of(tensor: Any) -> Any:
    """The values of a tensor; None where they cannot be known."""
    if not isinstance(tensor, Tensor) or not has_values(tensor):
        return None
    return plain_tensor(tensor)
