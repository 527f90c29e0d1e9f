"""Which tensors of two runs belong together for sure, after calls that only one of the runs makes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from itertools import chain

from insitu.trace.compare.evidence import Evidence, TensorPair
from insitu.trace.compare.ledger import NONE, CauseLedger, Numbers
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.traced_runs import is_telling
from insitu.trace.event import TensorFacts

MOST_FOLLOWERS = 40  # pairs after a cause that are looked at

Tensors = tuple[TensorFacts, TensorFacts]


class Partners:
    """Looks at the calls that differ because of a cause: which of their inputs can be compared."""

    def __init__(self, pairs: list[Pair], evidence: list[Evidence | None], ledger: CauseLedger) -> None:
        self._pairs, self._evidence, self._sightings = pairs, evidence, ledger.sightings

    def followers(self, pair: Pair) -> Iterator[tuple[Pair, Evidence]]:
        """The first pairs of calls that differ because of a cause."""
        start = bisect_left(self._numbers, pair.number)
        for number in self._numbers[start : start + MOST_FOLLOWERS]:
            known, follower = self._evidence[number], self._pairs[number]
            if known is None or not follower.calls_a:
                continue
            if pair.number in self._sightings[number].causes:
                yield follower, known

    def sure(self, pair: Pair) -> Iterator[Tensors]:
        """Inputs of later calls that differ because of a cause, where another input of the same calls agrees."""
        for _, known in self.followers(pair):
            if known.manner.changes or not any(map(_agrees, known.inputs)):
                continue
            yield from [(tensor.a, tensor.b) for tensor in known.inputs if differs_in_values(tensor)]

    def are_sure(self, pair: Pair, tensors: Tensors | None) -> bool:
        """Whether two tensors by which calls of one run were found to differ belong together.

        They do if one run only lacks these calls. If more calls of one run follow, the tensor beside can be one of
        another meaning, unless the other inputs of the call that takes them agree.
        """
        if pair.number not in self._before_lone_calls:
            return True
        if tensors is None:
            return False
        a, b = tensors
        return any(a is one and b is other for one, other in self.sure(pair))

    def first_comparable(self, pair: Pair) -> Tensors | None:
        """The first input of a later call that has one shape in both runs, and differs because of a cause."""
        inputs = chain.from_iterable(known.inputs for _, known in self.followers(pair))
        found = next(filter(differs_in_values, inputs), None)
        if found is None:
            return None
        return found.a, found.b

    @cached_property
    def _numbers(self) -> list[int]:
        """The pairs that differ, in the order of the run."""
        return sorted(self._sightings)

    @cached_property
    def _before_lone_calls(self) -> Numbers:
        """The causes because of which calls differ that only one run makes."""
        lone = [number for number in self._numbers if not self._pairs[number].matched]
        return NONE.union(*[self._sightings[number].causes - {number} for number in lone])


def _agrees(tensor: TensorPair) -> bool:
    """Whether two inputs agree, and their numbers say which tensor it is."""
    return bool(tensor.closeness.same) and is_telling(tensor.a)


def differs_in_values(tensor: TensorPair) -> bool:
    """Whether two tensors of one shape differ."""
    return tensor.closeness.same is False and tensor.a.shape == tensor.b.shape
