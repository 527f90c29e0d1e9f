"""Times of things that run in turn, and the rows that are made of them."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import process_time
from typing import Literal

Run = Callable[[], object]
Unit = Literal["x", "s", "B"]


@dataclass(frozen=True, slots=True)
class Effort:
    """How often to measure: a quick run is a fifth of a full one, and once says that all can be measured, no more."""

    name: Literal["full", "quick", "once"] = "full"

    def repeats(self, full: int) -> int:
        """How often to repeat what a full run repeats so many times."""
        return {"full": full, "quick": max(2, full // 5), "once": 1}[self.name]


@dataclass(frozen=True, slots=True)
class Case:
    """Something to time, `number` times in a row; `before` and `after` are not part of the time."""

    run: Run
    number: int = 1
    before: Run = lambda: None
    after: Run = lambda: None

    def seconds(self) -> float:
        """The CPU time of one run. What it returns is dropped after the clock has stopped."""
        self.before()
        gc.collect()
        results = []
        start = process_time()
        for _ in range(self.number):
            results.append(self.run())
        end = process_time()
        results.clear()
        self.after()
        return (end - start) / self.number


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of each case in each turn."""

    seconds: dict[str, list[float]]

    def ratio(self, one: str, other: str) -> list[float]:
        """How many times as long one takes as the other, turn by turn."""
        return [a / b for a, b in zip(self.seconds[one], self.seconds[other], strict=True)]

    def overhead(self, one: str, other: str, base: str) -> list[float]:
        """The same for what each takes more than the base; the base is a median, for differences are noisy."""
        least = statistics.median(self.seconds[base])
        pairs = zip(self.seconds[one], self.seconds[other], strict=True)
        return [(a - least) / max(b - least, 1e-9) for a, b in pairs]


def in_turn(cases: Mapping[str, Case | Run], repeats: int) -> Times:
    """Time each case once a turn, after a turn that does not count; each turn begins with another one."""
    every = [(name, case if isinstance(case, Case) else Case(case)) for name, case in cases.items()]
    seconds: dict[str, list[float]] = {name: [] for name, _ in every}
    gc.collect()
    gc.freeze()  # what was there before is no tool's business, and would be walked again and again
    for turn in range(-1, repeats):
        shift = turn % len(every)
        for name, case in every[shift:] + every[:shift]:
            taken = case.seconds()
            if turn >= 0:
                seconds[name].append(taken)
    gc.unfreeze()
    return Times(seconds)


@dataclass(frozen=True, slots=True)
class Target:
    """What a number is to be: at most, or at least, a limit."""

    limit: float
    least: bool = False

    def met(self, value: float) -> bool:
        """Whether a number is good enough."""
        return value >= self.limit if self.least else value <= self.limit

    def share(self, value: float) -> float:
        """A number as a share of the limit: 1 is the limit itself, and more is not good enough."""
        return self.limit / value if self.least else value / self.limit

    def __str__(self) -> str:
        limit = f"{self.limit:g}" if self.limit < 1e5 else f"{self.limit:,.0f}"
        return f"{'≥' if self.least else '≤'} {limit}"

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target that was written so.

        >>> Target.parse("≥ 15")
        Target(limit=15.0, least=True)
        """
        sign, limit = text.split()
        return cls(float(limit.replace(",", "")), least=sign == "≥")


def at_most(limit: float) -> Target:
    """The target of what should be small."""
    return Target(limit)


def at_least(limit: float) -> Target:
    """The target of what should be large."""
    return Target(limit, least=True)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the report: the measured numbers, and what their median is to be; with no target it is only told."""

    name: str
    samples: list[float]
    target: Target | None = None
    unit: Unit = "x"
    note: str = ""

    @property
    def median(self) -> float:
        """The number that counts."""
        return statistics.median(self.samples)

    @property
    def quartiles(self) -> tuple[float, float] | None:
        """Where the middle half of the numbers lies; None if there are too few."""
        if len(self.samples) < 3:
            return None
        low, _, high = statistics.quantiles(self.samples, n=4, method="inclusive")
        return low, high

    @property
    def verdict(self) -> str:
        """`ok`, `over`, or nothing."""
        if self.target is None:
            return ""
        return "ok" if self.target.met(self.median) else "over"


def told(samples: list[float]) -> str:
    """The median of numbers, for a note.

    >>> told([1.0, 2.25, 3.0])
    '2.2x'
    """
    return f"{statistics.median(samples):.1f}x"
