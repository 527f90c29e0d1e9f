"""What the tensors at a cause are: values of a in another order, another part, or another tensor of a."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple

from insitu.trace.compare.arrangement import Arrangement, arrangement
from insitu.trace.compare.closeness import close_arrays, close_stats
from insitu.trace.compare.contents import Contents
from insitu.trace.compare.evidence import Comparison, Evidence, TensorPair, operand
from insitu.trace.compare.last_agreement import LastAgreement
from insitu.trace.compare.ledger import CauseLedger
from insitu.trace.compare.lookups import sites_of_function, sites_of_weight
from insitu.trace.compare.moves import MatrixOperand, Moves, weight_of
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.relation import Relation, Relations, Unit
from insitu.trace.compare.stops import Side
from insitu.trace.event import Call, TensorFacts
from insitu.trace.kept_values import has_all_values, is_array
from insitu.trace.operation import operation

MOST_RELATIONS = 3
MOST_FOLLOWERS = 40  # pairs after a cause in which exchanged inputs are looked for
MOST_TENSORS = 2000  # of a among which a tensor of b is looked for
FIRST_VALUES = 16  # that are compared before all are
FEWEST_ELEMENTS = 4  # of a tensor that is recognized by its values

Leaving = tuple[TensorFacts, TensorFacts] | None


class _Question(NamedTuple):
    """A tensor of b that is not what a has in its place; `subject` is the operand, or "" for an output."""

    subject: str
    a: TensorFacts
    b: TensorFacts


class Detours(NamedTuple):
    """Two tensors that differ, and the calls that lead to them from the last agreement of the runs on."""

    tensors: tuple[TensorFacts, TensorFacts]
    a: tuple[Call, ...]
    b: tuple[Call, ...]


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
        self._pairs, self._evidence, self._ledger = pairs, evidence, ledger
        self._comparison = comparison
        self._moves = (Moves(pairs, 0, sides[0]), Moves(pairs, 1, sides[1]))
        self._contents = [Contents(moves.calls.values(), comparison.tolerance) for moves in self._moves]

    def detours(self, pair: Pair, leaving: Leaving) -> Detours | None:
        """The calls because of which a tensor differs that the runs compute by other calls, from the last agreement on.

        None if the calls of one of the runs were not recorded.
        """
        tensors = leaving
        if leaving is None or leaving[0].shape != leaving[1].shape:
            tensors = self._first_comparable_input(pair)
        if tensors is None:
            return None
        one, other = self._moves
        a = self._without_alike(0, LastAgreement(one, self._contents[1], self._agreed[0]).calls_since(tensors[0]))
        b = self._without_alike(1, LastAgreement(other, self._contents[0], self._agreed[1]).calls_since(tensors[1]))
        if not a or not b:
            return None
        return Detours(tensors, a, b)

    def _without_alike(self, side: int, way: tuple[Call, ...]) -> tuple[Call, ...]:
        """A way without the first calls that the other run makes too, though with other shapes."""
        first = next((place for place, call in enumerate(way) if call.id not in self._alike[side]), 0)
        return way[first:]

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

    def _first_comparable_input(self, pair: Pair) -> Leaving:
        """The first input of a later call that has one shape in both runs, and differs because of a cause."""
        for follower, known in self._followers(pair):
            for tensor in known.inputs:
                if tensor.closeness.same is False and tensor.a.shape == tensor.b.shape:
                    return tensor.a, tensor.b
        return None

    def relations(self, pair: Pair, leaving: Leaving) -> Relations:
        """What is known of the tensors at a cause; `leaving` are those by which a stretch was found to differ."""
        if pair.matched and not pair.calls_a:  # variables
            return ()
        answers = filter(None, map(self._answer, self._questions(pair, leaving)))
        found = [*islice(answers, MOST_RELATIONS), *self._lookups(pair)]
        if not found and self._has_other_form(pair):
            found = self._inputs_of_followers(pair)
        return tuple(found[:MOST_RELATIONS])

    def relations_of_detours(self, pair: Pair, found: Detours) -> Relations:
        """What is known of the tensors that the runs compute by other calls: the weights in them, or themselves."""
        question = _Question(_parameter_text(found.tensors[1]), *found.tensors)
        relation = self._weight(found.a, found.b) or self._answer(question) or _lookup(found.b[0])
        if relation is not None:
            return (relation,)
        exchanged = (list(self._exchanged(*follower)) for follower in self._followers(pair))
        return tuple(next(filter(None, exchanged), []))

    def _lookups(self, pair: Pair) -> Iterator[Relation]:
        """Where the function of b comes from that is called with other arguments than that of a."""
        if not pair.matched or not self._ledger.account(pair).manner.changes:
            return
        yield from filter(None, map(_lookup, pair.calls_b))

    def _has_other_form(self, pair: Pair) -> bool:
        """Whether the runs make other calls here, or outputs of other shapes: only later calls can be compared."""
        if not pair.matched:
            return True
        return self._ledger.account(pair).manner.is_reshaped

    def _questions(self, pair: Pair, leaving: Leaving) -> Iterator[_Question]:
        """The tensors to ask about: inputs that differ; else weights, then what comes out."""
        known = self._evidence[pair.number]
        if known is not None:
            yield from self._questions_of_calls(pair, known)
        elif leaving is not None:
            yield _Question(_parameter_text(leaving[1]), *leaving)

    def _questions_of_calls(self, pair: Pair, known: Evidence) -> Iterator[_Question]:
        """The inputs of a pair of calls that differ, or that may differ unnoticed; else what comes out."""
        inputs = list(self._differing_inputs(pair, known)) or self._hidden_inputs(pair, known)
        yield from inputs
        if inputs:
            return
        shows_later = self._shows_later(pair)
        for tensor in known.outputs:
            if shows_later or tensor.closeness.same is False:
                yield _Question("", tensor.a, tensor.b)

    def _hidden_inputs(self, pair: Pair, known: Evidence) -> list[_Question]:
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

    def _differing_inputs(self, pair: Pair, known: Evidence) -> Iterator[_Question]:
        for index, tensor in enumerate(known.inputs):
            if tensor.closeness.same is False:
                yield self._question(pair, known, index)

    def _question(self, pair: Pair, known: Evidence, index: int) -> _Question:
        """The question about an input of a pair of calls."""
        call, tensor = pair.calls_a[0], known.inputs[index]
        return _Question(operand(index, known.operands, pair.a[0].operation, call.kwargs), tensor.a, tensor.b)

    def _answer(self, question: _Question) -> Relation | None:
        """What a tensor of b is."""
        finders = (self._part, self._arranged, self._reordered, self._untied, self._equal, self._origin)
        return next(filter(None, (find(question) for find in finders)), None)

    def _part(self, question: _Question) -> Relation | None:
        """Another part of what both runs split."""
        call_a, call_b = self._moves[0].maker(question.a), self._moves[1].maker(question.b)
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

    def _arranged(self, question: _Question) -> Relation | None:
        """The values of a in another order."""
        a, b = question.a, question.b
        found = self._arrangement(a, b)
        if found is None:
            return None
        relation = self._with_makers(Relation("arrangement", question.subject, found), a, b)
        return replace(relation, unit=self._unit(a, found))

    def _reordered(self, question: _Question) -> Relation | None:
        """The statistics of a, where a later call shows that the values are not the same."""
        closeness = self._comparison.close(question.a, question.b)
        is_hidden = closeness.same and closeness.certainty == "statistics"
        if not is_hidden or not _is_telling(question.b):
            return None
        relation = Relation("order", question.subject, certainty="statistics")
        return self._with_makers(relation, question.a, question.b)

    def _weight(self, calls_a: Iterable[Call], calls_b: Iterable[Call]) -> Relation | None:
        """The weights of products that the runs write differently, such as `F.linear` and `torch.addmm`."""
        one, other = _first_weight(calls_a), _first_weight(calls_b)
        if one is None or other is None or not self._rest_agrees(one, other):
            return None
        relation = self._weight_by_values(one, other) or self._weight_by_statistics(one, other)
        if relation is None:
            return None
        return self._with_makers(relation, one.facts, other.facts)

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
        if _has_values(a) and _has_values(b):
            rtol, atol = self._comparison.tolerance.of(a.dtype, b.dtype)
            return bool(close_arrays(a.kept.reshape(-1), b.kept.reshape(-1), rtol, atol).same)
        if a.stats is None or b.stats is None:
            return False
        return bool(close_stats(a.stats, b.stats, *self._comparison.tolerance.of(a.dtype, b.dtype)).same)

    def _weight_by_values(self, one: MatrixOperand, other: MatrixOperand) -> Relation | None:
        """How the weight of b is that of a, if it is not what the product of b needs."""
        a, b = one.facts, other.facts
        if not _has_values(a) or not _has_values(b):
            return None
        is_turned = one.is_turned is not other.is_turned
        needed = a.kept.T if is_turned else a.kept
        rtol, atol = self._comparison.tolerance.of(a.dtype, b.dtype)
        if close_arrays(needed, b.kept, rtol, atol).same:
            return None
        subject = f"weight {b!r}"
        if is_turned and close_arrays(a.kept, b.kept, rtol, atol).same:
            return Relation("not turned", subject)
        found = arrangement(needed, b.kept, rtol, atol)
        if found is None:
            return None
        return Relation("arrangement", subject, found)

    def _weight_by_statistics(self, one: MatrixOperand, other: MatrixOperand) -> Relation | None:
        """That the weights have the same statistics: only their order can make the products differ."""
        a, b = one.facts, other.facts
        if a.stats is None or a.stats != b.stats or not _is_telling(b):
            return None
        return Relation("order", f"weight {b!r}", certainty="statistics")

    def _arrangement(self, a: TensorFacts, b: TensorFacts) -> Arrangement | None:
        if not _has_values(a) or not _has_values(b):
            return None
        return arrangement(a.kept, b.kept, *self._comparison.tolerance.of(a.dtype, b.dtype))

    def _with_makers(self, relation: Relation, a: TensorFacts, b: TensorFacts) -> Relation:
        """The relation with the calls that gave the values their order."""
        one, other = self._moves
        relation = replace(relation, makers_a=one.orders(a), makers_b=other.orders(b))
        if b.type != "Parameter" or relation.makers_b:
            return relation
        example = other.example(b)
        if example is not None:
            return replace(relation, example=example)
        return self._with_writer(relation, b)

    def _with_writer(self, relation: Relation, weight: TensorFacts) -> Relation:
        """The relation with the call that set a weight of b, and the expressions that made its values."""
        writer = self._moves[1].maker(weight)
        if writer is None:
            return relation
        sites = sites_of_weight(writer, relation.subject.partition(" ")[0])
        return replace(relation, writer=writer, sites=sites)

    def _untied(self, question: _Question) -> Relation | None:
        """Where a weight of b was made, if a has one weight in two places, and b does not."""
        relation = self._origin(question)
        if relation is None or relation.user is None:
            return None
        return relation

    def _origin(self, question: _Question) -> Relation | None:
        """Where a weight of b was made that is another one than that of a."""
        a, b = question.a, question.b
        if not question.subject or b.type != "Parameter" or a.shape != b.shape:
            return None
        makers = self._weight_makers(0, a), self._weight_makers(1, b)
        if not makers[1]:
            return None
        user = self._tied_user(a, b)
        return Relation("origin", question.subject, makers_a=makers[0], makers_b=makers[1], user=user)

    def _weight_makers(self, side: int, weight: TensorFacts) -> tuple[Call, ...]:
        """The call that made a weight; `nn.Parameter` is not recorded, so it may be the last one with its numbers."""
        maker = self._moves[side].maker(weight)
        if maker is not None:
            return (maker,)
        return tuple(self._contents[side].makers(weight))[-1:]

    def _tied_user(self, a: TensorFacts, b: TensorFacts) -> Call | None:
        """Another call of a that takes a weight of a, if the call beside it takes another weight than this one of b."""
        for known, pair in zip(self._evidence, self._pairs, strict=True):
            if known is None:
                continue
            if any(tensor.a.id == a.id and _is_other_weight(tensor.b, b) for tensor in known.inputs):
                return pair.calls_a[0]
        return None

    def _unit(self, facts: TensorFacts, found: Arrangement) -> Unit:
        """What is counted along a dimension: heads, if attention takes tensors of this form."""
        if len(facts.shape) != 4 or found.dimension != 1:
            return "item"
        for call in self._moves[0].calls.values():
            known = operation(call.kind, call.name)
            attends = known.family == "attention" or known.base == "softmax"
            if attends and any(tensor.shape[:2] == facts.shape[:2] for tensor in call.inputs[:1]):
                return "head"
        return "item"

    def _equal(self, question: _Question) -> Relation | None:
        """Another tensor of a that has the values of the tensor of b."""
        for name, facts in self._named_tensors():
            if facts is not question.a and self._are_equal(facts, question.b):
                certainty = self._comparison.close(facts, question.b).certainty
                relation = Relation("equal", question.subject, equal_to=name, certainty=certainty)
                return self._with_all_makers(relation, question)
        return None

    def _with_all_makers(self, relation: Relation, question: _Question) -> Relation:
        """The relation with the calls that arranged the tensors, or else those that computed them."""
        relation = self._with_makers(relation, question.a, question.b)
        if relation.makers_a or relation.makers_b:
            return relation
        makers = [moves.maker(facts) for moves, facts in zip(self._moves, (question.a, question.b), strict=True)]
        one, other = [() if maker is None else (maker,) for maker in makers]
        return replace(relation, makers_a=one, makers_b=other)

    def _named_tensors(self) -> Iterator[tuple[str, TensorFacts]]:
        """The tensors of a by name: parameters that calls take, then what calls compute, each once."""
        calls = list(self._moves[0].calls.values())[:MOST_TENSORS]
        seen: set[int] = set()
        for call in calls:
            known = operation(call.kind, call.name)
            if known.is_initial or known.is_move:
                continue
            inputs = call.inputs
            for index, facts in enumerate(inputs):
                if facts.type == "Parameter" and facts.id not in seen:
                    seen.add(facts.id)
                    yield f"{call.path} {operand(index, inputs, known, call.kwargs)}".lstrip(), facts
        for call in calls:
            if not operation(call.kind, call.name).is_move:
                for facts in call.outputs:
                    yield f"the output of {call.path} {operation(call.kind, call.name).own}".replace("  ", " "), facts

    def _are_equal(self, a: TensorFacts, b: TensorFacts) -> bool:
        """Whether two tensors have the same values, or at least the same statistics: not if they are all zeros."""
        if a.shape != b.shape or a.dtype != b.dtype or not _begin_alike(a, b):
            return False
        closeness = self._comparison.close(a, b)
        return bool(closeness.same) and not closeness.measure and _is_telling(b)

    def _inputs_of_followers(self, pair: Pair) -> list[Relation]:
        """Inputs of later calls that are exchanged; if there are none, the one of several inputs that differs."""
        followers = list(self._followers(pair))
        exchanged = (list(self._exchanged(*follower)) for follower in followers)
        lone = (list(self._lone_input(*follower)) for follower in followers)
        return next(filter(None, chain(exchanged, lone)), [])

    def _followers(self, pair: Pair) -> Iterator[tuple[Pair, Evidence]]:
        """The first pairs of calls that differ because of a cause."""
        sightings = self._ledger.sightings
        later = [number for number in sorted(sightings) if number >= pair.number]
        for number in later[:MOST_FOLLOWERS]:
            known = self._evidence[number]
            follower = self._pairs[number]
            if known is not None and follower.calls_a and pair.number in sightings[number].causes:
                yield follower, known

    def _lone_input(self, pair: Pair, known: Evidence) -> Iterator[Relation]:
        """The one input of several that differs, if the calls that arranged it are known."""
        differing = list(self._differing_inputs(pair, known))
        if len(differing) != 1 or len(known.inputs) < 2:
            return
        question = differing[0]
        if question.a.shape != question.b.shape:
            return
        relation = Relation("input", question.subject, user=pair.calls_a[0])
        relation = self._with_makers(relation, question.a, question.b)
        if relation.makers_b or relation.makers_a:
            yield relation

    def _exchanged(self, pair: Pair, known: Evidence) -> Iterator[Relation]:
        """The inputs of a pair of calls that differ, and are what a has as another input."""
        names = [self._question(pair, known, index).subject for index in range(len(known.inputs))]
        for question in self._differing_inputs(pair, known):
            for name, other in zip(names, known.inputs, strict=True):
                closeness = self._comparison.close(other.a, question.b)
                if closeness.same and _is_telling(question.b):
                    relation = Relation("equal", question.subject, equal_to=name, certainty=closeness.certainty)
                    yield self._with_makers(relation, question.a, question.b)
                    break


def _matched_calls(pairs: Iterable[Pair]) -> tuple[set[int], set[int]]:
    """The ids of the calls of either run that are beside each other."""
    matched = [pair for pair in pairs if pair.matched]
    return {pair.a[0].event.id for pair in matched}, {pair.b[0].event.id for pair in matched}


def _lookup(call: Call) -> Relation | None:
    """Where the function of b comes from, if the program looks it up in a table."""
    sites = sites_of_function(call)
    if not sites:
        return None
    return Relation("lookup", makers_b=(call,), sites=sites)


def _is_other_weight(one: TensorFacts, other: TensorFacts) -> bool:
    return one.type == "Parameter" and one.id != other.id


def _parameter_text(facts: TensorFacts) -> str:
    """A parameter as the subject of a sentence; other tensors have no name."""
    if facts.type == "Parameter":
        return f"parameter {facts!r}"
    return ""


def _first_weight(calls: Iterable[Call]) -> MatrixOperand | None:
    """The weight of the first product among several calls."""
    for call in calls:
        weight = weight_of(call)
        if weight is not None:
            return weight
    return None


def _is_given_matrix(tensor: TensorPair) -> bool:
    """Whether a tensor with an order was given to both runs, and only its statistics are known to agree."""
    was_made = (tensor.a.producer, tensor.b.producer) != (None, None)
    return len(tensor.a.shape) > 1 and not was_made and tensor.closeness.certainty == "statistics"


def _has_values(facts: TensorFacts) -> bool:
    return is_array(facts.kept) and has_all_values(facts)


def _begin_alike(a: TensorFacts, b: TensorFacts) -> bool:
    """Whether the first values of two tensors are equal, as far as is known: a quick test before all are compared."""
    if not _has_values(a) or not _has_values(b):
        return True
    first, second = (facts.kept.reshape(-1)[:FIRST_VALUES].tobytes() for facts in (a, b))
    return bool(first == second)


def _is_telling(facts: TensorFacts) -> bool:
    """Whether a tensor can be recognized by its values: it has several that are not all the same."""
    stats = facts.stats
    if stats is not None:
        return stats.count >= FEWEST_ELEMENTS and stats.min != stats.max
    if not _has_values(facts):
        return False
    return bool(facts.kept.size >= FEWEST_ELEMENTS and (facts.kept != facts.kept.flat[0]).any())


def _part_number(call: Call, facts: TensorFacts) -> int:
    """Which of several outputs of a call a tensor is; -1 if the call makes only one."""
    outputs = call.outputs
    if len(outputs) < 2:
        return -1
    for number, output in enumerate(outputs):
        if output is facts:
            return number
    return -1
