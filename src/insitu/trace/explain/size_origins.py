"""Where a size that does not fit comes from, for each operand of a misfit."""

from __future__ import annotations

from collections.abc import Iterator

from insitu.trace.event import TensorFacts
from insitu.trace.explain.assignments import outside_site
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind, ShapeRow
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.sizes.walk import SizeOrigin, find_sizes
from insitu.trace.explain.value_origins import value_origins

MOST_SIZES = 2  # for one operand


def size_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> Iterator[Origin]:
    """The calls that introduced the sizes that do not fit; nothing for sizes that the failed line itself made."""
    for misfit in misfits:
        if misfit.dimension is None:
            continue
        for row in misfit.rows:
            operand = _operand(case, row)
            has_dimension = -misfit.dimension <= len(row.shape)
            if operand is not None and has_dimension:
                yield from _size_origin(failure, line, operand, misfit.dimension)


def _operand(case: Case, row: ShapeRow) -> NamedOperand | None:
    """The operand of a row."""
    for operand in case.operands:
        if operand.name == row.name and operand.facts.shape == row.shape:
            return operand
    return None


def _size_origin(failure: Failure, line: FailedLine, operand: NamedOperand, dimension: int) -> Iterator[Origin]:
    """The calls that introduced the size of a dimension, and the sizes that it was computed from.

    What the failed line did itself, and the call that produced the operand, are shown elsewhere.
    """
    history, rank = failure.history, len(operand.facts.shape)
    known = {line.site, history.site(history.producer(operand.tensor))}
    for size in _those_that_matter(list(find_sizes(history, operand.tensor, rank + dimension))):
        site = _site(failure, size)
        if site is not None and site not in known:
            yield Origin(OriginKind.SIZE, site, size=size.start.size, tensors=_tensors(size))
        if size.call is not None:
            yield from value_origins(history, size.call)


def _those_that_matter(found: list[SizeOrigin]) -> list[SizeOrigin]:
    """The changes, the earliest first; what was there at the start matters only if nothing has changed."""
    changes = [size for size in found if size.is_change]
    return (changes or found)[-MOST_SIZES:][::-1]


def _site(failure: Failure, found: SizeOrigin) -> ExpressionSite | None:
    """Where the size was introduced: by a call, by what initialized a parameter, or by an assignment."""
    history, tensor = failure.history, found.start.tensor
    if found.call is not None:
        return history.site(found.call)
    if failure.live.parameter_path(tensor):
        return history.site(failure.live.initializer(tensor))
    return outside_site(history, found.receiver, tensor)


def _tensors(found: SizeOrigin) -> tuple[TensorFacts, ...]:
    """The tensor before the call and the one after it; only the latter if the call changed none."""
    after = found.start.facts
    if found.call is None or found.before is None:
        return (after,)
    return (found.before, after)
