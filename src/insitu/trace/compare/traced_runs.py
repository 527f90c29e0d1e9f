"""The tensors of both runs: who made them, and which of them hold the same numbers."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.trace.compare.evidence import Comparison
from insitu.trace.compare.moves import Moves
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.stops import Side
from insitu.trace.compare.tensor_contents import TensorContents
from insitu.trace.event import Call, TensorFacts
from insitu.trace.kept_values import has_all_values, is_array

FEWEST_ELEMENTS = 4  # of a tensor that is recognized by its values


@dataclass(frozen=True, slots=True, eq=False)
class TracedRun:
    """One run: the calls that made its tensors, and the numbers that its tensors hold."""

    moves: Moves
    contents: TensorContents

    def weight_makers(self, weight: TensorFacts) -> tuple[Call, ...]:
        """The call that made a weight; `nn.Parameter` is not recorded, so it may be the last one with its numbers."""
        maker = self.moves.maker(weight)
        if maker is not None:
            return (maker,)
        return tuple(self.contents.makers(weight))[-1:]


@dataclass(frozen=True, slots=True, eq=False)
class TracedRuns:
    """Both runs, and how their tensors are compared."""

    a: TracedRun
    b: TracedRun
    comparison: Comparison


def traced_runs(pairs: list[Pair], sides: tuple[Side, Side], comparison: Comparison) -> TracedRuns:
    """The tensors of two runs; nothing is looked at before it is asked for."""
    moves = Moves(pairs, 0, sides[0]), Moves(pairs, 1, sides[1])
    one, other = [TracedRun(run, TensorContents(run, comparison.tolerance)) for run in moves]
    return TracedRuns(one, other, comparison)


def has_values(facts: TensorFacts) -> bool:
    """Whether all values of a tensor were kept."""
    return is_array(facts.kept) and has_all_values(facts)


def is_telling(facts: TensorFacts) -> bool:
    """Whether a tensor can be recognized by its values: it has several that are not all the same."""
    stats = facts.stats
    if stats is not None:
        return stats.count >= FEWEST_ELEMENTS and stats.min != stats.max
    if not has_values(facts):
        return False
    return bool(facts.kept.size >= FEWEST_ELEMENTS and (facts.kept != facts.kept.flat[0]).any())
