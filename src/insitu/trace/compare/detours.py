"""The calls because of which a tensor differs that two runs compute by other calls."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from insitu.trace.compare.last_agreement import LastAgreement
from insitu.trace.compare.ledger import CauseLedger
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.traced_runs import TracedRuns
from insitu.trace.event import Call, TensorFacts


class Detours(NamedTuple):
    """Two tensors that differ, and the calls that lead to them from the last agreement of the runs on."""

    tensors: tuple[TensorFacts, TensorFacts]
    a: tuple[Call, ...]
    b: tuple[Call, ...]


class DetourSearch:
    """Walks back from tensors that differ, in both runs."""

    def __init__(self, pairs: list[Pair], ledger: CauseLedger, runs: TracedRuns) -> None:
        self._pairs, self._ledger, self._runs = pairs, ledger, runs

    def detours(self, tensors: tuple[TensorFacts, TensorFacts]) -> Detours | None:
        """The calls that lead to two tensors; None if the calls of one of the runs were not recorded."""
        runs = self._runs
        walk_a = LastAgreement(runs.a.moves, runs.b.contents, self._agreed[0])
        walk_b = LastAgreement(runs.b.moves, runs.a.contents, self._agreed[1])
        a = _without_first(walk_a.calls_since(tensors[0]), self._alike[0])
        b = _without_first(walk_b.calls_since(tensors[1]), self._alike[1])
        if not a or not b:
            return None
        return Detours(tensors, a, b)

    def have_lone_call(self, calls: Iterable[Call], side: int) -> bool:
        """Whether the other run does not make one of several calls of one side."""
        return any(call.id not in self._matched[side] for call in calls)

    def are_beside(self, a: Call, b: Call) -> bool:
        """Whether two calls belong together, are made with the same arguments, and differ in what they return."""
        if a.id not in self._alike[0]:
            return False
        pairs = [pair for pair in self._pairs if pair.matched and pair.a[0].event is a]
        return any(pair.b[0].event is b for pair in pairs)

    @cached_property
    def _matched(self) -> tuple[set[int], set[int]]:
        """The calls that both runs make."""
        return _matched_calls(self._pairs)

    @cached_property
    def _agreed(self) -> tuple[set[int], set[int]]:
        """The calls of either run whose output was found to be the same as that of the call beside it."""
        ledger = self._ledger
        return _matched_calls([self._pairs[number] for number in ledger.agreed - ledger.sightings.keys()])

    @cached_property
    def _alike(self) -> tuple[set[int], set[int]]:
        """The calls of either run that are made with the same arguments as the call beside them."""
        accounts = self._ledger.accounts
        return _matched_calls([pair for pair in self._pairs if not accounts[pair.number].manner.changes])


def _matched_calls(pairs: Iterable[Pair]) -> tuple[set[int], set[int]]:
    """The ids of the calls of either run that are beside each other."""
    matched = [pair for pair in pairs if pair.matched]
    return {pair.a[0].event.id for pair in matched}, {pair.b[0].event.id for pair in matched}


def _without_first(way: tuple[Call, ...], alike: set[int]) -> tuple[Call, ...]:
    """A way without the first calls that the other run makes too, though with other shapes; never an empty one."""
    first = next((place for place, call in enumerate(way) if call.id not in alike), 0)
    return way[first:]
