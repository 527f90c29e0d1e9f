"""The expressions of the source that explain a fact, as origins: those that explain it clearly, or may."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from insitu.trace.explain.explanation import Origin, OriginKind
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.slice_walk import CERTAIN, REMOTE, Rule, SliceNode, explaining_nodes

MOST_SOURCES = 3
MOST_CLEAR = 1


def slice_origins(
    starts: Sequence[Point | None],
    rule: Rule,
    name: str,
    *,
    most: int = MOST_SOURCES,
    least: int = REMOTE,
    is_shown: bool = True,
) -> Iterator[Origin]:
    """Where the source introduces a fact about some expressions. `name` is the fact, or the value that has it.

    The lines of the expressions themselves are left out if another row shows them, and so is what scores less than
    `least`.
    """
    known = [start for start in starts if start is not None]
    shown = {(start.scope.file, start.node.lineno) for start in known if is_shown}
    found = explaining_nodes(known, rule, most=most + len(shown))
    elsewhere = [node for node in found if (node.point.scope.file, node.point.node.lineno) not in shown]
    for node in [each for each in elsewhere if each.score >= least][:most]:
        kind = OriginKind.SOURCE if _is_clear(node, found) else OriginKind.POSSIBLE_SOURCE
        via = tuple(place for place in node.via if (place.file, place.line) not in shown)
        yield Origin(kind, node.site, name, via=via)


def _is_clear(node: SliceNode, found: list[SliceNode]) -> bool:
    """Whether an expression is the only one that explains the fact well."""
    clear = [each for each in found if each.score == CERTAIN]
    return node.score == CERTAIN and len(clear) == MOST_CLEAR
