"""The lines that called a helper function in which a value was made: the helper serves several callers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from insitu.trace.explain.call_stack import stack_at, stack_of
from insitu.trace.explain.explanation import ExpressionSite, Origin
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import LIBRARIES, Failure
from insitu.trace.explain.failure_history import FailureHistory, site_of

MOST_CALLERS = 2


def with_callers(failure: Failure, line: FailedLine, origins: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """The origins, each with the lines that called its function; the lines of the failing stack are left out."""
    shown = {(frame.file, frame.line) for frame in stack_at(failure, line.at)}
    shown |= {(origin.site.file, origin.site.line) for origin in origins if origin.site is not None}
    found = []
    for origin in origins:
        sites = {(site.file, site.line): site for site in callers_of(failure.history, origin.site)}
        new = [site for place, site in sites.items() if place not in shown]
        found.append(replace(origin, site=_without_call(origin.site), callers=tuple(new[:MOST_CALLERS])))
    return tuple(found)


def _without_call(site: ExpressionSite | None) -> ExpressionSite | None:
    """The site as plain data: a call means nothing without its history."""
    return None if site is None else replace(site, call=None)


def callers_of(history: FailureHistory, site: ExpressionSite | None) -> Iterator[ExpressionSite]:
    """The lines that called the function around a recorded call, the nearest first.

    Python and torch call `__init__`, `__getitem__` and `forward`: the lines that made them do so say little.
    """
    if site is None or site.call is None:
        return
    stack = stack_of(history, site.call)
    for inner, frame in pairwise(stack):
        is_helper = not inner.code.co_name.startswith(("__", "<module"))
        if not is_helper or frame.module_call is not None or frame.file.startswith(LIBRARIES):
            return
        yield site_of(frame.code, frame.lasti)
