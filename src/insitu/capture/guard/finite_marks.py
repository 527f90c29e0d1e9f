"""The finite marks of tensors whose numbers wait on their device: a guard reads all of them once a step.

A mark is the least and the largest number of a tensor, NaN if there is one in it, and how many are not zero. The marks
of a step come over in one copy. Only if one of them is NaN or +inf, `deferred_findings.py` looks for the call where
that began; -inf alone is a mask of scores almost always, and what it becomes otherwise is found as NaN or +inf.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from insitu.capture.calls import FunctionCallee
from insitu.capture.containers import tensors_in
from insitu.capture.deferral import Deferral
from insitu.capture.explain.reading import values
from insitu.capture.finite import floats, is_readable
from insitu.capture.guard.index_range import PendingRange, pending_range
from insitu.capture.guard.places import Place
from insitu.capture.guard.risk import can_produce
from insitu.capture.isolation import run_isolated
from insitu.capture.ledger import Cells
from insitu.capture.tape import Raised
from insitu.capture.tensors import GIVEN, Layout, Value, layout_of
from insitu.capture.torch_internals import DisableTorchFunction, node_number
from insitu.trace.event import Stats
from insitu.trace.origin import FINITE, Finiteness

if TYPE_CHECKING:
    from insitu.capture.guard.check import ProbeChecks
    from insitu.capture.guard.optimizers import OptimizerSteps


@dataclass(frozen=True, slots=True)
class Extremes:
    """The least and the largest of `count` numbers, both NaN if one of the numbers is; and how many are zero."""

    low: float
    high: float
    zeros: int
    count: int

    @property
    def is_alarming(self) -> bool:
        """Whether there is NaN or +inf."""
        return not self.high < inf

    @property
    def finiteness(self) -> Finiteness:
        """Which numbers that are not finite there are, as far as it is known: beside NaN nobody looks for Inf."""
        if isnan(self.low):
            return Finiteness(nan=True)
        return Finiteness(inf=self.high == inf, minus_inf=self.low == -inf)

    def stats(self) -> Stats:
        """Statistics that a judgement can be based on; how many numbers are not finite is not known."""
        found = self.finiteness
        if found == FINITE:
            return Stats(count=self.count, min=self.low, max=self.high, zeros=self.zeros)
        return Stats(count=self.count, nan=int(found.nan), inf=int(found.inf or found.minus_inf))


@dataclass(frozen=True, slots=True)
class FiniteMark:
    """The extremes of a tensor, on its device."""

    cells: Cells
    count: int

    def read(self) -> Extremes:
        """The extremes."""
        low, high, present = self.cells.read()
        return Extremes(float(low), float(high), self.count - int(present), self.count)


@dataclass(frozen=True, slots=True)
class GradientMarks:
    """The marks of the gradients that an autograd node got, and of those that left it, with their layouts."""

    number: int
    name: str
    incoming: tuple[FiniteMark, ...]
    outgoing: tuple[FiniteMark, ...]
    layouts: tuple[Layout, ...]


@dataclass(frozen=True, slots=True)
class UpdateMarks:
    """The marks of the parameters that a step of an optimizer has written."""

    steps: OptimizerSteps
    place: Place
    parameters: tuple[Tensor, ...]
    marks: tuple[FiniteMark | None, ...]


@dataclass(frozen=True, slots=True)
class StepMarks:
    """All marks since the last time, as they came over; `begin` is the offset of the first call."""

    begin: int
    extremes: dict[int, Extremes]  # by the ids of the values
    gradients: tuple[GradientMarks, ...]
    updates: tuple[UpdateMarks, ...]

    def is_alarming(self, *, is_last: bool) -> bool:
        """Whether there is anything to look at; at the end of the block, -inf that nobody has used is."""
        if any(each.is_alarming for each in self.extremes.values()):
            return True
        if is_last and any(each.finiteness != FINITE for each in self.extremes.values()):
            return True
        grads = (mark for node in self.gradients for mark in node.outgoing)
        written = (mark for update in self.updates for mark in update.marks if mark is not None)
        return any(mark.read().finiteness != FINITE for mark in (*grads, *written))


def is_nonfinite_number(item: Any) -> bool:
    """Whether an argument is a number that is not finite, which the program wrote down."""
    return type(item) is float and not isfinite(item)


class FiniteMarks:
    """The marks of one probe. `known` are those of tensors that are not finite and are still there, by value."""

    def __init__(self, check: ProbeChecks, deferral: Deferral) -> None:
        self._check, self._deferral = check, deferral
        self._marks: dict[int, tuple[Value, FiniteMark]] = {}
        self._given: dict[int, Value] = {}
        self._gradients: list[GradientMarks] = []
        self._updates: list[UpdateMarks] = []
        self._ranges: list[PendingRange] = []
        self._incoming: dict[int, tuple[FiniteMark, ...]] = {}  # of calls with several nodes
        self._known: dict[int, tuple[Value, Extremes]] = {}
        self._held: list[Value] = []
        self._begin = 0

    def applies_to(self, tensor: Any) -> bool:
        """Whether the numbers of a tensor wait on their device."""
        return self._deferral.applies_to(tensor)

    def apply_to_one(self, tensors: Iterable[Tensor | None]) -> bool:
        """Whether the numbers of one of some tensors wait on their device."""
        return any(map(self._deferral.applies_to, tensors))

    # ---- what happens in the program

    def see_call(self, callee: FunctionCallee, at: int) -> None:
        """A function has returned: mark what it got from outside, and what it produced."""
        items = self._check.probe.tape.inputs(at)
        inputs = list(values(items))
        for value in inputs:
            if value.producer == GIVEN and id(value) not in self._given:
                self._given[id(value)] = value
                self._add(value)
        if self._check.checks.is_scaling:  # a loss that is scaled too far is not a mistake
            return
        if not inputs or can_produce(callee) or any(map(is_nonfinite_number, items)):
            self.see_result(at)
            if callee.in_place:
                self._see_changed(inputs[:1], at)

    def _see_changed(self, inputs: list[Value], at: int) -> None:
        """Mark what a call has changed in place and does not return, as `x[0] = y` does."""
        for value in inputs:
            tensor = value()
            now = self._check.value_of(tensor) if tensor is not None else None
            if now is not None and now.producer == at and id(now) not in self._marks:
                self._add(now)

    def see_indices(self, callee: FunctionCallee, at: int, args: Any, kwargs: Any) -> bool:
        """A function is about to take indices: whether their range is on its way, or will be read at once."""
        tensors = tensors_in((args, kwargs))
        if not self.apply_to_one(tensors):
            return False
        try:
            pending = pending_range(self._deferral, callee.name, at, args, kwargs)
            if pending is not None:
                self._ranges.append(pending)
        except Exception as error:
            self._check.probe.trouble("looking at indices", error)
        return True

    def take_ranges(self) -> list[PendingRange]:
        """The ranges of indices since the last time."""
        ranges, self._ranges = self._ranges, []
        return ranges

    def see_result(self, at: int) -> None:
        """Mark what a call has produced."""
        result = self._check.probe.tape.result(at)
        if isinstance(result, Raised):
            return
        for value in values(result):
            if value.producer == at:
                self._add(value)

    def _add(self, value: Value) -> None:
        tensor = value()
        if tensor is None or not self.applies_to(tensor):
            return
        mark = self._mark(tensor)
        if mark is not None:
            self._marks[id(value)] = (value, mark)

    def _mark(self, tensor: Tensor) -> FiniteMark | None:
        return run_isolated(lambda: self._mark_unseen(tensor))

    def _mark_unseen(self, tensor: Tensor) -> FiniteMark | None:
        """The mark of a tensor; None if there is nothing in it that could be NaN or Inf, or that could be read."""
        found = floats(tensor) if is_readable() else None
        if found is None or not found.numel():
            return None
        found = found.resolve_neg()
        low, high = torch.aminmax(found)
        cells = self._deferral.ledger(found.device).write([low, high, found.count_nonzero()])
        return FiniteMark(cells, found.numel())

    def see_node(self, node: Any, inputs: Iterable[Tensor | None], outputs: Iterable[Tensor | None]) -> None:
        """An autograd node has run: mark the gradients that leave it (autograd calls them inputs), and those it got."""
        self._see_gradients(node, inputs, self._marks_of(outputs))

    def see_group_begin(self, first: int, outputs: Iterable[Tensor | None]) -> None:
        """The first of several nodes of one call is about to run."""
        self._incoming[first] = self._marks_of(outputs)

    def see_group_end(self, node: Any, first: int, inputs: Iterable[Tensor | None]) -> None:
        """One of several nodes of one call has run."""
        self._see_gradients(node, inputs, self._incoming.get(first, ()))

    def _see_gradients(self, node: Any, leaving: Iterable[Tensor | None], incoming: tuple[FiniteMark, ...]) -> None:
        there = [grad for grad in leaving if grad is not None]
        marked = [(grad, mark) for grad in there if (mark := self._mark(grad)) is not None]
        if not marked:
            return
        with DisableTorchFunction():
            layouts = tuple(layout_of(grad) for grad, _ in marked)
        outgoing = tuple(mark for _, mark in marked)
        self._gradients.append(GradientMarks(node_number(node), node.name(), incoming, outgoing, layouts))

    def _marks_of(self, tensors: Iterable[Tensor | None]) -> tuple[FiniteMark, ...]:
        there = [tensor for tensor in tensors if tensor is not None]
        return tuple(mark for tensor in there if (mark := self._mark(tensor)) is not None)

    def see_update(self, steps: OptimizerSteps, place: Place, parameters: list[Tensor]) -> None:
        """An optimizer has stepped at a place of the program: mark its parameters."""
        self._updates.append(UpdateMarks(steps, place, tuple(parameters), tuple(map(self._mark, parameters))))

    # ---- once a step

    def take(self) -> StepMarks | None:
        """All marks since the last time, which come over now in one copy; None if there are none."""
        if not (self._marks or self._gradients or self._updates):
            return None
        self._deferral.fetch()
        extremes = {key: mark.read() for key, (_, mark) in self._marks.items()}
        self._known |= {
            key: (value, extremes[key]) for key, (value, _) in self._marks.items() if extremes[key].finiteness != FINITE
        }
        extremes |= {key: known for key, (_, known) in self._known.items()}
        found = StepMarks(self._begin, extremes, tuple(self._gradients), tuple(self._updates))
        self._held = [value for value, _ in self._marks.values()]  # the ids of the values are keys until the next time
        self._begin = len(self._check.probe.tape)
        self._marks, self._gradients, self._updates = {}, [], []
        self._incoming = {}
        return found

    def clear_tape(self) -> None:
        """The tape is about to be cleared."""
        self._begin = 0
        self._given.clear()
        self._known = {key: known for key, known in self._known.items() if known[0]() is not None}
