"""The walk back through the source: from an expression to those that explain a fact about its value, best first."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import islice

from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver

MOST_POINTS = 350
CERTAIN = 3  # the score of an expression that explains a fact clearly
POSSIBLE = 2
REMOTE = 1


@dataclass(slots=True, frozen=True)
class Verdict:
    """What a rule says about an expression: how well it explains the fact, and the parts that pass the fact on.

    `turns` are parts for which another rule decides: the length of a list may come from a number.
    """

    score: int = 0
    through: tuple[Point, ...] = ()
    turns: tuple[Turn, ...] = ()


Rule = Callable[[Point, Resolver], Verdict]


@dataclass(slots=True, frozen=True)
class Turn:
    """A part of an expression, and the rule for it."""

    rule: Rule
    part: Point


@dataclass(slots=True, frozen=True)
class SliceNode:
    """An expression of a slice that explains a fact.

    `via` are the places between the start and the expression, the nearest to the start first.
    """

    point: Point
    score: int
    via: tuple[ExpressionSite, ...] = field(default=())

    @property
    def site(self) -> ExpressionSite:
        """The place in the source."""
        return self.point.site


@dataclass(slots=True, frozen=True)
class _Waiting:
    point: Point
    rule: Rule
    via: tuple[Point, ...] = ()


def explaining_nodes(
    starts: list[Point], rule: Rule, resolver: Resolver | None = None, most: int = 3
) -> list[SliceNode]:
    """The expressions behind some others that explain a fact: the clearest first, then the nearest.

    Those that explain it remotely are left out if others explain it better.
    """
    by_line: dict[ExpressionSite, SliceNode] = {}
    for node in all_nodes(starts, rule, resolver or Resolver()):
        outer = by_line.setdefault(node.point.place, node)  # the outermost expression of a line is found first
        if node.score > outer.score:
            by_line[node.point.place] = replace(outer, score=node.score)
    kept = sorted(by_line.values(), key=lambda node: -node.score)
    best = kept[0].score if kept else 0
    if best > REMOTE:
        kept = [node for node in kept if node.score > REMOTE]
    return list(islice(kept, most))


def all_nodes(starts: list[Point], rule: Rule, resolver: Resolver) -> list[SliceNode]:
    """Every expression of the slice that a rule finds, the nearest first."""
    found: list[SliceNode] = []
    waiting = [_Waiting(point, rule) for point in starts]
    seen: set[tuple[object, ...]] = set()
    while waiting and len(seen) < MOST_POINTS:
        here = waiting.pop(0)
        key = (here.rule, *here.point.identity)
        if key in seen:
            continue
        seen.add(key)
        verdict = here.rule(here.point, resolver)
        if verdict.score:
            found.append(SliceNode(here.point, verdict.score, _places(here)))
        waiting += _following(here, verdict, resolver)
    return found


def _following(here: _Waiting, verdict: Verdict, resolver: Resolver) -> list[_Waiting]:
    """What is looked at next: what the expression refers to, else its parts."""
    behind = resolver.behind(here.point)
    following = list(verdict.through) if behind is None else behind
    via = here.via
    if not isinstance(here.point.node, (ast.Name, ast.Constant)):
        via = (*via, here.point)
    turns = [_Waiting(turn.part, turn.rule, via) for turn in verdict.turns]
    return [*turns, *(_Waiting(point, here.rule, via) for point in following)]


def _places(waiting: _Waiting) -> tuple[ExpressionSite, ...]:
    """The places on the way, each line once, without the line of the expression itself."""
    own = (waiting.point.scope.file, waiting.point.node.lineno)
    by_line = {(point.scope.file, point.node.lineno): point for point in waiting.via}
    by_line.pop(own, None)
    return tuple(point.place for point in by_line.values())
