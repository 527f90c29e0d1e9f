"""The view of an advice: the certainty, the place and the line of code, and below it the reason for doubt."""

from __future__ import annotations

from collections.abc import Iterator

from insitu.trace.advice import Advice, Certainty
from insitu.view.line import Line
from insitu.view.name import spot
from insitu.view.value import safe

# Where the code belongs, for each action of a fix.
PLACES = {"replace": "at", "before": "before", "after": "after"}


def advice_lines(advice: Advice, indent: int) -> Iterator[Line]:
    """An advice as lines of text."""
    first, *rest = advice_texts(advice)
    yield Line(((" " * indent + "→ ", "green"), (first, "")))
    for text in rest:
        yield Line(((" " * (indent + 2) + text, "grey"),))


def advice_texts(advice: Advice) -> Iterator[str]:
    """The fix in one text, and the doubt in another.

    >>> from insitu.trace.advice import Fix, unknown
    >>> print(*advice_texts(Advice(Certainty.LIKELY, Fix("net.py", 7, "y = x.t()"), "x may be wrong")), sep="\\n")
    likely fix at net.py:7: y = x.t()
    doubt: x may be wrong
    >>> print(*advice_texts(unknown("net.py", 7, "the 51 comes from there")))
    no fix is known; look at net.py:7: the 51 comes from there
    """
    if advice.certainty is Certainty.UNKNOWN:
        yield _unknown(advice)
        return
    kind = f"{advice.certainty.value} fix"
    if advice.fix is None:
        yield f"{kind}: {safe(advice.words)}"
    else:
        yield f"{kind} {PLACES[advice.fix.action]} {spot(advice.fix)}: {safe(advice.fix.code)}"
    if advice.doubt:
        yield f"doubt: {safe(advice.doubt)}"


def _unknown(advice: Advice) -> str:
    text = "no fix is known"
    if advice.look_at is not None:
        text = f"{text}; look at {spot(advice.look_at)}"
    if advice.doubt:
        text = f"{text}: {safe(advice.doubt)}"
    return text
