"""Where a number of dimensions that does not fit comes from: the last call that added or removed a dimension."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import NamedOperand
from insitu.trace.explain.explanation import Origin, OriginKind
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import operand_start
from insitu.trace.explain.slices.rules.rank_rule import rank_rule
from insitu.trace.explain.value_origins import is_made_by_loop
from insitu.trace.operation import Operation

MOST_CALLS = 300
UNPACKING = re.compile(r"values to unpack")


@dataclass(slots=True, frozen=True)
class RankChange:
    """A call whose result has another number of dimensions than the tensor that it took."""

    at: int
    before: TensorFacts
    after: TensorFacts


def rank_origins(failure: Failure, line: FailedLine, operand: NamedOperand) -> Iterator[Origin]:
    """The call since which an operand has as many dimensions as it has."""
    found = _last_change(failure.history, operand.tensor)
    if found is None or is_made_by_loop(failure.history, found.at):
        yield from sliced_ranks(failure, line, operand)
    if found is None:
        return
    site = failure.history.site(found.at)
    if site is not None and site != line.site:
        yield Origin(OriginKind.FACT, site, _label(found.after), tensors=(found.before, found.after))


def unpacking_origins(failure: Failure, line: FailedLine) -> Iterator[Origin]:
    """Where a tensor got its number of dimensions, if its shape does not fit the names that unpack it."""
    if not UNPACKING.search(failure.message):
        return
    for operand in line.tensors():
        yield from rank_origins(failure, line, operand)


def sliced_ranks(failure: Failure, line: FailedLine, operand: NamedOperand) -> Iterator[Origin]:
    """Where the source drops or adds a dimension."""
    yield from slice_origins([operand_start(failure, line, operand.name)], rank_rule, _label(operand.facts))


def _label(facts: TensorFacts) -> str:
    rank = len(facts.shape)
    return f"{rank} dimension{'s' * (rank != 1)}"


def _last_change(history: FailureHistory, tensor: TensorToken) -> RankChange | None:
    """The last call that changed the number of dimensions; None if a call on the way is not known well enough."""
    rank = len(history.plain(tensor).shape)
    for _ in range(MOST_CALLS):
        at = history.producer(tensor)
        if at is None:
            return None
        inputs = [token for token in history.inputs(at) if not history.is_array(token)]
        same = [token for token in inputs if len(history.plain(token).shape) == rank]
        if same:
            tensor = same[0]
        elif inputs and _keeps_tensor(history.operation(at)):
            return RankChange(at, history.plain(inputs[0]), history.plain(tensor))
        else:
            return None
    return None


def _keeps_tensor(known: Operation) -> bool:
    """Whether the first input of a call is the tensor that it returns in another form."""
    return known.is_move or known.family == "reduction"
