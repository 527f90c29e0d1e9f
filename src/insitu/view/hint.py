"""Why a call made NaN or Inf, in words, where the statistics of what went into it show it."""

from __future__ import annotations

from math import isinf, log
from typing import Any

from insitu.trace.compare.operation import own_name
from insitu.trace.event import Stats, TensorFacts
from insitu.trace.finding import Finding

LARGEST = {"f16": 65504.0, "bf16": 3.39e38, "f32": 3.4e38, "f64": 1.797e308}
# Different names of the same.
SAME = {
    **dict.fromkeys(
        ("__truediv__", "__rtruediv__", "__rdiv__", "true_divide", "divide", "__itruediv__", "div_"), "div"
    ),
    **dict.fromkeys(("__pow__", "__rpow__", "float_power", "pow_"), "pow"),
    **dict.fromkeys(("log2", "log10", "log_", "log2_", "log10_"), "log"),
    **dict.fromkeys(("__mul__", "__rmul__", "__imul__", "multiply"), "mul"),
    **dict.fromkeys(("softmin", "log_softmax", "scaled_dot_product_attention"), "softmax"),
    **dict.fromkeys(("norm", "vector_norm", "pairwise_distance", "cdist"), "norm"),
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), "std"),
    **dict.fromkeys(("exp_", "expm1"), "exp"),
    **dict.fromkeys(("arccos", "arcsin", "asin"), "acos"),
    "mean_": "mean",
}
REVERSED = ("__rtruediv__", "__rdiv__", "__rpow__")  # the first argument stands on the right
ROOTS = {"sqrt": "root", "rsqrt": "reciprocal root", "norm": "norm", "std": "deviation", "pow": "fractional power"}
ZERO_BY_INFINITY = "0 * inf is NaN: put the infinity where a mask is with masked_fill or torch.where"
LOG_OF_ZERO = "is -inf; clamp it first, or use log_softmax where it is a probability"
# What makes large numbers of small ones, or of a number that is no tensor.
GROWING = frozenset({"exp", "exp2", "sinh", "cosh", "pow", "prod", "cumprod", "div", "reciprocal", "mul", "add"})
# What is said where the numbers that went in are not known, by the kind of what came out.
UNKNOWN = {
    "log": {"inf": f"the logarithm of 0 {LOG_OF_ZERO}", "nan": "a number below 0 has no logarithm"},
    "log1p": {"inf": f"the logarithm of -1 {LOG_OF_ZERO}", "nan": "a number below -1 has no logarithm"},
    "sqrt": {"nan": "a negative number has no root"},
    "rsqrt": {"inf": "division by zero", "nan": "a negative number has no reciprocal root"},
    "reciprocal": {"inf": "division by zero"},
}


def hint(finding: Finding) -> str:
    """The reason of a finding in one sentence; nothing where it is not plain to see."""
    if finding.call is None or "hook" in finding.details:
        return ""
    name = own_name(finding.call.kind, finding.call.name)
    name = SAME.get(name, name.removesuffix("_") if not name.endswith("__") else name)
    every = [operand.facts.stats for operand in finding.operands]
    known = [stats for stats in every if stats is not None]
    if finding.node is not None:
        return _backward(name, finding, known) or _overflow(finding, known)
    said = _of_two(name, finding) if name in ("div", "pow", "mul") else _of_one(name, finding, every)
    return said or _empty(known) or _overflow(finding, known)


def _of_one(name: str, finding: Finding, every: list[Stats | None]) -> str:
    first = every[0] if every else None
    if name in UNKNOWN and (first is None or first.inf or first.nan):  # it was changed in place
        return UNKNOWN[name].get(finding.kind, "")
    if name == "logit":
        return "the logit of 0 and of 1 is infinite: clamp to a little more and less (eps=1e-6)"
    if name in ("log", "log1p") and first is not None and first.min is not None:
        least = -1.0 if name == "log1p" else 0.0
        if first.min < least:
            return f"a number below {least:g} has no logarithm: the least one is {_number(first.min)}"
        if first.zeros or name == "log1p":
            return f"the logarithm of {least:g} {LOG_OF_ZERO}"
    if name in ("sqrt", "rsqrt") and finding.kind == "nan" and first is not None and _least(first) < 0:
        return _no_root(name, _least(first))
    if name in ("reciprocal", "rsqrt") and first is not None and first.zeros:
        return _division(first)
    if name == "softmax" and any(stats is not None and stats.inf for stats in every):
        if finding.details.get("positive"):
            return "a score is +inf: softmax takes the largest one off, and inf - inf is NaN"
        return "every score of a row is -inf: all of it is masked, and there is nothing to choose from"
    if name == "std" and first is not None and first.count <= 1:
        return "the deviation of a single number: divided by n - 1, which is 0"
    return ""


