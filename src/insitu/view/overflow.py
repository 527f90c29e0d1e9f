"""Overflow, in one sentence: only where the largest inputs can give a result beyond the largest number of its type."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log, log2

from insitu.view.inputs import Inputs, magnitude, maximum_of, number

# The largest number of each type.
LARGEST = {
    "f8e5m2": 57344.0,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": 3.4028234663852886e38,
    "f64": 1.7976931348623157e308,
}
# What rounding may take off a result that is estimated from the largest inputs.
NEARLY = 0.99


def overflow(inputs: Inputs) -> str:
    """That a result is too large for its type, with the largest input; nothing where that cannot be."""
    limit = limit_of(inputs)
    is_unknown = any(stats.inf or stats.nan for stats in inputs.known)
    if inputs.kind != "inf" or is_unknown or limit is None:
        return ""
    if inputs.name in EXPONENTIALS:
        return _exponential(inputs, limit)
    estimate = ESTIMATES.get(inputs.name)
    result = estimate(inputs) if estimate is not None else None
    largest = max((found for stats in inputs.known if (found := magnitude(stats)) is not None), default=None)
    if result is None or largest is None or not reaches(result, limit):
        return ""
    return f"overflow: {end_of(inputs)}, and the largest absolute input is {number(largest)}"


def _exponential(inputs: Inputs, limit: float) -> str:
    """exp and its like: only large inputs overflow, and for cosh those far below 0 too."""
    text, end, takes_absolute = EXPONENTIALS[inputs.name]
    largest = magnitude(inputs.first) if takes_absolute else maximum_of(inputs.first)
    if largest is None or largest < NEARLY * end(limit):
        return ""
    what = "absolute input" if takes_absolute else "input"
    return f"overflow: {end_of(inputs)}, which is {text}({end(limit):.1f}), and the largest {what} is {number(largest)}"


def limit_of(inputs: Inputs) -> float | None:
    """The largest number of the type of the result."""
    output = inputs.finding.output
    return LARGEST.get(output.dtype) if output is not None else None


def end_of(inputs: Inputs) -> str:
    """The same, as a part of a sentence."""
    output = inputs.finding.output
    return f"{output.dtype} ends at {LARGEST[output.dtype]:.5g}" if output is not None else ""


def reaches(result: float, limit: float) -> bool:
    """Whether an estimated result goes beyond the largest number of a type."""
    return result >= NEARLY * limit


def _product(inputs: Inputs) -> float | None:
    left, right = magnitude(inputs.left), magnitude(inputs.right)
    return left * right if left is not None and right is not None else None


def _sum_of_two(inputs: Inputs) -> float | None:
    left, right = magnitude(inputs.left), magnitude(inputs.right)
    if left is None or right is None or inputs.finding.call is None or "alpha" in inputs.finding.call.kwargs:
        return None
    return left + right


def _sum_of_all(inputs: Inputs) -> float | None:
    largest = magnitude(inputs.first)
    return largest * inputs.first.count if largest is not None and inputs.first is not None else None


def _sum_of_products(inputs: Inputs) -> float | None:
    """More than any sum of products of the inputs can be."""
    largest = [found for stats in inputs.known if (found := magnitude(stats)) is not None]
    if not largest:
        return None
    return max(largest) * max(largest) * max(stats.count for stats in inputs.known)


def _square(inputs: Inputs) -> float | None:
    largest = magnitude(inputs.first)
    return largest * largest if largest is not None else None


def _power(inputs: Inputs) -> float | None:
    base, power = magnitude(inputs.left), magnitude(inputs.right)
    if base is None or power is None:
        return None
    try:
        return float(max(base, 1.0) ** power)
    except OverflowError:
        return inf


def _product_of_all(inputs: Inputs) -> float | None:
    largest = magnitude(inputs.first)
    if largest is None or inputs.first is None:
        return None
    try:
        return max(largest, 1.0) ** inputs.first.count
    except OverflowError:
        return inf


# More than the absolute result of an operator can be: where that fits into the type, Inf has another reason.
ESTIMATES: dict[str, Callable[[Inputs], float | None]] = {
    "mul": _product,
    "add": _sum_of_two,
    "sum": _sum_of_all,
    "norm": _sum_of_all,
    "matmul": _sum_of_products,
    "square": _square,
    "pow": _power,
    "prod": _product_of_all,
    "to": lambda inputs: magnitude(inputs.first),
}


def _acosh(limit: float) -> float:
    return log(limit) + log(2)


# The name that is shown, the input at which the type ends, and whether inputs far below 0 overflow too.
EXPONENTIALS: dict[str, tuple[str, Callable[[float], float], bool]] = {
    "exp": ("exp", log, False),
    "expm1": ("expm1", log, False),
    "exp2": ("exp2", log2, False),
    "cosh": ("cosh", _acosh, True),
}
