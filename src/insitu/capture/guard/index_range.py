"""Labels and indices that are out of range, found before the kernel that takes them runs.

On the CPU the kernel raises at once. On a GPU it asserts later, at another line, and nothing can be read after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.deferral import Deferral, PendingTensor
from insitu.capture.explain.reading import Reading
from insitu.capture.finite import is_readable
from insitu.capture.guard.facts import call_at, facts_of, input_values, names_at
from insitu.capture.isolation import run_isolated
from insitu.capture.tensor_memory import has_values, is_plain_class
from insitu.capture.tensors import Value
from insitu.trace.index_use import INDEX_USES, ArgumentPlace, IndexUse
from insitu.trace.loss_input import IGNORED
from insitu.trace.step_findings import IndicesOutOfRange

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks

WHOLE = frozenset((torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8))
MOST_STEPS = 50

Range = tuple[int, int]


def index_finding(
    check: ProbeChecks, callee: FunctionCallee, at: int, args: Any, kwargs: Any
) -> IndicesOutOfRange | None:
    """The finding of a call that is about to take indices which are out of range."""
    use = INDEX_USES[callee.name]
    indices, count = argument(args, kwargs, use.indices), limit_of(use, args, kwargs)
    if count is None or not is_readable() or not are_indices(indices):
        return None
    ignored = kwargs.get(use.ignored, IGNORED) if use.ignored else None
    seen = run_isolated(lambda: range_outside(indices, count, ignored))
    if seen is None or check.checks.is_allowed(callee.name, check.path):
        return None
    with Reading(check.probe.tape) as reading:
        return finding_of(check, reading, at, indices, seen, count)


@dataclass(frozen=True, slots=True)
class PendingRange:
    """The smallest and the largest index that a call has taken, on their way; the call is at an offset of the tape."""

    at: int
    ends: PendingTensor
    count: int

    def outside(self) -> Range | None:
        """The range, if it is not within that of the call. It is read even if the device has failed since."""
        lowest, highest = self.ends.peek()
        if lowest >= 0 and highest < self.count:
            return None
        return lowest, highest


def pending_range(deferral: Deferral, name: str, at: int, args: Any, kwargs: Any) -> PendingRange | None:
    """The range of the indices that a call is about to take, which is sent on its way before the call."""
    use = INDEX_USES[name]
    indices, count = argument(args, kwargs, use.indices), limit_of(use, args, kwargs)
    if count is None or not is_readable() or not are_indices(indices):
        return None
    ignored = kwargs.get(use.ignored, IGNORED) if use.ignored else None
    ends = run_isolated(lambda: torch.stack(indices_that_count(indices.detach(), ignored).aminmax()))
    return PendingRange(at, deferral.send(ends, Tensor.tolist), count)


def indices_that_count(indices: Tensor, ignored: int | None) -> Tensor:
    """Indices with 0 in place of those that a loss ignores."""
    if ignored is None:
        return indices
    return indices.where(indices != ignored, 0)


def late_index_finding(check: ProbeChecks, pending: PendingRange) -> IndicesOutOfRange | None:
    """The finding of a call that has taken indices out of range, by the range that was sent on its way before."""
    seen = pending.outside()
    if seen is None:
        return None
    with Reading(check.probe.tape) as reading:
        callee = reading.callee(pending.at)
        if check.is_allowed(reading, pending.at):
            return None
        use, args, kwargs = INDEX_USES[callee.name], reading.args(pending.at), reading.kwargs(pending.at)
        value = argument(args, kwargs, use.indices)
        call = reading.call(pending.at)
        return IndicesOutOfRange(
            path=call.path,
            call=call,
            site=call.site,
            name=names_at(reading, pending.at).get(id(value), ""),
            facts=reading.plain(value),
            lowest=seen[0],
            highest=seen[1],
            count=pending.count,
            limit=use.limit,
            source=call_at(reading, source_of_indices(reading, value, lambda other: False)),
        )


def finding_of(
    check: ProbeChecks, reading: Reading, at: int, indices: Tensor, seen: Range, count: int
) -> IndicesOutOfRange:
    """The finding of indices in a range that was seen, where `count` is the first number that is too large."""
    call, value = reading.call(at), check.value_of(indices)
    name, source = "", None
    if value is not None:
        name = names_at(reading, at).get(id(value), "")
        source = source_of_indices(reading, value, lambda other: is_outside(other, count))
    return IndicesOutOfRange(
        path=call.path,
        call=call,
        site=call.site,
        name=name,
        facts=facts_of(indices),
        lowest=seen[0],
        highest=seen[1],
        count=count,
        limit=INDEX_USES[call.name].limit,
        source=call_at(reading, source),
    )


def argument(args: Any, kwargs: Any, wanted: ArgumentPlace) -> Any:
    """An argument of a call; None if it was not given."""
    if wanted.position < len(args):
        return args[wanted.position]
    return kwargs.get(wanted.name)


def limit_of(use: IndexUse, args: Any, kwargs: Any) -> int | None:
    """How many classes or rows there are; None if that is not known, or the shapes do not fit anyway."""
    table, indices = argument(args, kwargs, use.table), argument(args, kwargs, use.indices)
    if use.limit == "num_classes":
        is_number = type(table) is int and table > 0
        return table if is_number else None
    if not isinstance(table, Tensor) or not isinstance(indices, Tensor):
        return None
    if not is_plain_class(table) or table.is_nested:
        return None
    if use.limit == "rows":
        return table.shape[0] if table.dim() == 2 else None
    return classes_of(tuple(table.shape), tuple(indices.shape))


def classes_of(scores: tuple[int, ...], labels: tuple[int, ...]) -> int | None:
    """The number of classes of scores; None if the shape of the labels does not fit."""
    fitting = () if len(scores) == 1 else (*scores[:1], *scores[2:])
    if not scores or labels != fitting:
        return None
    return scores[:2][-1]


def are_indices(item: Any) -> bool:
    """Whether an argument is a tensor of whole numbers that can be read."""
    if not isinstance(item, Tensor) or item.dtype not in WHOLE:
        return False
    return not item.is_nested and item.numel() > 0 and has_values(item)


def range_outside(indices: Tensor, count: int, ignored: int | None = None) -> Range | None:
    """The smallest and the largest index that counts, if one of them is out of range."""
    lowest, highest = range_of(indices)
    if lowest >= 0 and highest < count:
        return None
    if ignored is None:
        return lowest, highest
    kept = indices[indices != ignored]
    return range_outside(kept, count) if kept.numel() else None


def range_of(indices: Tensor) -> Range:
    """The smallest and the largest index."""
    lowest, highest = indices.detach().aminmax()
    return int(lowest), int(highest)


def is_outside(value: Value, count: int) -> bool:
    """Whether a tensor is there and holds indices that are out of range."""
    tensor = value()
    if tensor is None or not are_indices(tensor):
        return False
    return run_isolated(lambda: range_outside(tensor, count)) is not None


def source_of_indices(reading: Reading, value: Value, is_wrong: Callable[[Value], bool]) -> int | None:
    """The call that made indices which are out of range, behind calls that only move, join or convert them."""
    source = reading.producer(value)
    for _ in range(MOST_STEPS):
        if source is None or not reading.operation(source).is_move:
            return source
        inputs = input_values(reading, source)
        wrong = next(filter(is_wrong, inputs), None)
        if wrong is None and len(inputs) == 1:
            wrong = inputs[0]
        earlier = reading.producer(wrong) if wrong is not None else None
        if earlier is None:
            return source
        source = earlier
    return source
