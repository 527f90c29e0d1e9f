"""The table: one row for each module, with its parameters, output, times, calls, memory and operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter

from insitu.trace.costs import CostLedger, Costs, size
from insitu.trace.event import Call, Event, Mark, ModuleFacts
from insitu.trace.path import relative
from insitu.view.beside import time_cell
from insitu.view.line import Column, Line, Span
from insitu.view.name import module_type
from insitu.view.number import amount, grouped_digits, operations, unless_zero
from insitu.view.value import result, safe

COLUMNS = (
    Column("type", drop=7, narrow=24),
    Column("parameters", right=True, drop=8),
    Column("output", narrow=20),
    Column("time", right=True, drop=6),
    Column("own", right=True, drop=1),
    Column("backward", right=True, drop=2),
    Column("share", right=True, drop=9),
    Column("calls", right=True, drop=5),
    Column("memory", right=True, drop=4),
    Column("flops", right=True, drop=3),
)
MOST_OUTPUT = 40
NOTHING: Span = ("", "")


@dataclass(slots=True)
class ModuleTotals:
    """The sums over the calls of one module, the first output, whether others differ, and the first exception."""

    module: ModuleFacts
    first: int
    output: str = ""
    has_others: bool = False
    raised: str | None = None
    calls: int = 0
    costs: Costs = field(default_factory=Costs)

    def add(self, call: Call, costs: Costs) -> None:
        """Add a call."""
        self.first = min(self.first, call.id)
        self.calls += 1
        self.costs.add(costs)
        if call.raised is not None:
            self.raised = self.raised or call.raised
            return
        output = result(call.result, MOST_OUTPUT)
        self.output = self.output or output
        self.has_others |= output != self.output

    @property
    def outcome(self) -> Span:
        """The output of the calls; an exception comes before everything else."""
        if self.raised is not None:
            return (f"✗ raised {safe(self.raised)}", "red")
        if self.has_others:
            return (f"{self.output} and others", "blue")
        return (self.output, "blue")


class Table:
    """Adds up the calls of each module and shows them at the end, in the order of the first calls.

    `own` is the time of a module without that of the modules in it; `backward` is that of the operators that computed
    its gradients; `flops` are the operations of the forward pass. Where only some modules are shown, their numbers and
    the totals are still those of the whole trace.
    """

    def __init__(self) -> None:
        self._rows: dict[str, ModuleTotals] = {}
        self._shown: set[str] = set()
        self._tensors: dict[int, int] = {}
        self._ledger = CostLedger()
        self._behind: dict[str, int] = {}
        self._all = Costs()
        self._troubles: list[str] = []
        self._outermost: set[str] = set()
        # Modules that may be outermost, by the calls around them that are not complete yet.
        self._undecided: dict[int, set[str]] = {}

    def begin(self) -> Iterable[Line]:
        """No lines: the table comes at the end."""
        return ()

    def __call__(self, event: Event) -> Iterable[Line]:
        """No lines yet: the call is added to its row."""
        if isinstance(event, Call):
            self._count(event)
            module = called_module(event)
            if module is not None:
                self._shown.add(module.path)
        elif isinstance(event, Mark) and event.kind == "trouble":
            self._troubles.append(safe(event.text))
        return ()

    def left_out(self, event: Event) -> None:
        """Count a call whose module has no row, unless another call of the module is shown."""
        if isinstance(event, Call):
            self._count(event)

    def _count(self, event: Call) -> None:
        costs = self._ledger.add(event)
        self._decide(event)
        if event.parent is None:
            self._all.time += costs.time
            self._all.is_launch = self._all.is_launch or costs.is_launch
            self._all.flops += costs.flops
        if event.forward is not None:
            self._behind[event.path] = self._behind.get(event.path, 0) + costs.time
            return
        module = called_module(event)
        if module is not None and event.phase == "forward":
            self._add(event, module, costs)

    def _decide(self, call: Call) -> None:
        """Find the models beside the first one: they have the names of their classes, and are in no other module."""
        found = self._undecided.pop(call.id, set())
        module = called_module(call)
        if module is not None:
            found = set()
            if _is_model(module):
                found = {module.path}
        if call.parent is None:
            self._outermost |= found
        elif found:
            self._undecided.setdefault(call.parent, set()).update(found)

    def _add(self, call: Call, module: ModuleFacts, costs: Costs) -> None:
        row = self._rows.get(module.path)
        if row is None:
            row = self._rows[module.path] = ModuleTotals(module, call.id)
        row.add(call, costs)
        self._tensors.update((facts.id, size(facts)) for facts in call.outputs)

    def finish(self) -> Iterator[Line]:
        """The whole table and its totals; empty columns are left out."""
        self._attribute()
        total = self._total()
        self._rows = {path: row for path, row in self._rows.items() if path in self._shown}
        depths = self._depths()
        body: list[tuple[tuple[Span, ...], tuple[Span, ...]]] = []
        for row in sorted(self._rows.values(), key=attrgetter("first")):
            body.append((self._name(row, depths[row.module.path]), self._cells(row)))
        body.append(((("total", "bold"),), total))
        used = [any(cells[index][0] for _, cells in body) for index in range(len(COLUMNS))]
        columns = tuple(compress(COLUMNS, used))
        yield Line((("module", "bold"),), tuple((column.name, "bold") for column in columns), columns)
        for spans, cells in body:
            yield Line(spans, tuple(compress(cells, used)), columns)
        for text in self._troubles:
            yield Line(((f"! {text}", "red"),), (), columns)

    def _attribute(self) -> None:
        """Give the time of the backward operators to the modules whose gradients they computed, and to those around."""
        for path, time in self._behind.items():
            above: str | None = path
            if path not in self._rows:
                above = self._above(path)
            while above is not None:
                self._rows[above].costs.backward += time
                above = self._above(above)

    def _depths(self) -> dict[str, int]:
        """How many modules of the table are around each one; shorter paths first, since they are around others."""
        depths: dict[str, int] = {}
        for path in sorted(self._rows, key=len):
            above = self._above(path)
            depths[path] = 0
            if above is not None:
                depths[path] = depths[above] + 1
        return depths

    def _above(self, path: str) -> str | None:
        """The nearest module of the table around this one: `h` is not called, so `h.0` is in the whole model."""
        while path and path not in self._outermost:
            path = path.rpartition(".")[0]
            if path in self._rows:
                return path
        return None

    def _name(self, row: ModuleTotals, depth: int) -> tuple[Span, ...]:
        own = relative(row.module.path, self._above(row.module.path) or "")
        return ("  " * depth, ""), (safe(own) or "(root)", "bold")

    def _cells(self, row: ModuleTotals) -> tuple[Span, ...]:
        costs = row.costs
        return (
            (module_type(row.module), "purple"),
            (unless_zero(grouped_digits, row.module.parameters), ""),
            row.outcome,
            time_cell(costs.time, is_launch=costs.is_launch),
            time_cell(costs.own, is_launch=costs.is_launch),
            time_cell(costs.backward, is_launch=costs.is_launch),
            _share(costs.time, self._all.time),
            (f"{row.calls:,}", ""),
            (amount(costs.memory), ""),
            (unless_zero(operations, costs.flops), ""),
        )

    def _total(self) -> tuple[Span, ...]:
        """Parameters of the outermost modules, since those of all below are in them; of outputs each tensor once."""
        rows = self._rows.values()
        outermost = [row for row in rows if self._above(row.module.path) is None]
        shown = len(self._shown & self._rows.keys())
        return (
            (_count_text(shown, len(rows)), ""),
            (f"{sum(row.module.parameters for row in outermost):,}", ""),
            NOTHING,
            time_cell(self._all.time, is_launch=self._all.is_launch),
            NOTHING,
            time_cell(sum(self._behind.values()), is_launch=self._all.is_launch),
            NOTHING,
            (f"{sum(row.calls for row in rows):,}", ""),
            (amount(sum(self._tensors.values())), ""),
            (unless_zero(operations, self._all.flops), ""),
        )


def _count_text(shown: int, count: int) -> str:
    """How many modules there are, and how many of them are shown if these are fewer."""
    text = {1: "1 module"}.get(count, f"{count:,} modules")
    if shown == count:
        return text
    return f"{shown:,} of {text}"


def called_module(call: Call) -> ModuleFacts | None:
    """The module whose call this is; None for a call that only runs inside a module."""
    if call.kind == "module":
        return call.module
    return None


def _is_model(module: ModuleFacts) -> bool:
    """Whether a path is the name of a class, perhaps with a number: `Net`, `Net#2`."""
    return module.path.partition("#")[0] == module.type


def _share(part: int, whole: int) -> Span:
    """The share of a time in the time of the whole trace."""
    if part == 0 or whole == 0:
        return NOTHING
    return (f"{100 * part / whole:.1f}%", "")
