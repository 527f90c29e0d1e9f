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
from itertools import chain, repeat
from typing import TYPE_CHECKING

from insitu.capture.explain.reading import Reading, values
from insitu.capture.guard.facts import holds_nonfinite, input_values
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
        known = (self._by_call.get(value.producer) for value in values)
        return self.of_earlier(values) or next(filter(None, known), None)

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
        used = list(chain.from_iterable(arguments(reading, at) for at in reading.tape.calls()))
        ids, producers = set(map(id, used)), {value.producer for value in used}
        found = [replace(each, is_used=each.is_used or key in ids) for key, each in self._by_value.items()]
        for at, finding in self._by_call.items():
            found += [Carrier(value, finding, is_used=at in producers) for value in values(reading.result(at))]
        return found

    def _count_unused(self, carrier: Carrier) -> None:
        is_unknown = carrier.value() is None and len(self._check.checks.checks) > 1  # another thread may have used it
        if carrier.is_used or is_unknown:
            return
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
        if not self:
            return
        tape = self._check.probe.tape
        for at in sorted(self._check.unchecked):
            bad = filter(holds_nonfinite, values(Reading(tape).result(at)))
            finding = self._check.waiting_behind(list(bad))
            if finding is not None:
                self._by_call.setdefault(at, finding)

    def _is_known_elsewhere(self, value: Value) -> bool:
        """Whether another thread has met a tensor: it may have used it."""
        tensor = value()
        if tensor is None:
            return False
        others = (check for check in self._check.checks.checks if check is not self._check)
        return any(check.value_of(tensor) is not None for check in others)


def arguments(reading: Reading, at: int) -> list[Value]:
    """The tensors that were given to a call; a mark has none."""
    if reading.callee(at).kind != "mark":
        return input_values(reading, at)
    return []
