"""How two calls that are beside each other are made differently, and what only one of two runs has, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from insitu.trace.event import Word

Aspect = Literal[
    "argument",
    "setting",
    "tensor count",
    "other tensor",
    "input",
    "unrecorded",
    "exception",
    "raises",
    "class",
    "call",
    "dtype",
    "device",
    "shape",
    "requires_grad",
    "gradient",
]
SideName = Literal["a", "b"]

DEFAULT = Word("default")
UNRECORDED = Word("not recorded")


class Change(NamedTuple):
    """One thing that differs: `name` says of what, `a` and `b` are the values in the two runs.

    - "argument" and "setting" have a name, and `DEFAULT` where a run does not give the argument.
    - "tensor count" is how many tensors go in; "class" and "call" are the name of the module class or operation.
    - "other tensor" is an input that another call made, "input" an input that differs from the start; `name` is the
      operand, as in `weight f32[24, 8]`. "unrecorded" says that no recorded call made such an input.
    - "exception" has the exceptions that end the two calls as `(type, message)`, or None; "raises" is the type of the
      exception of a call that only one run makes.
    - "dtype", "device", "shape" and "requires_grad" are those of the output, or of the operand `name`.
    - "gradient": the gradient of the call's input differs. `name` says what is known of its output's gradient:
      "agrees", "unknown", or "unused" if it is the output's own gradient that differs, and no call in both runs uses
      that output. `a` counts the other calls that may pass the gradient back.
    """

    aspect: Aspect
    name: str = ""
    a: Any = None
    b: Any = None


Changes = tuple[Change, ...]

_EXCEPTIONS: frozenset[Aspect] = frozenset(("exception", "raises"))
_FORMS: frozenset[Aspect] = frozenset(("dtype", "shape"))
_SHAPES: frozenset[Aspect] = frozenset(("shape",))


class Manner(NamedTuple):
    """How two calls are made differently: `changes` may change the output; `layout` alone does not change values."""

    changes: Changes = ()
    layout: Changes = ()

    @property
    def raises(self) -> bool:
        """Whether a call ends in an exception that the other run does not have."""
        if not self.changes:
            return False
        return not _EXCEPTIONS.isdisjoint([change.aspect for change in self.changes])

    @property
    def is_loose(self) -> bool:
        """Whether the output has another dtype or shape: then it may be close, and still not the same."""
        return not _FORMS.isdisjoint([change.aspect for change in self.layout])

    @property
    def is_reshaped(self) -> bool:
        """Whether the output has another shape."""
        return not _SHAPES.isdisjoint([change.aspect for change in self.layout])


SAME_MANNER = Manner()


@dataclass(frozen=True, slots=True)
class LonePart:
    """Ranks, steps or threads that only the run `side` has; without numbers, some threads of some steps."""

    part: Literal["rank", "step", "thread"]
    numbers: tuple[int, ...]
    side: SideName
    count: int = 0


@dataclass(frozen=True, slots=True)
class EmptyRun:
    """The run `side` has no calls, and the other one has this many."""

    side: SideName
    count: int


@dataclass(frozen=True, slots=True)
class MovedLayers:
    """The layers of one container that only one run has, and those that have another number because of them.

    A layer that only one run has is its path and its class; a moved layer is its path in a and in b.
    """

    only_a: tuple[tuple[str, str], ...]
    only_b: tuple[tuple[str, str], ...]
    moved: tuple[tuple[str, str], ...]


Remark = LonePart | EmptyRun | MovedLayers
