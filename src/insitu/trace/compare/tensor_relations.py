"""What a tensor of b is, if it is not what a has in its place: values of a in another order, another tensor of a."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from insitu.trace.compare.arrangement import Arrangement, arrangement
from insitu.trace.compare.evidence import Evidence, operand
from insitu.trace.compare.maker_names import MakerNames
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.relation import Relation, Unit
from insitu.trace.compare.traced_runs import TracedRuns, has_values, is_telling
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import operation

MOST_TENSORS = 2000  # of a among which a tensor of b is looked for
FIRST_VALUES = 16  # that are compared before all are


class TensorQuestion(NamedTuple):
    """A tensor of b that is not what a has in its place; `subject` is the operand, or "" for an output."""

    subject: str
    a: TensorFacts
    b: TensorFacts


class TensorRelations:
    """Answers what tensors of b are; `evidence` is what is known of each of the pairs."""

    def __init__(self, pairs: list[Pair], evidence: list[Evidence | None], runs: TracedRuns) -> None:
        self._pairs, self._evidence, self._runs = pairs, evidence, runs
        self._comparison = runs.comparison
        self._names = MakerNames(runs)

    def answer(self, question: TensorQuestion) -> Relation | None:
        """What a tensor of b is."""
        finders = (self._part, self._arranged, self._alike_in_statistics, self._untied, self._equal, self._origin)
        return next(filter(None, (find(question) for find in finders)), None)

    def _part(self, question: TensorQuestion) -> Relation | None:
        """Another part of what both runs split."""
        call_a, call_b = self._runs.a.moves.maker(question.a), self._runs.b.moves.maker(question.b)
        if call_a is None or call_b is None:
            return None
        parts = _part_number(call_a, question.a), _part_number(call_b, question.b)
        if -1 in parts or parts[0] == parts[1]:
            return None
        if not self._are_same_parts(call_a, call_b):
            return None
        return Relation("part", question.subject, parts=parts, makers_a=(call_a,), makers_b=(call_b,))

    def _are_same_parts(self, a: Call, b: Call) -> bool:
        """Whether two calls split the same tensor into the same parts."""
        pairs = self._comparison.pairs(a.outputs, b.outputs)
        return len(a.outputs) == len(b.outputs) and all(pair.closeness.same for pair in pairs)

    def _arranged(self, question: TensorQuestion) -> Relation | None:
        """The values of a in another order."""
        a, b = question.a, question.b
        found = self._arrangement(a, b)
        if found is None:
            return None
        relation = self._names.with_order(Relation("arrangement", question.subject, found), a, b)
        return replace(relation, unit=self._unit(a, found))

    def _alike_in_statistics(self, question: TensorQuestion) -> Relation | None:
        """The statistics of a, where a later call shows that the values are not the same."""
        closeness = self._comparison.close(question.a, question.b)
        is_hidden = closeness.same and closeness.certainty == "statistics"
        if not is_hidden or not is_telling(question.b):
            return None
        relation = Relation("statistics", question.subject, certainty="statistics")
        return self._names.with_order(relation, question.a, question.b)

    def _arrangement(self, a: TensorFacts, b: TensorFacts) -> Arrangement | None:
        if not has_values(a) or not has_values(b):
            return None
        return arrangement(a.kept, b.kept, *self._comparison.tolerance.of(a.dtype, b.dtype))

    def _untied(self, question: TensorQuestion) -> Relation | None:
        """Where a weight of b was made, if a has one weight in two places, and b does not."""
        relation = self._origin(question)
        if relation is None or relation.user is None:
            return None
        return relation

    def _origin(self, question: TensorQuestion) -> Relation | None:
        """Where a weight of b was made that is another one than that of a."""
        a, b = question.a, question.b
        if not question.subject or b.type != "Parameter" or a.shape != b.shape:
            return None
        makers = self._runs.a.weight_makers(a), self._runs.b.weight_makers(b)
        if not makers[1]:
            return None
        user = self._tied_user(a, b)
        return Relation("origin", question.subject, makers_a=makers[0], makers_b=makers[1], user=user)

    def _tied_user(self, a: TensorFacts, b: TensorFacts) -> Call | None:
        """Another call of a that takes a weight of a, if the call beside it takes another weight than this one of b."""
        for place, known in enumerate(self._evidence):
            operands = [] if known is None else known.inputs
            others = [tensor.b for tensor in operands if tensor.a.id == a.id]
            if any(_is_other_weight(facts, b) for facts in others):
                return self._pairs[place].calls_a[0]
        return None

    def _unit(self, facts: TensorFacts, found: Arrangement) -> Unit:
        """What is counted along a dimension: heads, if attention takes tensors of this form."""
        if len(facts.shape) != 4 or found.dimension != 1:
            return "item"
        attending = filter(_attends, self._runs.a.moves.calls.values())
        if any(call.inputs[0].shape[:2] == facts.shape[:2] for call in attending):
            return "head"
        return "item"

    def _equal(self, question: TensorQuestion) -> Relation | None:
        """Another tensor of a that has the values of the tensor of b."""
        for name, facts in self._named_tensors():
            if facts is not question.a and self._are_equal(facts, question.b):
                certainty = self._comparison.close(facts, question.b).certainty
                relation = Relation("equal", question.subject, equal_to=name, certainty=certainty)
                return self._names.with_makers(relation, question.a, question.b)
        return None

    def _named_tensors(self) -> Iterator[tuple[str, TensorFacts]]:
        """The tensors of a by name: parameters that calls take, then what calls compute, each once."""
        calls = list(self._runs.a.moves.calls.values())[:MOST_TENSORS]
        weights = {facts.id: (name, facts) for call in reversed(calls) for name, facts in _named_weights(call)}
        yield from reversed(weights.values())
        for call in calls:
            yield from _named_outputs(call)

    def _are_equal(self, a: TensorFacts, b: TensorFacts) -> bool:
        """Whether two tensors have the same values, or at least the same statistics: not if they are all zeros."""
        if a.shape != b.shape or a.dtype != b.dtype or not _begin_alike(a, b):
            return False
        closeness = self._comparison.close(a, b)
        return bool(closeness.same) and not closeness.measure and is_telling(b)


def _attends(call: Call) -> bool:
    """Whether a call computes attention, or the weights of attention."""
    known = operation(call.kind, call.name)
    computes_attention = known.family == "attention" or known.base == "softmax"
    return computes_attention and bool(call.inputs)


def _named_weights(call: Call) -> Iterator[tuple[str, TensorFacts]]:
    """The parameters that a call computes with."""
    known = operation(call.kind, call.name)
    if known.is_initial or known.is_move:
        return
    inputs = call.inputs
    for index, facts in enumerate(inputs):
        if facts.type == "Parameter":
            yield f"{call.path} {operand(index, inputs, known, call.kwargs)}".lstrip(), facts


def _named_outputs(call: Call) -> Iterator[tuple[str, TensorFacts]]:
    """What a call computes; values that it only moves have the name of the call that computed them."""
    known = operation(call.kind, call.name)
    if known.is_move:
        return
    name = " ".join(filter(None, ("the output of", call.path, known.own)))
    for facts in call.outputs:
        yield name, facts


def _begin_alike(a: TensorFacts, b: TensorFacts) -> bool:
    """Whether the first values of two tensors are equal, as far as is known: a quick test before all are compared."""
    if not has_values(a) or not has_values(b):
        return True
    first, second = (facts.kept.reshape(-1)[:FIRST_VALUES].tobytes() for facts in (a, b))
    return bool(first == second)


def _part_number(call: Call, facts: TensorFacts) -> int:
    """Which of several outputs of a call a tensor is; -1 if the call makes only one."""
    outputs = call.outputs
    if len(outputs) < 2:
        return -1
    for number, output in enumerate(outputs):
        if output is facts:
            return number
    return -1


def _is_other_weight(one: TensorFacts, other: TensorFacts) -> bool:
    return one.type == "Parameter" and one.id != other.id
