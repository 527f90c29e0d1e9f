"""Where lengths come from that are 0, negative or too long: what is counted, and what lets such rows in."""

from __future__ import annotations

from collections.abc import Iterator

from insitu.trace.explain.case import Case
from insitu.trace.explain.checks.extents import lengths_of
from insitu.trace.explain.explanation import ExpressionSite, Origin
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.messages import LENGTHS
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import operand_start
from insitu.trace.explain.slices.rules.size_rule import SizeRules
from insitu.trace.explain.slices.slice_walk import POSSIBLE

RULES = SizeRules(follows_filters=True)
MOST_STEPS = 8


def length_origins(failure: Failure, line: FailedLine, case: Case) -> Iterator[Origin]:
    """The expressions that decide lengths which do not fit, and the conditions that let their rows in."""
    match = LENGTHS.search(failure.message)
    facts = lengths_of(case, match) if match is not None else None
    name = case.name_of(facts) if facts is not None else ""
    if name:
        yield from slice_origins([operand_start(failure, line, name)], RULES.number, name, least=POSSIBLE)


def passed_by_user(history: FailureHistory, site: ExpressionSite | None, tensor: TensorToken) -> TensorToken:
    """The tensor that an expression of the user passed to torch, which may sort it before the call that fails."""
    for _ in range(MOST_STEPS):
        at = history.producer(tensor)
        source = next(iter(history.inputs(at)), None) if at is not None else None
        if at is None or source is None or history.site(at) != site:
            return tensor
        tensor = source
    return tensor
