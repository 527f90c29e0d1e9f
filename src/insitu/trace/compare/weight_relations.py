"""How the weights of two products are related that the runs write differently: `F.linear` and `torch.addmm`."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.compare.arrangement import arrangement
from insitu.trace.compare.closeness import close_arrays, close_stats
from insitu.trace.compare.maker_names import MakerNames
from insitu.trace.compare.moves import MatrixOperand, weight_of
from insitu.trace.compare.relation import Relation
from insitu.trace.compare.traced_runs import TracedRuns, has_values, is_telling
from insitu.trace.event import Call, TensorFacts
from insitu.trace.kept_values import Array


class WeightRelations:
    """Compares the weights of the first products of two runs, if all else that goes into them agrees."""

    def __init__(self, runs: TracedRuns) -> None:
        self._comparison = runs.comparison
        self._names = MakerNames(runs)

    def relation(self, calls_a: Iterable[Call], calls_b: Iterable[Call]) -> Relation | None:
        """The weights of products that the runs write differently, such as `F.linear` and `torch.addmm`."""
        one, other = _first_weight(calls_a), _first_weight(calls_b)
        if one is None or other is None or not self._rest_agrees(one, other):
            return None
        relation = self._by_values(one, other) or self._by_statistics(one, other)
        if relation is None:
            return None
        return self._names.with_order(relation, one.facts, other.facts)

    def _rest_agrees(self, one: MatrixOperand, other: MatrixOperand) -> bool:
        """Whether all that goes into two products agrees, in whatever shape, but for the weights."""
        right = [facts for facts in other.call.inputs if facts is not other.facts]
        for facts in one.call.inputs:
            if facts is not one.facts and not any(self._has_same_content(facts, candidate) for candidate in right):
                return False
        return True

    def _has_same_content(self, a: TensorFacts, b: TensorFacts) -> bool:
        """Whether two tensors hold the same values in the same order, or have the same statistics."""
        if a.shape == b.shape:
            return bool(self._comparison.close(a, b).same)
        if has_values(a) and has_values(b):
            rtol, atol = self._comparison.tolerance.of(a.dtype, b.dtype)
            return bool(close_arrays(a.kept.reshape(-1), b.kept.reshape(-1), rtol, atol).same)
        if a.stats is None or b.stats is None:
            return False
        return bool(close_stats(a.stats, b.stats, *self._comparison.tolerance.of(a.dtype, b.dtype)).same)

    def _by_values(self, one: MatrixOperand, other: MatrixOperand) -> Relation | None:
        """How the weight of b is that of a, if it is not what the product of b needs."""
        a, b = one.facts, other.facts
        if not has_values(a) or not has_values(b):
            return None
        rtol, atol = self._comparison.tolerance.of(a.dtype, b.dtype)
        needed = _needed(one, other)
        if close_arrays(needed, b.kept, rtol, atol).same:
            return None
        subject = f"weight {b!r}"
        if close_arrays(a.kept, b.kept, rtol, atol).same:
            return Relation("not turned", subject)
        found = arrangement(needed, b.kept, rtol, atol)
        if found is None:
            return None
        return Relation("arrangement", subject, found)

    def _by_statistics(self, one: MatrixOperand, other: MatrixOperand) -> Relation | None:
        """That the weights have the same statistics, while the products differ."""
        a, b = one.facts, other.facts
        if a.stats is None or a.stats != b.stats or not is_telling(b):
            return None
        return Relation("statistics", f"weight {b!r}", certainty="statistics")


def _needed(one: MatrixOperand, other: MatrixOperand) -> Array:
    """The weight of a as the product of b needs it: transposed if only one of the products transposes it."""
    weight: Array = one.facts.kept
    if one.is_turned is other.is_turned:
        return weight
    return weight.T


def _first_weight(calls: Iterable[Call]) -> MatrixOperand | None:
    """The weight of the first product among several calls."""
    for call in calls:
        weight = weight_of(call)
        if weight is not None:
            return weight
    return None
