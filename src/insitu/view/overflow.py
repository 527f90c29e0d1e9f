"""Overflow, in one sentence: only where the largest inputs can give a result beyond the largest number of its type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, log2, nan

from insitu.view.call_numbers import CallNumbers, NumberRange, number, power

# What rounding may take off a result that is estimated from the largest inputs.
NEARLY = 0.99


def overflow(inputs: CallNumbers) -> str:
    """The sentence that a result is too large for its type, with the largest input; "" where that is impossible."""
    if inputs.finding.kind != "inf" or not inputs.is_finite:
        return ""
    if inputs.name in EXPONENTIALS:
        return _exponential(inputs, EXPONENTIALS[inputs.name])
    estimate = ESTIMATES.get(inputs.name, _unknown)
    if not reaches(estimate(inputs), inputs):
        return ""
    return f"overflow: {inputs.end_of_type}, and the largest absolute input is {number(inputs.largest)}"


@dataclass(frozen=True)
class Exponential:
    """A function that grows as exp does; `end` gives the input at which a type ends, `largest` the largest input."""

    name: str
    end: Callable[[float], float]
    largest: Callable[[NumberRange], float]
    what: str = "input"


def _exponential(inputs: CallNumbers, function: Exponential) -> str:
    """exp and its like: only large inputs overflow, and for cosh those far below 0 too."""
    end, largest = function.end(inputs.limit), function.largest(inputs.first)
    if not largest >= NEARLY * end:
        return ""
    exact = f"{inputs.end_of_type}, which is {function.name}({end:.1f})"
    return f"overflow: {exact}, and the largest {function.what} is {number(largest)}"


def quotient_overflow(inputs: CallNumbers, above: NumberRange, below: NumberRange) -> str:
    """The sentence that a quotient is too large for its type: possible only where no divisor is 0."""
    largest, smallest = above.magnitude, below.smallest_magnitude
    if smallest == 0 and largest >= 0 and inputs.limit > 0:  # the divisor that is closest to 0 is not known
        return f"overflow: {inputs.end_of_type}, and the quotient is larger"
    if not reaches(largest / smallest if smallest else nan, inputs):
        return ""
    return f"overflow: {inputs.end_of_type}, and {number(largest)} is divided by {number(smallest)}"


def reaches(result: float, inputs: CallNumbers) -> bool:
    """Whether an estimated result goes beyond the largest number of the type of the result."""
    return result >= NEARLY * inputs.limit


def _unknown(inputs: CallNumbers) -> float:
    return nan


def _product(inputs: CallNumbers) -> float:
    return inputs.left.magnitude * inputs.right.magnitude


def _sum_of_two(inputs: CallNumbers) -> float:
    call = inputs.finding.call
    if call is None or "alpha" in call.kwargs:
        return nan
    return inputs.left.magnitude + inputs.right.magnitude


def _sum_of_all(inputs: CallNumbers) -> float:
    return inputs.first.magnitude * inputs.first.count


def _sum_of_products(inputs: CallNumbers) -> float:
    """More than any sum of products of the inputs can be."""
    count = max((side.count for side in inputs.known), default=0)
    return inputs.largest * inputs.largest * count


def _square(inputs: CallNumbers) -> float:
    return inputs.first.magnitude * inputs.first.magnitude


def _power(inputs: CallNumbers) -> float:
    return power(inputs.left.magnitude, inputs.right.magnitude)


def _product_of_all(inputs: CallNumbers) -> float:
    return power(inputs.first.magnitude, inputs.first.count)


def _itself(inputs: CallNumbers) -> float:
    return inputs.first.magnitude


# More than the absolute result of an operator can be: where that fits into the type, Inf has another reason.
ESTIMATES: dict[str, Callable[[CallNumbers], float]] = {
    "mul": _product,
    "add": _sum_of_two,
    "sum": _sum_of_all,
    "norm": _sum_of_all,
    "matmul": _sum_of_products,
    "square": _square,
    "pow": _power,
    "prod": _product_of_all,
    "to": _itself,
}


def _highest(side: NumberRange) -> float:
    return side.high


def _magnitude(side: NumberRange) -> float:
    return side.magnitude


def _acosh(limit: float) -> float:
    return log(limit) + log(2)


EXPONENTIALS: dict[str, Exponential] = {
    "exp": Exponential("exp", log, _highest),
    "expm1": Exponential("expm1", log, _highest),
    "exp2": Exponential("exp2", log2, _highest),
    "cosh": Exponential("cosh", _acosh, _magnitude, "absolute input"),
}
