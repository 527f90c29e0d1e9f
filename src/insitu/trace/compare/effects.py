"""Which causes have an effect: what they change comes out of the run, or is lost on the way."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from insitu.trace.compare.causes import Causes
from insitu.trace.compare.ledger import NONE, Numbers, Sighting
from insitu.trace.compare.pairs import Pair
from insitu.trace.compare.stops import Stop, inputs
from insitu.trace.diff import Effect
from insitu.trace.event import Call


class Effects:
    """Looks at what became of each cause that the pass found."""

    def __init__(self, pairs: list[Pair], causes: Causes) -> None:
        self._pairs = pairs
        self._causes = causes
        self._ledger = causes.ledger

    def real_causes(self) -> list[int]:
        """The causes that have an effect, those whose effect reaches the results first."""
        found = NONE.union(*[sighting.causes for sighting in self._ledger.sightings.values()]) - self.library_draws
        has_effect = self._reaching | self._causes.inside
        causes = [number for number in found if number in has_effect or self._is_unexplained(number)]
        return sorted(causes, key=self._place)

    def possible_causes(self) -> list[int]:
        """Where nothing is known to differ: calls that are made differently, with an effect that nothing shows."""
        ledger = self._ledger
        if self._results_agree():
            return []
        unseen = [pair for pair in self._pairs if self._may_matter(pair)]
        return [pair.number for pair in unseen if not ledger.link(pair).has_suspect_input]

    def _results_agree(self) -> bool:
        """Whether all that comes out of the run was compared, by values or statistics, and agrees."""
        results = [pair for pair in self._pairs if self._is_result(pair)]
        return bool(results) and all(self._is_known_to_agree(pair) for pair in results)

    def _is_result(self, pair: Pair) -> bool:
        """Whether no other call uses what both runs, or their last calls, make."""
        if pair.number in self._ledger.used:
            return False
        if not pair.matched:
            return pair.last
        stop = pair.a[0]
        if type(stop.event) is not Call or stop.operation.is_uninitialized:
            return False
        return stop.role == "call" and bool(stop.event.outputs)

    def _is_known_to_agree(self, pair: Pair) -> bool:
        closeness = self._ledger.account(pair).closeness
        return pair.number in self._ledger.agreed and closeness.certainty != "structure"

    def effect(self, number: int, sighting: Sighting | None) -> Effect:
        """What becomes of the difference that a cause makes."""
        if sighting is None:
            return "unknown"
        if number in self._reaching or sighting.kind == "gradient":
            return "results"
        if self._raises(number):
            return "results"
        return "lost"

    def _is_unexplained(self, number: int) -> bool:
        """Whether the same call with the same inputs ends differently: to be reported, whatever becomes of it.

        First values that do not reach a result are of no interest: a conversion has overwritten them.
        """
        if number in self._idle_beginnings:
            return False
        return self._raises(number) or self._ledger.sightings[number].kind in ("output", "random", "gradient")

    def _raises(self, number: int) -> bool:
        return self._ledger.accounts[number].manner.raises

    def comes_out(self, number: int) -> bool:
        """Whether no other call uses what a pair makes, and it is not a first value or a draw of library code."""
        if number in self._ledger.used or self.is_idle_beginning(number):
            return False
        return not self.is_internal(number)

    def is_idle_beginning(self, number: int) -> bool:
        """Whether a pair only makes first values, such as those of weights, in runs that compute results too."""
        return number in self._idle_beginnings

    def is_internal(self, number: int) -> bool:
        """Whether a pair differs only because of random numbers that library code draws for itself."""
        sighting = self._ledger.sightings.get(number)
        return sighting is not None and sighting.causes <= self.library_draws

    @cached_property
    def library_draws(self) -> Numbers:
        """The random numbers that library code draws for itself, as a loader does for its workers: nothing shows them.

        Such a draw goes into no tensor of the program. Library code reads it as a number, and nothing else differs
        because of it.
        """
        sightings = self._ledger.sightings
        drawn = {number for number, sighting in sightings.items() if self._is_library_draw(number, sighting)}
        for number, sighting in sightings.items() if drawn else ():
            if number not in drawn and not _reads_in_library(self._pairs[number]):
                drawn -= sighting.causes
        return frozenset(drawn)

    def _is_library_draw(self, number: int, sighting: Sighting) -> bool:
        if sighting.kind != "random" or sighting.causes != {number}:
            return False
        return all(map(_is_in_library, self._pairs[number].a + self._pairs[number].b))

    @cached_property
    def _reaching(self) -> Numbers:
        """The causes because of which something differs that no other call uses: what comes out of the run.

        A difference that other calls make up for again is not among them.
        """
        return NONE.union(*self._differing_ends.values())

    @cached_property
    def _differing_ends(self) -> dict[int, Numbers]:
        """The pairs that differ and whose output no other call uses, with their causes, in the order of the run."""
        ledger = self._ledger
        differing = {number: link.beyond for number, link in ledger.links.items() if link.beyond}
        differing |= {number: sighting.causes for number, sighting in ledger.sightings.items()}
        ends = differing.keys() - ledger.used - ledger.agreed - self._idle_beginnings
        causes = {number: differing[number] - self.library_draws for number in sorted(ends)}
        return {number: behind for number, behind in causes.items() if behind}

    @cached_property
    def _idle_beginnings(self) -> set[int]:
        """The pairs that only make first values, such as those of weights, in runs that compute results too."""
        beginnings = {pair.number for pair in self._pairs if _makes_first_values(pair)}
        if all(pair.number in beginnings for pair in self._pairs if self._is_end(pair)):
            return set()
        return beginnings

    def _is_end(self, pair: Pair) -> bool:
        """Whether calls make a tensor that no other call uses."""
        if pair.number in self._ledger.used:
            return False
        return any(call.outputs for call in pair.calls_a + pair.calls_b)

    def last_result(self, numbers: Iterable[int]) -> tuple[Pair, Numbers] | None:
        """The last result of the run that differs because of one of these causes, and all causes of it."""
        last = max([self._last_ends[number] for number in numbers if number in self._last_ends], default=None)
        if last is None:
            return None
        return self._pairs[last], self._differing_ends[last]

    @cached_property
    def _last_ends(self) -> dict[int, int]:
        """For each cause the last pair that differs because of it and whose output no other call uses."""
        return {cause: number for number, causes in self._differing_ends.items() for cause in causes}

    def rank(self, number: int) -> tuple[bool, bool]:
        """The order of causes: by what their effect reaches."""
        is_lost = self.effect(number, self._ledger.sightings.get(number)) == "lost"
        return is_lost, number not in self._causes.results

    def _place(self, number: int) -> tuple[bool, bool, int]:
        """The order of causes: by what their effect reaches, then as in the run."""
        return *self.rank(number), number

    def _may_matter(self, pair: Pair) -> bool:
        """Whether calls are made differently, and their result was never seen to be the same."""
        ledger = self._ledger
        if pair.number in ledger.sightings or pair.number in ledger.agreed:
            return False
        if pair.matched and ledger.account(pair).manner.changes:
            return True
        return ledger.link(pair).suspect is pair and pair.number in ledger.used


def _reads_in_library(pair: Pair) -> bool:
    """Whether library code only reads a number out of a tensor."""
    if any(call.outputs for call in pair.calls_a + pair.calls_b):
        return False
    return all(map(_is_in_library, pair.a + pair.b))


def _is_in_library(stop: Stop) -> bool:
    """Whether library code makes a call: the expression of the program at that place does not name it."""
    call = stop.event
    if type(call) is not Call or call.site is None:
        return False
    site = call.site
    is_loop = site.text.lstrip().startswith("for ")  # it spans lines, and its first line asks for the next item
    if site.start is None and not is_loop:
        return False
    return stop.operation.base not in site.text[site.start : site.end]


def _makes_first_values(pair: Pair) -> bool:
    """Whether the calls of a pair only allocate memory, and write the first values of parameters."""
    return all(map(_begins_parameter, pair.a + pair.b))


def _begins_parameter(stop: Stop) -> bool:
    call, known = stop.event, stop.operation
    if type(call) is not Call or inputs(call):
        return False
    if known.is_uninitialized:
        return True
    return known.is_initial and all(facts.type == "Parameter" for facts in call.outputs)
