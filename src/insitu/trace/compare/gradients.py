"""Where gradients begin to differ in two runs whose values agree: found from the loss backwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from insitu.trace.compare.causes import Causes
from insitu.trace.compare.change import Change
from insitu.trace.compare.closeness import NOTHING_DIFFERS, Closeness
from insitu.trace.compare.evidence import Comparison, Evidence, TensorPair, TensorPairs
from insitu.trace.compare.ledger import CauseLedger, Sighting
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.producers import Producer, Producers
from insitu.trace.event import Call, TensorFacts

Calls = list[tuple[Pair, Evidence]]


class _Apart(NamedTuple):
    """A pair with a tensor whose gradient differs."""

    pair: Pair
    tensor: TensorFacts
    closeness: Closeness


@dataclass(frozen=True, slots=True, eq=False)
class GradientDifference:
    """The pair that passes another gradient back, how, and the sightings of all pairs that differ because of it."""

    cause: Pair
    change: Change
    sightings: dict[int, Sighting]


def gradient_difference(
    pairs: list[Pair], evidence: list[Evidence | None], found: Causes, comparison: Comparison
) -> GradientDifference | None:
    """The pair where gradients begin to differ, if there is one.

    Gradients flow from the last call to the first. So in the first step that shows a difference, the last call whose
    output has another gradient is looked for: what uses that output is the cause.
    """
    ledger, search = found.ledger, _Search(found.producers, comparison)
    calls: Calls = []
    for pair, known in zip(pairs, evidence, strict=True):
        if known is not None and ledger.account(pair).has_row:
            calls.append((pair, known))
    apart = search.outputs(calls)
    if apart:
        last = _last_of_first_step(apart)
        cause, change = _user(last, [pair for pair, _ in calls])
        return GradientDifference(cause, change, _sightings(cause, apart, last.closeness, ledger))
    # The gradient of a given tensor is the sum of what its consumers pass back: it counts only if no other differs.
    apart = search.inputs(calls)
    if not apart:
        return None
    last = _last_of_first_step(apart)
    return GradientDifference(last.pair, _change(last.pair), _sightings(last.pair, apart, last.closeness, ledger))


def _sightings(cause: Pair, apart: list[_Apart], closeness: Closeness, ledger: CauseLedger) -> dict[int, Sighting]:
    """That the cause, and all pairs with another gradient, differ."""
    causes = frozenset((cause.number,))
    found: dict[int, Sighting] = {}
    for pair, _, _ in apart:
        account = ledger.account(pair)
        known = ledger.sightings.get(pair.number) or Sighting(causes, account.kind, account.closeness)
        found[pair.number] = known._replace(causes=causes)
    size = closeness._replace(same=False, measure=f"gradient {closeness.measure}")
    found[cause.number] = Sighting(causes, "gradient", size)
    return found


def _last_of_first_step(apart: list[_Apart]) -> _Apart:
    """The last pair of the step in which gradients differ first."""
    first = _place(apart[0].pair)
    return [found for found in apart if _place(found.pair) == first][-1]


def _place(pair: Pair) -> tuple[int, int]:
    return pair.a[0].event.rank, pair.a[0].event.step


class _Search:
    """Looks for tensors whose gradients differ."""

    def __init__(self, producers: Producers, comparison: Comparison) -> None:
        self._producers = producers
        self._comparison = comparison

    def outputs(self, calls: Calls) -> list[_Apart]:
        """The pairs that made a tensor whose gradient differs."""
        found = [self._first(pair, known.outputs, pair) for pair, known in calls]
        return list(filter(None, found))

    def inputs(self, calls: Calls) -> list[_Apart]:
        """The pairs that were given a tensor whose gradient differs, which no recorded call made."""
        found = [self._first(pair, known.inputs, None) for pair, known in calls]
        return list(filter(None, found))

    def _first(self, pair: Pair, tensors: TensorPairs, producer: Producer) -> _Apart | None:
        """The first tensor of this producer whose gradient differs."""
        for tensor in tensors:
            if self._producers.of(0, tensor.a) is producer:
                found = self._closeness(tensor)
                if found.same is False:
                    return _Apart(pair, tensor.a, found)
        return None

    def _closeness(self, tensor: TensorPair) -> Closeness:
        """How close the gradients of two tensors are."""
        left, right = tensor.a.grad, tensor.b.grad
        if left is None or right is None:
            return NOTHING_DIFFERS
        # Where the tensors themselves differ, other calls make up for it, and so for the gradient.
        if tensor.closeness.same is False:
            return NOTHING_DIFFERS
        return self._comparison.close(left, right)


def _user(last: _Apart, calls: Iterable[Pair]) -> tuple[Pair, Change]:
    """The call that passes another gradient back to a tensor; the last one, if several may do so."""
    users = [pair for pair in calls if pair.number > last.pair.number and _uses(pair, last.tensor)]
    if not users:
        return last.pair, Change("gradient", "unused", 0)
    known = [pair for pair in users if _knows_gradient(pair)]
    cause = (known or users)[-1]
    return cause, _change(cause, others=len(users) - 1)


def _uses(pair: Pair, tensor: TensorFacts) -> bool:
    event = pair.a[0].event
    return type(event) is Call and any(facts is tensor for facts in event.inputs)


def _change(pair: Pair, others: int = 0) -> Change:
    return Change("gradient", "agrees" if _knows_gradient(pair) else "unknown", others)


def _knows_gradient(pair: Pair) -> bool:
    """Whether the gradient of what a call makes is known."""
    event = pair.a[0].event
    return type(event) is Call and any(facts.grad is not None for facts in event.outputs)
