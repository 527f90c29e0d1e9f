"""Absurd numbers in data, as -9999 for what is missing: looked for where a loss is far above the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from insitu.capture.explain.reading import Reading
from insitu.capture.guard.arrays import ArraySources
from insitu.capture.guard.cut import producers
from insitu.capture.guard.data import ENTRIES, MOST_MOVES
from insitu.capture.guard.facts import call_at, facts_of, input_values, own_tensors
from insitu.capture.isolation import run_isolated
from insitu.capture.tensor_memory import has_values
from insitu.capture.tensors import ParameterValue, Value
from insitu.trace.health_numbers import ExtremeNumber

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks

MOST_CALLS = 1 << 10  # behind a loss that are looked at
MOST_TENSORS = 16
MOST_ELEMENTS = 1 << 20
FEWEST_ELEMENTS = 8
EXTREME = 1e3  # times the median of all numbers that are not zero
APART = 0.01  # of the largest number: between that and a tenth of it there is none
FEW = 0.05  # of all numbers are as large
MADE_HERE = frozenset({"full", "full_like", "new_full", "zeros", "ones", "arange", "eye"})  # masks and tables, not data


@dataclass(frozen=True, slots=True)
class Extreme:
    """The number that is far from all others in a tensor: its value and index, and the median of the others."""

    number: float
    index: tuple[int, ...]
    median: float


def extreme_number(check: ProbeChecks, loss: Tensor) -> ExtremeNumber | None:
    """The absurd number in the data behind a loss, with the lines that can have put it there; None if there is none."""
    value = check.value_of(loss)
    if value is None:
        return None
    buffers = {id(tensor) for _, tensor in own_tensors(check.probe)}
    with Reading(check.probe.tape) as reading:
        for at, tensor, entry in islice(data_behind(reading, value), MOST_TENSORS):
            found = extreme_of(tensor) if id(tensor) not in buffers else None
            if found is not None:
                return ExtremeNumber(
                    number=found.number,
                    median=found.median,
                    index=found.index,
                    facts=facts_of(tensor),
                    use=reading.call(at),
                    entry=call_at(reading, entry if entry >= 0 else None),
                    sources=ArraySources.of_number(found.number),
                )
        return None


def data_behind(reading: Reading, loss: Value) -> Iterator[tuple[int, Tensor, int]]:
    """The tensors of data behind a loss, each once, with the call that uses it and the call that brought it in."""
    met: set[int] = set()
    for at in islice(producers(reading, [loss], set()), MOST_CALLS):
        if reading.operation(at).is_move:  # who uses the result is of interest
            continue
        for value in filter(may_be_data, input_values(reading, at)):
            tensor, origin = value(), data_origin(reading, value)
            if isinstance(tensor, Tensor) and origin is not None and id(tensor) not in met:
                met.add(id(tensor))
                yield at, tensor, origin


def may_be_data(value: Value) -> bool:
    """Whether a value is not a weight, and was not computed from one."""
    return not value.requires_grad and not isinstance(value, ParameterValue)


def data_origin(reading: Reading, value: Value) -> int | None:
    """The call that brought data into torch, -1 if it came in otherwise; None if it was computed."""
    entry = -1
    for _ in range(MOST_MOVES):
        at = reading.producer(value)
        if at is None:
            return entry
        what = reading.operation(at)
        is_passed_on = what.is_move or what.family in ENTRIES
        if not is_passed_on or what.base in MADE_HERE:
            return None
        if what.family in ENTRIES and reading.frame(at) is not None:
            entry = at
        earlier = next(iter(input_values(reading, at)), None)
        if earlier is None:
            return entry
        value = earlier
    return None


def extreme_of(tensor: Tensor) -> Extreme | None:
    """The largest number of a tensor, if it is far from all others."""
    is_readable = tensor.is_floating_point() and has_values(tensor)
    if not is_readable or not FEWEST_ELEMENTS <= tensor.numel() <= MOST_ELEMENTS:
        return None
    return run_isolated(lambda: extreme_in(tensor.detach()))


def extreme_in(tensor: Tensor) -> Extreme | None:
    """The same, where nobody notices."""
    sizes = tensor.double().abs().flatten()
    present = sizes[sizes > 0]
    if present.numel() < FEWEST_ELEMENTS:
        return None
    top, median = present.max().item(), present.median().item()
    large = int((present >= top / 10).sum())
    is_apart = int((present >= APART * top).sum()) == large
    if top <= EXTREME * median or not is_apart or large > max(1, FEW * present.numel()):
        return None
    at = int(sizes.argmax())
    index = tuple(int(each) for each in torch.unravel_index(torch.tensor(at), tensor.shape))
    return Extreme(tensor.flatten()[at].item(), index, median)
