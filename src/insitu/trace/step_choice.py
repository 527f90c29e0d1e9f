"""Steps that the user chooses: `3`, `0,3,4`, `10:12`, `100:`, `:5`, `0:1000:100`, or several of these with commas."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from insitu.errors import ChoiceError

NUMBER = re.compile(r"\d+")
RANGE = re.compile(r"(\d*):(\d*)(?::(\d+))?")
GRAMMAR = "3, 0,3,4, 10:12 (steps 10 and 11), 100: or 0:1000:100"


@dataclass(frozen=True)
class StepRange:
    """The steps from `first` to before `end`, each `every`-th of them; without an end, all that follow."""

    first: int
    end: int | None
    every: int = 1

    def __contains__(self, step: int) -> bool:
        is_before_end = self.end is None or step < self.end
        return self.first <= step and is_before_end and (step - self.first) % self.every == 0


@dataclass(frozen=True)
class StepChoice:
    """A choice of steps, and the text that spells it.

    >>> choice = StepChoice.of("--steps", "0,10:12")
    >>> [step for step in range(20) if step in choice], choice.end
    ([0, 10, 11], 12)
    """

    text: str
    ranges: tuple[StepRange, ...]

    @classmethod
    def of(cls, option: str, text: str) -> StepChoice:
        """The choice that a text spells; an error names the option."""
        return cls(text, tuple(_range(option, text, part.strip()) for part in text.split(",")))

    def __contains__(self, step: int) -> bool:
        return any(step in each for each in self.ranges)

    @property
    def end(self) -> int | None:
        """The step after the last one that is chosen; None if they do not end."""
        ends = [each.end for each in self.ranges]
        known = [end for end in ends if end is not None]
        if len(known) < len(ends):
            return None
        return max(known)

    def among(self, option: str, steps: Iterable[int], what: str) -> list[int]:
        """Those of some steps that are chosen; an error, which says which steps there are, if there are none."""
        known = sorted(set(steps))
        chosen = [step for step in known if step in self]
        if not chosen:
            there = f"{known[0]} … {known[-1]}" if known else "none"
            raise ChoiceError(f"{option} {self.text}: none of these steps is in {what}, which has {there}")
        return chosen


def _range(option: str, text: str, part: str) -> StepRange:
    if NUMBER.fullmatch(part):
        return StepRange(int(part), int(part) + 1)
    found = RANGE.fullmatch(part)
    if found is None:
        raise ChoiceError(f"{option} expects steps such as {GRAMMAR}, got {text!r}")
    first, end = int(found[1] or 0), int(found[2]) if found[2] else None
    every = int(found[3] or 1)
    if every == 0:
        raise ChoiceError(f"{option} {text}: the last number of {part} must be 1 or more, as in 0:1000:100")
    is_empty = end is not None and end <= first
    if is_empty:
        raise ChoiceError(f"{option} {text}: {part} names no step; the end is left out, as in 10:12 for 10 and 11")
    return StepRange(first, end, every)
