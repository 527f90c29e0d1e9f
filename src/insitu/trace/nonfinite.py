"""NaN and Inf in the events of a trace: which are wrong, and where they began, by the rule of origin.py."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf, isfinite

from insitu.trace.dtype import dtype_named
from insitu.trace.event import Call, TensorFacts, Variable, tensors
from insitu.trace.kept_values import statistics_of
from insitu.trace.operation import operation
from insitu.trace.origin import (
    Beginning,
    Finiteness,
    Passage,
    beginning,
    finiteness,
    finiteness_of_values,
    literals,
    may_heal,
    reach_of,
    union,
)

NEARLY_LEAST = 0.9  # how near the least number of a dtype a mask comes that is added to scores
LEAVING = frozenset(("numpy", "tolist", "__array__"))  # functions that take numbers out of torch

Key = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class NonFiniteEvent:
    """What an event contains that is not finite, whether that is wrong, and whether it began there.

    While a program runs, `may_heal` says that it is not decided yet whether it is wrong.
    """

    contents: Finiteness
    is_wrong: bool = False
    is_origin: bool = False
    may_heal: bool = False


@dataclass(slots=True)
class Chain:
    """A NaN or Inf that may heal, through all calls that pass it on; `ends` are the tensors with it that none used."""

    is_nan: bool
    is_used: bool = False
    has_reached: bool = False
    ends: set[Key] = field(default_factory=set)

    @property
    def is_healed(self) -> bool:
        """Whether all calls that used it returned finite numbers; a NaN that is left over has not healed."""
        is_left_over = self.is_nan and bool(self.ends)
        return self.is_used and not self.has_reached and not is_left_over


class NonFiniteSearch:
    """Follows NaN and Inf through events in the order in which they ended: a call comes before those around it.

    >>> from insitu.trace.event import Stats
    >>> bad = TensorFacts(5, (2,), "f32", "cpu", stats=Stats(count=2, min=0.0, max=0.0, mean=0.0, nan=1, zeros=1))
    >>> search = NonFiniteSearch()
    >>> search.add(Call(1, 0, "function", "torch.log", args=(TensorFacts(4, (2,), "f32", "cpu"),), result=bad))
    >>> search.add(Call(0, None, "module", "Net", result=bad))
    >>> {id: (found.is_wrong, found.is_origin) for id, found in search.result().items()}
    {1: (True, True), 0: (True, False)}
    """

    def __init__(self) -> None:
        self._found: dict[int, NonFiniteEvent] = {}
        self._wrong: dict[Key, bool] = {}  # of each tensor that is not finite
        self._wrong_calls: dict[int, bool] = {}
        self._chains: dict[Key, Chain] = {}
        self._chain_users: dict[int, Chain] = {}
        self._undecided: dict[int, list[Chain]] = {}  # by the events that contain nothing else that is not finite
        self.has_found = False
        self.origins: list[int] = []  # the calls where NaN or Inf began, as far as it is known yet

    def add(self, event: Call | Variable) -> None:
        """Look at the next event."""
        if isinstance(event, Variable):
            self._add_variable(event)
        else:
            self._add_call(event)

    def result(self) -> dict[int, NonFiniteEvent]:
        """What was found, by the ids of the events in the order in which they ended; for after the last event."""
        return {id: self._final(id, found) for id, found in self._found.items()}

    def _final(self, id: int, found: NonFiniteEvent) -> NonFiniteEvent:
        if any(chain.is_healed for chain in self._undecided.get(id, ())):
            return NonFiniteEvent(found.contents)
        return found

    def so_far(self, id: int) -> NonFiniteEvent | None:
        """What is certain about an event now: NaN or Inf that may still heal is not wrong yet. None if it is finite."""
        found = self._found.get(id)
        if found is None:
            return None
        if all(chain.has_reached for chain in self._undecided.get(id, ())):
            return found
        if any(chain.is_healed for chain in self._undecided[id]):
            return NonFiniteEvent(found.contents)
        return NonFiniteEvent(found.contents, may_heal=True)

    def _add_variable(self, variable: Variable) -> None:
        value = variable.value
        if isinstance(value, float) and not isfinite(value):
            self._found[variable.id] = NonFiniteEvent(literals(value), is_wrong=True)
            self.has_found = True
            return
        bad = nonfinite_among(tensors(value))
        if bad:
            is_wrong = any(self._wrong.get(key(facts), finiteness_of(facts).nan) for facts in bad)
            self._keep(variable.id, bad, is_wrong=is_wrong, is_origin=False)

    def _add_call(self, call: Call) -> None:
        chain = self._chain_behind(call) if self._chains else None
        if chain is not None:
            self._use(chain, call)
        bad = nonfinite_among(call.outputs)
        if not bad:
            return
        new = [facts for facts in bad if key(facts) not in self._wrong]
        origins = [facts for facts in new if self._judge(call, facts, chain)]
        is_wrong = any(self._wrong[key(facts)] for facts in bad)
        self._wrong_calls[call.id] = is_wrong
        self._keep(call.id, bad, is_wrong=is_wrong, is_origin=bool(origins))

    def _keep(self, id: int, bad: list[TensorFacts], *, is_wrong: bool, is_origin: bool) -> None:
        self._found[id] = NonFiniteEvent(union(contents(bad)), is_wrong, is_origin)
        self.has_found = True
        if is_origin:
            self.origins.append(id)
        keys = set(map(key, bad))
        can_heal = keys <= self._chains.keys()
        if can_heal:
            self._undecided[id] = [self._chains[each] for each in keys]

    # What is wrong, and where it began.

    def _judge(self, call: Call, facts: TensorFacts, chain: Chain | None) -> bool:
        """Whether the NaN or Inf in an output that is new began in this call; remembers whether it is wrong."""
        if chain is not None:
            self._wrong[key(facts)] = True
            if not chain.has_reached:
                self._chains[key(facts)] = chain
                chain.ends.add(key(facts))
            return False
        is_wrong, is_origin = self._verdict(call, facts)
        self._wrong[key(facts)] = is_wrong
        if is_origin and self._may_heal(call, facts):
            self._chains[key(facts)] = Chain(finiteness_of(facts).nan, ends={key(facts)})
        return is_origin

    def _verdict(self, call: Call, facts: TensorFacts) -> tuple[bool, bool]:
        """Whether the NaN or Inf in an output is wrong, and whether it began in the call."""
        output = finiteness_of(facts)
        begins = beginning(passage_of(call, facts), output)
        if begins in CERTAIN:
            return CERTAIN[begins]
        known = set(map(self._is_wrong, explaining(call, facts, output)))
        if True in known:
            return True, False
        # A NaN that is written down begins there. One that was there before the trace began is news to the first call
        # that meets it; an Inf from there is a mask.
        is_news = output.nan and (begins is Beginning.LITERAL or None in known)
        return is_news, is_news

    def _is_wrong(self, facts: TensorFacts) -> bool | None:
        """What is known about a tensor, or else about the call that returned it: autograd passes on other tensors."""
        known = self._wrong.get(key(facts))
        if known is None and facts.producer is not None:
            return self._wrong_calls.get(facts.producer)
        return known

    # What may heal.

    def _may_heal(self, call: Call, facts: TensorFacts) -> bool:
        has_gradient = facts.requires_grad or call.phase != "forward"
        return may_heal(finiteness_of(facts), has_gradient=has_gradient, is_in_model=call.module is not None)

    def _chain_behind(self, call: Call) -> Chain | None:
        """The NaN or Inf that may heal and goes into a call, or into the forward call whose gradient it computes."""
        if call.forward in self._chain_users:
            return self._chain_users[call.forward]
        found = map(self._chains.get, map(key, call.inputs))
        return next(filter(None, found), None)

    def _use(self, chain: Chain, call: Call) -> None:
        """A NaN or Inf that may heal goes into a call."""
        chain.is_used = True
        chain.ends.difference_update(map(key, call.inputs))
        self._chain_users[call.id] = chain
        chain.has_reached = chain.has_reached or reaches(call, is_nan=chain.is_nan)


# Where the answer does not depend on the inputs: whether the NaN or Inf is wrong, and whether it began in the call.
CERTAIN = {Beginning.HERE: (True, True), Beginning.DATA: (True, True), Beginning.MEMORY: (False, False)}


def reaches(call: Call, *, is_nan: bool) -> bool:
    """Whether a NaN (`is_nan`) or Inf that goes into a call reaches what matters there."""
    what, passage = operation(call.kind, call.name), passage_of(call)
    if what.runs_backward:
        return True
    if passage.outgoing.is_finite:
        return what.own in LEAVING or not literals(call.result).is_finite
    if call.phase == "backward":
        return True
    is_in_model = call.module is not None or any(facts.requires_grad for facts in call.outputs)
    return reach_of(passage, is_nan=is_nan, is_in_model=is_in_model) is not None


def nonfinite_among(items: Iterable[TensorFacts]) -> list[TensorFacts]:
    """The tensors that are not finite."""
    return [facts for facts in items if not finiteness_of(facts).is_finite]


def finiteness_of(facts: TensorFacts) -> Finiteness:
    """What a tensor contains that is not finite: as its statistics tell, or else the values that were kept of it."""
    if facts.stats is None and facts.kept is not None:
        return finiteness_of_values(facts)
    return finiteness(facts.stats)


def passage_of(call: Call, output: TensorFacts | None = None) -> Passage:
    """A call as the rule needs it; a tensor that it changes in place does not explain itself."""
    inputs = [facts for facts in call.inputs if facts is not output]
    passage = Passage(
        operation(call.kind, call.name), contents(inputs), contents(call.outputs), literals((call.args, call.kwargs))
    )
    if output is None or not passage.incoming.is_finite:
        return passage
    return replace(passage, has_least=any(has_least(facts, output) for facts in inputs))


def contents(items: Iterable[TensorFacts]) -> tuple[Finiteness, ...]:
    """What each of some tensors contains that is not finite."""
    return tuple(finiteness_of(facts) for facts in items)


def explaining(call: Call, output: TensorFacts, contents: Finiteness) -> Iterable[TensorFacts]:
    """The inputs that explain an output: NaN is explained by NaN."""
    for facts in nonfinite_among(call.inputs):
        is_explanation = finiteness_of(facts).nan or not contents.nan
        if is_explanation and facts is not output:
            yield facts


def has_least(facts: TensorFacts, output: TensorFacts) -> bool:
    """Whether a tensor holds the least number of its dtype, or of the dtype of an output, as masks do."""
    stats = statistics_of(facts)
    if stats is None or stats.min is None:
        return False
    limits = (dtype_named(facts.dtype).largest, dtype_named(output.dtype).largest)
    smallest = min((limit for limit in limits if limit is not None), default=inf)
    return stats.min <= -NEARLY_LEAST * smallest


def key(facts: TensorFacts) -> Key:
    """What tells one content of a tensor from another."""
    return facts.id, facts.producer
