"""Where NaN and Inf come from: which of them are wrong, and which call made them of finite numbers.

Memory that nobody has written yet may hold anything, and a mask is infinite on purpose: neither is news, nor is what
only comes of them.
"""

from __future__ import annotations

from math import isinf
from typing import Any

from insitu.trace.event import Call, Fields, TensorFacts, Variable, tensors
from insitu.trace.operation import operation

HAS_NAN, HAS_INF, IS_WRONG, IS_ORIGIN = 1, 2, 4, 8

_Key = tuple[int, int | None]


class Nonfinite:
    """Judges events in the order they ended, so that the call that made a NaN comes before those around it.

    >>> from insitu.trace.event import Stats
    >>> bad = TensorFacts(5, (2,), "f32", "cpu", stats=Stats(2, 0.0, 0.0, 0.0, None, 1, 0, 1))
    >>> judge = Nonfinite()
    >>> judge(Call(1, 0, "function", "torch.log", result=bad)), judge(Call(0, None, "module", "Net", result=bad))
    (13, 5)
    """

    def __init__(self) -> None:
        self._known: dict[_Key, bool] = {}
        self._made: dict[int, bool] = {}

    def __call__(self, event: Call | Variable) -> int:
        """Flags: what is in the output, whether it is wrong, whether it began here."""
        if isinstance(event, Variable):
            return self._variable(event)
        flags = 0
        for facts in event.outputs:
            stats = facts.stats
            if stats is not None and (stats.nan or stats.inf):
                flags |= (HAS_NAN if stats.nan else 0) | (HAS_INF if stats.inf else 0) | self._output(event, facts)
        return flags

    def _variable(self, variable: Variable) -> int:
        value, flags = variable.value, 0
        if isinstance(value, float) and not abs(value) < float("inf"):
            return (HAS_INF if isinf(value) else HAS_NAN) | IS_WRONG
        for facts in tensors(value):
            if facts.stats is not None and (facts.stats.nan or facts.stats.inf):
                flags |= (HAS_NAN if facts.stats.nan else 0) | (HAS_INF if facts.stats.inf else 0)
                flags |= IS_WRONG if self._known.get(_key(facts), bool(facts.stats.nan)) else 0
        return flags

    def _output(self, call: Call, facts: TensorFacts) -> int:
        key = _key(facts)
        known = self._known.get(key)
        if known is not None:
            return IS_WRONG if known else 0
        is_wrong, is_origin = self._judged(call, facts)
        self._known[key] = is_wrong
        self._made[call.id] = is_wrong or self._made.get(call.id, False)
        return (IS_WRONG if is_wrong else 0) | (IS_ORIGIN if is_origin else 0)

    def _judged(self, call: Call, facts: TensorFacts) -> tuple[bool, bool]:
        """Whether what is not finite in an output that was not seen before is wrong, and whether it began here."""
        if operation(call.kind, call.name).is_uninitialized:
            return False, False
        is_nan = facts.stats is not None and facts.stats.nan > 0
        given = [self._wrong(item) for item in call.inputs if item is not facts and _holds(item, nan=is_nan)]
        if given:
            # A NaN that was there before the trace began is news to the first call that meets it; an Inf is a mask.
            from_outside = is_nan and None in given and True not in given
            return from_outside or True in given, from_outside
        is_meant = not is_nan and _is_infinite((call.args, call.kwargs))
        return not is_meant, not is_meant

    def _wrong(self, facts: TensorFacts) -> bool | None:
        """What is known of a tensor, or else of what the call returned that made it: autograd passes others on."""
        known = self._known.get(_key(facts))
        return known if known is not None or facts.producer is None else self._made.get(facts.producer)


def _key(facts: TensorFacts) -> _Key:
    return (facts.id, facts.producer)


def _holds(facts: TensorFacts, *, nan: bool) -> bool:
    return facts.stats is not None and (facts.stats.nan if nan else facts.stats.inf) > 0


def _is_infinite(item: Any) -> bool:
    """Whether an infinite number is among the arguments."""
    if isinstance(item, float):
        return isinf(item)
    if isinstance(item, (dict, Fields)):
        return any(map(_is_infinite, (item.items if isinstance(item, Fields) else item).values()))
    return isinstance(item, (tuple, list)) and any(map(_is_infinite, item))
