"""Where the values of a failure come from: the call that produced a tensor, or its assignment."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.assignments import assignment_sites
from insitu.trace.explain.callers import with_callers
from insitu.trace.explain.carried import PARAMETER
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.earlier_calls import earlier_origins
from insitu.trace.explain.empty_slices import empty_slice_origins
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind
from insitu.trace.explain.fact_origins import fact_origins, named_dtype_origins
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import LIBRARIES, Failure
from insitu.trace.explain.failure_history import USER_KINDS, FailureHistory, TensorToken
from insitu.trace.explain.gradient_origins import autograd_origins
from insitu.trace.explain.length_origins import length_origins
from insitu.trace.explain.nan_origins import nan_origins
from insitu.trace.explain.order_origins import order_origins
from insitu.trace.explain.origin_order import chosen_origins
from insitu.trace.explain.range_origins import range_origins
from insitu.trace.explain.rank_origins import unpacking_origins
from insitu.trace.explain.sample_origins import missing_origins, sample_origins
from insitu.trace.explain.size_origins import size_origins
from insitu.trace.explain.state_origins import state_origins
from insitu.trace.explain.storage_sites import storage_site
from insitu.trace.explain.value_origins import failed_value_origins


def find_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> tuple[Origin, ...]:
    """Where the values come from, each site once; the line that failed is left out where it produced the value."""
    found: dict[object, Origin] = {}
    for origin in _all_origins(failure, line, case, misfits):
        if not _is_shown_already(origin, line):
            found.setdefault(_place(origin.site), origin)
    return with_callers(failure, line, chosen_origins(found.values()))


def _is_shown_already(origin: Origin, line: FailedLine) -> bool:
    """Whether the failed line itself produced the value: the line is shown with its values."""
    if origin.kind is OriginKind.RANGE:
        return _is_on_line(origin.site, line.site)
    return origin.kind is OriginKind.PRODUCED and origin.site == line.site


def _is_on_line(one: ExpressionSite | None, other: ExpressionSite | None) -> bool:
    if one is None or other is None:
        return False
    return (one.file, one.line) == (other.file, other.line)


def _place(site: ExpressionSite | None) -> object:
    """A site without the function, which is not known for every site."""
    if site is None:
        return None
    return site.file, site.line, site.text


def _all_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> Iterator[Origin]:
    yield from autograd_origins(failure, case)
    yield from state_origins(failure, line)
    yield from nan_origins(failure, misfits)
    yield from empty_slice_origins(failure, case.empty)
    yield from length_origins(failure, line, case)
    yield from missing_origins(failure, line, case)
    yield from unpacking_origins(failure, line)
    yield from sample_origins(failure, line)
    yield from earlier_origins(failure, line, case, misfits)
    yield from size_origins(failure, line, case, misfits)
    yield from fact_origins(failure, line, case, misfits)
    yield from named_dtype_origins(failure, line, case, misfits)
    yield from range_origins(failure, line, case)
    yield from order_origins(failure, line)
    yield from failed_value_origins(failure, line)
    operands = case.operands if case.call is not None else line.tensors()
    for operand in operands:
        if _matters(failure, line, operand, misfits):
            yield from _tensor_origins(failure, line, operand)
    for missing in case.missing:
        if missing.site is not None:
            yield Origin(OriginKind.ASSIGNED, missing.site, missing.name)


def _matters(failure: Failure, line: FailedLine, operand: NamedOperand, misfits: tuple[Misfit, ...]) -> bool:
    """Whether to say where an operand comes from: a parameter matters only if a misfit mentions it."""
    if not operand.name or line.statement.is_result(operand.tensor):
        return False
    if not failure.live.parameter_path(operand.tensor):
        return True
    return any(misfit.mentions(operand.name) for misfit in misfits)


def _tensor_origins(failure: Failure, line: FailedLine, operand: NamedOperand) -> Iterator[Origin]:
    """The call that produced a tensor, else the call it was passed to and the assignment of its name."""
    history, name = failure.history, operand.name
    if failure.live.parameter_path(operand.tensor):
        yield from _initialization(failure, operand)
        return
    site = history.site(history.producer(operand.tensor))
    if site is not None:
        yield Origin(OriginKind.PRODUCED, site, name)
        yield from _storage(history, operand)
        return
    here, receiver = line.site, _receiver(history, line.at, operand.tensor)
    if receiver is not None:
        here = history.site(receiver)
        yield Origin(OriginKind.PASSED, here, name, history.callee_facts(receiver).label)
        name = history.name_in(receiver, operand.tensor)
    for site in assignment_sites(here, name):
        yield Origin(OriginKind.ASSIGNED, site, name)


def _storage(history: FailureHistory, operand: NamedOperand) -> Iterator[Origin]:
    """Where a tensor that the line takes out of a container was put into it."""
    producer = history.producer(operand.tensor)
    if producer is not None and _is_taken_from_container(operand.name):
        stored = storage_site(history, producer)
        if stored is not None:
            yield Origin(OriginKind.STORED, stored, operand.name)


def _is_taken_from_container(name: str) -> bool:
    """Whether an expression takes an item out of a container: `skips.pop()`, `states[0]`."""
    try:
        node = ast.parse(name, mode="eval").body
    except SyntaxError:
        return False
    if isinstance(node, ast.Call):
        return getattr(node.func, "attr", "") in ("pop", "popleft", "get")
    return isinstance(node, ast.Subscript)


def _initialization(failure: Failure, operand: NamedOperand) -> Iterator[Origin]:
    """The call that gave a parameter its first values, or that produced a buffer, if that was recorded."""
    at = failure.live.initializer(operand.tensor)
    is_parameter = operand.facts.type == PARAMETER
    if not is_parameter and at is None:
        at = failure.history.producer(operand.tensor)
    if at is not None and (not is_parameter or failure.history.operation(at).is_initial):
        yield Origin(OriginKind.PRODUCED, failure.history.site(at), operand.name)


def _receiver(history: FailureHistory, at: int | None, tensor: TensorToken) -> int | None:
    """The outermost call of the user around the failure that a tensor was passed to."""
    for each in reversed(list(history.ancestors(at))):
        if _is_call_of_user(history, each) and _has_input(history, each, tensor):
            return each
    return None


def _is_call_of_user(history: FailureHistory, at: int) -> bool:
    """Whether the user's code calls a module or a Python function."""
    site = history.site(at)
    if site is None or site.file.startswith(LIBRARIES):
        return False
    return history.callee_facts(at).kind in USER_KINDS


def _has_input(history: FailureHistory, at: int, tensor: TensorToken) -> bool:
    return any(item is tensor for item in history.inputs(at))
