"""From a failure to its explanation, step by step: line, call, case, misfits, origins, advice."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import replace

from insitu.trace.event import TensorFacts
from insitu.trace.explain.advisor import find_advice
from insitu.trace.explain.assignments import assignment_sites
from insitu.trace.explain.case import Case, Element, Limits, MissingValue, NamedOperand, ParameterUpdate
from insitu.trace.explain.empty_slices import find_empty_slice
from insitu.trace.explain.explanation import Explanation, ExpressionSite, Underline
from insitu.trace.explain.failed_line import FailedLine, read_line
from insitu.trace.explain.failure import Failure, InPlaceChange
from insitu.trace.explain.failure_history import USER_KINDS, FailureHistory, TensorToken
from insitu.trace.explain.frame_reader import FailedCall, FrameReader
from insitu.trace.explain.length_origins import passed_by_user
from insitu.trace.explain.messages import CHANGED_IN_PLACE, NONE, NOT_FINITE
from insitu.trace.explain.misfits import find_misfits
from insitu.trace.explain.origins import find_origins
from insitu.trace.explain.statement import no_statement

# What torch's own modules call where they fail, and whose operands say more than those of the module.
KNOWN_INSIDE = frozenset(
    {"torch.nn.functional.linear", "torch.nn.functional.embedding", "torch.nn.functional.layer_norm"}
)


def explain(failure: Failure) -> Explanation:
    """Why an exception was raised."""
    line = read_line(failure)
    call = find_call(failure, line)
    underlines = line.underlines(call.operands)
    case = build_case(failure, line, call, underlines)
    misfits = find_misfits(case)
    origins = find_origins(failure, line, case, misfits)
    advice = find_advice(failure, line, case, misfits, origins)
    return Explanation(
        failure.error, failure.message, line.site, failure.modules, line.source, underlines, misfits, origins, advice
    )


def find_call(failure: Failure, line: FailedLine) -> FailedCall:
    """The call that failed, with its operands named: as a frame wrote it, else as it was recorded."""
    found = _written_call(failure, line) or _recorded_call(failure, line)
    return replace(found, operands=tuple(_with_name(failure, line, operand) for operand in found.operands))


def _written_call(failure: Failure, line: FailedLine) -> FailedCall | None:
    """The call that the innermost frame was making, else the call that the user's frame was making."""
    inner = line.frame
    if failure.inner is not failure.own:
        inner = FrameReader(failure.inner, failure.history, no_statement(failure.history))
    found = inner.call(failure.error, failure.message) or line.frame.call(failure.error, failure.message)
    if found is not None and _says_more(failure, line, found):
        return found
    return None


def _says_more(failure: Failure, line: FailedLine, found: FailedCall) -> bool:
    """Whether a call says more than the recorded one: where only torch ran, the names in its frames say little."""
    is_own = failure.has_own_frame or line.at is None
    return is_own or (found.call is not None and found.call.name in KNOWN_INSIDE)


def _recorded_call(failure: Failure, line: FailedLine) -> FailedCall:
    """The recorded call, if only torch ran; what the user's frame called is not known otherwise."""
    history, at = failure.history, line.at
    if at is None or failure.has_own_frame:
        return FailedCall()
    operands = (NamedOperand("", history.plain(tensor), tensor) for tensor in history.inputs(at))
    return FailedCall(history.call(at), tuple(operands))


def _with_name(failure: Failure, line: FailedLine, operand: NamedOperand) -> NamedOperand:
    """The operand by its expression on the line, else its path, else a name of the frame."""
    tensor = operand.tensor
    name = line.expression_of(tensor) or failure.live.parameter_path(tensor) or line.frame.name_of(tensor)
    return replace(operand, name=name or operand.name)


