"""What is wrong with the parts that ranks hold of a value, and how parts were joined, in sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from insitu.trace.diff import RankJoin
from insitu.trace.placements.joined_value import JoinMethod
from insitu.trace.placements.part_layout import Placement
from insitu.trace.placements.rank_fault import RankFault, RankFaultKind

MOST_RANKS = 8


def rank_fault_text(fault: RankFault) -> str:
    """What is wrong with the parts of a value.

    >>> rank_fault_text(RankFault("sum", 2))
    'the sum over the 2 ranks agrees: each rank has only a part of it, an all_reduce is missing'
    """
    return _SENTENCES[fault.kind](fault)


def _times_text(fault: RankFault) -> str:
    if fault.factor > 1:
        return f"it is {fault.factor:g} times as large: a sum over {fault.factor:g} ranks that was not averaged"
    return f"it is 1/{1 / fault.factor:g} of it: a sum over {1 / fault.factor:g} ranks that was averaged"


def _placement_text(fault: RankFault) -> str:
    return (
        f"the parts agree if joined by {_listed(fault.placements)}, and their recorded placement is"
        f" {_listed(fault.recorded)}"
    )


def _copies_text(fault: RankFault) -> str:
    lead = "the ranks hold different values, and should hold the same"
    if len(fault.ranks) == fault.count:
        return f"{lead}: none of the {fault.count} agrees"
    return f"{lead}: only {_ranks(fault.ranks)} differ{'s' * (len(fault.ranks) == 1)}"


def _some_ranks_text(fault: RankFault) -> str:
    if len(fault.ranks) == 1:
        return f"only the part of {_ranks(fault.ranks)} differs"
    return f"only the parts of {_ranks(fault.ranks)} differ"


def _fit_text(fault: RankFault) -> str:
    shapes = ", ".join(dict.fromkeys([str(list(shape)) for shape in fault.shapes]))
    by = f" by their placement {_listed(fault.recorded)}" if fault.recorded else ""
    return f"the parts of {fault.count} ranks, {shapes}, do not make up {list(fault.whole)}{by}"


_SENTENCES: dict[RankFaultKind, Callable[[RankFault], str]] = {
    "sum": lambda fault: (
        f"the sum over the {fault.count} ranks agrees: each rank has only a part of it, an all_reduce is missing"
    ),
    "mean": lambda fault: (
        f"the mean over the {fault.count} ranks agrees: each rank has its own value, and they were not averaged"
    ),
    "times": _times_text,
    "placement": _placement_text,
    "gathered": lambda fault: (
        f"the parts of the {fault.count} ranks were gathered along dimension 0, and belong along dimension"
        f" {fault.placements[0].dim}"
    ),
    "some ranks": _some_ranks_text,
    "copies": _copies_text,
    "same values": lambda fault: (
        f"{_ranks(fault.ranks)} hold the same values, and should have different parts: the same seed or the same data"
    ),
    "same zeros": lambda fault: (
        f"{_ranks(fault.ranks)} have zeros at the same places: their random generators have the same seed"
    ),
    "fit": _fit_text,
}


def _ranks(ranks: Sequence[int]) -> str:
    """Ranks by number.

    >>> _ranks((1,)), _ranks((0, 1)), _ranks((0, 1, 2))
    ('rank 1', 'ranks 0 and 1', 'ranks 0, 1 and 2')
    """
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > MOST_RANKS:
        return f"ranks {', '.join(map(str, ranks[:MOST_RANKS]))} and {len(ranks) - MOST_RANKS} more"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _listed(placements: Sequence[Placement]) -> str:
    return ", ".join(map(str, placements))


def join_text(found: RankJoin) -> str:
    """How the values of several ranks were joined.

    >>> join_text(RankJoin("b", 2, {"placements": 3, "mean": 1}))
    'b has 2 ranks, 4 values: 3 joined by their placements, 1 averaged'
    """
    total = sum(found.methods.values())
    methods = [f"{found.methods[method]:,} {text}" for method, text in _METHODS.items() if method in found.methods]
    values = "1 value" if total == 1 else f"{total:,} values"
    return f"{found.side} has {found.ranks} ranks, {values}: {', '.join(methods)}"


_METHODS: dict[JoinMethod, str] = {
    "placements": "joined by their placements",
    "shapes": "joined by their shapes",
    "copies": "the same on all ranks",
    "unequal copies": "that should be the same on all ranks and are not",
    "mean": "averaged",
    "statistics": "joined from statistics",
    "one rank": "of one rank",
    "no values": "compared without values",
    "none": "that cannot be joined",
}
