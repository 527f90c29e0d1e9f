"""The lines of what `insitu.show` prints besides a trace: a diff, an explanation, a finding, a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import singledispatch
from typing import Any

from insitu.errors import ChoiceError, SubjectError
from insitu.trace.diff import Diff
from insitu.trace.event import Call
from insitu.trace.explain.explanation import Explanation
from insitu.trace.findings import Finding
from insitu.view.call_card import call_card
from insitu.view.card import card_lines
from insitu.view.diff import diff_lines
from insitu.view.error import lines as explanation_lines
from insitu.view.finding_card import CountedFinding, finding_card
from insitu.view.line import Line


@singledispatch
def noun_lines(subject: object) -> Iterable[Line]:
    """The lines of a subject; of one without a view of its own, what to use instead.

    >>> [str(line) for line in noun_lines(Diff())]
    ['nothing to compare: neither run has a call']
    """
    raise SubjectError(
        f"insitu.show needs a Trace, Diff, Explanation, Finding or Call, got {type(subject).__name__}: "
        "`with insitu.record(...) as trace` makes a Trace, print() shows other objects"
    )


@noun_lines.register
def _(subject: Diff) -> Iterable[Line]:
    return diff_lines(subject)


@noun_lines.register
def _(subject: Explanation) -> Iterable[Line]:
    return explanation_lines(subject)


@noun_lines.register
def _(subject: Finding) -> Iterable[Line]:
    return card_lines(finding_card(CountedFinding(subject)))


@noun_lines.register
def _(subject: Call) -> Iterable[Line]:
    return card_lines(call_card(subject))


def check_no_view(subject: object, view: Any, only: object, options: Mapping[str, Any]) -> None:
    """Refuse the arguments that only a trace has."""
    names = list(options)
    if only is not None:
        names.insert(0, "only")
    if view != "tree":
        names.insert(0, "view")
    if names and isinstance(subject, (Diff, Explanation, Finding, Call)):
        raise ChoiceError(f"{names[0]} is for a Trace, and this is a {type(subject).__name__}: leave it out")
