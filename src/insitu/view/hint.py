"""Why a call produced NaN or Inf, in one sentence, where the numbers that went into it prove the reason.

Each operator has its own reason: `exp` overflows for large inputs, `log` has a pole at 0, a root is undefined below 0.
Where the numbers do not prove a reason, there is no hint.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, isinf, log, log2

from insitu.trace.event import Stats, TensorFacts
from insitu.trace.finding import Finding, Operand

# The largest number of each type.
LARGEST = {
    "f8e5m2": 57344.0,
    "f16": 65504.0,
    "bf16": 3.3895313892515355e38,
    "f32": 3.4028234663852886e38,
    "f64": 1.7976931348623157e308,
}
# Other names of the same operator.
SAME = {
    **dict.fromkeys(("__truediv__", "__rtruediv__", "__rdiv__", "__itruediv__", "true_divide", "divide"), "div"),
    **dict.fromkeys(("__pow__", "__rpow__", "__ipow__", "float_power"), "pow"),
    **dict.fromkeys(("log2", "log10"), "log"),
    **dict.fromkeys(("__mul__", "__rmul__", "__imul__", "multiply"), "mul"),
    **dict.fromkeys(("__add__", "__radd__", "__iadd__", "__sub__", "__rsub__", "__isub__", "rsub", "sub"), "add"),
    **dict.fromkeys(("softmin", "log_softmax"), "softmax"),
    **dict.fromkeys(("vector_norm", "pairwise_distance", "cdist"), "norm"),
    **dict.fromkeys(("var", "std_mean", "var_mean"), "std"),
    **dict.fromkeys(("arccos", "arcsin", "asin"), "acos"),
    **dict.fromkeys(("to", "type", "type_as", "half", "bfloat16", "float"), "to"),
    **dict.fromkeys(("mm", "bmm", "__matmul__", "__rmatmul__", "linear", "addmm", "baddbmm", "einsum"), "matmul"),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "dot", "mv", "inner", "outer"), "matmul"),
    **dict.fromkeys(("mean", "cumsum", "nansum"), "sum"),
    **dict.fromkeys(("sinh", "cosh"), "cosh"),
    "cumprod": "prod",
    "special_logit": "logit",
}
REVERSED = ("__rtruediv__", "__rdiv__", "__rpow__")  # the first argument stands on the right
ROOTS = {"sqrt": "root", "rsqrt": "reciprocal root", "norm": "norm", "std": "deviation", "pow": "fractional power"}
# What rounding may take off a result that is estimated from the largest inputs.
NEARLY = 0.99
# Operators without a pole: where their gradient is infinite, it is too large for its type.
WITHOUT_POLE = frozenset({"mul", "add", "matmul", "sum", "exp", "exp2", "square", "cosh"})
# What to take instead of the logarithm of a probability, by the function that made the probability.
INSTEAD = {
    "softmax": "use log_softmax on the scores instead of the logarithm of softmax",
    "sigmoid": "use logsigmoid, or binary_cross_entropy_with_logits, on the scores instead of the logarithm of sigmoid",
}
CLAMP = "clamp it first; for a probability, use log_softmax or logsigmoid on the scores"

Side = Stats | float | None


@dataclass(frozen=True)
class Inputs:
    """What went into the call of a finding, as far as it is known: statistics of tensors, and plain numbers."""

    name: str
    finding: Finding
    every: tuple[Stats | None, ...]
    left: Side
    right: Side

    @property
    def first(self) -> Stats | None:
        """The first tensor, if its numbers are known as they were before the call."""
        found = self.every[0] if self.every else None
        return None if found is None or found.inf or found.nan else found

    @property
    def known(self) -> list[Stats]:
        return [stats for stats in self.every if stats is not None]

    @property
    def kind(self) -> str:
        return self.finding.kind


def hint(finding: Finding) -> str:
    """The reason of a finding in one sentence; nothing where the numbers do not prove it."""
    if finding.call is None or "hook" in finding.details:
        return ""
    inputs = _inputs(finding)
    if finding.node is not None:
        return _gradient(inputs)
    reason = REASONS.get(inputs.name)
    return (reason(inputs) if reason is not None else "") or _empty(inputs) or _overflow(inputs)


def _inputs(finding: Finding) -> Inputs:
    last = finding.call.name.rpartition(".")[2] if finding.call is not None else ""
    name = SAME.get(last) or SAME.get(last.rstrip("_"), last if last.endswith("__") else last.rstrip("_"))
    every = tuple(operand.facts.stats for operand in finding.operands)
    left, right = _sides(finding, every)
    return Inputs(name, finding, every, left, right)


def _sides(finding: Finding, every: tuple[Stats | None, ...]) -> tuple[Side, Side]:
    """The two sides of an operator: statistics of a tensor, a number, or None where it is not known."""
    call, tensors = finding.call, iter(every)
    given = (*call.args, *call.kwargs.values()) if call is not None else ()
    sides = [next(tensors, None) if isinstance(item, TensorFacts) else item for item in given] or list(tensors)
    left, right = (*(side if isinstance(side, (Stats, int, float)) else None for side in sides), None, None)[:2]
    is_reversed = call is not None and call.name.endswith(REVERSED)
    return (right, left) if is_reversed else (left, right)


# What is known of one side.


def _smallest(side: Side) -> float | None:
    return side.min if isinstance(side, Stats) else side


def _largest(side: Side) -> float | None:
    return side.max if isinstance(side, Stats) else side


def _magnitude(side: Side) -> float | None:
    """The largest absolute value."""
    low, high = _smallest(side), _largest(side)
    return None if low is None or high is None else max(abs(low), abs(high))


def _is_below(side: Side, bound: float) -> bool:
    low = _smallest(side)
    return low is not None and low < bound


def _has_zero(side: Side) -> bool:
    return bool(side.zeros) if isinstance(side, Stats) else side == 0


def _has_infinity(side: Side) -> bool:
    return bool(side.inf) if isinstance(side, Stats) else side is not None and isinf(side)


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
    return INSTEAD.get(source.name.rpartition(".")[2], CLAMP) if source is not None else CLAMP


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
    return f"{what} is NaN: the smallest input is {_number(low)}" if low is not None and low < bound else ""


def _reciprocal(inputs: Inputs) -> str:
    return _division(inputs.first) or _quotient(inputs, 1.0, inputs.first)


def _div(inputs: Inputs) -> str:
    if _has_zero(inputs.right):
        return _division(inputs.right)
    return _quotient(inputs, inputs.left, inputs.right)


def _division(by: Side) -> str:
    if isinstance(by, Stats):
        zeros = f"division by zero: {by.zeros:,} of {by.count:,} divisors are 0; add an eps, or clamp them"
        return zeros if by.zeros else ""
    return "division by zero" if by is None else "division by zero: the divisor is 0"


def _quotient(inputs: Inputs, above: Side, below: Side) -> str:
    """A quotient that is too large for its type: possible only where no divisor is 0."""
    largest, low, high = _magnitude(above), _smallest(below), _largest(below)
    limit = _limit(inputs)
    if limit is None or largest is None or low is None or high is None:
        return ""
    if low <= 0 <= high:  # the divisor that is closest to 0 is not known
        return f"overflow: {_end(inputs)}, and the quotient is larger"
    smallest = min(abs(low), abs(high))
    if not _reaches(largest / smallest, limit):
        return ""
    return f"overflow: {_end(inputs)}, and {_number(largest)} is divided by {_number(smallest)}"


def _pow(inputs: Inputs) -> str:
    if inputs.kind == "nan":
        is_root = _is_below(inputs.left, 0) and not _has_infinity(inputs.left)
        smallest = _number(_smallest(inputs.left) or 0.0)
        what = "a fractional power of a negative number is NaN"
        return f"{what}: the smallest base is {smallest}" if is_root else ""
    if _has_zero(inputs.left) and _is_below(inputs.right, 0):
        return "0 to a negative power is infinite: add an eps, or clamp it"
    return ""


def _mul(inputs: Inputs) -> str:
    left, right = inputs.left, inputs.right
    is_zero_by_infinity = (_has_zero(left) and _has_infinity(right)) or (_has_zero(right) and _has_infinity(left))
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
    if name == "div" and _has_zero(inputs.right):
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
        return not is_smooth and _has_zero(inputs.left)
    if inputs.name == "std":
        results = [stats for stats, operand in _pairs(inputs) if operand.name.startswith("result")]
        return any(stats.zeros for stats in results) or any(stats.std == 0 for stats in inputs.known)
    return any(stats.zeros for stats in inputs.known)


def _pairs(inputs: Inputs) -> list[tuple[Stats, Operand]]:
    operands = inputs.finding.operands
    return [(stats, operand) for stats, operand in zip(inputs.every, operands, strict=True) if stats is not None]


def _gradient_overflow(inputs: Inputs) -> str:
    """A gradient that is too large for its type: certain for operators without a pole."""
    is_unknown = any(stats.inf or stats.nan for stats in inputs.known) or _limit(inputs) is None
    if inputs.kind != "inf" or is_unknown or not _is_without_pole(inputs):
        return ""
    return f"overflow: {_end(inputs)}, and the gradient is larger"


def _is_without_pole(inputs: Inputs) -> bool:
    """Whether the derivative of an operator is finite for these inputs, none of which is known to be a pole."""
    if inputs.name == "div":
        return inputs.right is not None
    if inputs.name == "pow":
        power = inputs.right
        return inputs.left is not None or (isinstance(power, (int, float)) and power >= 1)
    return inputs.name in WITHOUT_POLE


# Overflow in the forward pass: certain where the largest inputs can give a result beyond the type.


def _overflow(inputs: Inputs) -> str:
    limit = _limit(inputs)
    is_unknown = any(stats.inf or stats.nan for stats in inputs.known)
    if inputs.kind != "inf" or is_unknown or limit is None:
        return ""
    if inputs.name in EXPONENTIALS:
        return _exponential(inputs, limit)
    estimate = ESTIMATES.get(inputs.name)
    result = estimate(inputs) if estimate is not None else None
    largest = max((found for stats in inputs.known if (found := _magnitude(stats)) is not None), default=None)
    if result is None or largest is None or not _reaches(result, limit):
        return ""
    return f"overflow: {_end(inputs)}, and the largest absolute input is {_number(largest)}"


def _exponential(inputs: Inputs, limit: float) -> str:
    """exp and its like: only large inputs overflow, and for cosh those far below 0 too."""
    text, end, takes_absolute = EXPONENTIALS[inputs.name]
    largest = _magnitude(inputs.first) if takes_absolute else _largest(inputs.first)
    if largest is None or largest < NEARLY * end(limit):
        return ""
    what = "absolute input" if takes_absolute else "input"
    return f"overflow: {_end(inputs)}, which is {text}({end(limit):.1f}), and the largest {what} is {_number(largest)}"


def _limit(inputs: Inputs) -> float | None:
    output = inputs.finding.output
    return LARGEST.get(output.dtype) if output is not None else None


def _end(inputs: Inputs) -> str:
    output = inputs.finding.output
    return f"{output.dtype} ends at {LARGEST[output.dtype]:.5g}" if output is not None else ""


def _reaches(result: float, limit: float) -> bool:
    return result >= NEARLY * limit


def _product(inputs: Inputs) -> float | None:
    left, right = _magnitude(inputs.left), _magnitude(inputs.right)
    return left * right if left is not None and right is not None else None


def _sum_of_two(inputs: Inputs) -> float | None:
    left, right = _magnitude(inputs.left), _magnitude(inputs.right)
    if left is None or right is None or inputs.finding.call is None or "alpha" in inputs.finding.call.kwargs:
        return None
    return left + right


def _sum_of_all(inputs: Inputs) -> float | None:
    largest = _magnitude(inputs.first)
    return largest * inputs.first.count if largest is not None and inputs.first is not None else None


def _sum_of_products(inputs: Inputs) -> float | None:
    """More than any sum of products of the inputs can be."""
    largest = [found for stats in inputs.known if (found := _magnitude(stats)) is not None]
    if not largest:
        return None
    return max(largest) ** 2 * max(stats.count for stats in inputs.known)


def _square(inputs: Inputs) -> float | None:
    largest = _magnitude(inputs.first)
    return largest * largest if largest is not None else None


def _power(inputs: Inputs) -> float | None:
    base, power = _magnitude(inputs.left), _magnitude(inputs.right)
    if base is None or power is None:
        return None
    try:
        return max(base, 1.0) ** power
    except OverflowError:
        return inf


def _product_of_all(inputs: Inputs) -> float | None:
    largest = _magnitude(inputs.first)
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
    "to": lambda inputs: _magnitude(inputs.first),
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


def _empty(inputs: Inputs) -> str:
    return "the input is empty" if any(stats.count == 0 for stats in inputs.known) else ""


def _number(value: float) -> str:
    """A number as text; whole numbers exactly.

    >>> _number(60000.0), _number(838.25), _number(-1.0)
    ('60000', '838.2', '-1')
    """
    is_whole = isfinite(value) and value == int(value) and abs(value) < 1e9
    return f"{value:.0f}" if is_whole else f"{value:.4g}"
