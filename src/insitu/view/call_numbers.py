"""The numbers that went into the call of a finding: statistics of tensors and plain numbers, side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, repeat
from math import inf, isfinite, isinf, nan
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import Call, Stats, TensorFacts
from insitu.trace.findings import NonFiniteGradient, NonFiniteResult, TensorOperand
from insitu.trace.operation import operation
from insitu.view.number import number_or_nan

Explicable = NonFiniteResult | NonFiniteGradient


@dataclass(frozen=True)
class NumberRange:
    """One side of an operator: a tensor, or a plain number. Numbers that are not known are NaN: no comparison holds."""

    low: float = nan
    high: float = nan
    std: float = nan
    count: int = 1
    zeros: int = 0
    infinities: int = 0
    is_number: bool = False
    is_known: bool = True

    @property
    def magnitude(self) -> float:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))

    @property
    def smallest_magnitude(self) -> float:
        """The smallest absolute value; 0 where the side has numbers on both sides of 0."""
        if self.low <= 0 <= self.high:
            return 0.0
        return min(abs(self.low), abs(self.high))


UNKNOWN = NumberRange(is_known=False)


@dataclass(frozen=True)
class CallNumbers:
    """The numbers that went into the call of a finding, as far as they are known.

    `name` is the common name of the operator. `tensors` are in the order of the operands.
    """

    name: str
    finding: Explicable
    tensors: tuple[NumberRange, ...]
    is_finite: bool
    left: NumberRange
    right: NumberRange

    @property
    def operands(self) -> tuple[TensorOperand, ...]:
        """The tensors that went in, with their names and producers."""
        return self.finding.operands

    @property
    def first(self) -> NumberRange:
        """The first tensor, if its numbers are known as they were before the call: a call in place overwrites them."""
        first = next(iter(self.tensors), UNKNOWN)
        is_overwritten = first.infinities or _contains_nan(self.operands)
        if is_overwritten:
            return UNKNOWN
        return first

    @property
    def known(self) -> list[NumberRange]:
        """All tensors that could be read."""
        return [side for side in self.tensors if side.is_known]

    @property
    def zeros(self) -> int:
        """How many zeros went in."""
        return sum(side.zeros for side in self.tensors)

    @property
    def largest(self) -> float:
        """The largest absolute value of all tensors."""
        return max((side.magnitude for side in self.tensors if side.magnitude >= 0), default=nan)

    @property
    def limit(self) -> float:
        """The largest number of the type of the result."""
        largest = dtype_named(self._dtype).largest
        if largest is None:
            return nan
        return largest

    @property
    def end_of_type(self) -> str:
        """Where the type of the result ends, as a part of a sentence."""
        return f"{self._dtype} ends at {self.limit:.5g}"

    @property
    def _dtype(self) -> str:
        if self.finding.output is not None:
            return self.finding.output.dtype
        return ""


def call_numbers(finding: Explicable, call: Call) -> CallNumbers:
    """The numbers that went into the call of a finding, and the common name of its operator."""
    stats = [operand.facts.stats for operand in finding.operands]
    tensors = tuple(map(side_of, stats))
    left, right = _sides(call, tensors)
    is_finite = not any(each.inf or each.nan for each in stats if each is not None)
    return CallNumbers(operation(call.kind, call.name).arithmetic, finding, tensors, is_finite, left, right)


def side_of(item: Any) -> NumberRange:
    """The statistics of a tensor, or a plain number, as a side of an operator.

    >>> side_of(2.5).magnitude, side_of(None).is_known, side_of(0).zeros
    (2.5, False, 1)
    """
    if isinstance(item, Stats):
        low, high, std = map(number_or_nan, (item.min, item.max, item.std))
        return NumberRange(low, high, std, item.count, item.zeros, item.inf)
    if isinstance(item, (int, float)):
        return NumberRange(item, item, 0.0, 1, int(item == 0), int(isinf(item)), is_number=True)
    return UNKNOWN


def _sides(call: Call, tensors: tuple[NumberRange, ...]) -> tuple[NumberRange, NumberRange]:
    """The two sides of an operator."""
    arguments = (*call.args, *call.kwargs.values())
    known: Iterable[NumberRange] = tensors
    if arguments:
        known = _arguments(arguments, tensors)
    left, right = islice(chain(known, repeat(UNKNOWN)), 2)
    if operation(call.kind, call.name).is_reflected:
        return (right, left)
    return (left, right)


def _arguments(arguments: tuple[Any, ...], tensors: tuple[NumberRange, ...]) -> Iterator[NumberRange]:
    remaining = iter(tensors)
    for item in arguments:
        if isinstance(item, TensorFacts):
            yield next(remaining, UNKNOWN)
        else:
            yield side_of(item)


def _contains_nan(operands: tuple[TensorOperand, ...]) -> bool:
    if not operands:
        return False
    stats = operands[0].facts.stats
    return stats is not None and stats.nan > 0


def power(base: float, exponent: float) -> float:
    """A power of a number that is at least 1; infinite where it is too large."""
    try:
        return float(max(base, 1.0) ** exponent)
    except OverflowError:
        return inf


def number(value: float) -> str:
    """A number as text; whole numbers exactly.

    >>> number(60000.0), number(838.25), number(-1.0)
    ('60000', '838.2', '-1')
    """
    is_whole = isfinite(value) and value == int(value) and abs(value) < 1e9
    if is_whole:
        return f"{value:.0f}"
    return f"{value:.4g}"
