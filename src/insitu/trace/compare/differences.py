"""The rows and causes of a `Diff`, from the pairs of two runs and what the causal pass found of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from insitu.trace.compare.beginnings import Beginnings, Leaving
from insitu.trace.compare.causes import Causes
from insitu.trace.compare.change import SAME_MANNER, Changes, Manner
from insitu.trace.compare.closeness import Closeness
from insitu.trace.compare.detours import Detours
from insitu.trace.compare.effects import Effects
from insitu.trace.compare.evidence import Comparison, Evidence
from insitu.trace.compare.generators import draws
from insitu.trace.compare.gradients import GradientDifference, gradient_difference
from insitu.trace.compare.inheritance import link_rows
from insitu.trace.compare.investigation import Investigation
from insitu.trace.compare.ledger import Account, Numbers, Sighting
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.relation import Relations
from insitu.trace.compare.repeats import distinct_causes
from insitu.trace.compare.stops import Side, Stop
from insitu.trace.diff import Cause, Compared, Difference, Outcome, Reason, ResultEffect, Status
from insitu.trace.event import Call
from insitu.trace.operation import operation

MOST_INVESTIGATIONS = 5  # causes whose tensors are looked at


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
        self._pairs, self._found, self._ledger, self._sides = pairs, found, found.ledger, sides
        self._sightings = found.ledger.sightings
        self._comparison = comparison
        self._effects = Effects(pairs, found)
        self._beginnings = Beginnings(pairs, sides)
        self._investigation = Investigation(pairs, evidence, found.ledger, sides, comparison)
        self._gradient: GradientDifference | None = None
        self._first_places: dict[Numbers, int | None] = {}
        numbers = self._effects.real_causes() or self._effects.possible_causes()
        if not numbers:
            self._gradient = gradient_difference(pairs, evidence, found, comparison)
        if self._gradient is not None:
            numbers = [self._gradient.cause.number]
            self._sightings = found.ledger.sightings | self._gradient.sightings
        causes, places = distinct_causes([(number, self._cause(pairs[number])) for number in numbers])
        self._causes, self._places = self._ranked(causes, places)

    def _ranked(self, causes: list[Cause], places: dict[int, int]) -> tuple[list[Cause], dict[int, int]]:
        """The causes by what their effect reaches and by the error that they introduce, and their new places."""
        numbers = _numbers_by_place(places)

        def key(place: int) -> tuple[bool, bool, float]:
            return *self._effects.rank(min(numbers[place])), -_introduced(causes[place])

        order = sorted(range(len(causes)), key=key)
        new_places = {old: new for new, old in enumerate(order)}
        return [causes[place] for place in order], {number: new_places[place] for number, place in places.items()}

    def causes(self) -> tuple[Cause, ...]:
        """The causes, with their effect, and with what is known of the tensors at the first ones."""
        followers = self._followers()
        numbers = _numbers_by_place(self._places)
        causes: list[Cause] = []
        for place, cause in enumerate(self._causes):
            if place < MOST_INVESTIGATIONS:
                cause = self._investigated(cause, self._pairs[min(numbers[place])])
            result = self._result(place, numbers[place])
            causes.append(replace(cause, followers=followers[place], result=result))
        return tuple(causes)

    def _investigated(self, cause: Cause, pair: Pair) -> Cause:
        """A cause with what is known of its tensors, and with the calls since the last agreement of the runs."""
        found = self._detours(pair)
        if found is None or _explains_itself(cause, found):
            return replace(cause, relations=self._relations(pair))
        if self._investigation.begin_alike(found):
            return self._with_size(_output_cause(cause, found), pair, found)
        relations = self._investigation.relations_of_detours(pair, found)
        calls_a, calls_b = _calls_since(pair.calls_a, found.a), _calls_since(pair.calls_b, found.b)
        cause = replace(
            cause, a=found.a[0], b=found.b[0], calls_a=calls_a, calls_b=calls_b, instead=(), relations=relations
        )
        if pair.matched:
            cause = replace(cause, kind="calls", reason=replace(cause.reason, manner=SAME_MANNER, is_stretch=True))
        return self._with_size(cause, pair, found)

    def _detours(self, pair: Pair) -> Detours | None:
        """The calls since the last agreement of the runs, if these make other calls at a cause."""
        sighting = self._sightings.get(pair.number)
        if sighting is None or sighting.kind in ("raised", "gradient") or _shifts_draws(pair, sighting):
            return None
        if _has_other_form(pair, sighting):
            return self._investigation.detours(pair, self._leaving(pair, sighting))
        if pair.matched:
            return None
        return self._investigation.detours_elsewhere(pair, self._leaving(pair, sighting))

    def _with_size(self, cause: Cause, pair: Pair, found: Detours) -> Cause:
        """A cause with the difference in the tensors that the runs compute by other calls."""
        size = self._comparison.close(*found.tensors)
        if size.same is not False:
            return cause
        if not self._investigation.are_partners(pair, found.tensors):
            size = _without_size(size)
        return replace(cause, delta=size.delta, measure=size.measure, certainty=size.certainty, relative=size.relative)

    def _result(self, place: int, numbers: list[int]) -> ResultEffect | None:
        """What a cause does to the last result that differs because of it; `numbers` are those of its pairs."""
        found = self._effects.last_result(numbers)
        if found is None:
            return None
        pair, causes = found
        known = self._sightings.get(pair.number) or self._ledger.account(pair)
        a, b = _last_event(pair.a), _last_event(pair.b)
        return ResultEffect(a, b, self._size(pair, known).relative, self._share(place, self._places_of(causes)))

    def _share(self, place: int, places: set[int]) -> float | None:
        """The part of the difference in a result that a cause explains, of all causes of that result."""
        if places <= {place}:
            return 1.0
        errors = [self._causes[other].relative for other in places]
        sizes = [error.size for error in errors if error is not None]
        own = self._causes[place].relative
        if own is None or len(sizes) < len(errors) or not 0 < sum(sizes) < math.inf:
            return None
        return own.size / sum(sizes)

    def _relations(self, pair: Pair) -> Relations:
        """What the tensors at a cause are; where nothing is known to differ, there is nothing to ask."""
        sighting = self._sightings.get(pair.number)
        if sighting is None or sighting.kind in ("gradient", "random", "raised"):
            return ()
        if _shifts_draws(pair, sighting):
            return ()
        return self._investigation.relations(pair, self._leaving(pair, sighting))

    def rows(self) -> tuple[list[Difference], list[Difference]]:
        """A row for each call, and those of them whose output no other call uses."""
        rows: list[Difference] = []
        results: list[Difference] = []
        for number, account in self._visible():
            own = self._rows(self._pairs[number], account)
            rows += own
            if self._effects.comes_out(number):
                results += own
        link_rows(rows, self._sides)
        return rows, results

    def _visible(self) -> Iterator[tuple[int, Account]]:
        """The pairs that have rows: their numbers, in order, and their accounts."""
        accounts = self._ledger.accounts
        for number in range(len(self._pairs)):
            account = accounts[number]
            if account.has_row:
                yield number, account

    def _followers(self) -> Counter[int]:
        """How many calls follow from each cause; a cause that occurs again does not follow from itself."""
        followers: Counter[int] = Counter()
        for number, sighting in self._sightings.items():
            pair = self._pairs[number]
            size = max(len(pair.a), len(pair.b))
            if number not in self._places and self._ledger.account(pair).has_row:
                for place in self._places_of(sighting.causes):
                    followers[place] += size
        return followers

    def _places_of(self, causes: Numbers) -> set[int]:
        """The places of causes in the list of them; those that have no effect are not in it."""
        return {self._places[number] for number in causes if number in self._places}

    def _rows(self, pair: Pair, account: Account) -> list[Difference]:
        sighting = self._sightings.get(pair.number)
        changes = self._changes(pair, account)
        if not pair.matched:
            return self._rows_of_stretch(pair, account, sighting, changes)
        if sighting is None and not changes:  # as most often
            return [_quiet_row(pair, account)]
        return [self._row(pair, account, sighting, changes)]

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
            outcome = self._outcome(pair, sighting)
        _, certainty, delta, measure, relative = self._size(pair, sighting or account)
        a, b = pair.a[0].event, pair.b[0].event
        return Difference(status, a, b, changes, delta, measure, certainty, cause, outcome, relative)

    def _outcome(self, pair: Pair, sighting: Sighting) -> Outcome:
        """What became of a difference that has no effect."""
        if self._effects.is_idle_beginning(pair.number):
            return "unseen"
        if self._effects.is_internal(pair.number):
            return "internal"
        if self._is_made_elsewhere(pair, sighting):
            return "replaced"
        if pair.number in self._ledger.agreed:
            return "agrees"
        return "undone"

    def _is_made_elsewhere(self, pair: Pair, known: Sighting | Account) -> bool:
        """Whether the outputs of two calls differ, and other calls make what agrees with one of them."""
        is_difference_of_outputs = known.kind != "gradient" and known.closeness.same is False
        return is_difference_of_outputs and pair.number in self._ledger.agreed

    def _size(self, pair: Pair, known: Sighting | Account) -> Closeness:
        """How close the outputs of a pair are; the size is not known if they do not belong together for sure."""
        size = known.closeness
        if size.relative is None:
            return size
        if pair.matched:
            are_partners = not self._is_made_elsewhere(pair, known)
        else:
            are_partners = self._investigation.are_partners(pair, _leaving(known))
        if are_partners:
            return size
        return _without_size(size)

    def _status(self, pair: Pair, account: Account, sighting: Sighting | None, cause: int | None) -> Status:
        """What a row says of a pair that is a cause, follows from one, or is made differently."""
        if account.manner.raises:
            return "raised"
        if pair.number in self._places:
            return _status_of_cause(sighting)
        if cause is not None:
            return "follows"
        if account.manner.changes and sighting is None:
            return "argument"
        return "structure"

    def _rows_of_stretch(
        self, pair: Pair, account: Account, sighting: Sighting | None, changes: Changes
    ) -> list[Difference]:
        cause = self._cause_of(pair, sighting)
        outcome = self._outcome_of_stretch(pair, sighting, cause)
        _, certainty, delta, measure, relative = self._size(pair, sighting or account)
        facts = (changes, delta, measure, certainty, cause, outcome, relative)
        left = [Difference("only in a", stop.event, None, *facts) for stop in pair.a]
        return left + [Difference("only in b", None, stop.event, *facts) for stop in pair.b]

    def _outcome_of_stretch(self, pair: Pair, sighting: Sighting | None, cause: int | None) -> Outcome:
        """What became of calls that only one run makes, if they are not a cause and do not follow from one."""
        if cause is not None:
            return ""
        if sighting is not None or pair.number in self._ledger.agreed:
            return "replaced"
        return "unseen"

    def _cause(self, pair: Pair) -> Cause:
        account, sighting = self._ledger.account(pair), self._sightings.get(pair.number)
        known = sighting or _possible_sighting(pair, account)
        certainty = known.closeness.certainty
        if account.unknown:
            certainty = "structure"
        leaving = self._leaving(pair, known)
        size = self._size(pair, known)
        if known.causes - {pair.number} and pair.number in known.causes:  # what it introduces is not known
            size = _without_size(size)
        return Cause(
            known.kind,
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
            seen_at=_first_event(known.seen_at),
            effect=self._effects.effect(pair.number, sighting),
            relative=size.relative,
        )

    def _leaving(self, pair: Pair, known: Sighting) -> Leaving:
        """The tensors by which a stretch was found to differ, or else those that it hands on."""
        found = known.leaving or self._found.leaving.get(pair.number)
        if found is not None or _shifts_draws(pair, known):
            return found
        return self._beginnings.leaving(pair, known.seen_at)

    def _reason(self, pair: Pair, account: Account, sighting: Sighting | None) -> Reason:
        """Why a pair is a cause, as data."""
        return Reason(
            manner=self._manner(pair, account),
            around=self._around(account, sighting),
            cut=self._found.cuts.get(pair.number),
            is_equal=pair.number in self._ledger.agreed,
            drift=self._ledger.drift.get(pair.number, 0.0),
            input_drift=account.input_drift,
            draws=any(map(draws, pair.a[:1])),
            shifts_draws=_shifts_draws(pair, sighting),
            is_stretch=not pair.matched,
        )

    def _around(self, account: Account, sighting: Sighting | None) -> tuple[tuple[str, Manner], ...]:
        """The calls around a cause that are made differently; a cause of another kind explains itself."""
        if sighting is not None and sighting.kind not in ("calls", "output"):
            return ()
        return tuple([(outer.a[0].event.name, self._ledger.account(outer).manner) for outer in account.around])


def _leaving(known: Sighting | Account) -> Leaving:
    """The tensors by which a stretch was found to differ."""
    if isinstance(known, Sighting):
        return known.leaving
    return None


def _without_size(size: Closeness) -> Closeness:
    """That something differs, and nothing of how much."""
    return size._replace(delta=None, measure="", relative=None)


def _has_other_form(pair: Pair, sighting: Sighting) -> bool:
    """Whether the runs make other calls at a cause, or tensors of another shape: then the cause can be elsewhere."""
    makes_other_calls = not pair.matched and bool(pair.a) and bool(pair.b)
    return makes_other_calls or sighting.closeness.measure == "shape"


def _explains_itself(cause: Cause, found: Detours) -> bool:
    """Whether another argument explains all: the runs differ from the first values on, such as random numbers."""
    beginnings = [operation(way[0].kind, way[0].name) for way in (found.a, found.b)]
    return cause.kind == "argument" and any(known.is_initial for known in beginnings)


def _output_cause(cause: Cause, found: Detours) -> Cause:
    """A cause that turns out to be a call of both runs: what goes in agrees, as far as is known."""
    reason = replace(cause.reason, manner=SAME_MANNER, is_stretch=False)
    a, b = found.a[0], found.b[0]
    return replace(cause, kind="output", a=a, b=b, calls_a=(a,), calls_b=(b,), instead=(), reason=reason)


def _calls_since(stretch: list[Call], way: tuple[Call, ...]) -> tuple[Call, ...]:
    """The calls of a stretch since the last agreement, or the calls on the way from there if these are elsewhere."""
    if way[0] not in stretch:
        return way
    return tuple(stretch[stretch.index(way[0]) :])


def _numbers_by_place(places: dict[int, int]) -> dict[int, list[int]]:
    """For the place of each cause the numbers of the pairs that are this cause."""
    numbers: dict[int, list[int]] = {}
    for number, place in places.items():
        numbers.setdefault(place, []).append(number)
    return numbers


def _introduced(cause: Cause) -> float:
    """The error that a cause introduces; less than any other if it is not known."""
    if cause.relative is None:
        return -1.0
    return cause.relative.size


def _last_event(stops: tuple[Stop, ...]) -> Compared | None:
    if not stops:
        return None
    return stops[-1].event


def _shifts_draws(pair: Pair, sighting: Sighting | None) -> bool:
    """Whether a cause draws random numbers, and shows in later draws."""
    if sighting is None or sighting.seen_at is None:
        return False
    return any(map(draws, sighting.seen_at.a[:1])) and any(map(draws, pair.a + pair.b))


def _quiet_row(pair: Pair, account: Account) -> Difference:
    """The row of calls of which nothing differs beyond the tolerance."""
    _, certainty, delta, measure, relative = account.closeness
    status: Status = "close" if measure else "same"
    return Difference(status, pair.a[0].event, pair.b[0].event, (), delta, measure, certainty, relative=relative)


def _status_of_cause(sighting: Sighting | None) -> Status:
    if sighting is None or sighting.kind == "argument":
        return "argument"
    return "differs"


def _possible_sighting(pair: Pair, account: Account) -> Sighting:
    """The sighting of a possible cause, whose effect nothing shows."""
    kind = "argument" if account.manner.changes else account.kind
    size = account.closeness._replace(certainty="structure")
    return Sighting(frozenset((pair.number,)), kind, size)


def _first_event(pair: Pair | None) -> Compared | None:
    if pair is None:
        return None
    return (pair.a or pair.b)[0].event
