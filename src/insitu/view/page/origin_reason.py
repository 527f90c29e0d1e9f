"""Why NaN or Inf began in a call, for the details of that call."""

from __future__ import annotations

from insitu.trace.event import Call
from insitu.trace.first_findings import nonfinite_finding
from insitu.trace.nonfinite import nonfinite_among
from insitu.view.hint import hint
from insitu.view.value import safe


def origin_reason(call: Call) -> str:
    """Why a forward call produced NaN or Inf, in a sentence; nothing where the numbers do not prove it.

    >>> from insitu.trace.event import Stats, TensorFacts
    >>> given = TensorFacts(0, (2,), "f32", "cpu", stats=Stats(count=2, min=-2.0, max=1.0, mean=0.0, std=1.0))
    >>> out = TensorFacts(1, (2,), "f32", "cpu", stats=Stats(count=2, min=0.0, max=0.0, mean=0.0, std=0.0, nan=1))
    >>> origin_reason(Call(0, None, "function", "torch.log", args=(given,), result=out))
    'the logarithm of a number below 0 is NaN: the smallest input is -2'
    """
    if call.phase == "backward" or not nonfinite_among(call.outputs):
        return ""
    return safe(hint(nonfinite_finding(call, {})))
