"""Where a dtype or a device that does not fit comes from: the call since which a tensor has it."""

from __future__ import annotations

from collections.abc import Iterator

from insitu.trace.explain.assignments import outside_site
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken

MOST_CALLS = 300
USUAL = ("f32", "cpu")  # what a tensor has if nobody asked for anything: the other operand is the odd one


def fact_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> Iterator[Origin]:
    """The calls since which the operands of a misfit have their dtype or device."""
    for misfit in misfits:
        if not misfit.fact:
            continue
        concerned = [operand for operand in case.operands if misfit.mentions(operand.name)]
        for operand in concerned:
            if not failure.live.parameter_path(operand.tensor):
                yield from _fact_origin(failure, line, operand, misfit.fact)


def _fact_origin(failure: Failure, line: FailedLine, operand: NamedOperand, fact: str) -> Iterator[Origin]:
    """The place since which an operand has a fact, unless the operand was produced there."""
    value = getattr(operand.facts, fact)
    if value in USUAL:
        return
    history = failure.history
    known = (line.site, history.site(history.producer(operand.tensor)))
    site = first_site(history, operand.tensor, fact)
    if site is not None and site not in known:
        yield Origin(OriginKind.FACT, site, value)


def first_site(history: FailureHistory, tensor: TensorToken, fact: str) -> ExpressionSite | None:
    """Where the first tensor with a fact was produced or assigned, from which all later ones have it."""
    wanted = getattr(history.plain(tensor), fact)
    receiver: int | None = None
    for _ in range(MOST_CALLS):
        at = history.producer(tensor)
        if at is None:
            return outside_site(history, receiver, tensor) or history.site(receiver)
        earlier = _input_with(history, at, fact, wanted)
        if earlier is None:
            return history.site(at)
        receiver, tensor = at, earlier
    return None


def _input_with(history: FailureHistory, at: int, fact: str, wanted: str) -> TensorToken | None:
    """The first tensor that went into a call and has the fact already."""
    for token in history.inputs(at):
        if not history.is_array(token) and getattr(history.plain(token), fact) == wanted:
            return token
    return None
