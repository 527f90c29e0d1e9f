"""The rows and causes of a `Diff`, from the pairs of two runs and what the causal pass found of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from insitu.trace.compare.beginnings import Beginnings
from insitu.trace.compare.causes import Causes
from insitu.trace.compare.change import Changes, Manner
from insitu.trace.compare.closeness import Certainty
from insitu.trace.compare.effects import Effects
from insitu.trace.compare.evidence import Comparison, Evidence
from insitu.trace.compare.generators import draws
from insitu.trace.compare.gradients import GradientDifference, gradient_difference
from insitu.trace.compare.ledger import Account, Numbers, Sighting
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.repeats import merged
from insitu.trace.compare.stops import Side
from insitu.trace.diff import Cause, Difference, Outcome, Reason, Status


class Findings:
    """What the pass found, as rows and causes."""

    def __init__(
        self,
        pairs: list[Pair],
        evidence: list[Evidence | None],
        found: Causes,
        sides: tuple[Side, Side],
        comparison: Comparison,
    ) -> None:
        self._pairs, self._found, self._ledger = pairs, found, found.ledger
        self._sightings = found.ledger.sightings
        self._effects = Effects(pairs, found)
        self._beginnings = Beginnings(pairs, sides)
        self._gradient: GradientDifference | None = None
        self._first_places: dict[Numbers, int | None] = {}
        numbers = self._effects.real_causes() or self._effects.possible_causes()
        if not numbers:
            self._gradient = gradient_difference(pairs, evidence, found, comparison)
        if self._gradient is not None:
            numbers = [self._gradient.cause.number]
            self._sightings = found.ledger.sightings | self._gradient.sightings
        self._causes, self._places = merged([(number, self._cause(pairs[number])) for number in numbers])

    def causes(self) -> list[Cause]:
        """The causes, with the number of calls that differ because of each."""
        followers = self._followers()
        return [replace(cause, followers=followers[place]) for place, cause in enumerate(self._causes)]

    def rows(self) -> tuple[list[Difference], list[Difference]]:
        """A row for each call, and those of them whose output no other call uses."""
        rows: list[Difference] = []
        results: list[Difference] = []
        for pair in self._pairs:
            account = self._ledger.accounts[pair.number]
            if account.has_row:
                own = self._rows(pair, account)
                rows += own
                if pair.number not in self._ledger.used:
                    results += own
        return rows, results

    def _followers(self) -> Counter[int]:
        """How many calls follow from each cause; a cause that occurs again does not follow from itself."""
        followers: Counter[int] = Counter()
        for number, sighting in self._sightings.items():
            pair = self._pairs[number]
            if number not in self._places and self._ledger.account(pair).has_row:
                size = max(len(pair.a), len(pair.b))
                for place in self._places_of(sighting.causes):
                    followers[place] += size
        return followers

    def _places_of(self, causes: Numbers) -> set[int]:
        """The places of causes in the list of them; those that have no effect are not in it."""
        return {self._places[number] for number in causes if number in self._places}

    def _rows(self, pair: Pair, account: Account) -> list[Difference]:
        sighting = self._sightings.get(pair.number)
        changes = self._changes(pair, account)
        if pair.matched and sighting is None and not changes:  # as most often
            a, b, (_, certainty, delta, measure) = pair.a[0].event, pair.b[0].event, account.closeness
            return [Difference("close" if measure else "same", a, b, (), delta, measure, certainty)]
        if pair.matched:
            return [self._row(pair, account, sighting, changes)]
        return self._rows_of_stretch(pair, account, sighting, changes)

    def _changes(self, pair: Pair, account: Account) -> Changes:
        """All that is different about the calls of a pair."""
        manner = self._manner(pair, account)
        cut = self._found.cuts.get(pair.number)
        every = manner.changes + manner.layout
        if cut is None:
            return every
        return (*every, cut)

    def _manner(self, pair: Pair, account: Account) -> Manner:
        """How the calls of a pair are made; the cause of another gradient passes it back differently."""
        manner = account.manner
        if self._gradient is None or self._gradient.cause is not pair:
            return manner
        return manner._replace(layout=(*manner.layout, self._gradient.change))

    def _cause_of(self, pair: Pair, sighting: Sighting | None) -> int | None:
        """The place of the cause that a pair is, or that it follows from."""
        own = self._places.get(pair.number)
        if own is not None or sighting is None:
            return own
        return self._first_place(sighting.causes)

    def _first_place(self, causes: Numbers) -> int | None:
        """The first of several causes that counts; pairs that follow from the same causes share the answer."""
        if causes not in self._first_places:
            self._first_places[causes] = min(self._places_of(causes), default=None)
        return self._first_places[causes]

    def _row(self, pair: Pair, account: Account, sighting: Sighting | None, changes: Changes) -> Difference:
        cause = self._cause_of(pair, sighting)
        status = self._status(pair, account, sighting, cause)
        outcome: Outcome = ""
        if status == "structure" and sighting is not None:
            outcome = "agrees" if pair.number in self._ledger.agreed else "undone"
        _, certainty, delta, measure = (sighting or account).closeness
        a, b = pair.a[0].event, pair.b[0].event
        return Difference(status, a, b, changes, delta, measure, certainty, cause, outcome)

    def _status(self, pair: Pair, account: Account, sighting: Sighting | None, cause: int | None) -> Status:
        """What a row says of a pair that is a cause, follows from one, or is made differently."""
        if account.manner.changes and account.manner.raises:
            return "raised"
        if pair.number in self._places:
            if sighting is None or sighting.kind == "argument":
                return "argument"
            return "differs"
        if cause is not None:
            return "follows"
        if account.manner.changes and sighting is None:
            return "argument"
        return "structure"

    def _rows_of_stretch(
        self, pair: Pair, account: Account, sighting: Sighting | None, changes: Changes
    ) -> list[Difference]:
        cause = self._cause_of(pair, sighting)
        outcome: Outcome = ""
        if cause is None:
            has_same_result = pair.number in self._ledger.agreed or sighting is not None
            outcome = "replaced" if has_same_result else "unseen"
        _, certainty, delta, measure = (sighting or account).closeness
        facts = (changes, delta, measure, certainty, cause, outcome)
        left = [Difference("only in a", stop.event, None, *facts) for stop in pair.a]
        return left + [Difference("only in b", None, stop.event, *facts) for stop in pair.b]

    def _cause(self, pair: Pair) -> Cause:
        account, sighting = self._ledger.account(pair), self._sightings.get(pair.number)
        kind = "argument" if account.manner.changes else account.kind
        size = account.closeness
        certainty: Certainty = "structure"
        leaving = self._found.leaving.get(pair.number)
        seen_at: Pair | None = None
        if sighting is not None:
            kind, size, seen_at = sighting.kind, sighting.closeness, sighting.seen_at
            certainty = "structure" if account.unknown else size.certainty
            leaving = sighting.leaving or leaving
        return Cause(
            kind,
            self._beginnings.beginning(pair, 0, leaving),
            self._beginnings.beginning(pair, 1, leaving),
            self._reason(pair, account, sighting),
            tuple([stop.event for stop in pair.a]),
            tuple([stop.event for stop in pair.b]),
            self._beginnings.instead(pair, leaving),
            size.delta,
            size.measure,
            certainty,
            account.unknown,
            seen_at=None if seen_at is None else (seen_at.a or seen_at.b)[0].event,
            effect=self._effects.effect(pair.number, sighting),
        )

    def _reason(self, pair: Pair, account: Account, sighting: Sighting | None) -> Reason:
        """Why a pair is a cause, as data."""
        seen_at = None if sighting is None else sighting.seen_at
        drawing = [stop for stop in pair.a + pair.b if draws(stop)]
        later_draws = seen_at is not None and bool(seen_at.a) and draws(seen_at.a[0])
        return Reason(
            manner=self._manner(pair, account),
            around=self._around(account, sighting),
            cut=self._found.cuts.get(pair.number),
            is_equal=pair.number in self._ledger.agreed,
            drift=self._ledger.drift.get(pair.number, 0.0),
            input_drift=account.input_drift,
            draws=bool(pair.a) and draws(pair.a[0]),
            shifts_draws=bool(drawing) and later_draws,
            is_stretch=not pair.matched,
        )

    def _around(self, account: Account, sighting: Sighting | None) -> tuple[tuple[str, Manner], ...]:
        """The calls around a cause that are made differently; a cause of another kind explains itself."""
        if sighting is not None and sighting.kind not in ("calls", "output"):
            return ()
        return tuple([(outer.a[0].event.name, self._ledger.account(outer).manner) for outer in account.around])
