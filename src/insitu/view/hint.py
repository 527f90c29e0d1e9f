"""Why a call made NaN or Inf, in words, where the statistics of what went into it show it."""

from __future__ import annotations

from math import log

from insitu.trace.event import Stats
from insitu.trace.finding import Finding

LARGEST = {"f16": 65504.0, "bf16": 3.39e38, "f32": 3.4e38, "f64": 1.8e308}
# Different names of the same.
SAME = {
    **dict.fromkeys(("__truediv__", "__rtruediv__", "true_divide", "divide", "__itruediv__", "div_"), "div"),
    **dict.fromkeys(("__pow__", "__rpow__", "float_power", "pow_"), "pow"),
    **dict.fromkeys(("log2", "log10", "log_", "logsumexp"), "log"),
    **dict.fromkeys(("softmin", "log_softmax", "scaled_dot_product_attention"), "softmax"),
    **dict.fromkeys(("norm", "vector_norm", "pairwise_distance", "cdist"), "norm"),
    **dict.fromkeys(("std", "var", "std_mean", "var_mean"), "std"),
    **dict.fromkeys(("exp_", "expm1", "exp2", "sinh", "cosh"), "exp"),
    **dict.fromkeys(("arccos", "arcsin", "asin"), "acos"),
    "mean_": "mean",
}
ROOTS = {"sqrt": "root", "rsqrt": "reciprocal root", "norm": "norm", "std": "deviation", "pow": "fractional power"}


def hint(finding: Finding) -> str:
    """The reason of a finding in one sentence; nothing where it is not plain to see."""
    if finding.call is None:
        return ""
    name = finding.call.name.rpartition(".")[2]
    name = SAME.get(name, name.removesuffix("_") if not name.endswith("__") else name)
    every = [operand.facts.stats for operand in finding.operands]
    known = [stats for stats in every if stats is not None]
    if finding.node is not None:
        return _backward(name, known) or _overflow(finding, known)
    return _forward(name, every) or _empty(known) or _overflow(finding, known)


def _forward(name: str, every: list[Stats | None]) -> str:
    first = every[0] if every else None
    last = every[-1] if every else None
    if name == "logit":
        return "the logit of 0 and of 1 is infinite: clamp to a little more and less (eps=1e-6)"
    if name in ("log", "log1p") and first is not None and first.min is not None:
        least = -1.0 if name == "log1p" else 0.0
        if first.min < least:
            return f"a number below {least:g} has no logarithm: the least one is {_number(first.min)}"
        if first.zeros or name == "log1p":
            return f"the logarithm of {least:g} is -inf; clamp it first, or use log_softmax where it is a probability"
    if name in ("div", "reciprocal", "rsqrt") and last is not None and last.zeros:
        return f"division by zero: {last.zeros:,} of {last.count:,} divisors are 0; add an eps, or clamp them"
    if name in ("sqrt", "rsqrt", "pow") and first is not None and first.min is not None and first.min < 0:
        return f"a negative number has no {ROOTS[name]}: the least one is {_number(first.min)}"
    if name == "softmax" and first is not None and first.inf:
        return "every score of a row is -inf: all of it is masked, and there is nothing to choose from"
    if name == "std" and first is not None and first.count <= 1:
        return "the deviation of a single number: divided by n - 1, which is 0"
    return ""


def _backward(name: str, known: list[Stats]) -> str:
    zeros = any(stats.zeros for stats in known)
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
    if finding.kind != "inf" or output is None or output.dtype not in LARGEST:
        return ""
    name = finding.call.name.rpartition(".")[2] if finding.call is not None else ""
    largest = max((max(abs(stats.min or 0), abs(stats.max or 0)) for stats in known), default=0.0)
    limit = f"{output.dtype} ends at {LARGEST[output.dtype]:.5g}"
    if SAME.get(name, name) == "exp" and finding.node is None:
        limit += f", which is exp({log(LARGEST[output.dtype]):.1f})"
    return f"overflow: {limit}, and the largest number that went in is {_number(largest)}" if largest else limit


def _number(value: float) -> str:
    return f"{value:.4g}"
