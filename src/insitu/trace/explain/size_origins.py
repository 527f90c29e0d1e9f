"""Where a size that does not fit comes from, for each operand of a misfit."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from insitu.trace.event import TensorFacts
from insitu.trace.explain.assignments import outside_site
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.explanation import ExpressionSite, Misfit, Origin, OriginKind, ShapeRow
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.rank_origins import rank_origins
from insitu.trace.explain.shape_sources import size_sources
from insitu.trace.explain.size_slices import sliced_sizes
from insitu.trace.explain.sizes.walk import SizeOrigin, find_sizes
from insitu.trace.explain.value_origins import is_made_by_loop, operand_origins, value_origins

MOST_SIZES = 2  # for one dimension of an operand
MOST_CHANGES = 3  # of an operand whose dimensions are all in question
RESHAPING = ("reshape", "unflatten")


def size_origins(failure: Failure, line: FailedLine, case: Case, misfits: tuple[Misfit, ...]) -> Iterator[Origin]:
    """The calls that introduced the sizes that do not fit; nothing for sizes that the failed line itself made."""
    for misfit in misfits:
        is_about_shape = bool(misfit.rows) and not misfit.fact
        for row in misfit.rows if is_about_shape else ():
            operand = _operand(case, row)
            if operand is not None:
                yield from _operand_origins(failure, line, case, misfit, operand)


def _operand(case: Case, row: ShapeRow) -> NamedOperand | None:
    """The operand of a row."""
    for operand in case.operands:
        if operand.name == row.name and operand.facts.shape == row.shape:
            return operand
    return None


def _operand_origins(
    failure: Failure, line: FailedLine, case: Case, misfit: Misfit, operand: NamedOperand
) -> Iterator[Origin]:
    """Where the dimension that does not fit comes from, or the number of dimensions."""
    dimension = _dimension(case, misfit, len(operand.facts.shape))
    if dimension is not None:
        yield from _size_origin(failure, line, operand, dimension)
    elif case.operation.base in RESHAPING:
        yield from islice(_changes(failure, line, operand), MOST_CHANGES)
    elif misfit.dimension is None:
        yield from rank_origins(failure, line, operand)


def _dimension(case: Case, misfit: Misfit, rank: int) -> int | None:
    """The dimension in question, counted from the left: the one of the misfit, else the first in which rows differ."""
    if misfit.dimension is not None:
        found = rank + misfit.dimension
        return found if found >= 0 else None
    shapes = [row.shape for row in misfit.rows]
    has_same_order = len(set(map(len, shapes))) == 1 or case.operation.family == "loss"
    if len(shapes) < 2 or not has_same_order:
        return None
    columns = enumerate(zip(*shapes, strict=False))
    return next((place for place, sizes in columns if len(set(sizes)) > 1), None)


def _size_origin(failure: Failure, line: FailedLine, operand: NamedOperand, dimension: int) -> Iterator[Origin]:
    """The calls that introduced the size of a dimension, and the sizes that it was computed from.

    What the failed line did itself, and the call that produced the operand, are shown elsewhere.
    """
    found = list(find_sizes(failure.history, operand.tensor, dimension))
    yield from _origins(failure, line, operand, _those_that_matter(found))
    yield from _window_origins(failure, line, operand, found)
    if found and _is_from_outside(failure, operand, found[-1]):
        yield from operand_origins(failure, line, operand.name)


def limit_of_values(failure: Failure, line: FailedLine, at: int) -> Iterator[Origin]:
    """Where the end of a range comes from that is the size of a tensor: `torch.arange(x.shape[1])`."""
    result = next(failure.history.tensors(failure.history.result(at)), None)
    if result is None:
        return
    shape = failure.history.plain(result).shape
    if len(shape) == 1:
        yield from _size_of_another(failure, line, next(find_sizes(failure.history, result, 0)))


def _window_origins(
    failure: Failure, line: FailedLine, operand: NamedOperand, found: list[SizeOrigin]
) -> Iterator[Origin]:
    """The layers that changed the other dimensions which became a part of one: `flatten(1)` of an image."""
    for size in found:
        if size.earlier is None or len(size.earlier.facts.shape) <= len(size.start.facts.shape):
            continue
        facts, sides = size.earlier.facts, range(size.earlier.dim + 1, len(size.earlier.facts.shape))
        first_of_size = {facts.shape[side]: side for side in reversed(sides)}
        for side in first_of_size.values():
            changes = [each for each in find_sizes(failure.history, size.earlier.tensor, side) if each.is_change]
            yield from _origins(failure, line, operand, _those_that_matter(changes)[::-1])


def _is_from_outside(failure: Failure, operand: NamedOperand, first: SizeOrigin) -> bool:
    """Whether only the source says where an operand comes from; the assignment of a plain name is shown elsewhere."""
    if first.call is not None:
        return is_made_by_loop(failure.history, first.call)
    if first.receiver is not None:
        return is_made_by_loop(failure.history, first.receiver)
    return not operand.name.isidentifier()


def _changes(failure: Failure, line: FailedLine, operand: NamedOperand) -> Iterator[Origin]:
    """The calls that changed any size of an operand."""
    for dimension in range(len(operand.facts.shape)):
        found = [size for size in find_sizes(failure.history, operand.tensor, dimension) if size.is_change]
        yield from _origins(failure, line, operand, _those_that_matter(found))


def _origins(failure: Failure, line: FailedLine, operand: NamedOperand, sizes: list[SizeOrigin]) -> Iterator[Origin]:
    """The places where sizes were introduced, and where the numbers in the calls come from."""
    history = failure.history
    known = {line.site, history.site(history.producer(operand.tensor))}
    for size in sizes:
        site = _site(failure, size)
        if site is not None and site not in known:
            yield Origin(OriginKind.SIZE, site, size=size.start.size, tensors=_tensors(size))
        yield from _size_of_another(failure, line, size)
        sources = list(sliced_sizes(failure, line, operand, size))
        yield from sources
        if not sources and size.call is not None:
            yield from value_origins(history, size.call)


def _size_of_another(failure: Failure, line: FailedLine, size: SizeOrigin) -> Iterator[Origin]:
    """Where the size comes from that a new tensor has from the shape of another one."""
    if size.call is None or size.is_change:
        return
    for source in islice(size_sources(failure.history, size.call, size.start.size), 1):
        found = find_sizes(failure.history, source.tensor, source.dim)
        for each in _those_that_matter(list(found)):
            site = _site(failure, each)
            if site is not None and site != line.site:
                yield Origin(OriginKind.SIZE, site, size=each.start.size, tensors=_tensors(each))
                yield from value_origins(failure.history, each.call)


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
