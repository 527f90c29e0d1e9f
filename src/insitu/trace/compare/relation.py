"""How a tensor of b at a cause is related to the tensors of a, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from insitu.trace.compare.arrangement import Arrangement
from insitu.trace.compare.closeness import Certainty
from insitu.trace.event import Call
from insitu.trace.explain.explanation import ExpressionSite
from insitu.trace.placements.rank_fault import RankFault

RelationKind = Literal[
    "arrangement", "part", "equal", "not turned", "statistics", "input", "origin", "lookup", "ranks", "unfinished"
]
Unit = Literal["head", "item"]


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """What a tensor of b is, if it is not what a has in its place.

    - "arrangement": the values of a in another order, or times a number.
    - "part": another part of what is split: `parts` are the numbers of the parts in a and in b.
    - "equal": another tensor of a, whose name is `equal_to`.
    - "not turned": the values of a, where b needs the transposed ones.
    - "statistics": a tensor with the statistics of a. Whether its values and their order are the same is not known.
    - "input": the one input of a later call, `user`, that differs.
    - "origin": another weight than that of a. `user` is another call of a that takes the weight of a, if b gives that
      call another one: the weights are tied in a only.
    - "ranks": joined from parts of several ranks, of which `ranks` says what is wrong.
    - "unfinished": not this tensor. Each rank has only a part of the sum that `subject`, an earlier value, should be.
    - "lookup": not a tensor. The function that b calls comes from a table of the program; `sites` is where.

    `subject` is the operand, or "" for the output. `makers_a` and `makers_b` are the calls that put the values where
    they are, the last one first. `example` is a call that turns another weight, which is set on the same line. `writer`
    is the call that set a weight which no call rearranges, and `sites` are the expressions that made its values.
    """

    kind: RelationKind
    subject: str = ""
    arrangement: Arrangement | None = None
    unit: Unit = "item"
    parts: tuple[int, int] = (0, 0)
    equal_to: str = ""
    makers_a: tuple[Call, ...] = ()
    makers_b: tuple[Call, ...] = ()
    example: Call | None = None
    user: Call | None = None
    writer: Call | None = None
    sites: tuple[ExpressionSite, ...] = ()
    certainty: Certainty = "values"
    ranks: RankFault | None = None


Relations = tuple[Relation, ...]
