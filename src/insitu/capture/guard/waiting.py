"""NaN and Inf that may still heal: nothing is reported until they reach something that matters.

A mask made by `torch.log` holds -inf on purpose: it is added to scores, and softmax turns it into zeros. A quotient
0 / 0 is replaced by the next line, or left out of a sum. So NaN and Inf wait here, with their findings. They are
reported when they reach a loss, a gradient or the result of a model, when a call spreads the NaN, when several calls
have passed it on, when it leaves torch as a number or an array, and when no call has used it by the end. Where all
calls that used it returned finite results, nothing is reported. `trace.origin` decides what has reached something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.facts import holds_nonfinite, input_values
from insitu.capture.guard.risk import can_produce
from insitu.capture.tensors import Value
from insitu.trace.findings import NonFiniteData, NonFiniteInput, NonFiniteResult, Reach

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks

WaitingFinding = NonFiniteResult | NonFiniteData | NonFiniteInput


@dataclass(frozen=True, slots=True)
class Wait:
    """A finding that waits; `passes` counts the calls that have passed NaN on."""

    finding: WaitingFinding
    passes: int = 0

    @property
    def is_data(self) -> bool:
        """Whether data brought it in: values may be missing there on purpose, so that only the training counts."""
        return not isinstance(self.finding, NonFiniteResult)

    @property
    def holds_nan(self) -> bool:
        """Whether it is about NaN, or NaN was computed from it."""
        return self.finding.has_nan or getattr(self.finding, "reach", None) == "nan"

    def is_of(self, finding: WaitingFinding) -> bool:
        """Whether it is about what the same call produced."""
        return self.finding.call is finding.call


@dataclass(frozen=True, slots=True)
class Carrier:
    """A tensor that holds what waits, produced by a call that is no longer on the tape."""

    value: Value
    wait: Wait
    is_used: bool


class Waiting:
    """The findings of one probe that wait, by the calls whose results hold what was found."""

    def __init__(self, check: ProbeChecks) -> None:
        self._check = check
        self._by_call: dict[int, Wait] = {}
        self._by_value: dict[int, Carrier] = {}  # from before the tape was cleared, by the ids of the values
        # Of tensors that nobody used before the tape was cleared, by place: the first, and how many.
        self._unused: dict[tuple[object, ...], tuple[NonFiniteResult, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_call or self._by_value)

    def add(self, at: int, wait: Wait) -> None:
        """The results of a call hold what this finding is about."""
        self._by_call[at] = wait

    def at(self, at: int) -> Wait | None:
        """The finding that the results of a call hold."""
        return self._by_call.get(at)

    def since(self, at: int) -> NonFiniteResult | None:
        """The first finding of a call from an offset on."""
        found = (wait.finding for call, wait in sorted(self._by_call.items(), key=itemgetter(0)) if call >= at)
        return next((finding for finding in found if isinstance(finding, NonFiniteResult)), None)

    def of(self, found: Iterable[Value]) -> Wait | None:
        """The finding that waits behind one of some values."""
        values = list(found)
        known = (self._by_call.get(value.producer) for value in values)
        return self.of_earlier(values) or next(filter(None, known), None)

    def of_earlier(self, found: Iterable[Value]) -> Wait | None:
        """The same for values from before the tape was cleared: the offsets of their calls mean other calls now."""
        for value in found:
            carrier = self._by_value.get(id(value))
            if carrier is not None and carrier.value is value:
                return carrier.wait
        return None

    def end(self, finding: WaitingFinding) -> None:
        """A finding was reported: forget all tensors that hold it."""
        self._by_call = {at: each for at, each in self._by_call.items() if not each.is_of(finding)}
        self._by_value = {key: each for key, each in self._by_value.items() if not each.wait.is_of(finding)}

    def clear_tape(self) -> None:
        """The tape is about to be cleared: keep what is alive by its value, and what nobody has used."""
        if not self:
            return
        carriers = self._carriers()
        self._by_call.clear()
        self._by_value.clear()
        for carrier in carriers:
            if carrier.value() is not None:
                self._by_value[id(carrier.value)] = carrier
            else:
                self._count_unused(carrier)

    def _carriers(self) -> list[Carrier]:
        """All tensors that hold what waits, and whether they were used by now."""
        reading = Reading(self._check.probe.tape)
        used = used_values(reading)
        ids, producers = set(map(id, used)), {value.producer for value in used}
        found = [replace(each, is_used=each.is_used or key in ids) for key, each in self._by_value.items()]
        for at, wait in self._by_call.items():
            for value in values(reading.result(at)):  # a call that returns its argument is not its producer
                found.append(Carrier(value, wait, is_used=at in producers or id(value) in ids))
        return found

    def _count_unused(self, carrier: Carrier) -> None:
        is_unknown = carrier.value() is None and len(self._check.checks.checks) > 1  # another thread may have used it
        finding = carrier.wait.finding
        if carrier.is_used or is_unknown or not isinstance(finding, NonFiniteResult):
            return
        first, count = self._unused.get(finding.place, (finding, 0))
        self._unused[first.place] = (first, count + 1)

    def unused(self) -> Iterator[NonFiniteResult]:
        """What nobody has used by the end of the block."""
        self._settle_passed_on()
        if self:
            self.clear_tape()
            for carrier in self._by_value.values():
                if not self._is_known_elsewhere(carrier.value):
                    self._count_unused(carrier)
        for finding, count in self._unused.values():
            reach: Reach = finding.reach or "unused"
            yield from repeat(replace(finding, reach=reach, is_metric=self._check.checks.has_trained), count)

    def at_exception(self) -> Iterator[NonFiniteResult]:
        """The NaN that a tensor still holds when an exception ends the block, from each call once."""
        if not self:
            return
        found: dict[int, NonFiniteResult] = {}
        for carrier in self._carriers():
            finding = carrier.wait.finding
            if not isinstance(finding, NonFiniteResult) or not carrier.wait.holds_nan:
                continue
            if holds_nonfinite(carrier.value):
                found.setdefault(id(finding.call), finding)
        for finding in found.values():
            yield replace(finding, reach=finding.reach or "exception")

    def _settle_passed_on(self) -> None:
        """Views and parts are not checked one by one: look at those that are alive and hold what waits."""
        if not self:
            return
        tape = self._check.probe.tape
        for at in sorted(self._check.unchecked):
            bad = filter(holds_nonfinite, values(Reading(tape).result(at)))
            wait = self._check.waiting_behind(list(bad))
            if wait is not None:
                self._by_call.setdefault(at, wait)

    def _is_known_elsewhere(self, value: Value) -> bool:
        """Whether another thread has met a tensor: it may have used it."""
        tensor = value()
        if tensor is None:
            return False
        others = (check for check in self._check.checks.checks if check is not self._check)
        return any(check.value_of(tensor) is not None for check in others)


def used_values(reading: Reading) -> list[Value]:
    """The tensors that calls have used; who only views or moves a tensor uses it if somebody uses the result."""
    used: dict[int, Value] = {}
    for at in reversed(list(reading.tape.calls())):
        is_mere_move = reading.callee(at).kind == "function" and not can_produce(reading.callee(at))
        if is_mere_move and used.keys().isdisjoint(map(id, values(reading.result(at)))):
            continue
        used.update((id(value), value) for value in arguments(reading, at))
    return list(used.values())


def arguments(reading: Reading, at: int) -> list[Value]:
    """The tensors that were given to a call; a mark has none."""
    if reading.callee(at).kind != "mark":
        return input_values(reading, at)
    return []
