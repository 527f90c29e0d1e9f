"""What has differed so far, and which of it a later difference follows from."""

from __future__ import annotations

from insitu.trace.compare.blame import Blame, Facts, Lineage, joined, promoted
from insitu.trace.compare.closeness import Closeness
from insitu.trace.compare.cuts import Cuts
from insitu.trace.compare.generators import Generators, is_seeded
from insitu.trace.compare.manner import draws
from insitu.trace.compare.numbers_read import ReadNumbers
from insitu.trace.compare.units import NONE, Numbers, Unit
from insitu.trace.diff import CauseKind
from insitu.trace.event import Call
from insitu.trace.operation import operation


class Past:
    """The differences up to a place in the run.

    `first` and `latest` are units that differ. `results` are the causes that have shown in what the model returns, or
    in what goes backward, `inside` those that have shown in what a module within it returns, or whose effect was lost
    in a decision or in NaN.
    """

    def __init__(self, lineage: Lineage) -> None:
        self.units: list[Unit] = []
        self.generators = Generators()
        self.cuts = Cuts(lineage)
        self.numbers = ReadNumbers()
        self.first: Unit | None = None
        self.latest: Unit | None = None
        self.results: Numbers = NONE
        self.inside: Numbers = NONE
        self._has_results = False
        self._lineage = lineage

    def note(self, unit: Unit) -> None:
        """Note a unit that has been judged."""
        if unit.differs:
            self.latest = unit
            self.first = self.first or unit

    def reach_results(self, causes: Numbers) -> None:
        """Note what the model returns, or what goes backward, and the causes because of which it differs."""
        self._has_results = True
        self.results |= causes

    def followed(self, unit: Unit, blame: Blame, out: Closeness, called: tuple[Call, Facts]) -> Numbers:
        """The causes of an output that differs; nothing if the call itself is the cause."""
        call, into = called
        if blame.roots or unit.own:
            return blame.roots
        found = self.drawn(unit, out) or blame.faint or self.backward(unit)
        if found:
            return found
        if operation(call.kind, call.name).reads_attribute and self.latest is not None:
            return self._causes_before()
        return self._unnoticed(unit, blame, out) or (self.carried(call, into) if blame.outside else NONE)

    def drawn(self, unit: Unit, out: Closeness) -> Numbers:
        """The causes because of which a call draws other random numbers; nothing if none was recorded."""
        moved = self.generators.moved(unit)
        if moved is not None:
            return promoted(moved, None, out, unit)
        # A generator of its own is often seeded with a number that was drawn before, as that of a sampler is.
        return self.numbers.roots if is_seeded(unit.a[0]) else NONE

    def _unnoticed(self, unit: Unit, blame: Blame, out: Closeness) -> Numbers:
        """The causes of inputs that differ, and were not seen to: by statistics, or within the tolerance."""
        if blame.origins:
            return joined(*(promoted(origin, None, out, unit) for origin in blame.origins))
        if draws(unit.a[0]):
            return NONE
        return joined(*(promoted(suspect, None, out, unit) for suspect in self._likely(blame.suspects)))

    def _likely(self, suspects: Numbers) -> list[Unit]:
        """Those of several units that are off by the most within the tolerance; others only round otherwise."""
        units = [self.units[number] for number in sorted(suspects)]
        largest = max((unit.drift for unit in units), default=0.0)
        return [unit for unit in units if unit.drift >= largest / 10]

    def backward(self, unit: Unit) -> Numbers:
        """Why the forward calls differ whose gradients these backward calls compute."""
        roots = NONE
        for side, stops in enumerate((unit.a, unit.b)):
            calls = [stop.event for stop in stops if type(stop.event) is Call]
            forward = [self._lineage.forward(side, call) for call in calls]
            roots = joined(roots, *(other.roots for other in forward if other is not None))
            if any(call.phase == "backward" for call in calls):
                roots = joined(roots, self.cuts.roots)
        return roots

    def carried(self, call: Call, facts: Facts) -> Numbers:
        """The causes of tensors that no recorded call made, if an earlier difference may have come to them."""
        return self._causes_before() if self._may_follow(call, facts) else NONE

    def _causes_before(self) -> Numbers:
        """The causes that have shown in results; where no results were seen, those of the latest difference."""
        if self._has_results:
            return self.results or self.inside
        return self.latest.roots if self.latest is not None else NONE

    def _may_follow(self, call: Call, facts: Facts) -> bool:
        """Whether tensors may differ because of an earlier difference; parameters only since an earlier step."""
        if self.first is None:
            return False
        began = (*self.first.a, *self.first.b)[0].event.step
        if call.step != began:  # an optimizer has been at work since
            return True
        unseen = call.kind in ("module", "python") or call.parent is None
        return unseen and any(tensor.type != "Parameter" for tensor in facts)


def kind_of_cause(unit: Unit, blame: Blame, called: tuple[Call, Facts]) -> CauseKind:
    """What kind of cause a call is whose output differs, and not because of what went into it."""
    call, into = called
    if unit.own:
        return "raised" if unit.raised else "argument"
    is_given = blame.outside and unit.a[0].operation.is_move and len(into) == 1
    if is_given or operation(call.kind, call.name).reads_attribute:
        return "input"
    return "random" if draws(unit.a[0]) else "output"