def _of_two(name: str, finding: Finding) -> str:
    left, right = _sides(finding)
    if name == "mul":
        is_zero_by_infinity = (_zeros(left) and _infinite(right)) or (_zeros(right) and _infinite(left))
        return ZERO_BY_INFINITY if finding.kind == "nan" and is_zero_by_infinity else ""
    if name == "div":
        return _division(right) if _zeros(right) else ""
    if finding.kind == "nan":
        return _no_root(name, _least(left)) if _least(left) < 0 else ""
    if _zeros(left) and _least(right) < 0:
        return "0 to a negative power is infinite: add an eps, or clamp it"
    return ""


def _sides(finding: Finding) -> tuple[Any, Any]:
    """What stands on both sides of an operator: statistics of a tensor, a number, or None where it is not known."""
    every = iter([operand.facts.stats for operand in finding.operands])
    given = (*finding.call.args, *finding.call.kwargs.values()) if finding.call is not None else ()
    sides = [next(every, None) if isinstance(item, TensorFacts) else item for item in given] or list(every)
    left, right = (*sides, None, None)[:2]
    is_reversed = finding.call is not None and finding.call.name.endswith(REVERSED)
    return (right, left) if is_reversed else (left, right)


def _least(side: Any) -> float:
    """The least number of a side; 0 where it is not known."""
    least = side.min if isinstance(side, Stats) else side
    return float(least) if isinstance(least, (int, float)) else 0.0


def _zeros(side: Any) -> bool:
    return bool(side.zeros) if isinstance(side, Stats) else isinstance(side, (int, float)) and side == 0


def _infinite(side: Any) -> bool:
    return bool(side.inf) if isinstance(side, Stats) else isinstance(side, float) and isinf(side)


def _division(by: Any) -> str:
    if isinstance(by, Stats):
        return f"division by zero: {by.zeros:,} of {by.count:,} divisors are 0; add an eps, or clamp them"
    return "division by zero: the divisor is 0"


def _no_root(name: str, least: float) -> str:
    return f"a negative number has no {ROOTS[name]}: the least one is {_number(least)}"


def _backward(name: str, finding: Finding, known: list[Stats]) -> str:
    if finding.details.get("entered"):
        return "the gradient that came in is infinite already, and 0 * inf is NaN" if finding.kind == "nan" else ""
    zeros = any(stats.zeros for stats in known)
    if name in ("div", "pow"):
        left, right = _sides(finding)
        base = right if name == "div" else left
        zeros = zeros if base is None else _zeros(base)
        if name == "pow" and isinstance(right, (int, float)) and right >= 1:  # then it is flat enough at 0
            return ""
    if name in ROOTS and zeros:
        return f"the gradient of a {ROOTS[name]} at 0 is infinite: add an eps inside it"
    if name == "acos":
        return "the gradient of acos and asin at -1 and 1 is infinite: clamp to a little less"
    if name in ("div", "reciprocal", "log") and zeros:
        return f"the gradient of {'a quotient' if name != 'log' else 'the logarithm'} at 0 is infinite"
    return ""


def _empty(known: list[Stats]) -> str:
    if any(stats.count == 0 for stats in known):
        return "there is nothing to take it of: the tensor is empty"
    return ""


def _overflow(finding: Finding, known: list[Stats]) -> str:
    """A number that is too large for its type."""
    output = finding.output
    infinite = finding.details.get("entered") or any(stats.inf or stats.nan for stats in known)
    if finding.kind != "inf" or infinite or output is None or output.dtype not in LARGEST:
        return ""
    name = own_name(finding.call.kind, finding.call.name) if finding.call is not None else ""
    name = SAME.get(name, name)
    largest = max((max(abs(stats.min or 0), abs(stats.max or 0)) for stats in known), default=0.0)
    terms = max((stats.count for stats in known), default=0)
    if finding.node is None and name not in GROWING and terms * largest * largest < LARGEST[output.dtype]:
        return ""  # not even the sum of all products is that large: the function has a pole there
    limit = f"{output.dtype} ends at {LARGEST[output.dtype]:.5g}"
    if name == "exp" and finding.node is None:
        limit += f", which is exp({log(LARGEST[output.dtype]):.1f})"
    return f"overflow: {limit}, and the largest number that went in is {_number(largest)}" if largest else ""


def _number(value: float) -> str:
    return f"{value:.4g}"
