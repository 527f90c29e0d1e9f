"""Where the values of a failure come from: the call that produced a tensor, or its assignment."""

from __future__ import annotations

from collections.abc import Iterator

from insitu.trace.explain.assignments import assignment_sites
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import LIBRARIES, Failure
from insitu.trace.explain.failure_history import USER_KINDS, FailureHistory, TensorToken
from insitu.trace.explain.gradient_origins import autograd_origins
from insitu.trace.explain.messages import WRONG_ELEMENTS
from insitu.trace.operation import Operation, operation

MOST_ORIGINS = 4
MOST_STEPS = 50


def find_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> tuple[Origin, ...]:
    """Where the values come from, each site once; the line that failed is left out where it produced the value."""
    found: dict[ExpressionSite | None, Origin] = {}
    for origin in _all_origins(failure, line, case, misfits):
        if origin.site != line.site or origin.kind is not OriginKind.PRODUCED:
            found.setdefault(origin.site, origin)
    return tuple(found.values())[:MOST_ORIGINS]


def _all_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> Iterator[Origin]:
    yield from autograd_origins(failure, case)
    operands = case.operands if case.call is not None else line.tensors()
    for operand in operands:
        if _matters(failure, line, operand, misfits):
            yield from _tensor_origins(failure, line, operand)
            yield from _element_origins(failure, operand)
    assigned = [missing for missing in case.missing if missing.site is not None]
    yield from (Origin(OriginKind.ASSIGNED, missing.site, missing.name) for missing in assigned)


def _matters(failure: Failure, line: FailedLine, operand: NamedOperand, misfits: tuple[Misfit, ...]) -> bool:
    """Whether to say where an operand comes from: a parameter matters only if a misfit mentions it."""
    if not operand.name or line.statement.is_result(operand.tensor):
        return False
    is_parameter = bool(failure.live.parameter_path(operand.tensor))
    return not is_parameter or any(misfit.mentions(operand.name) for misfit in misfits)


def _tensor_origins(failure: Failure, line: FailedLine, operand: NamedOperand) -> Iterator[Origin]:
    """The call that produced a tensor, else the call it was passed to and the assignment of its name."""
    history, name = failure.history, operand.name
    if failure.live.parameter_path(operand.tensor):
        yield from _initialization(failure, operand)
        return
    site = history.site(history.producer(operand.tensor))
    if site is not None:
        yield Origin(OriginKind.PRODUCED, site, name)
        return
    here, receiver = line.site, _receiver(history, line.at, operand.tensor)
    if receiver is not None:
        here = history.site(receiver)
        yield Origin(OriginKind.PASSED, here, name, history.callee_facts(receiver).label)
        name = history.name_in(receiver, operand.tensor)
    if here is not None:
        yield from (Origin(OriginKind.ASSIGNED, site, name) for site in assignment_sites(here.file, here.line, name))


def _initialization(failure: Failure, operand: NamedOperand) -> Iterator[Origin]:
    """The call that gave a parameter its first values: where its module was made, if that was recorded."""
    at = failure.live.initializer(operand.tensor)
    if at is not None and _operation(failure.history, at).is_initial:
        yield Origin(OriginKind.PRODUCED, failure.history.site(at), operand.name)


def _receiver(history: FailureHistory, at: int | None, tensor: TensorToken) -> int | None:
    """The outermost call of the user around the failure that a tensor was passed to."""
    around = [each for each in history.ancestors(at) if history.callee_facts(each).kind in USER_KINDS]
    own = [each for each in around if _is_in_user_code(history.site(each))]
    return next((each for each in reversed(own) if any(item is tensor for item in history.inputs(each))), None)


def _is_in_user_code(site: ExpressionSite | None) -> bool:
    return site is not None and not site.file.startswith(LIBRARIES)


def _element_origins(failure: Failure, operand: NamedOperand) -> Iterator[Origin]:
    """The call that computed the elements of a tensor, if the elements are at fault."""
    if not WRONG_ELEMENTS.search(failure.message):
        return
    site = failure.history.site(_element_producer(failure.history, operand.tensor))
    if site is not None:
        yield Origin(OriginKind.VALUES_PRODUCED, site)


def _element_producer(history: FailureHistory, tensor: TensorToken) -> int | None:
    """The call that computed the elements of a tensor, behind all calls that only move or convert them."""
    at = history.producer(tensor)
    for _ in range(MOST_STEPS):
        earlier = _producer_of_moved(history, at) if at is not None else None
        if earlier is None:
            break
        at = earlier
    return at


def _producer_of_moved(history: FailureHistory, at: int) -> int | None:
    """The call that produced the elements that a call only moves or converts; None if it does more."""
    known = _operation(history, at)
    if not known.is_move:
        return None
    producers = [history.producer(item) for item in history.tensors(history.args(at))]
    if known.family == "join":
        return next((producer for producer in reversed(producers) if producer is not None), None)
    return next(iter(producers[int(known.overwrites) :]), None)


def _operation(history: FailureHistory, at: int) -> Operation:
    callee = history.callee_facts(at)
    return operation(callee.kind, callee.name)
