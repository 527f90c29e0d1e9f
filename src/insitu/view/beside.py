"""Columns that a tree shows on request: costs, and the backward pass beside the forward pass."""

from __future__ import annotations

from functools import partial

from insitu.trace.costs import CostLedger, Costs
from insitu.trace.event import Call, Event, ModuleFacts, tensors
from insitu.trace.fold import Fold
from insitu.trace.forest import Group, calls_of
from insitu.view.line import Column, Span
from insitu.view.number import amount, call_time, grouped_digits, operations, unless_zero
from insitu.view.ranges import values_cell

COSTS = (
    Column("own", right=True, drop=3),
    Column("memory", right=True, drop=3),
    Column("parameters", right=True, drop=3),
    Column("flops", right=True, drop=3),
)
BACKWARD = (Column("gradient", drop=2, narrow=19), Column("backward", right=True, drop=4))
NO_BACKWARD = 'no backward pass was recorded: use level="aten", and call loss.backward() inside the block'


class NothingBeside:
    """No columns: the default of a tree."""

    columns: tuple[Column, ...] = ()
    missing: str | None = None

    def add(self, event: Event) -> None:
        """Receive an event that is complete."""

    def hides(self, event: Event | Group) -> bool:
        """Whether a row is left out because it is shown beside another one."""
        return False

    def settle(self) -> None:
        """Receive the end of all events."""

    def forget(self) -> None:
        """Forget the calls that were shown."""

    def cells(self, item: Fold) -> tuple[Span, ...]:
        """The cells of a row."""
        return ()


class Beside:
    """Collects what the columns need while the calls complete."""

    def __init__(self, *, costs: bool, backward: bool) -> None:
        self._costs = costs
        self._backward = backward
        self._ledger = CostLedger()
        self._found: dict[int, Costs] = {}
        self._parents: dict[int, int | None] = {}
        self._behind: dict[int, int] = {}
        self._is_missing = backward
        self.columns = BACKWARD * backward + COSTS * costs

    def add(self, event: Event) -> None:
        """Receive an event that is complete."""
        if not isinstance(event, Call):
            return
        self._found[event.id] = self._ledger.add(event)
        self._parents[event.id] = event.parent
        if self._is_missing:
            self._is_missing = event.forward is None and not _has_gradient(event)
        if event.forward is not None:
            self._behind[event.forward] = self._behind.get(event.forward, 0) + (event.duration or 0)

    def hides(self, event: Event | Group) -> bool:
        """Whether a row is left out because it is shown beside another one."""
        if not self._backward:
            return False
        return isinstance(event, Call) and event.phase == "backward"

    def settle(self) -> None:
        """Add the backward times to the calls they belong to, and to the calls around these: all events are there."""
        for id, time in self._behind.items():
            above: int | None = id
            while above in self._found:
                self._found[above].backward += time
                above = self._parents[above]
        self._behind = {}

    @property
    def missing(self) -> str | None:
        """The advice on recording, if the columns are empty."""
        if self._is_missing and self._found:
            return NO_BACKWARD
        return None

    def forget(self) -> None:
        """Forget the calls that were shown."""
        self._found.clear()
        self._parents.clear()

    def cells(self, item: Fold) -> tuple[Span, ...]:
        """The cells of a row for one call, or for many that are alike."""
        calls = list(calls_of(item.nodes))
        together = Costs()
        for call in calls:
            together.add(self._found[call.id])
        cells: tuple[Span, ...] = ()
        if self._backward:
            cells = (_gradient(calls), time_cell(together.backward, is_launch=together.is_launch))
        if self._costs:
            cells = (*cells, *_cost_cells(calls, together))
        return cells


def _cost_cells(calls: list[Call], costs: Costs) -> tuple[Span, ...]:
    """Own time, memory, parameters and operations; each module counts once."""
    modules: dict[str, ModuleFacts] = {}
    for call in calls:
        if call.kind == "module" and call.module is not None:
            modules[call.module.path] = call.module
    parameters = sum(module.parameters for module in modules.values())
    return (
        time_cell(costs.own, is_launch=costs.is_launch),
        (unless_zero(amount, costs.memory), ""),
        (unless_zero(grouped_digits, parameters), ""),
        (unless_zero(operations, costs.flops), ""),
    )


def _has_gradient(call: Call) -> bool:
    """Whether a gradient of one of the outputs was recorded."""
    return any(facts.grad is not None for facts in tensors(call.result))


def _gradient(calls: list[Call]) -> Span:
    """The ranges of the gradients of the outputs."""
    every = [[facts.grad for facts in tensors(call.result) if facts.grad is not None] for call in calls]
    return values_cell(every) or ("", "")


def time_cell(nanoseconds: int, *, is_launch: bool = False) -> Span:
    """A time that was spent; nothing where there was none."""
    return (unless_zero(partial(call_time, is_launch=is_launch), nanoseconds), "green")
