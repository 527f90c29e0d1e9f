"""The flags of the page for NaN and Inf: what is in an event, whether it is wrong, and whether it began there."""

from __future__ import annotations

from collections.abc import Mapping

from insitu.trace.nonfinite import NonFiniteEvent

# The page gets these numbers with its data.
HAS_NAN, HAS_INF, IS_WRONG, IS_ORIGIN = 1, 2, 4, 8


def flags(events: Mapping[int, NonFiniteEvent]) -> dict[int, int]:
    """The flags of all events that are not finite, by id."""
    return {id: flags_of(found) for id, found in events.items()}


def flags_of(found: NonFiniteEvent) -> int:
    """The flags of one event."""
    has_inf = found.contents.inf or found.contents.minus_inf
    return HAS_NAN * found.contents.nan + HAS_INF * has_inf + IS_WRONG * found.is_wrong + IS_ORIGIN * found.is_origin
