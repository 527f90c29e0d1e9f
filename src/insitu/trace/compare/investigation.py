"""What is known of the tensors at a cause, after the causes were found: which tensors to ask about.

Read this first, then `tensor_relations` and `weight_relations` (what a tensor of b is), `detours` and `last_agreement`
(where runs that make other calls agree for the last time), `maker_names` and `lookups` (the calls and source lines that
are named), and `moves` and `tensor_contents` (who made a tensor, and which tensors hold the same numbers).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from insitu.trace.compare.detours import Detours, DetourSearch
from insitu.trace.compare.evidence import Comparison, Evidence, TensorPair, operand
from insitu.trace.compare.ledger import CauseLedger
from insitu.trace.compare.lookups import sites_of_function
from insitu.trace.compare.maker_names import MakerNames
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.partners import Partners
from insitu.trace.compare.relation import Relation, Relations
from insitu.trace.compare.stops import Side
from insitu.trace.compare.tensor_relations import TensorQuestion, TensorRelations
from insitu.trace.compare.traced_runs import is_telling, traced_runs
from insitu.trace.compare.weight_relations import WeightRelations
from insitu.trace.event import Call, TensorFacts

MOST_RELATIONS = 3

Leaving = tuple[TensorFacts, TensorFacts] | None


class Investigation:
    """Looks at the tensors of a cause, after the causes were found."""

    def __init__(
        self,
        pairs: list[Pair],
        evidence: list[Evidence | None],
        ledger: CauseLedger,
        sides: tuple[Side, Side],
        comparison: Comparison,
    ) -> None:
        runs = self._runs = traced_runs(pairs, sides, comparison)
        self._pairs, self._evidence, self._ledger = pairs, evidence, ledger
        self._comparison = comparison
        self._names = MakerNames(runs)
        self._tensors = TensorRelations(pairs, evidence, runs)
        self._weights = WeightRelations(runs)
        self._search = DetourSearch(pairs, ledger, runs)
        self._partners = Partners(pairs, evidence, ledger)

    def detours(self, pair: Pair, leaving: Leaving) -> Detours | None:
        """The calls since the last agreement of the runs that lead to the first tensor that can be compared."""
        tensors = leaving
        if leaving is None or leaving[0].shape != leaving[1].shape:
            tensors = self._partners.first_comparable(pair)
        if tensors is None:
            return None
        return self._search.detours(tensors)

    def detours_elsewhere(self, pair: Pair, leaving: Leaving) -> Detours | None:
        """The calls that lead to the first sure partners after calls of one run, if the other run has its own calls.

        The tensor beside the output of such calls can be one of another meaning. None if these calls lead to the
        difference, and the other run only lacks them; or if both tensors hold the same numbers.
        """
        if leaving is not None and self._hold_same_numbers(*leaving):
            return None
        tensors = next(self._partners.sure(pair), None)
        if tensors is None:
            return None
        found = self._search.detours(tensors)
        if found is None or self._are_only_lacking(pair, found):
            return None
        return found

    def _are_only_lacking(self, pair: Pair, found: Detours) -> bool:
        """Whether calls of one run lead to a difference, and the other run only lacks them."""
        own, other, other_side = found.a, found.b, 1
        if not pair.a:
            own, other, other_side = found.b, found.a, 0
        lone = {call.id for call in pair.calls_a + pair.calls_b}
        leads_there = not lone.isdisjoint([call.id for call in own])
        return leads_there and not self._search.have_lone_call(other, other_side)

    def are_partners(self, pair: Pair, tensors: Leaving) -> bool:
        """Whether two tensors by which a pair was found to differ belong together for sure."""
        return self._partners.are_sure(pair, tensors)

    def begin_alike(self, found: Detours) -> bool:
        """Whether the ways to a difference begin with one call that both runs make."""
        return self._search.are_beside(found.a[0], found.b[0])

    def relations(self, pair: Pair, leaving: Leaving) -> Relations:
        """What is known of the tensors at a cause; `leaving` are those by which a stretch was found to differ."""
        if pair.matched and not pair.calls_a:  # variables
            return ()
        answers = filter(None, map(self._tensors.answer, self._questions(pair, leaving)))
        found = [*islice(answers, MOST_RELATIONS), *self._lookups(pair)]
        if not found and self._has_other_form(pair):
            found = self._inputs_of_followers(pair)
        return tuple(found[:MOST_RELATIONS])

    def relations_of_detours(self, pair: Pair, found: Detours) -> Relations:
        """What is known of the tensors that the runs compute by other calls: the weights in them, or themselves."""
        question = TensorQuestion(_parameter_text(found.tensors[1]), *found.tensors)
        relation = self._weights.relation(found.a, found.b) or self._tensors.answer(question) or _lookup(found.b[0])
        if relation is not None:
            return (relation,)
        exchanged = (list(self._exchanged(*follower)) for follower in self._partners.followers(pair))
        return tuple(next(filter(None, exchanged), []))

    def _lookups(self, pair: Pair) -> Iterator[Relation]:
        """Where an activation of b comes from that is called with other arguments than that of a.

        Programs look up activations by name. To read the source for all functions takes longer than the comparison.
        """
        is_activation = pair.matched and pair.b[0].operation.family == "activation"
        if is_activation and self._ledger.account(pair).manner.changes:
            yield from filter(None, map(_lookup, pair.calls_b))

    def _has_other_form(self, pair: Pair) -> bool:
        """Whether the runs make other calls here, or outputs of other shapes: only later calls can be compared."""
        if not pair.matched:
            return True
        return self._ledger.account(pair).manner.is_reshaped

    def _questions(self, pair: Pair, leaving: Leaving) -> Iterator[TensorQuestion]:
        """The tensors to ask about: inputs that differ; else weights, then what comes out."""
        known = self._evidence[pair.number]
        if known is not None:
            yield from self._questions_of_calls(pair, known)
        elif leaving is not None:
            yield TensorQuestion(_parameter_text(leaving[1]), *leaving)

    def _questions_of_calls(self, pair: Pair, known: Evidence) -> Iterator[TensorQuestion]:
        """The inputs of a pair of calls that differ, or that may differ unnoticed; else what comes out."""
        inputs = list(self._differing_inputs(pair, known)) or self._hidden_inputs(pair, known)
        yield from inputs
        if inputs:
            return
        shows_later = self._shows_later(pair)
        for tensor in known.outputs:
            if shows_later or tensor.closeness.same is False:
                yield TensorQuestion("", tensor.a, tensor.b)

    def _hidden_inputs(self, pair: Pair, known: Evidence) -> list[TensorQuestion]:
        """The one weight or matrix given to the run, if all inputs agree in their statistics and outputs differ."""
        if known.manner.changes or known.output.same is not False:
            return []
        matrices = [index for index, tensor in enumerate(known.inputs) if _is_given_matrix(tensor)]
        weights = [index for index in matrices if known.inputs[index].a.type == "Parameter"]
        likely = weights or matrices
        if len(likely) != 1:
            return []
        return [self._question(pair, known, likely[0])]

    def _shows_later(self, pair: Pair) -> bool:
        """Whether a difference shows only in what a later pair makes."""
        sighting = self._ledger.sightings.get(pair.number)
        return sighting is not None and sighting.seen_at is not None

    def _differing_inputs(self, pair: Pair, known: Evidence) -> Iterator[TensorQuestion]:
        for index, tensor in enumerate(known.inputs):
            if tensor.closeness.same is False:
                yield self._question(pair, known, index)

    def _question(self, pair: Pair, known: Evidence, index: int) -> TensorQuestion:
        """The question about an input of a pair of calls."""
        call, tensor = pair.calls_a[0], known.inputs[index]
        return TensorQuestion(operand(index, known.operands, pair.a[0].operation, call.kwargs), tensor.a, tensor.b)

    def _inputs_of_followers(self, pair: Pair) -> list[Relation]:
        """Inputs of later calls that are exchanged; if there are none, the one of several inputs that differs."""
        followers = list(self._partners.followers(pair))
        exchanged = (list(self._exchanged(*follower)) for follower in followers)
        lone = (list(self._lone_input(*follower)) for follower in followers)
        return next(filter(None, chain(exchanged, lone)), [])

    def _lone_input(self, pair: Pair, known: Evidence) -> Iterator[Relation]:
        """The one input of several that differs, if the calls that arranged it are known."""
        question = self._only_differing_input(pair, known)
        if question is None or question.a.shape != question.b.shape:
            return
        if not self._hold_same_numbers(question.a, question.b):
            return
        relation = Relation("input", question.subject, user=pair.calls_a[0])
        relation = self._names.with_order(relation, question.a, question.b)
        if relation.makers_b or relation.makers_a:
            yield relation

    def _only_differing_input(self, pair: Pair, known: Evidence) -> TensorQuestion | None:
        """The input that differs, if there is one, and all others are known to agree."""
        differing = list(self._differing_inputs(pair, known))
        agreeing = [tensor for tensor in known.inputs if tensor.closeness.same]
        if len(differing) != 1 or not agreeing:
            return None
        if len(agreeing) + 1 < len(known.inputs):
            return None
        return differing[0]

    def _hold_same_numbers(self, a: TensorFacts, b: TensorFacts) -> bool:
        """Whether two tensors hold the same numbers in another order, as far as is known."""
        contents, tolerance = self._runs.b.contents, self._comparison.tolerance
        one, other = contents.summary(a), contents.summary(b)
        return one.is_telling and one.is_close(other, *tolerance.of(a.dtype, b.dtype))

    def _exchanged(self, pair: Pair, known: Evidence) -> Iterator[Relation]:
        """The inputs of a pair of calls that differ, and are what a has as another input."""
        names = [self._question(pair, known, index).subject for index in range(len(known.inputs))]
        for question in self._differing_inputs(pair, known):
            for name, other in zip(names, known.inputs, strict=True):
                closeness = self._comparison.close(other.a, question.b)
                if closeness.same and is_telling(question.b):
                    relation = Relation("equal", question.subject, equal_to=name, certainty=closeness.certainty)
                    yield self._names.with_order(relation, question.a, question.b)
                    break


def _lookup(call: Call) -> Relation | None:
    """Where the function of b comes from, if the program looks it up in a table."""
    sites = sites_of_function(call)
    if not sites:
        return None
    return Relation("lookup", makers_b=(call,), sites=sites)


def _parameter_text(facts: TensorFacts) -> str:
    """A parameter as the subject of a sentence; other tensors have no name."""
    if facts.type == "Parameter":
        return f"parameter {facts!r}"
    return ""


def _is_given_matrix(tensor: TensorPair) -> bool:
    """Whether a tensor with an order was given to both runs, and only its statistics are known to agree."""
    was_made = (tensor.a.producer, tensor.b.producer) != (None, None)
    return len(tensor.a.shape) > 1 and not was_made and tensor.closeness.certainty == "statistics"
