"""The calls that a relation names: those that arranged the values of a tensor, made it, or set a weight."""

from __future__ import annotations

from dataclasses import replace

from insitu.trace.compare.lookups import sites_of_weight
from insitu.trace.compare.relation import Relation
from insitu.trace.compare.traced_runs import TracedRuns
from insitu.trace.event import Call, TensorFacts


class MakerNames:
    """Adds the calls that made tensors of two runs to what is known of these tensors."""

    def __init__(self, runs: TracedRuns) -> None:
        self._runs = runs

    def with_order(self, relation: Relation, a: TensorFacts, b: TensorFacts) -> Relation:
        """The relation with the calls that gave the values their order."""
        one, other = self._runs.a.moves, self._runs.b.moves
        relation = replace(relation, makers_a=one.orders(a), makers_b=other.orders(b))
        if b.type != "Parameter" or relation.makers_b:
            return relation
        example = other.example(b)
        if example is not None:
            return replace(relation, example=example)
        return self._with_writer(relation, b)

    def _with_writer(self, relation: Relation, weight: TensorFacts) -> Relation:
        """The relation with the call that set a weight of b, and the expressions that made its values."""
        writer = self._runs.b.moves.maker(weight)
        if writer is None:
            return relation
        sites = sites_of_weight(writer, relation.subject.partition(" ")[0])
        return replace(relation, writer=writer, sites=sites)

    def with_makers(self, relation: Relation, a: TensorFacts, b: TensorFacts) -> Relation:
        """The relation with the calls that arranged the tensors, or else those that computed them."""
        relation = self.with_order(relation, a, b)
        if relation.makers_a or relation.makers_b:
            return relation
        makers_a, makers_b = _listed(self._runs.a.moves.maker(a)), _listed(self._runs.b.moves.maker(b))
        return replace(relation, makers_a=makers_a, makers_b=makers_b)


def _listed(call: Call | None) -> tuple[Call, ...]:
    if call is None:
        return ()
    return (call,)
