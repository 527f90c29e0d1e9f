"""Why a call produced NaN or Inf, in one sentence, where the numbers that went into it prove the reason.

Each operator has its own reason: `exp` overflows for large inputs, `log` has a pole at 0, a root is undefined below 0.
Where the numbers do not prove a reason, there is no hint.
"""

from __future__ import annotations

from collections.abc import Callable

from insitu.trace.event import Stats
from insitu.trace.finding import Finding, Operand
from insitu.trace.operation import operation
from insitu.view.inputs import (
    Inputs,
    Side,
    has_infinity,
    has_zero,
    inputs_of,
    is_below,
    magnitude,
    maximum_of,
    minimum_of,
    number,
)
from insitu.view.overflow import end_of, limit_of, overflow, reaches

ROOTS = {"sqrt": "root", "rsqrt": "reciprocal root", "norm": "norm", "std": "deviation", "pow": "fractional power"}
# Operators without a pole: where their gradient is infinite, it is too large for its type.
WITHOUT_POLE = frozenset({"mul", "add", "matmul", "sum", "exp", "exp2", "square", "cosh"})
# What to take instead of the logarithm of a probability, by the function that made the probability.
INSTEAD = {
    "softmax": "use log_softmax on the scores instead of the logarithm of softmax",
    "sigmoid": "use logsigmoid, or binary_cross_entropy_with_logits, on the scores instead of the logarithm of sigmoid",
}
CLAMP = "clamp it first; for a probability, use log_softmax or logsigmoid on the scores"


def hint(finding: Finding) -> str:
    """The reason of a finding in one sentence; nothing where the numbers do not prove it."""
    if finding.call is None or "hook" in finding.details:
        return ""
    inputs = inputs_of(finding)
    if finding.node is not None:
        return _gradient(inputs)
    reason = REASONS.get(inputs.name)
    return (reason(inputs) if reason is not None else "") or _empty(inputs) or overflow(inputs)


# Reasons of the forward pass, one for each operator.


def _log(inputs: Inputs) -> str:
    if inputs.kind == "inf":
        is_zero = inputs.first is None or inputs.first.zeros
        return f"the logarithm of 0 is -inf: {_instead(inputs.finding.operands)}" if is_zero else ""
    return _undefined(inputs, "the logarithm of a number below 0", 0.0)


def _log1p(inputs: Inputs) -> str:
    if inputs.kind == "inf":
        is_pole = inputs.first is None or inputs.first.min == -1
        return "log1p(-1) is the logarithm of 0, which is -inf: clamp it first" if is_pole else ""
    return _undefined(inputs, "log1p of a number below -1", -1.0)


def _instead(operands: tuple[Operand, ...]) -> str:
    """What to compute instead of a logarithm of 0."""
    source = operands[0].source if operands else None
    return INSTEAD.get(operation(source.kind, source.name).base, CLAMP) if source is not None else CLAMP


def _logit(inputs: Inputs) -> str:
    if inputs.kind == "inf":
        return "the logit of 0 and of 1 is infinite: clamp to a little more and less (eps=1e-6)"
    return "the logit of a number outside 0 … 1 is NaN"


def _root(inputs: Inputs) -> str:
    if inputs.kind == "nan":
        return _undefined(inputs, f"the {ROOTS[inputs.name]} of a negative number", 0.0)
    return _division(inputs.first) if inputs.name == "rsqrt" else ""


def _undefined(inputs: Inputs, what: str, bound: float) -> str:
    """Numbers below a bound, for which a function is not defined; in-place calls have overwritten the numbers."""
    if inputs.first is None:
        return f"{what} is NaN"
    low = inputs.first.min
    return f"{what} is NaN: the smallest input is {number(low)}" if low is not None and low < bound else ""


def _reciprocal(inputs: Inputs) -> str:
    return _division(inputs.first) or _quotient(inputs, 1.0, inputs.first)


def _div(inputs: Inputs) -> str:
    if has_zero(inputs.right):
        return _division(inputs.right)
    return _quotient(inputs, inputs.left, inputs.right)


def _division(by: Side) -> str:
    if isinstance(by, Stats):
        zeros = f"division by zero: {by.zeros:,} of {by.count:,} divisors are 0; add an eps, or clamp them"
        return zeros if by.zeros else ""
    return "division by zero" if by is None else "division by zero: the divisor is 0"


def _quotient(inputs: Inputs, above: Side, below: Side) -> str:
    """A quotient that is too large for its type: possible only where no divisor is 0."""
    largest, low, high = magnitude(above), minimum_of(below), maximum_of(below)
    limit = limit_of(inputs)
    if limit is None or largest is None or low is None or high is None:
        return ""
    if low <= 0 <= high:  # the divisor that is closest to 0 is not known
        return f"overflow: {end_of(inputs)}, and the quotient is larger"
    smallest = min(abs(low), abs(high))
    if not reaches(largest / smallest, limit):
        return ""
    return f"overflow: {end_of(inputs)}, and {number(largest)} is divided by {number(smallest)}"


