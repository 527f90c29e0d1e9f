"""Mistakes in how much there is: slices that leave nothing, lengths that do not fit, values that are NaN."""

from __future__ import annotations

import math
import re

from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case
from insitu.trace.explain.checks.registry import Checks
from insitu.trace.explain.explanation import Misfit
from insitu.trace.explain.messages import LENGTHS, NOT_FINITE

CHECKS = Checks()
MOST_NAMED = 3
# Where a function takes lengths.
PLACES = {"lengths": 1, "input_lengths": 2, "target_lengths": 3}
GUARD = "run it in `with insitu.guard():`, which names the call that produces the first NaN"


@CHECKS.add()
def slice_is_empty(case: Case) -> Misfit | None:
    """An operand that a slice has left nothing of."""
    empty = case.empty
    if empty is None:
        return None
    bounds = ", ".join(f"{each.text} is {each.start}:{each.end}" for each in empty.bounds)
    return Misfit(f"{empty.text} is empty: {bounds}", names=(empty.text,))


@CHECKS.add(says=LENGTHS.pattern)
def length_does_not_fit(case: Case, match: re.Match[str]) -> Misfit | None:
    """A length of a row that is 0, negative or too large."""
    facts = lengths_of(case, match)
    if facts is None:
        return None
    low = 1.0 if match["positive"] else 0.0
    element = case.outside(facts, low, float(match["most"] or math.inf))
    if element is None:
        return None
    name = case.name_of(facts)
    return Misfit(f"{name or 'a list of lengths'}[{element.index}] is {element.value:.0f}", names=(name,))


def lengths_of(case: Case, match: re.Match[str]) -> TensorFacts | None:
    """The lengths that an error is about."""
    name = match["name"] or "lengths"
    return case.tensor(PLACES[name], name)


@CHECKS.add(says=NOT_FINITE.pattern)
def values_are_nan(case: Case, match: re.Match[str]) -> Misfit | None:
    """Operands or parameters that hold NaN."""
    limits = {operand.label: case.limits(operand.facts) for operand in case.operands}
    operands = [name for name, found in limits.items() if found is not None and math.isnan(found[0])]
    parameters = case.nan_parameters
    if parameters:
        noun = "the parameter" if len(parameters) == 1 else "the parameters"
        text = f"{noun} {_listed(parameters)} hold{'s' * (len(parameters) == 1)} NaN; since which call is not recorded"
        return Misfit(text, way_out=GUARD)
    if operands:
        return Misfit(f"{_listed(tuple(operands))} holds NaN", way_out=GUARD, names=tuple(operands))
    return None


def _listed(names: tuple[str, ...]) -> str:
    more = len(names) - MOST_NAMED
    text = ", ".join(names[:MOST_NAMED])
    return f"{text} and {more} more" if more > 0 else text
