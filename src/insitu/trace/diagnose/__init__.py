"""What does not fit: a table of small functions, each of which looks at a failed call for one kind of mistake."""

from __future__ import annotations

import re
from collections.abc import Callable

from insitu.trace.diagnose import autograd, joins, layers, python, shapes, values
from insitu.trace.explanation import Case, Misfit

MOST = 2
THEMES = (python, autograd, values, layers, joins, shapes)
# What Python says of arguments that a function does not take: nothing was computed, and no shape is at fault.
NOT_TAKEN = re.compile(
    r"positional arguments? but|missing \d+ required|unexpected keyword argument|multiple values for"
)


def diagnose(case: Case) -> tuple[Misfit, ...]:
    """What about a failed call does not fit, the most telling first.

    >>> from insitu.trace.event import Call, TensorFacts
    >>> from insitu.trace.explanation import Operand
    >>> wide, high = TensorFacts(0, (2, 3), "f32", "cpu"), TensorFacts(1, (4, 3), "f32", "cpu")
    >>> added = Call(0, None, "function", "torch.add", args=(wide, high))
    >>> [found.text for found in diagnose(Case("RuntimeError", "", added, (Operand("a", wide), Operand("b", high))))]
    ['dimension -2: 2 and 4 differ and neither is 1']
    """
    found: list[Misfit] = []
    if case.error == "TypeError" and NOT_TAKEN.search(case.message):
        return ()
    for theme in THEMES:
        for check in theme.CHECKS:
            misfit = _found(check, case)
            if misfit is not None and all(misfit.text != other.text for other in found):
                found.append(misfit)
    return tuple(found[:MOST])


def _found(check: Callable[[Case], Misfit | None], case: Case) -> Misfit | None:
    """What a check finds. Calls that fail are odd in every way: what one check stumbles over is left to the others."""
    try:
        return check(case)
    except Exception:
        return None
