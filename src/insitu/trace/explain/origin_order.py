"""The order of the origins: what was seen comes before what the source only suggests."""

from __future__ import annotations

from collections.abc import Iterable

from insitu.trace.explain.explanation import Origin, OriginKind

MOST_ORIGINS = 6
MOST_SUGGESTED = 4
# The kinds that come after all others, the last one last.
LATER = (OriginKind.POSSIBLE_SOURCE, OriginKind.PASSED, OriginKind.ASSIGNED)


def chosen_origins(origins: Iterable[Origin]) -> tuple[Origin, ...]:
    """The origins that say the most, the best first."""
    ordered = sorted(origins, key=_rank)
    suggested = [origin for origin in ordered if origin.kind is OriginKind.POSSIBLE_SOURCE]
    for origin in suggested[MOST_SUGGESTED:]:
        ordered.remove(origin)
    return tuple(ordered[:MOST_ORIGINS])


def _rank(origin: Origin) -> int:
    """How far behind the others an origin comes: a range that was seen to be left says the most."""
    if origin.kind is OriginKind.RANGE:
        return 0
    return 1
