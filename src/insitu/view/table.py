"""The table: one row for each module, with its parameters, output, time, calls and memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from insitu.trace.analysis import relative
from insitu.trace.event import Call, Event, Mark, ModuleFacts, Variable
from insitu.view.line import Column, Line, Span
from insitu.view.name import module_type
from insitu.view.value import amount, duration, result, safe, size

COLUMNS = (
    Column("type", drop=4),
    Column("parameters", right=True, drop=5),
    Column("output"),
    Column("time", right=True, drop=3),
    Column("share", right=True, drop=6),
    Column("calls", right=True, drop=2),
    Column("memory", right=True, drop=1),
)


@dataclass(slots=True)
class Row:
    """What the calls of one module add up to."""

    module: ModuleFacts
    first: int
    output: str
    calls: int = 0
    time: int = 0
    memory: int = 0


class Table:
    """Adds up the calls of each module and shows them at the end, in the order of the first calls."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._tensors: dict[int, int] = {}
        self._time = 0
        self._troubles: list[str] = []

    def begin(self) -> Iterable[Line]:
        """Nothing: the table comes at the end."""
        return ()

    def __call__(self, event: Event) -> Iterable[Line]:
        """Nothing yet: the call is added to its row."""
        if isinstance(event, Mark):
            if event.kind == "trouble":
                self._troubles.append(safe(event.text))
            return ()
        if isinstance(event, Variable):
            return ()
        if event.parent is None:
            self._time += event.duration or 0
        if event.kind == "module" and event.phase == "forward" and event.module is not None:
            self._add(event, event.module)
        return ()

    def _add(self, call: Call, module: ModuleFacts) -> None:
        row = self._rows.get(module.path)
        if row is None:
            row = self._rows[module.path] = Row(module, call.id, "")
        row.first = min(row.first, call.id)
        row.output = result(call.result, 40) if call.raised is None else f"✗ raised {safe(call.raised)}"
        row.calls += 1
        row.time += call.duration or 0
        sizes = {facts.id: size(facts) for facts in call.outputs}
        row.memory += sum(sizes.values())
        self._tensors.update(sizes)

    def finish(self) -> Iterator[Line]:
        """The whole table and its totals."""
        rows = sorted(self._rows.values(), key=lambda row: row.first)
        yield Line((("module", "bold"),), tuple((column.name, "bold") for column in COLUMNS), COLUMNS)
        depths = self._depths()
        for row in rows:
            yield self._line(row, depths[row.module.path])
        yield self._total(rows)
        for text in self._troubles:
            yield Line(((f"! {text}", "red"),), (), COLUMNS)

    def _depths(self) -> dict[str, int]:
        """How many of the modules in the table each one lies in; shorter paths first, since they are around others."""
        depths: dict[str, int] = {}
        for path in sorted(self._rows, key=len):
            above = self._above(path)
            depths[path] = 0 if above is None else depths[above] + 1
        return depths

    def _above(self, path: str) -> str | None:
        """The nearest module in the table around this one: `h` is not called, so `h.0` lies in the whole."""
        while path:
            path = path.rpartition(".")[0]
            if path in self._rows:
                return path
        return None

    def _line(self, row: Row, depth: int) -> Line:
        own = relative(row.module.path, self._above(row.module.path) or "")
        return Line((("  " * depth, ""), (safe(own) or "(root)", "bold")), self._cells(row), COLUMNS)

    def _cells(self, row: Row) -> tuple[Span, ...]:
        return (
            (module_type(row.module), "purple"),
            (f"{row.module.parameters:,}" if row.module.parameters else "", ""),
            (row.output, "red" if row.output.startswith("✗") else "blue"),
            (duration(row.time) if row.time else "", "green"),
            (f"{100 * row.time / self._time:.1f}%" if self._time and row.time else "", ""),
            (f"{row.calls:,}", ""),
            (amount(row.memory), ""),
        )

    def _total(self, rows: list[Row]) -> Line:
        """Parameters of the outermost modules, since those of all below are in them; of outputs each tensor once."""
        outermost = [row for row in rows if self._above(row.module.path) is None]
        calls, memory = sum(row.calls for row in rows), sum(self._tensors.values())
        cells = (
            (f"{len(rows):,} module{'s' if len(rows) != 1 else ''}", ""),
            (f"{sum(row.module.parameters for row in outermost):,}", ""),
            ("", ""),
            (duration(self._time) if self._time else "", "green"),
            ("", ""),
            (f"{calls:,}", ""),
            (amount(memory), ""),
        )
        return Line((("total", "bold"),), cells, COLUMNS)
