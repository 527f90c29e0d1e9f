"""The order of the origins: what was seen comes before what the source only suggests."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.explain.explanation import Origin, OriginKind

MOST_ORIGINS = 6
MOST_SUGGESTED = 3
# The kinds that say only where a value passed by.
PASSING_BY = (OriginKind.PRODUCED, OriginKind.ASSIGNED, OriginKind.PASSED)


def chosen_origins(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """The origins that say the most, the best first."""
    found = list(origins)
    seen = {origin.name for origin in found if origin.kind is OriginKind.RANGE}
    ordered = sorted(found, key=lambda origin: _rank(origin, seen))
    suggested = [origin for origin in ordered if origin.kind is OriginKind.POSSIBLE_SOURCE]
    return tuple(origin for origin in ordered if origin not in suggested[MOST_SUGGESTED:])[:MOST_ORIGINS]


def _rank(origin: Origin, seen: set[str]) -> int:
    """How far behind the others an origin comes: a range that was seen to be left says the most.

    `seen` are the values whose ranges were: where else they passed by says the least.
    """
    if origin.kind is OriginKind.RANGE:
        return 0
    is_behind = origin.kind in PASSING_BY and origin.name in seen
    return 2 if is_behind else 1
