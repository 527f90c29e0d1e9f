"""The events that were recorded and are not in the trace, because memory ran out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Missing:
    """The oldest events of a recording, which are no longer in its trace.

    `events` is how many there were, `steps` the first and the last step that they were in, `calls` the ids of calls in
    the trace that lack some of what ran inside them, `on_disk` how many of the events an .h5 file of the trace holds.
    """

    events: int
    steps: tuple[int, int]
    calls: tuple[int, ...] = ()
    on_disk: int = 0

    def and_also(self, other: Missing) -> Missing:
        """The sum of both.

        >>> Missing(3, (0, 1)).and_also(Missing(4, (1, 5), (7,)))
        Missing(events=7, steps=(0, 5), calls=(7,), on_disk=0)
        """
        steps = (min(self.steps[0], other.steps[0]), max(self.steps[1], other.steps[1]))
        calls = tuple(sorted({*self.calls, *other.calls}))
        return Missing(self.events + other.events, steps, calls, self.on_disk + other.on_disk)

    def plain(self) -> dict[str, Any]:
        """The same as plain data, for files."""
        return {
            "events": self.events,
            "steps": list(self.steps),
            "calls": list(self.calls),
            "on_disk": self.on_disk,
        }


def missing_of(plain: Any) -> Missing | None:
    """The inverse of `plain()`; None for any other data, which a file may hold.

    >>> missing_of(Missing(3, (0, 1)).plain())
    Missing(events=3, steps=(0, 1), calls=(), on_disk=0)
    """
    if not isinstance(plain, dict):
        return None
    steps: Any = plain.get("steps")
    calls: Any = plain.get("calls")
    counts: Any = [plain.get("events"), plain.get("on_disk")]
    if not all(map(_are_counts, (counts, steps, calls))) or len(steps) != 2:
        return None
    return Missing(counts[0], (steps[0], steps[1]), tuple(calls), counts[1])


def _are_counts(items: Any) -> bool:
    return isinstance(items, (list, tuple)) and all(map(_is_count, items))


def _is_count(item: Any) -> bool:
    return type(item) is int and item >= 0
