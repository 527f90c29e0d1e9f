"""Where a size that does not fit comes from, for each operand of a misfit."""

from __future__ import annotations

from collections.abc import Iterator

from insitu.trace.explain.assignments import outside_site
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind, ShapeRow
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.sizes.walk import SizeOrigin, find_size


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
    """The call that introduced the size of a dimension, unless it is the one that produced the operand."""
    history, rank = failure.history, len(operand.facts.shape)
    found = find_size(history, operand.tensor, rank + dimension)
    if found is None or found.calls == 0:
        return
    site = _site(failure, found)
    if site is not None and site != line.site:
        size = found.start.facts.shape[found.start.dim]
        yield Origin(OriginKind.SIZE, site, f"the {size}", shapes=_shapes(found))


def _site(failure: Failure, found: SizeOrigin) -> ExpressionSite | None:
    """Where the size was introduced: by a call, by what initialized a parameter, or by an assignment."""
    history, tensor = failure.history, found.start.tensor
    if found.call is not None:
        return history.site(found.call)
    if failure.live.parameter_path(tensor):
        return history.site(failure.live.initializer(tensor))
    return outside_site(history, found.receiver, tensor)


def _shapes(found: SizeOrigin) -> tuple[str, ...]:
    """The tensors before and after the call, where the call changed one."""
    after = str(found.start.facts)
    if found.call is None or found.before is None:
        return (after,)
    return (str(found.before), after)
