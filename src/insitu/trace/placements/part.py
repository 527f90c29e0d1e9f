"""The values of the ranks for one value of a run: parts of it, or copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from insitu.trace.event import TensorFacts, Variable
from insitu.trace.kept_values import is_array
from insitu.trace.placements.part_layout import PartLayout


class ValueKey(NamedTuple):
    """Which value of a run: the path, the step, and the number of the value in its step."""

    path: str
    step: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class LocalPart:
    """What one rank holds of a value, and where it belongs, if the rank recorded that."""

    rank: int
    variable: Variable
    layout: PartLayout | None = None

    @property
    def value(self) -> Any:
        """The array of a tensor, or the Python value."""
        return content(self.variable)


def content(variable: Variable) -> Any:
    """The array of a tensor, or the Python value."""
    held = variable.value
    if isinstance(held, TensorFacts) and is_array(held.kept):
        return held.kept
    return held
