"""The calls that put the values of a tensor where they are: views, splits, joins, copies, assignments."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import chain

from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.stops import Side
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import operation

MOST_MOVES = 32  # that are followed behind one tensor
MOST_PARAMETERS = 1000  # that are looked at for an example
_WEIGHT_PLACES = {"linear": 1, "matmul": 1, "addmm": 2}


class MatrixOperand:
    """The matrix that a product multiplies by, and whether the product transposes it first."""

    __slots__ = ("call", "facts", "is_turned")

    def __init__(self, call: Call, facts: TensorFacts, is_turned: bool) -> None:
        self.call, self.facts, self.is_turned = call, facts, is_turned


def weight_of(call: Call) -> MatrixOperand | None:
    """The matrix that a call multiplies by; None if it is not a product with one."""
    base = operation(call.kind, call.name).base
    place = _WEIGHT_PLACES.get(base)
    inputs = call.inputs
    if place is None or place >= len(inputs):
        return None
    facts = inputs[place]
    if len(facts.shape) != 2:
        return None
    return MatrixOperand(call, facts, base == "linear")


class Moves:
    """Follows tensors of one run back through the calls that only move values."""

    def __init__(self, pairs: list[Pair], side: int, run: Side) -> None:
        self._pairs, self._side = pairs, side
        self._within = run.within

    @cached_property
    def calls(self) -> dict[int, Call]:
        """The calls of the run by their id."""
        found: dict[int, Call] = {}
        for pair in self._pairs:
            for stop in (pair.a, pair.b)[self._side]:
                if type(stop.event) is Call:
                    found[stop.event.id] = stop.event
        return found

    def maker(self, facts: TensorFacts) -> Call | None:
        """The call that made a tensor."""
        producer = facts.producer
        if producer is None:
            return None
        return self.calls.get(self._within.get(producer, producer))

    def behind(self, facts: TensorFacts) -> Iterator[Call]:
        """The calls that moved the values of a tensor, the last one first, back to where they were computed."""
        for _ in range(MOST_MOVES):
            call = self.maker(facts)
            if call is None or not _moves(call):
                return
            yield call
            sources = _sources(call)
            if len(sources) != 1:
                return
            facts = sources[0]

    def orders(self, facts: TensorFacts) -> tuple[Call, ...]:
        """The calls that gave the values of a tensor their order, those behind the weight it was computed with too."""
        moves = list(self.behind(facts))
        changing = list(filter(_rearranges, moves))
        if not changing:
            return ()
        weights = self._weights_of_product(moves[-1])
        behind_weights = chain.from_iterable(map(self.behind, weights))
        return (*changing, *filter(_rearranges, behind_weights))

    def _weights_of_product(self, move: Call) -> list[TensorFacts]:
        """The weights of the product whose output a call moves; none if something else computed that."""
        makers = filter(None, map(self.maker, _sources(move)))
        products = [call for call in makers if operation(call.kind, call.name).family == "product"]
        if len(products) != 1:
            return []
        return list(filter(is_parameter, products[0].inputs))

    def example(self, facts: TensorFacts) -> Call | None:
        """A call that gives another weight its order, if both weights are set on the same line."""
        places = set(map(_place, self.behind(facts))) - {None}
        if not places:
            return None
        for other in self._parameters():
            moves = list(self.behind(other))
            turns = list(filter(_turns, moves))
            if turns and other.id != facts.id and not places.isdisjoint(map(_place, moves)):
                return turns[0]
        return None

    def _parameters(self) -> list[TensorFacts]:
        """The parameters that calls take and that an earlier call of the run has set."""
        found: list[TensorFacts] = []
        for call in self.calls.values():
            found += [facts for facts in filter(is_parameter, call.inputs) if facts.producer is not None]
            if len(found) > MOST_PARAMETERS:
                break
        return found


def _moves(call: Call) -> bool:
    """Whether a call only moves values: into a new tensor, or into one that was there."""
    return operation(call.kind, call.name).is_move


def is_parameter(facts: TensorFacts) -> bool:
    """Whether a tensor is a parameter of a model."""
    return facts.type == "Parameter"


def _turns(call: Call) -> bool:
    """Whether a call gives all values another order."""
    return operation(call.kind, call.name).family == "rearrangement"


def _rearranges(call: Call) -> bool:
    """Whether a call may give values another order or another place."""
    known = operation(call.kind, call.name)
    return not known.is_copy and not known.overwrites


def _sources(call: Call) -> tuple[TensorFacts, ...]:
    """The tensors whose values a call moves."""
    known = operation(call.kind, call.name)
    if known.family == "join":
        return call.inputs
    is_assignment = known.overwrites or known.own.endswith("=")
    if is_assignment:
        return call.inputs[1:2]
    return call.inputs[:1]


def _place(call: Call) -> tuple[str, int] | None:
    """The line of a call."""
    if call.site is None:
        return None
    return call.site.file, call.site.line