def _pow(inputs: Inputs) -> str:
    if inputs.kind == "nan":
        is_root = is_below(inputs.left, 0) and not has_infinity(inputs.left)
        smallest = number(minimum_of(inputs.left) or 0.0)
        what = "a fractional power of a negative number is NaN"
        return f"{what}: the smallest base is {smallest}" if is_root else ""
    if has_zero(inputs.left) and is_below(inputs.right, 0):
        return "0 to a negative power is infinite: add an eps, or clamp it"
    return ""


def _mul(inputs: Inputs) -> str:
    left, right = inputs.left, inputs.right
    is_zero_by_infinity = (has_zero(left) and has_infinity(right)) or (has_zero(right) and has_infinity(left))
    if inputs.kind == "nan" and is_zero_by_infinity:
        return "0 * inf is NaN: put the infinity where a mask is with masked_fill or torch.where"
    return ""


def _softmax(inputs: Inputs) -> str:
    if not any(stats.inf for stats in inputs.known):
        return ""
    if inputs.finding.details.get("positive"):
        return "a score is +inf: softmax subtracts the largest score, and inf - inf is NaN"
    return "every score of a row is -inf: the whole row is masked"


def _attention(inputs: Inputs) -> str:
    return "a row is masked completely, or a score overflows" if inputs.kind == "nan" else ""


def _std(inputs: Inputs) -> str:
    is_single = inputs.first is not None and inputs.first.count == 1
    return "the deviation of a single number is divided by n - 1, which is 0" if is_single else ""


REASONS: dict[str, Callable[[Inputs], str]] = {
    "log": _log,
    "log1p": _log1p,
    "logit": _logit,
    "sqrt": _root,
    "rsqrt": _root,
    "reciprocal": _reciprocal,
    "div": _div,
    "pow": _pow,
    "mul": _mul,
    "softmax": _softmax,
    "scaled_dot_product_attention": _attention,
    "std": _std,
}


# Reasons of the backward pass.


def _gradient(inputs: Inputs) -> str:
    if inputs.finding.details.get("entered"):
        return "the incoming gradient is infinite already, and 0 * inf is NaN" if inputs.kind == "nan" else ""
    return _pole(inputs) or _gradient_overflow(inputs)


def _pole(inputs: Inputs) -> str:
    """A point where the derivative of an operator is infinite, if the numbers are there."""
    name = inputs.name
    if name == "acos":
        return "the gradient of acos and asin at -1 and 1 is infinite: clamp to a little less"
    if name in ROOTS and _is_at_zero(inputs):
        return f"the gradient of a {ROOTS[name]} at 0 is infinite: add an eps inside it"
    if name == "div" and has_zero(inputs.right):
        return "the gradient of a quotient is infinite where the divisor is 0"
    if name in ("reciprocal", "log") and any(stats.zeros for stats in inputs.known):
        what = "the logarithm" if name == "log" else "a quotient"
        return f"the gradient of {what} at 0 is infinite"
    return ""


def _is_at_zero(inputs: Inputs) -> bool:
    """Whether a root, a power, a norm or a deviation is taken at 0."""
    if inputs.name == "pow":
        power = inputs.right
        is_smooth = isinstance(power, (int, float)) and power >= 1
        return not is_smooth and has_zero(inputs.left)
    if inputs.name == "std":
        results = [stats for stats, operand in _pairs(inputs) if operand.name.startswith("result")]
        return any(stats.zeros for stats in results) or any(stats.std == 0 for stats in inputs.known)
    return any(stats.zeros for stats in inputs.known)


def _pairs(inputs: Inputs) -> list[tuple[Stats, Operand]]:
    operands = inputs.finding.operands
    return [(stats, operand) for stats, operand in zip(inputs.every, operands, strict=True) if stats is not None]


def _gradient_overflow(inputs: Inputs) -> str:
    """A gradient that is too large for its type: certain for operators without a pole."""
    is_unknown = any(stats.inf or stats.nan for stats in inputs.known) or limit_of(inputs) is None
    if inputs.kind != "inf" or is_unknown or not _is_without_pole(inputs):
        return ""
    return f"overflow: {end_of(inputs)}, and the gradient is larger"


def _is_without_pole(inputs: Inputs) -> bool:
    """Whether the derivative of an operator is finite for these inputs, none of which is known to be a pole."""
    if inputs.name == "div":
        return inputs.right is not None
    if inputs.name == "pow":
        power = inputs.right
        return inputs.left is not None or (isinstance(power, (int, float)) and power >= 1)
    return inputs.name in WITHOUT_POLE


def _empty(inputs: Inputs) -> str:
    return "the input is empty" if any(stats.count == 0 for stats in inputs.known) else ""
