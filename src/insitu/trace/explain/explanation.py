"""Why a call failed, as plain data: the site, the values on the line, the misfits, the origins of the values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from insitu.trace.advice import Advice
from insitu.trace.event import TensorFacts


@dataclass(slots=True, frozen=True)
class ExpressionSite:
    """An expression in the source: its file, its line, the function around it and its text.

    `call` is the recorded call that is written there, as long as the history is at hand.
    """

    file: str
    line: int
    function: str = ""
    text: str = ""
    call: int | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True, frozen=True)
class Underline:
    """A part of a source line and the value it had; `start` and `end` are columns of the line, in characters."""

    line: int
    start: int
    end: int
    value: Any

    def is_within(self, other: Underline) -> bool:
        """Whether another underline covers this one."""
        return self.line == other.line and other.start <= self.start and self.end <= other.end


@dataclass(slots=True, frozen=True)
class ShapeRow:
    """A tensor in the table of a misfit: its role (left, weight, [1]), its shape, its expression or path."""

    role: str
    shape: tuple[int | str, ...]
    name: str = ""


@dataclass(slots=True, frozen=True)
class Misfit:
    """One thing that does not fit: the tensors with their shapes one under the other, and what is wrong with them.

    `dimension` is the one to mark, counted from the right (-1 is the last). `way_out` says in words what to do, for
    where no line of code can. `names` are the operands that the text mentions without a row. `fact` is what differs if
    it is not a shape: dtype or device. `check` is the name of the check that found it.
    """

    text: str
    rows: tuple[ShapeRow, ...] = ()
    dimension: int | None = None
    way_out: str = ""
    names: tuple[str, ...] = ()
    fact: str = ""
    check: str = field(default="", compare=False)

    def mentions(self, name: str) -> bool:
        """Whether the misfit is about the operand with this name."""
        return name in self.names or any(row.name == name for row in self.rows)


class OriginKind(Enum):
    """How a site is connected with a value; the view has the words for each kind."""

    EARLIER = "earlier call"
    SIZE = "size"
    FACT = "dtype or device"
    VALUE = "value"
    SOURCE = "source"
    POSSIBLE_SOURCE = "possible source"
    NOT_SAVED = "not saved"
    RANGE = "range"
    PRODUCED = "produced"
    ASSIGNED = "assigned"
    PASSED = "passed"
    VALUES_PRODUCED = "values produced"
    GRADIENT_LOST = "gradient lost"
    GRADIENT_OFF = "gradient switched off"
    GRADIENT_LEFT_OFF = "gradient left off"
    FROZEN = "frozen"
    NUMBER = "became a number"
    NO_GRADIENT_PRODUCED = "no gradient, produced"
    NO_GRADIENT_ASSIGNED = "no gradient, assigned"
    GRAPH_FREED = "graph freed"
    CARRIED = "carried over"
    STORED = "stored"
    READ_LATER = "read later"
    CHANGED_IN_PLACE = "changed in place"
    NAN_PRODUCED = "NaN produced"
    HANDED_OUT = "handed out"
    NEEDED_FOR_GRADIENT = "needed for gradient"
    BACKWARD_OF = "backward of"
    CUSTOM_GRADIENT = "custom gradient"


@dataclass(slots=True, frozen=True)
class RangeExit:
    """How elements leave their range: the limit, and whether they are above or below it."""

    limit: int
    is_above: bool


@dataclass(slots=True, frozen=True)
class Origin:
    """Where a value comes from: its name, the kind of connection, the site; `receiver` is the call it was passed to.

    `size` is the size that comes from there, `range_exit` how a range is left there, `count` the number of elements
    that NaN was made from. `tensors` are those that the view shows: of a size, the tensor before the call that
    introduced it and the one after it; of a tensor that is carried over, the tensor itself. `via` are the places
    between the value and the site, the nearest to the value first. `callers` are the lines that called the function
    around the site, the nearest first.
    """

    kind: OriginKind
    site: ExpressionSite | None = None
    name: str = ""
    receiver: str = ""
    size: int | str | None = None
    range_exit: RangeExit | None = None
    count: int | None = None
    tensors: tuple[TensorFacts, ...] = ()
    via: tuple[ExpressionSite, ...] = ()
    callers: tuple[ExpressionSite, ...] = ()


@dataclass(slots=True)
class Explanation:
    """Why an exception was raised; its text is what `insitu.explain` shows.

    >>> site, source = ExpressionSite("model.py", 3, "forward"), ((3, "    b = state['bias']"),)
    >>> print(Explanation("KeyError", "'bias'", site, source=source))
    KeyError: 'bias'
      model.py:3 in forward
         3 │ b = state['bias']
    """

    error: str
    message: str
    site: ExpressionSite | None = None
    modules: tuple[str, ...] = ()
    source: tuple[tuple[int, str], ...] = ()
    underlines: tuple[Underline, ...] = ()
    misfits: tuple[Misfit, ...] = ()
    origins: tuple[Origin, ...] = ()
    advice: Advice | None = None

    def __str__(self) -> str:
        from insitu.view.error import text  # the only step from data to a view: print(explanation)

        return text(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from insitu.view.notebook import explanation_forms  # only a notebook needs it

        return explanation_forms(self, include, exclude)

    @property
    def note(self) -> str:
        """The text without the exception itself, for where that is shown already."""
        from insitu.view.error import note

        return note(self)
