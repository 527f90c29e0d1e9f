"""The table: one row for each module, with its parameters, output, times, calls, memory and operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from insitu.trace.analysis import relative
from insitu.trace.costs import Costs, Ledger, size
from insitu.trace.event import Call, Event, Mark, ModuleFacts
from insitu.view.beside import time_cell
from insitu.view.line import Column, Line, Span
from insitu.view.name import module_type
from insitu.view.value import amount, operations, result, safe

COLUMNS = (
    Column("type", drop=7),
    Column("parameters", right=True, drop=8),
    Column("output"),
    Column("time", right=True, drop=6),
    Column("own", right=True, drop=1),
    Column("backward", right=True, drop=2),
    Column("share", right=True, drop=9),
    Column("calls", right=True, drop=5),
    Column("memory", right=True, drop=4),
    Column("flops", right=True, drop=3),
)
OTHERS = " and others"


@dataclass(slots=True)
class Row:
    """What the calls of one module add up to."""

    module: ModuleFacts
    first: int
    output: str
    calls: int = 0
    costs: Costs = field(default_factory=Costs)


class Table:
    """Adds up the calls of each module and shows them at the end, in the order of the first calls.

    `own` is the time of a module without that of the modules in it; `backward` is that of the operators that computed
    its gradients; `flops` are the operations of the forward pass. Where only some modules are shown, their numbers and
    the totals are still those of the whole trace.
    """

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._shown: set[str] = set()
        self._tensors: dict[int, int] = {}
        self._ledger = Ledger()
        self._behind: dict[str, int] = {}
        self._all = Costs()
        self._troubles: list[str] = []
        self._outermost: set[str] = set()
        # Modules that may be outermost, by the calls around them that are not complete yet.
        self._undecided: dict[int, set[str]] = {}

    def begin(self) -> Iterable[Line]:
        """Nothing: the table comes at the end."""
        return ()

    def __call__(self, event: Event) -> Iterable[Line]:
        """Nothing yet: the call is added to its row."""
        if isinstance(event, Mark):
            if event.kind == "trouble":
                self._troubles.append(safe(event.text))
        elif isinstance(event, Call):
            self._count(event)
            if event.module is not None and event.kind == "module":
                self._shown.add(event.module.path)
        return ()

    def left_out(self, event: Event) -> None:
        """A call whose module has no row, if no other call of it has one."""
        if isinstance(event, Call):
            self._count(event)

    def _count(self, event: Call) -> None:
        costs = self._ledger.add(event)
        self._decide(event)
        if event.parent is None:
            self._all.time += costs.time
            self._all.flops += costs.flops
        if event.forward is not None:
            self._behind[event.path] = self._behind.get(event.path, 0) + costs.time
        elif event.kind == "module" and event.phase == "forward" and event.module is not None:
            self._add(event, event.module, costs)

    def _decide(self, call: Call) -> None:
        """Note which modules are models beside the first: they have the names of their classes, and lie in no other."""
        found = self._undecided.pop(call.id, set())
        if call.kind == "module" and call.module is not None:
            found = {call.module.path} if call.module.path.partition("#")[0] == call.module.type else set()
        if found and call.parent is None:
            self._outermost |= found
        elif found and call.parent is not None:
            self._undecided.setdefault(call.parent, set()).update(found)

    def _add(self, call: Call, module: ModuleFacts, costs: Costs) -> None:
        row = self._rows.get(module.path)
        if row is None:
            row = self._rows[module.path] = Row(module, call.id, "")
        row.first = min(row.first, call.id)
        output = result(call.result, 40) if call.raised is None else f"✗ raised {safe(call.raised)}"
        row.output = _joined(row.output, output) if row.calls else output
        row.calls += 1
        row.costs.add(costs)
        self._tensors.update((facts.id, size(facts)) for facts in call.outputs)

    def finish(self) -> Iterator[Line]:
        """The whole table and its totals; columns in which nothing stands are left out."""
        self._attribute()
        total = self._total()
        self._rows = {path: row for path, row in self._rows.items() if path in self._shown}
        rows = sorted(self._rows.values(), key=lambda row: row.first)
        depths = self._depths()
        lines = [
            ((("module", "bold"),), tuple((column.name, "bold") for column in COLUMNS)),
            *((self._name(row, depths[row.module.path]), self._cells(row)) for row in rows),
            ((("total", "bold"),), total),
        ]
        used = [index for index in range(len(COLUMNS)) if any(cells[index][0] for _, cells in lines[1:])]
        columns = tuple(COLUMNS[index] for index in used)
        for spans, cells in lines:
            yield Line(spans, tuple(cells[index] for index in used), columns)
        for text in self._troubles:
            yield Line(((f"! {text}", "red"),), (), columns)

    def _attribute(self) -> None:
        """Give the time of the backward operators to the modules whose gradients they computed, and to those around."""
        for path, time in self._behind.items():
            above: str | None = path if path in self._rows else self._above(path)
            while above is not None:
                self._rows[above].costs.backward += time
                above = self._above(above)

    def _depths(self) -> dict[str, int]:
        """How many of the modules in the table each one lies in; shorter paths first, since they are around others."""
        depths: dict[str, int] = {}
        for path in sorted(self._rows, key=len):
            above = self._above(path)
            depths[path] = 0 if above is None else depths[above] + 1
        return depths

    def _above(self, path: str) -> str | None:
        """The nearest module in the table around this one: `h` is not called, so `h.0` lies in the whole."""
        while path and path not in self._outermost:
            path = path.rpartition(".")[0]
            if path in self._rows:
                return path
        return None

    def _name(self, row: Row, depth: int) -> tuple[Span, ...]:
        own = relative(row.module.path, self._above(row.module.path) or "")
        return ("  " * depth, ""), (safe(own) or "(root)", "bold")

    def _cells(self, row: Row) -> tuple[Span, ...]:
        costs, all_time = row.costs, self._all.time
        return (
            (module_type(row.module), "purple"),
            (f"{row.module.parameters:,}" if row.module.parameters else "", ""),
            (row.output, "red" if row.output.startswith("✗") else "blue"),
            time_cell(costs.time),
            time_cell(costs.own),
            time_cell(costs.backward),
            (f"{100 * costs.time / all_time:.1f}%" if all_time and costs.time else "", ""),
            (f"{row.calls:,}", ""),
            (amount(costs.memory), ""),
            (operations(costs.flops) if costs.flops else "", ""),
        )

    def _total(self) -> tuple[Span, ...]:
        """Parameters of the outermost modules, since those of all below are in them; of outputs each tensor once."""
        rows = self._rows.values()
        outermost = [row for row in rows if self._above(row.module.path) is None]
        shown = len(self._shown & self._rows.keys())
        of = f"{shown:,} of " if shown < len(rows) else ""
        return (
            (f"{of}{len(rows):,} module{'s' if len(rows) != 1 else ''}", ""),
            (f"{sum(row.module.parameters for row in outermost):,}", ""),
            ("", ""),
            time_cell(self._all.time),
            ("", ""),
            time_cell(sum(self._behind.values())),
            ("", ""),
            (f"{sum(row.calls for row in rows):,}", ""),
            (amount(sum(self._tensors.values())), ""),
            (operations(self._all.flops) if self._all.flops else "", ""),
        )


def _joined(known: str, output: str) -> str:
    """What the calls of a module returned: of outputs that differ the first, and an exception before all else."""
    if known.startswith("✗") or output == known.removesuffix(OTHERS):
        return known
    return output if output.startswith("✗") else known.removesuffix(OTHERS) + OTHERS
