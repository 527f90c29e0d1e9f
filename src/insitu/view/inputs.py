"""What went into a call of a finding: statistics of tensors and plain numbers, by the sides of its operator."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite, isinf

from insitu.trace.event import Stats, TensorFacts
from insitu.trace.finding import Finding
from insitu.trace.operation import operation

Side = Stats | float | None


@dataclass(frozen=True)
class Inputs:
    """What went into the call of a finding, as far as it is known: statistics of tensors, and plain numbers."""

    name: str
    finding: Finding
    every: tuple[Stats | None, ...]
    left: Side
    right: Side

    @property
    def first(self) -> Stats | None:
        """The first tensor, if its numbers are known as they were before the call."""
        found = self.every[0] if self.every else None
        return None if found is None or found.inf or found.nan else found

    @property
    def known(self) -> list[Stats]:
        """The statistics of all tensors that could be read."""
        return [stats for stats in self.every if stats is not None]

    @property
    def kind(self) -> str:
        """Whether the result has NaN or only Inf."""
        return self.finding.kind


def inputs_of(finding: Finding) -> Inputs:
    """What went into the call of a finding, and the common name of its operator."""
    name = operation(finding.call.kind, finding.call.name).arithmetic if finding.call is not None else ""
    every = tuple(operand.facts.stats for operand in finding.operands)
    left, right = _sides(finding, every)
    return Inputs(name, finding, every, left, right)


def _sides(finding: Finding, every: tuple[Stats | None, ...]) -> tuple[Side, Side]:
    """The two sides of an operator: statistics of a tensor, a number, or None where it is not known."""
    call, tensors = finding.call, iter(every)
    given = (*call.args, *call.kwargs.values()) if call is not None else ()
    sides = [next(tensors, None) if isinstance(item, TensorFacts) else item for item in given] or list(tensors)
    left, right = (*(side if isinstance(side, (Stats, int, float)) else None for side in sides), None, None)[:2]
    if call is not None and operation(call.kind, call.name).is_reflected:
        return right, left
    return left, right


def minimum_of(side: Side) -> float | None:
    """The smallest number of a side."""
    return side.min if isinstance(side, Stats) else side


def maximum_of(side: Side) -> float | None:
    """The largest number of a side."""
    return side.max if isinstance(side, Stats) else side


def magnitude(side: Side) -> float | None:
    """The largest absolute value."""
    low, high = minimum_of(side), maximum_of(side)
    return None if low is None or high is None else max(abs(low), abs(high))


def is_below(side: Side, bound: float) -> bool:
    """Whether a side is known to hold a number below a bound."""
    low = minimum_of(side)
    return low is not None and low < bound


def has_zero(side: Side) -> bool:
    """Whether a side is known to hold 0."""
    return bool(side.zeros) if isinstance(side, Stats) else side == 0


def has_infinity(side: Side) -> bool:
    """Whether a side is known to hold an infinity."""
    return bool(side.inf) if isinstance(side, Stats) else side is not None and isinf(side)


def number(value: float) -> str:
    """A number as text; whole numbers exactly.

    >>> number(60000.0), number(838.25), number(-1.0)
    ('60000', '838.2', '-1')
    """
    is_whole = isfinite(value) and value == int(value) and abs(value) < 1e9
    return f"{value:.0f}" if is_whole else f"{value:.4g}"
