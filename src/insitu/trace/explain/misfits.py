"""The misfits of a case: every check looks for one kind of mistake."""

from __future__ import annotations

from itertools import chain

from insitu.trace.explain.case import Case
from insitu.trace.explain.checks import autograd, elements, extents, joins, layers, shapes, state_keys, unpacking
from insitu.trace.explain.checks.registry import Check
from insitu.trace.explain.explanation import Misfit
from insitu.trace.explain.messages import WRONG_ARGUMENTS

MOST_MISFITS = 2
# The files of checks, the most specific first. A file registers its checks in CHECKS, in the order in which they run.
THEMES = (unpacking, state_keys, autograd, extents, elements, layers, joins, shapes)


def find_misfits(case: Case) -> tuple[Misfit, ...]:
    """What does not fit in a failed call, the most specific misfit first.

    >>> from insitu.trace.event import Call, TensorFacts
    >>> from insitu.trace.explain.case import NamedOperand
    >>> a, b = TensorFacts(0, (2, 3), "f32", "cpu"), TensorFacts(1, (4, 3), "f32", "cpu")
    >>> call = Call(0, None, "function", "torch.add", args=(a, b))
    >>> case = Case("RuntimeError", "", call, (NamedOperand("a", a), NamedOperand("b", b)))
    >>> [misfit.text for misfit in find_misfits(case)]
    ['dimension -2: 2 and 4 differ and neither is 1']
    """
    if case.error == "TypeError" and WRONG_ARGUMENTS.search(case.message):
        return ()
    checks = chain.from_iterable(theme.CHECKS for theme in THEMES)
    different = dict.fromkeys(_result(check, case) for check in checks)
    return tuple(misfit for misfit in different if misfit is not None)[:MOST_MISFITS]


def _result(check: Check, case: Case) -> Misfit | None:
    """The misfit that a check finds. The arguments of a failed call may be odd: a check that raises finds nothing."""
    try:
        return check.run(case)
    except Exception:
        return None
