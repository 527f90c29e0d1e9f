"""State that is left from an earlier call of the model: a cached mask, a hidden state of another batch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from insitu.trace.event import Site
from insitu.trace.explain.case import Case
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import USER_KINDS, FailureHistory
from insitu.trace.explain.storage_sites import storage_site
from insitu.trace.explain.value_origins import operand_origins

MOST_SOURCES = 2  # of a container


def earlier_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> Iterator[Origin]:
    """The operands of a misfit that an earlier call of the model made: the line that asked for them there, the line
    that stored them, and where the container comes from that has them now."""
    history = failure.history
    if failure.at is None:
        return
    concerned = [operand for operand in case.operands if any(misfit.mentions(operand.name) for misfit in misfits)]
    for operand in concerned:
        producer = history.producer(operand.tensor)
        if producer is None or not _is_earlier_call(history, producer, failure.at):
            continue
        site = _asked_at(history.call(producer).site)
        if site is not None:
            yield Origin(OriginKind.EARLIER, site, operand.name)
        stored = storage_site(history, producer)
        if stored is not None:
            yield Origin(OriginKind.STORED, stored, operand.name)
        yield from islice(operand_origins(failure, line, operand.name), MOST_SOURCES)


def _is_earlier_call(history: FailureHistory, earlier: int, now: int) -> bool:
    """Whether a call was made in an earlier outermost call of the same model."""
    then, here = _outermost(history, earlier), _outermost(history, now)
    if then == here:
        return False
    callee = history.callee_facts(here)
    return callee.kind in USER_KINDS and callee == history.callee_facts(then)


def _outermost(history: FailureHistory, at: int) -> int:
    """The outermost call around a call, or the call itself."""
    *_, outermost = history.ancestors(at)
    return outermost


def _asked_at(site: Site | None) -> ExpressionSite | None:
    """The line that called the function in which a call was made; without such a function, the call itself."""
    if site is None:
        return None
    asked = site
    if site.caller is not None and site.caller.function != site.function:
        asked = site.caller
    return ExpressionSite(asked.file, asked.line, asked.function, asked.text[asked.start : asked.end].strip())
