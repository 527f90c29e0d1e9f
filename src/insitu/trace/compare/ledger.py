"""What the causal pass knows of the pairs it has passed: which differ, because of which, and what was seen of them."""

from __future__ import annotations

from typing import NamedTuple

from insitu.trace.compare.change import SAME_MANNER, Manner
from insitu.trace.compare.closeness import NOTHING_DIFFERS, Closeness
from insitu.trace.compare.evidence import TensorPair
from insitu.trace.compare.pairs import Pair
from insitu.trace.diff import CauseKind
from insitu.trace.event import TensorFacts

Numbers = frozenset[int]
NONE: Numbers = frozenset()
MOST_CAUSES = 16  # that are remembered for one pair


def union(*numbers: Numbers) -> Numbers:
    """Several causes as one set; of very many the first ones."""
    if len(numbers) == 2:  # most often they are the same, and then they share one set
        one, other = numbers
        if one is other or one >= other:
            return one
        if one <= other:
            return other
    every = NONE.union(*numbers)
    if len(every) <= MOST_CAUSES:
        return every
    return frozenset(sorted(every)[:MOST_CAUSES])


class Link(NamedTuple):
    """How the output of a pair hangs together with what came before it.

    `causes` are the causes of inputs that differ at all, `beyond` those of inputs that differ beyond the tolerance.
    `suspect` is a pair that may have changed this output although no difference was measured, and `has_suspect_input`
    says that one of the inputs comes from such a pair. `drifters` are the pairs in which a difference within the
    tolerance may have begun.
    """

    causes: Numbers = NONE
    beyond: Numbers = NONE
    suspect: Pair | None = None
    has_suspect_input: bool = False
    drifters: Numbers = NONE


NO_LINK = Link()


class Account(NamedTuple):
    """What the pass found at a pair itself: for the row of the pair, and for the reason if it is a cause.

    `closeness` is how close the outputs are, `certainty` of inputs included. `unknown` names the inputs of which only
    shape and dtype are known, `input_drift` is how far inputs are off within the tolerance, `around` are the pairs
    around it that are made differently, and `has_row` says that the pair has a row.
    """

    kind: CauseKind = "output"
    closeness: Closeness = NOTHING_DIFFERS
    manner: Manner = SAME_MANNER
    unknown: tuple[str, ...] = ()
    input_drift: float = 0.0
    around: tuple[Pair, ...] = ()
    has_row: bool = True


NO_ACCOUNT = Account()


class Sighting(NamedTuple):
    """That a pair was found to differ, and because of which causes.

    `leaving` are the tensors by which a stretch of calls was found to differ. `seen_at` is the later pair whose output
    shows the difference, where that of the pair itself does not.
    """

    causes: Numbers
    kind: CauseKind
    closeness: Closeness
    leaving: tuple[TensorFacts, TensorFacts] | None = None
    seen_at: Pair | None = None


class CauseLedger:
    """Links, accounts and sightings of pairs by their number, and what later pairs have shown of earlier ones.

    `used` are the pairs whose output another call uses, `agreed` those whose output was found to be the same, and
    `drift` is how far an output is off within the tolerance. `last_outputs` are the outputs that were compared of last
    calls that the runs do not both make.
    """

    def __init__(self) -> None:
        self.links: dict[int, Link] = {}
        self.accounts: dict[int, Account] = {}
        self.sightings: dict[int, Sighting] = {}
        self.used: set[int] = set()
        self.agreed: set[int] = set()
        self.drift: dict[int, float] = {}
        self.last_outputs: list[TensorPair] = []

    def causes(self, pair: Pair) -> Numbers:
        """The causes because of which the output of a pair differs; none if it was not found to differ."""
        sighting = self.sightings.get(pair.number)
        if sighting is None:
            return NONE
        return sighting.causes

    def link(self, pair: Pair) -> Link:
        """How a pair hangs together with what came before it."""
        return self.links.get(pair.number, NO_LINK)

    def account(self, pair: Pair) -> Account:
        """What was found at a pair."""
        return self.accounts[pair.number]

    def add_drift(self, pair: Pair, delta: float) -> None:
        """Remember that the output of a pair is off by so much, within the tolerance."""
        self.drift[pair.number] = max(self.drift.get(pair.number, 0.0), delta)

    def blame(
        self,
        pair: Pair,
        closeness: Closeness | None = None,
        leaving: tuple[TensorFacts, TensorFacts] | None = None,
        seen_at: Pair | None = None,
    ) -> Numbers:
        """The causes of the output of an earlier pair, which has just been found to differ.

        They are those of its inputs, those of the pair that may have changed it unnoticed, or the pair itself. With
        `seen_at` the difference was found in what that pair makes of the output: its size there says nothing of this
        pair.
        """
        known = self.sightings.get(pair.number)
        if known is not None:
            return known.causes
        causes = self._causes_behind(pair, closeness, seen_at) or frozenset((pair.number,))
        account = self.accounts[pair.number]
        self.sightings[pair.number] = Sighting(
            causes, _kind(account), _size(account.closeness, closeness, seen_at), leaving, seen_at
        )
        return causes

    def _causes_behind(self, pair: Pair, closeness: Closeness | None, seen_at: Pair | None) -> Numbers:
        link = self.link(pair)
        suspect = link.suspect
        if link.causes or suspect is None or suspect is pair:
            return link.causes
        return self.blame(suspect, closeness, None, seen_at or pair)


def _kind(account: Account) -> CauseKind:
    """The kind of cause that a pair is whose output differs, as was found later."""
    if account.manner.changes and account.kind == "output":
        return "argument"
    return account.kind


def _size(own: Closeness, found: Closeness | None, seen_at: Pair | None) -> Closeness:
    """How large a difference is that was found later; unknown if it was found in another output."""
    if found is None:
        return own
    if seen_at is None:
        return found._replace(same=False)
    return Closeness(False, found.certainty)
