"""Where values that are out of range come from: the call that computed them, and the numbers it computed them from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, Limits, NamedOperand
from insitu.trace.explain.explanation import Origin, OriginKind, RangeExit
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.failure_history import FailureHistory, TensorToken
from insitu.trace.explain.messages import WRONG_ELEMENTS
from insitu.trace.explain.size_origins import limit_of_values
from insitu.trace.explain.size_slices import sliced_sizes
from insitu.trace.explain.sizes.walk import find_size
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import call_start, operand_start
from insitu.trace.explain.slices.rules.range_rule import range_rule
from insitu.trace.explain.value_origins import argument_origins, is_made_by_loop, operand_origins, value_origins

MOST_STEPS = 50
# Calls that keep values within bounds, or leave out some: the values that are out of range were there before.
BOUNDING = frozenset(("clamp", "maximum", "minimum", "abs", "masked_fill", "where", "relu", "round", "floor", "ceil"))
PROBABILITIES = "between 0 and 1"
SIZE_IN_MESSAGE = re.compile(r"with size (\d+)|(\d+) classes")


@dataclass(slots=True, frozen=True)
class ProducedValues:
    """A call that computed values which later calls have only moved.

    `unrecorded` is the tensor that it took them from, if no recorded call produced that tensor.
    """

    at: int
    unrecorded: TensorToken | None


def range_origins(failure: Failure, line: FailedLine, case: Case) -> Iterator[Origin]:
    """The calls that computed the elements that are at fault, and where the numbers in them come from."""
    if not WRONG_ELEMENTS.search(failure.message):
        return
    limit = _limit(case)
    for operand in _concerned(line, case):
        seen = _range_exit(failure, operand, limit)
        name = operand.name
        computed = list(_computed(failure, operand.tensor, limit))
        yield from _sliced(failure, line, operand, computed, limit)
        yield from _sliced_limit(failure, line, case, limit)
        for found in computed:
            if _may_be_in_range(failure, found.at):
                seen = None
            yield from _origins(failure, line, found, name, seen)
            if is_made_by_loop(failure.history, found.at):
                yield from operand_origins(failure, line, operand.name)
            name, seen = "", None  # what was seen is the range of the operand
    yield from _limit_origins(failure, case)


def _sliced_limit(failure: Failure, line: FailedLine, case: Case, limit: int | None) -> Iterator[Origin]:
    """Where the source computes the number of rows of a table, or of classes."""
    if limit is None:
        return
    table = next((each for each in case.operands if each.facts is case.tensor(1, "weight")), None)
    if case.operation.base in LOSSES:
        table = case.first
    if table is None:
        return
    dimension = min(1, len(table.facts.shape) - 1) if case.operation.base in LOSSES else 0
    size = find_size(failure.history, table.tensor, dimension)
    if size is not None:
        yield from islice(sliced_sizes(failure, line, table, size), 1)


def _limit_origins(failure: Failure, case: Case) -> Iterator[Origin]:
    """Where the number of rows or classes comes from: the numbers with which the layer was made."""
    history, base = failure.history, case.operation.base
    if base == "embedding":
        tables = [operand for operand in case.operands if operand.facts is case.tensor(1, "weight")]
        for table in tables:
            yield from value_origins(history, failure.live.initializer(table.tensor))
    elif base in LOSSES and case.first is not None:
        classes = min(1, len(case.first.facts.shape) - 1)
        found = find_size(history, case.first.tensor, classes)
        if found is None:
            return
        call = found.call if found.call is not None else failure.live.initializer(found.start.tensor)
        yield from value_origins(history, call)


def _sliced(
    failure: Failure, line: FailedLine, operand: NamedOperand, computed: list[ProducedValues], limit: int | None
) -> Iterator[Origin]:
    """Where the source of the program computes values that are out of range."""
    history = failure.history
    starts = [operand_start(failure, line, operand.name)]
    made = [found.at for found in computed if not is_made_by_loop(history, found.at)]
    if made and history.operation(made[-1]).family == "join":
        return  # which of several tensors is out of range is not known
    if made:
        starts = [call_start(history, at) for at in made[-1:]]
    yield from slice_origins(starts, range_rule(0, limit), operand.name)


def _concerned(line: FailedLine, case: Case) -> list[NamedOperand]:
    """The operands whose elements can be at fault: indices, or probabilities."""
    operands = list(case.operands) if case.call is not None else line.tensors()
    if PROBABILITIES in case.message:
        return operands[:1]
    return [operand for operand in operands if _is_whole(operand.facts)]


def _is_whole(facts: TensorFacts) -> bool:
    return dtype_named(facts.dtype).is_integer


def _limit(case: Case) -> int | None:
    """The largest index that fits; None if it is not known."""
    found = SIZE_IN_MESSAGE.search(case.message)
    if found is not None:
        return int(found[1] or found[2]) - 1
    size = SIZES.get(case.operation.base, _no_size)(case)
    if isinstance(size, int):
        return size - 1
    return None


def _no_size(case: Case) -> int | str | None:
    return None


def _rows_of_table(case: Case) -> int | str | None:
    table = case.tensor(1, "weight")
    return table.shape[0] if table is not None else None


def _classes(case: Case) -> int | str | None:
    scores = case.tensor(0, "input")
    if scores is None or not scores.shape:
        return None
    return scores.shape[:2][-1]


def _size_along(case: Case) -> int | str | None:
    """The size of the dimension that indices go along."""
    tensor, dim = case.tensor(0, "input"), case.argument(1, "dim")
    if tensor is None or not isinstance(dim, int) or not -len(tensor.shape) <= dim < len(tensor.shape):
        return None
    return tensor.shape[dim]


LOSSES = ("cross_entropy", "nll_loss")
SIZES: dict[str, Callable[[Case], int | str | None]] = {
    **dict.fromkeys(("index_select", "gather", "take_along_dim"), _size_along),
    **dict.fromkeys(LOSSES, _classes),
    "embedding": _rows_of_table,
}


def _range_exit(failure: Failure, operand: NamedOperand, limit: int | None) -> RangeExit | None:
    """How the elements leave their range, if that was seen."""
    limits = failure.live.limits(operand.tensor)
    if limits is None or limit is None:
        return None
    low, high = limits
    if high > limit:
        return RangeExit(limit, is_above=True)
    if low < 0:
        return RangeExit(0, is_above=False)
    return None


def _origins(
    failure: Failure, line: FailedLine, found: ProducedValues, name: str, seen: RangeExit | None
) -> Iterator[Origin]:
    history = failure.history
    site = history.site(found.at)
    if site is None:
        return
    if seen is not None:
        yield Origin(OriginKind.RANGE, site, name, range_exit=seen)
    else:
        yield Origin(OriginKind.VALUES_PRODUCED, site)
    yield from value_origins(history, found.at)
    yield from limit_of_values(failure, line, found.at)
    if found.unrecorded is not None:
        yield from argument_origins(history, found.at, found.unrecorded)


def _computed(failure: Failure, tensor: TensorToken, limit: int | None) -> Iterator[ProducedValues]:
    """The calls that computed the elements, the last first, behind all calls that only move or convert them.

    Behind a sum, the walk goes on with the operand that is out of range itself.
    """
    history = failure.history
    at, later = history.producer(tensor), None
    is_part = False
    for _ in range(MOST_STEPS):
        if at is None:
            return
        known = history.operation(at)
        is_passing = known.is_move or known.base in BOUNDING or _writes_only_in_range(failure, at, limit)
        if not is_passing:
            token = _beyond(failure, at, limit)
        elif known.family == "join":
            token = _item_of_stack(history, at, later) or _joined(failure, at, limit, is_part)
        else:
            token = next(iter(list(history.tensors(history.args(at)))[int(known.overwrites) :]), None)
        is_part = is_part or known.family == "selection"
        earlier = history.producer(token) if token is not None else None
        if not is_passing or earlier is None:
            yield ProducedValues(at, token if earlier is None else None)
        at, later = earlier, at


def _limits_of_write(failure: Failure, at: int) -> Limits | None:
    """The limits of what a call writes into a part of a tensor, if they can still be read."""
    history = failure.history
    stored = history.args(at)[-1]
    if history.is_tensor(stored):
        return failure.live.present_limits(stored)
    number = history.plain(stored)
    if isinstance(number, int | float):
        return number, number
    return None


def _is_write(history: FailureHistory, at: int) -> bool:
    return history.operation(at).base == "setitem"


def _writes_only_in_range(failure: Failure, at: int, limit: int | None) -> bool:
    """Whether all that a call writes is in range: then it did not bring what is out of range."""
    limits = _limits_of_write(failure, at) if _is_write(failure.history, at) else None
    return limits is not None and limit is not None and 0 <= limits[0] <= limits[1] <= limit


def _may_be_in_range(failure: Failure, at: int) -> bool:
    """Whether it is not known what a call writes: the other values of the tensor may be out of range instead."""
    return _is_write(failure.history, at) and _limits_of_write(failure, at) is None


def _joined(failure: Failure, at: int, limit: int | None, is_part: bool) -> TensorToken | None:
    """The tensor of several that a call joins; None if it is not sure which of them is at fault.

    `is_part` says that a later call selected some of the elements: then a tensor out of range need not be the one.
    """
    history = failure.history
    inputs = list(history.tensors(history.args(at)))
    sites = {history.site(history.producer(token)) for token in inputs}
    if len(sites) == 1:
        return _beyond(failure, at, limit) or next(reversed(inputs), None)
    return None if is_part else _beyond(failure, at, limit)


def _item_of_stack(history: FailureHistory, at: int, later: int | None) -> TensorToken | None:
    """The tensor that was stacked, and that the call right after it selects: `torch.stack([a, b], 1)[:, 0]` is a."""
    if later is None or history.operation(at).base != "stack" or history.operation(later).base != "getitem":
        return None
    items = history.args(at)
    along = items[1] if len(items) > 1 else history.kwargs(at).get("dim", 0)
    selected = _number_at(history.plain(history.args(later))[1], along)
    stacked = list(history.tensors(items))
    if selected is None or not -len(stacked) <= selected < len(stacked):
        return None
    return stacked[selected]


def _number_at(index: Any, place: Any) -> int | None:
    """The number at a place of an index; None if there is another thing, or places are added or skipped before it."""
    parts = tuple(index) if isinstance(index, (tuple, list)) else (index,)
    is_plain = isinstance(place, int) and None not in parts and "..." not in parts
    if not is_plain or not -len(parts) <= place < len(parts):
        return None
    found = parts[place]
    if type(found) is int:
        return found
    return None


def _beyond(failure: Failure, at: int, limit: int | None) -> TensorToken | None:
    """The input of a call that is out of range now, as far as it can be read."""
    if limit is None:
        return None
    for token in failure.history.inputs(at):
        limits = failure.live.present_limits(token)
        if limits is not None and not 0 <= limits[0] <= limits[1] <= limit:
            return token
    return None
