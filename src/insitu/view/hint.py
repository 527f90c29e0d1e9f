"""Why a call produced NaN or Inf, in one sentence, where the numbers that went into it prove the reason.

Each operator has rules of its own: `exp` overflows for large inputs, `log` has a pole at 0, a root is not defined
below 0. The first rule whose condition holds gives the sentence. Where no condition holds, there is no hint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import singledispatch

from insitu.trace.findings import Finding, NonFiniteGradient, NonFiniteResult
from insitu.trace.loss_input import ignored_label
from insitu.trace.operation import operation
from insitu.view.call_numbers import UNKNOWN, CallNumbers, Explicable, NumberRange, call_numbers, number, side_of
from insitu.view.overflow import overflow, quotient_overflow

Condition = Callable[[CallNumbers], bool]
Sentence = Callable[[CallNumbers], str]

# What to use instead of the logarithm of a probability, by the function that computed the probability.
INSTEAD = {
    "softmax": "use log_softmax on the scores instead of the logarithm of softmax",
    "sigmoid": "use logsigmoid, or binary_cross_entropy_with_logits, on the scores instead of the logarithm of sigmoid",
}
CLAMP = "clamp it first; for a probability, use log_softmax or logsigmoid on the scores"


def hint(finding: Finding) -> str:
    """The reason of a finding in one sentence; nothing where the numbers do not prove it."""
    if finding.call is None or not isinstance(finding, (NonFiniteResult, NonFiniteGradient)):
        return ""
    return reason(finding, call_numbers(finding, finding.call))


@singledispatch
def reason(finding: Explicable, inputs: CallNumbers) -> str:
    """The reason of a forward call."""
    own = FORWARD.get((inputs.name, finding.kind), ())
    return first_sentence((*own, _of_nothing, overflow), inputs)


@reason.register
def _(finding: NonFiniteGradient, inputs: CallNumbers) -> str:
    if finding.has_infinite_gradient:
        return INFINITE_GRADIENT[finding.kind]
    return first_sentence((*BACKWARD.get(inputs.name, ()), _gradient_overflow), inputs)


INFINITE_GRADIENT = {"nan": "the incoming gradient is infinite already, and 0 * inf is NaN", "inf": ""}


def first_sentence(rules: Iterable[Sentence], inputs: CallNumbers) -> str:
    """The sentence of the first rule that applies."""
    sentences = (rule(inputs) for rule in rules)
    return next(filter(None, sentences), "")


def rule(condition: Condition, sentence: str) -> Sentence:
    """The rule that says a sentence where a condition holds."""

    def apply(inputs: CallNumbers) -> str:
        if condition(inputs):
            return sentence
        return ""

    return apply


def below(bound: float, what: str) -> Sentence:
    """The rule for numbers below a bound, where a function is not defined; a call in place has overwritten them."""

    def apply(inputs: CallNumbers) -> str:
        if not inputs.first.is_known:
            return f"{what} is NaN"
        low = inputs.first.low
        if low < bound:
            return f"{what} is NaN: the smallest input is {number(low)}"
        return ""

    return apply


# Conditions and sentences of the forward pass.


def _always(inputs: CallNumbers) -> bool:
    return True


def _log_of_zero(inputs: CallNumbers) -> str:
    may_have_zero = inputs.first.zeros or not inputs.first.is_known
    if may_have_zero:
        return f"the logarithm of 0 is -inf: {_instead(inputs)}"
    return ""


def _instead(inputs: CallNumbers) -> str:
    """The advice on computing something else than the logarithm of 0."""
    source = inputs.operands[0].source if inputs.operands else None
    if source is None:
        return CLAMP
    return INSTEAD.get(operation(source.kind, source.name).base, CLAMP)


def _is_at_minus_one(inputs: CallNumbers) -> bool:
    return inputs.first.low == -1 or not inputs.first.is_known


def _division(divisor: NumberRange) -> str:
    if not divisor.is_known:
        return "division by zero"
    if not divisor.zeros:
        return ""
    if divisor.is_number:
        return "division by zero: the divisor is 0"
    return f"division by zero: {divisor.zeros:,} of {divisor.count:,} divisors are 0; add an eps, or clamp them"


def _division_by_first(inputs: CallNumbers) -> str:
    return _division(inputs.first)


def _division_by_right(inputs: CallNumbers) -> str:
    if inputs.right.zeros:
        return _division(inputs.right)
    return ""


def _reciprocal(inputs: CallNumbers) -> str:
    return quotient_overflow(inputs, side_of(1.0), inputs.first)


def _quotient(inputs: CallNumbers) -> str:
    return quotient_overflow(inputs, inputs.left, inputs.right)


def _root_of_negative(inputs: CallNumbers) -> str:
    if not inputs.left.low < 0 or inputs.left.infinities:
        return ""
    return f"a fractional power of a negative number is NaN: the smallest base is {number(inputs.left.low)}"


def _is_zero_to_negative(inputs: CallNumbers) -> bool:
    return inputs.left.zeros > 0 and inputs.right.low < 0


def _is_zero_by_infinity(inputs: CallNumbers) -> bool:
    left, right = inputs.left, inputs.right
    return left.zeros * right.infinities + right.zeros * left.infinities > 0


def _has_infinity(inputs: CallNumbers) -> bool:
    return any(side.infinities for side in inputs.tensors)


def _has_positive_infinity(inputs: CallNumbers) -> bool:
    finding = inputs.finding
    if not isinstance(finding, NonFiniteResult):
        return False
    return finding.has_positive_infinity is True and _has_infinity(inputs)


def _has_infinity_of_unknown_sign(inputs: CallNumbers) -> bool:
    finding = inputs.finding
    if not isinstance(finding, NonFiniteResult):
        return False
    return finding.has_positive_infinity is None and _has_infinity(inputs)


def _is_single(inputs: CallNumbers) -> bool:
    return inputs.first.count == 1 and inputs.first.is_known


_of_nothing = rule(lambda inputs: any(side.count == 0 for side in inputs.known), "the input is empty")

_DIVISION = (_division_by_right, _quotient)
_RECIPROCAL = (_division_by_first, _reciprocal)
_SINGLE = (rule(_is_single, "the deviation of a single number is divided by n - 1, which is 0"),)
_SOFTMAX = (
    rule(_has_positive_infinity, "a score is +inf: softmax subtracts the largest score, and inf - inf is NaN"),
    rule(_has_infinity_of_unknown_sign, "every score of a row is -inf, or a score is +inf"),
    rule(_has_infinity, "every score of a row is -inf: the whole row is masked"),
)
_ZERO_BY_INFINITY = "0 * inf is NaN: put the infinity where a mask is with masked_fill or torch.where"


# The rules for each operator and for what it produced.
def _no_labels(inputs: CallNumbers) -> str:
    """The reason of a mean over no labels at all."""
    call, labels = inputs.finding.call, inputs.tensors[1:2]
    if call is None or not labels:
        return ""
    ignored = ignored_label(call.kwargs)
    if labels[0].low == labels[0].high == ignored:
        return f"all labels are {ignored}, which the loss ignores: the mean of no numbers is NaN"
    return ""


FORWARD: dict[tuple[str, str], tuple[Sentence, ...]] = {
    ("cross_entropy", "nan"): (_no_labels,),
    ("nll_loss", "nan"): (_no_labels,),
    ("log", "inf"): (_log_of_zero,),
    ("log", "nan"): (below(0.0, "the logarithm of a number below 0"),),
    ("log1p", "inf"): (rule(_is_at_minus_one, "log1p(-1) is the logarithm of 0, which is -inf: clamp it first"),),
    ("log1p", "nan"): (below(-1.0, "log1p of a number below -1"),),
    ("logit", "inf"): (
        rule(_always, "the logit of 0 and of 1 is infinite: clamp to a little more and less (eps=1e-6)"),
    ),
    ("logit", "nan"): (rule(_always, "the logit of a number outside 0 … 1 is NaN"),),
    ("sqrt", "nan"): (below(0.0, "the root of a negative number"),),
    ("rsqrt", "nan"): (below(0.0, "the reciprocal root of a negative number"),),
    ("rsqrt", "inf"): (_division_by_first,),
    ("reciprocal", "inf"): _RECIPROCAL,
    ("reciprocal", "nan"): _RECIPROCAL,
    ("div", "inf"): _DIVISION,
    ("div", "nan"): _DIVISION,
    ("pow", "nan"): (_root_of_negative,),
    ("pow", "inf"): (rule(_is_zero_to_negative, "0 to a negative power is infinite: add an eps, or clamp it"),),
    ("mul", "nan"): (rule(_is_zero_by_infinity, _ZERO_BY_INFINITY),),
    ("softmax", "nan"): _SOFTMAX,
    ("softmax", "inf"): _SOFTMAX,
    ("scaled_dot_product_attention", "nan"): (rule(_always, "a row is masked completely, or a score overflows"),),
    ("std", "nan"): _SINGLE,
    ("std", "inf"): _SINGLE,
}


# Conditions and sentences of the backward pass.


def _has_zero(inputs: CallNumbers) -> bool:
    return inputs.zeros > 0


def _has_zero_divisor(inputs: CallNumbers) -> bool:
    return inputs.right.zeros > 0


def _is_steep_power_of_zero(inputs: CallNumbers) -> bool:
    return inputs.left.zeros > 0 and not _is_smooth_power(inputs)


def _is_smooth_power(inputs: CallNumbers) -> bool:
    return inputs.right.is_number and inputs.right.low >= 1


def _is_constant(inputs: CallNumbers) -> bool:
    """Whether a deviation is 0: autograd has saved it as the result, or all numbers are the same."""
    results = [operand.facts.stats for operand in inputs.operands if operand.name.startswith("result")]
    if any(stats.zeros for stats in results if stats is not None):
        return True
    return any(side.std == 0 for side in inputs.tensors)


def _root_at_zero(what: str, condition: Condition = _has_zero) -> tuple[Sentence, ...]:
    return (rule(condition, f"the gradient of a {what} at 0 is infinite: add an eps inside it"),)


_ALWAYS_AT_ONE = rule(_always, "the gradient of acos and asin at -1 and 1 is infinite: clamp to a little less")

# Where the derivative of an operator is infinite.
BACKWARD: dict[str, tuple[Sentence, ...]] = {
    "acos": (_ALWAYS_AT_ONE,),
    "sqrt": _root_at_zero("root"),
    "rsqrt": _root_at_zero("reciprocal root"),
    "norm": _root_at_zero("norm"),
    "std": _root_at_zero("deviation", _is_constant),
    "pow": _root_at_zero("fractional power", _is_steep_power_of_zero),
    "div": (rule(_has_zero_divisor, "the gradient of a quotient is infinite where the divisor is 0"),),
    "reciprocal": (rule(_has_zero, "the gradient of a quotient at 0 is infinite"),),
    "log": (rule(_has_zero, "the gradient of the logarithm at 0 is infinite"),),
}


def _gradient_overflow(inputs: CallNumbers) -> str:
    is_certain = inputs.finding.kind == "inf" and inputs.is_finite and inputs.limit > 0
    has_pole = HAS_POLE.get(inputs.name, _always)
    if not is_certain or has_pole(inputs):
        return ""
    return f"overflow: {inputs.end_of_type}, and the gradient is larger"


def _never(inputs: CallNumbers) -> bool:
    return False


def _may_be_pole_of_power(inputs: CallNumbers) -> bool:
    return inputs.left is UNKNOWN and not _is_smooth_power(inputs)


# Whether the derivative of an operator may be infinite for inputs none of which is known to be a pole.
HAS_POLE: dict[str, Condition] = {
    **dict.fromkeys(("mul", "add", "matmul", "sum", "exp", "exp2", "square", "cosh"), _never),
    "div": lambda inputs: inputs.right is UNKNOWN,
    "pow": _may_be_pole_of_power,
}
