"""How a call that a guard sees can produce NaN or Inf, and what is checked of it therefore."""

from __future__ import annotations

from typing import Any

from insitu.capture.calls import FunctionCallee
from insitu.trace.operation import Risk, operation


def risk_of(callee: Any) -> Risk:
    """How a call can produce NaN or Inf; nothing is known about modules and compiled regions."""
    if not isinstance(callee, FunctionCallee):
        return "any"
    what = operation(callee.kind, callee.name)
    if callee.in_place and what.risk in ("overflow", "division"):  # the input is overwritten: nobody can check it later
        return "any"
    if what.is_reflected and what.risk == "division":  # `1 / x` divides by the tensor
        return "any"
    return what.risk


def can_produce(callee: Any) -> bool:
    """Whether a call does more than to pass on what it gets."""
    return risk_of(callee) not in ("none", "backward")


def has_hooks(callee: Any) -> bool:
    """Whether the gradients that a call computes are checked."""
    return risk_of(callee) == "any"
