"""How far two runs are from a third one, the reference, at one place; as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from insitu.trace.compare.relative import RelativeError

Verdict = Literal["a", "b", "both", "neither", "unknown"]
FACTOR = 10.0  # so many times further from the reference means wrong, if both runs are beyond the tolerance


@dataclass(frozen=True, slots=True)
class Distance:
    """The relative errors of a and b against the reference; None where the reference has no such call.

    `is_close_a` and `is_close_b` say that the run agrees with the reference within the tolerance.

    >>> found = Distance(RelativeError(3e-7), RelativeError(2e-2), is_close_a=True)
    >>> found.wrong
    'b'
    """

    a: RelativeError | None
    b: RelativeError | None
    is_close_a: bool = False
    is_close_b: bool = False

    @property
    def wrong(self) -> Verdict:
        """Which run is wrong: the one beyond the tolerance; of two such runs one that is ten times as far away."""
        if self.a is None or self.b is None:
            return "unknown"
        if self.is_close_a or self.is_close_b:
            return _BY_CLOSENESS[self.is_close_a, self.is_close_b]
        if self.b.size >= FACTOR * self.a.size:
            return "b"
        if self.a.size >= FACTOR * self.b.size:
            return "a"
        return "both"


_BY_CLOSENESS: dict[tuple[bool, bool], Verdict] = {(True, True): "neither", (True, False): "b", (False, True): "a"}
