"""Whether a layer, or another one of the same line, has worked before the failure: then the data is at fault."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from insitu.trace.explain.edits import expression_of
from insitu.trace.explain.failure_history import TensorToken
from insitu.trace.explain.remedies.situation import Situation
from insitu.trace.explain.remedies.source_part import SourcePart

PARAMETER = "Parameter"
MOST_CALLS = 50  # of the layers whose lines are compared


def has_worked(situation: Situation, parameter: str, constructor: SourcePart) -> bool:
    """Whether an earlier call of the layer with this parameter, or of one that the same line made, returned."""
    operand = next((each for each in situation.case.operands if each.name == parameter), None)
    if operand is None:
        return False
    if any(_has_returned(situation, at) for at in situation.failure.live.users(operand.tensor)):
        return True
    places = (_constructor_line(situation, each) for each in islice(_parameters(situation), MOST_CALLS))
    return (constructor.file, constructor.expression.position) in places


def _has_returned(situation: Situation, at: int) -> bool:
    """Whether a call of the function that failed has a result."""
    history = situation.failure.history
    is_same = history.operation(at).base == situation.case.operation.base
    has_result = not history.has_raised(at) and history.result(at) is not None
    return all((is_same, has_result, at != situation.failure.at))


def _parameters(situation: Situation) -> Iterator[TensorToken]:
    """The parameters with which the function that failed has worked."""
    history = situation.failure.history
    calls = [at for at in history.before(situation.failure.end) if _has_returned(situation, at)]
    for at in calls:
        yield from (each for each in history.inputs(at) if history.plain(each).type == PARAMETER)


def _constructor_line(situation: Situation, parameter: TensorToken) -> tuple[str, tuple[int, ...]] | None:
    """The file and the position of the expression that made the layer of a parameter."""
    failure = situation.failure
    expression = expression_of(failure.history.site(failure.live.initializer(parameter)))
    if expression is None:
        return None
    return expression.file, expression.position
