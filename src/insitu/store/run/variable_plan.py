"""How each variable is stored in the file of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from insitu.store.journal.run_shards import RunShards
from insitu.store.run.journal_survey import VariableCounts
from insitu.store.stored_type import JSON

WIDEST_TEXT = 2**12  # a longer one is bytes among others, instead of widening all of them


@dataclass(frozen=True, slots=True)
class VariablePlan:
    """How one variable is stored. `form` is "dense", "ragged" or "text"."""

    variable: VariableCounts
    form: str
    shapes: dict[int, tuple[int, ...]]  # by the number of the layout
    facts: dict[str, Any]

    @classmethod
    def of(cls, variable: VariableCounts, shards: RunShards) -> VariablePlan:
        """The plan for a variable."""
        shapes = {layout: shards.numbering.shapes[layout] for layout in variable.layouts}
        return cls(variable, _form(variable), shapes, shards.facts(variable.path))

    @property
    def dimensions(self) -> int:
        """The most that a value has."""
        return max(map(len, self.shapes.values()))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of each value of a dense variable."""
        return next(iter(self.shapes.values()))

    @property
    def has_repeats(self) -> bool:
        """Whether a stored value was seen more than once."""
        return self.variable.stored != self.variable.rows

    @property
    def text_width(self) -> int:
        """The bytes of each text; 0 for other forms."""
        return self.variable.width if self.form == "text" else 0

    @property
    def size(self) -> int:
        """The bytes of the values."""
        return self.text_width * self.variable.stored if self.form == "text" else self.variable.size

    @property
    def payload(self) -> int:
        """The bytes it takes at most, without compression."""
        counted = self.variable
        return self.size + 36 * counted.rows + (32 + 8 * self.dimensions) * counted.stored + 4096

    def values_shape(self) -> tuple[int, ...]:
        """The shape of the dataset of the values."""
        kind, count = self.variable.kind, self.variable.stored
        if self.form == "text":
            return (count,)
        if self.form == "dense":
            return (count, *self.shape, *kind.inner)
        return (self.size // kind.itemsize, *kind.inner)


def _form(variable: VariableCounts) -> str:
    if variable.kind.name == JSON:
        return "text" if variable.width <= WIDEST_TEXT else "ragged"
    return "dense" if len(variable.layouts) == 1 else "ragged"
