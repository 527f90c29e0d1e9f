"""A finding in plain English: the place, what came out, what went in and where that was produced."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

from insitu.trace.advice_of_findings import advice_of
from insitu.trace.findings import Finding
from insitu.view import nonfinite_finding, step_finding, training_finding  # noqa: F401 - they register their texts
from insitu.view.advice_line import advice_texts
from insitu.view.finding_dispatch import lines
from insitu.view.finding_parts import EvidenceLine


def text(finding: Finding) -> str:
    """A finding as plain text: one line that says it, and some that show it.

    >>> from insitu.trace.findings import MissingGradients
    >>> print(text(MissingGradients(path="a.weight", paths=("a.weight", "a.bias"), passes=3)))
    2 parameters got no gradient in 3 backward passes: a.weight, a.bias
    """
    return "\n".join(text_lines(finding))


def text_lines(finding: Finding) -> Iterator[str]:
    """The lines of a finding, and the advice at the end."""
    yield from lines(finding)
    yield from map(str, fix_lines(finding))


def fix_lines(finding: Finding) -> Iterator[EvidenceLine]:
    """The fix of what a finding says, where one is known."""
    advice = advice_of(finding)
    if advice is None:
        return
    for label, each in zip(chain(["→"], repeat("")), advice_texts(advice), strict=False):
        yield EvidenceLine(label, each)