def build_case(failure: Failure, line: FailedLine, call: FailedCall, underlines: tuple[Underline, ...]) -> Case:
    """What the checks need to know."""
    history = failure.history
    change = _in_place_change(failure, call)
    return Case(
        failure.error,
        failure.message,
        call.call,
        call.operands,
        limits=lambda facts: _limits(failure, call, facts),
        missing=tuple(_missing_values(failure, line, underlines)),
        unpacked=history.plain(line.frame.unpacked()),
        outside=lambda facts, low, high: _outside(failure, line, call.operands, facts, low, high),
        empty=find_empty_slice(history, call.operands),
        nan_parameters=_nan_parameters(failure),
        change=change,
        update=_update(history, change),
    )


def _limits(failure: Failure, call: FailedCall, facts: TensorFacts) -> Limits | None:
    for operand in call.operands:
        if operand.facts is facts:
            return failure.live.limits(operand.tensor)
    return None


def _outside(
    failure: Failure, line: FailedLine, operands: tuple[NamedOperand, ...], facts: TensorFacts, low: float, high: float
) -> Element | None:
    """The first element of an operand that is not within limits, as the user's code passed it to torch."""
    operand = next((each for each in operands if each.facts is facts), None)
    if operand is None:
        return None
    passed = passed_by_user(failure.history, line.site, operand.tensor)
    found = failure.live.first_outside(passed, low, high)
    return None if found is None else Element(*found)


def _nan_parameters(failure: Failure) -> tuple[str, ...]:
    """The parameters that hold NaN, if the error is about such values."""
    if not NOT_FINITE.search(failure.message):
        return ()
    return failure.live.nan_parameters()


def _missing_values(failure: Failure, line: FailedLine, underlines: tuple[Underline, ...]) -> Iterator[MissingValue]:
    """The names on the line that are None."""
    site = line.site
    if NONE not in failure.message or site is None:
        return
    for each in underlines:
        if each.value is None:
            name = linecache.getline(site.file, each.line)[each.start : each.end]
            yield _missing_value(failure, name, assignment_sites(site, name))


def _missing_value(failure: Failure, name: str, sites: list[ExpressionSite]) -> MissingValue:
    if not sites:
        return MissingValue(name)
    return MissingValue(name, sites[0], _returning_none(failure.history, sites[0], failure.end))


def _returning_none(history: FailureHistory, site: ExpressionSite, end: int) -> str:
    """The module or function that was called at a site and returned None: `FeedForward.forward`."""
    function = ""
    for at in history.before(end):
        if _returns_none(history, at) and _is_same_expression(history.site(at), site):
            function = history.callee_facts(at).function
    return function


def _returns_none(history: FailureHistory, at: int) -> bool:
    """Whether a module or a Python function was called, and returned None."""
    return history.result(at) is None and history.callee_facts(at).kind in USER_KINDS


def _is_same_expression(one: ExpressionSite | None, other: ExpressionSite) -> bool:
    return one is not None and (one.file, one.line, one.text) == (other.file, other.line, other.text)


def _in_place_change(failure: Failure, call: FailedCall) -> InPlaceChange | None:
    """The change in place of a tensor that the backward pass needs."""
    if CHANGED_IN_PLACE not in failure.message:
        return None
    return failure.live.in_place_change(_loss(failure, call), failure.message, failure.end)


def _loss(failure: Failure, call: FailedCall) -> TensorToken | None:
    """The tensor whose backward pass failed: the operand, else what the engine of autograd has."""
    if call.operands:
        return call.operands[0].tensor
    return next(failure.history.tensors(failure.inner.names.get("t_outputs")), None)


def _update(history: FailureHistory, change: InPlaceChange | None) -> ParameterUpdate | None:
    """The parameter that changed, if an optimizer changed it or no recorded call did."""
    if change is None:
        return None
    if change.changed_by is not None:
        expression = history.expression(history.on_line(change.changed_by))
        if _is_step(expression.node):
            return ParameterUpdate(change.parameter, expression.text)
        return None
    if not change.parameter:
        return None
    return ParameterUpdate(change.parameter)


def _is_step(node: ast.AST) -> bool:
    """Whether an expression is `optimizer.step()`."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "step"
