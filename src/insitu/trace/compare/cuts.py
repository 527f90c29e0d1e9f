"""Where a gradient is cut off in one run only: a `detach`, a call under `no_grad`, a parameter that is frozen.

Values do not show it. What a tensor says of itself does: `requires_grad` is True in one run and False in the other.
It has an effect if what is made of that tensor reaches a backward pass.
"""

from __future__ import annotations

from insitu.trace.compare.blame import Facts, Lineage, described, joined
from insitu.trace.compare.manner import apart
from insitu.trace.compare.stops import Side
from insitu.trace.compare.units import NONE, Numbers, Unit
from insitu.trace.event import Call, TensorFacts
from insitu.trace.operation import operation


class Cuts:
    """Follows tensors through which a gradient passes in one run and not in the other."""

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        self.roots = NONE  # of the latest backward pass that a cut has reached
        self._begun = False

    def pair(self, unit: Unit, into: tuple[Facts, Facts], a: Call, b: Call) -> None:
        """Note in a pair of calls which cuts lie behind what it makes."""
        if not self._begun and _require_alike(into) and _require_alike((a.outputs, b.outputs)):  # as most often
            return
        self._begun = True
        found = self.behind(unit, into)
        outs = list(zip(a.outputs, b.outputs, strict=False))
        if outs and not any(left.requires_grad or right.requires_grad for left, right in outs):
            return  # no gradient passes in either run
        if not found:
            found = _beginning(unit, outs)
        unit.cuts = found

    def behind(self, unit: Unit, into: tuple[Facts, Facts]) -> Numbers:
        """The cuts that lie behind the inputs of a pair of calls, those that begin with them among these."""
        found = NONE
        for index, pair in enumerate(zip(*into, strict=False)):
            if pair[0].requires_grad or pair[1].requires_grad:
                found = joined(found, self._of_input(unit, index, into[0], pair))
        return found

    def _of_input(self, unit: Unit, index: int, a: Facts, pair: tuple[TensorFacts, TensorFacts]) -> Numbers:
        left, right = pair
        makers = (self._lineage.maker(0, left), self._lineage.maker(1, right))
        known = joined(*(maker.cuts for maker in makers if maker is not None))
        if known or left.requires_grad == right.requires_grad:
            return known
        if self._lineage.close(left, right).same is False:  # another tensor: its values are the difference
            return NONE
        if makers == (None, None):
            unit.cut = apart(f"requires_grad of {described(index, a, unit.a[0].operation, {})}", *_flags(left, right))
            return frozenset((unit.number,))
        stretch = next((maker for maker in makers if maker is not None and not maker.matched), None)
        if stretch is None:
            return NONE
        stretch.cut = apart("requires_grad", *_flags(left, right))
        stretch.leaving = pair
        return frozenset((stretch.number,))

    def stretch(self, unit: Unit) -> None:
        """Note in calls that the other run does not make which cuts lie behind what they make."""
        if not self._begun:
            return
        for side, stops in enumerate((unit.a, unit.b)):
            for stop in stops:
                for facts in stop.event.inputs if type(stop.event) is Call else ():
                    maker = self._lineage.maker(side, facts)
                    if maker is not None and maker is not unit and facts.requires_grad:
                        unit.cuts = joined(unit.cuts, maker.cuts)

    def reach_backward(self, cuts: Numbers, units: list[Unit]) -> Numbers:
        """The causes of other gradients, after a backward pass that cuts have reached: from here on they are causes."""
        for number in cuts:
            cut = units[number]
            if not cut.roots:
                cut.kind, cut.roots, cut.differs, cut.certainty = "gradient", frozenset((number,)), True, "structure"
        self.roots = joined(*(units[number].roots for number in cuts))
        return self.roots


def _require_alike(pairs: tuple[Facts, Facts]) -> bool:
    """Whether tensors agree in whether they require a gradient."""
    return all(left.requires_grad is right.requires_grad for left, right in zip(*pairs, strict=False))


def _beginning(unit: Unit, outs: list[tuple[TensorFacts, TensorFacts]]) -> Numbers:
    """The unit itself, if inputs agree in whether they require a gradient, and outputs do not."""
    for left, right in outs:
        if left.requires_grad != right.requires_grad:
            unit.cut = apart("requires_grad", *_flags(left, right))
            return frozenset((unit.number,))
    return NONE


def _flags(left: TensorFacts, right: TensorFacts) -> tuple[bool, bool]:
    return left.requires_grad, right.requires_grad


def learns_unseen(side: Side) -> bool:
    """Whether a run went backward, as gradients tell, and no call that did so was recorded."""
    calls = [stop.event for stops in side.groups.values() for stop in stops if type(stop.event) is Call]
    if any(operation(call.kind, call.name).runs_backward for call in calls):
        return False
    return any(facts.grad is not None for call in calls for facts in (*call.outputs, *call.inputs))
