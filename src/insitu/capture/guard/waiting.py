"""NaN and Inf that may still heal: nothing is reported until they reach something that matters.

A mask made by `torch.log` holds -inf on purpose: it is added to scores, and softmax turns it into zeros. So does a
reciprocal whose infinities are replaced by zeros in the next line. NaN or Inf in a tensor that needs no gradient waits
here, with its finding. It is reported when it reaches a loss or a gradient, when NaN is computed from it, when it
leaves torch as a number or an array, and when no call has used it by the end. Where all calls that used it returned
finite results, nothing is reported. `trace.origin` decides what may heal, and what has reached something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING

from insitu.capture.explain.reading import Reading, values
from insitu.capture.finite import is_finite
from insitu.capture.guard.facts import noted_values
from insitu.capture.tensors import Value
from insitu.trace.findings import NonFiniteResult

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks


@dataclass(frozen=True, slots=True)
class Carrier:
    """A tensor that holds what waits, produced by a call that is no longer on the tape."""

    value: Value
    finding: NonFiniteResult
    is_used: bool


class Waiting:
    """The findings of one probe that wait, by the calls whose results hold what was found."""

    def __init__(self, check: ProbeChecks) -> None:
        self._check = check
        self._by_call: dict[int, NonFiniteResult] = {}
        self._by_value: dict[int, Carrier] = {}  # from before the tape was cleared, by the ids of the values
        # Of tensors that nobody used before the tape was cleared, by place: the first, and how many.
        self._unused: dict[tuple[object, ...], tuple[NonFiniteResult, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_call or self._by_value)

    def add(self, at: int, finding: NonFiniteResult) -> None:
        """The results of a call hold what this finding is about."""
        self._by_call[at] = finding

    def of(self, found: Iterable[Value]) -> NonFiniteResult | None:
        """The finding that waits behind one of some values."""
        values = list(found)
        known = (self._by_call[value.producer] for value in values if value.producer in self._by_call)
        return self.of_earlier(values) or next(known, None)

    def of_earlier(self, found: Iterable[Value]) -> NonFiniteResult | None:
        """The same for values from before the tape was cleared: the offsets of their calls mean other calls now."""
        for value in found:
            carrier = self._by_value.get(id(value))
            if carrier is not None and carrier.value is value:
                return carrier.finding
        return None

    def end(self, finding: NonFiniteResult) -> None:
        """A finding was reported: forget all tensors that hold it."""
        self._by_call = {at: each for at, each in self._by_call.items() if each is not finding}
        self._by_value = {key: each for key, each in self._by_value.items() if each.finding is not finding}

    def clear_tape(self) -> None:
        """The tape is about to be cleared: keep what is alive by its value, and what nobody has used."""
        if not self:
            return
        producers, used = self._uses()
        earlier = [
            Carrier(each.value, each.finding, is_used=each.is_used or id(each.value) in used)
            for each in self._by_value.values()
        ]
        reading = Reading(self._check.probe.tape)
        new = [
            Carrier(value, finding, is_used=at in producers)
            for at, finding in self._by_call.items()
            for value in values(reading.result(at))
        ]
        self._by_call.clear()
        self._by_value = {id(each.value): each for each in (*earlier, *new) if each.value() is not None}
        for carrier in (*earlier, *new):
            if carrier.value() is None:
                self._count_unused(carrier)

    def _uses(self) -> tuple[set[int], set[int]]:
        """The calls whose results were used on the tape, and the ids of all values that were."""
        reading = Reading(self._check.probe.tape)
        used = [value for at in reading.tape.calls() for value in noted(reading, at)]
        return {value.producer for value in used}, set(map(id, used))

    def _count_unused(self, carrier: Carrier) -> None:
        is_unknown = carrier.value() is None and len(self._check.checks.checks) > 1  # another thread may have used it
        if not carrier.is_used and not is_unknown:
            first, count = self._unused.get(carrier.finding.place, (carrier.finding, 0))
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
            yield from repeat(replace(finding, reach="unused", is_metric=self._check.checks.has_trained), count)

    def _settle_passed_on(self) -> None:
        """Views and parts are not checked one by one: look at those that are alive and hold what waits."""
        tape = self._check.probe.tape
        for at in sorted(self._check.unchecked) if self else ():
            bad = [value for value in values(Reading(tape).result(at)) if self._is_bad(value)]
            finding = self._check.waiting_behind(bad) if bad else None
            if finding is not None:
                self._by_call.setdefault(at, finding)

    @staticmethod
    def _is_bad(value: Value) -> bool:
        """Whether a tensor is alive and not finite."""
        tensor = value()
        return tensor is not None and not is_finite(tensor)

    def _is_known_elsewhere(self, value: Value) -> bool:
        """Whether another thread has met a tensor: it may have used it."""
        tensor = value()
        others = (check.probe.table for check in self._check.checks.checks if check is not self._check)
        return any((other := table.get(id(tensor))) is not None and other() is tensor for table in others)


def noted(reading: Reading, at: int) -> list[Value]:
    """The tensors that were given to a call; a mark has none."""
    if reading.callee(at).kind != "mark":
        return noted_values(reading, at)
    return []
