"""The columns of the rows of a page: a number for each fact; texts, sites and tensors are numbers in tables."""

from __future__ import annotations

from typing import Any, NamedTuple

from insitu.trace.costs import Costs
from insitu.trace.event import Call, Event, Mark, ModuleFacts, Site, TensorFacts, Variable, tensors
from insitu.trace.operation import operation
from insitu.view.collective_text import collective_part
from insitu.view.name import call_marks, compact, module_type
from insitu.view.number import MOST_EXACT
from insitu.view.page.flags import IS_ORIGIN
from insitu.view.page.origin_reason import origin_reason
from insitu.view.page.packing import PackedColumns, RowBuffer
from insitu.view.page.rows import Heading, PageRow, RowFacts
from insitu.view.page.tables import Tables
from insitu.view.value import BARE, held_text, result, safe, short, tensor, value_text

# The number of a kind is its place; the page gets the list with its data. Those up to "python" are calls.
KINDS = ("module", "function", "aten", "python", "variable", "note", "trouble", "step", "expression", "pass", "token")
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
UNIT = 100  # nanoseconds: as exact as times are shown
MOST_MESSAGE = 2000
MOST_ARGUMENT = 400
MOST_NAME = 200
MOST_FLOAT = 10**300
NO_NUMBER, INTEGER, FLOAT = 0, 1, 2


class RowCells(NamedTuple):
    """The columns of a row, by name; 0 where a row has no such fact. `calls.js` and `details.js` read them."""

    id: int
    depth: int
    alike: int  # how many siblings that are alike begin here
    kind: int
    label: int
    name: int
    start: int
    thread: int
    step: int
    rank: int
    module: int = 0
    output: int = 0
    args: int = 0
    site: int = 0
    defined: int = 0
    duration: int = 0  # 1 more than it is, so that 0 means unknown
    inside: int = 0  # the time of the calls inside
    flops: int = 0
    forward: int = 0  # the row of the forward call, 1 more than it is
    is_backward: int = 0
    marks: int = 0
    raised: int = 0
    message: int = 0
    odd: int = 0  # flags of what is not finite
    before: int = 0  # what a variable held before
    why: int = 0  # the reason, where NaN or Inf began


DELTAS = frozenset({"id", "start", "forward", "site"})  # columns in which neighbours are close


class RowColumns:
    """Collects the columns of rows."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows = RowBuffer(len(RowCells._fields))
        self._names: dict[str, int] = {}
        self._types: dict[ModuleFacts, int] = {}
        self._inputs: list[int] = []
        self._input_counts: list[int] = []
        self._outputs: list[int] = []
        self._output_counts: list[int] = []
        self._number_kinds: list[int] = []
        self._numbers: list[float | None] = []
        self._held: dict[tuple[int, int | None, str], int] = {}  # the text of each variable, by rank, call and name

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: PageRow, facts: RowFacts) -> None:
        """Add a row."""
        inputs, outputs = len(self._inputs), len(self._outputs)
        self._rows.append(self._cells(row, facts))
        self._add_number(row.event)
        self._input_counts.append(len(self._inputs) - inputs)
        self._output_counts.append(len(self._outputs) - outputs)

    def _cells(self, row: PageRow, facts: RowFacts) -> RowCells:
        event = row.event
        if isinstance(event, Call):  # as most often
            return self._call(event, row, facts.costs.get(event.id) or Costs(), facts.odd.get(event.id, 0))
        if isinstance(event, Variable):
            return self._variable(event, row, facts.odd.get(event.id, 0))
        if isinstance(event, Mark):
            return self._plain(event.id, row, safe(event.text), event)
        duration = event.duration // UNIT + 1 if event.duration is not None else 0
        return self._plain(-1, row, event.title, event.first, duration, event.site)

    def _add_number(self, event: Event | Heading) -> None:
        """Add the number that was returned, or that a variable holds."""
        if isinstance(event, Call):
            item: Any = event.result
        else:
            item = getattr(event, "value", None)
        kind = _number_kind(item)
        self._number_kinds.append(kind)
        if kind == NO_NUMBER:
            self._numbers.append(None)
        else:
            self._numbers.append(float(item))

    def _plain(
        self, id: int, row: PageRow, text: str, event: Event, duration: int = 0, site: Site | None = None
    ) -> RowCells:
        """A heading or a mark; the event says when it happened, and where."""
        label = self._tables.text(short(text, MOST_MESSAGE))
        return RowCells(
            id=id,
            depth=row.depth,
            alike=row.alike,
            kind=NUMBERS[row.kind],
            label=label,
            name=label,
            start=event.start // UNIT,
            thread=event.thread,
            step=event.step,
            rank=event.rank,
            site=self._tables.site(site),
            duration=duration,
        )

    def _variable(self, event: Variable, row: PageRow, odd: int) -> RowCells:
        tables = self._tables
        self._outputs += [tables.tensor(facts) for facts in tensors(event.value)]
        name = tables.text(short(safe(event.name), MOST_NAME))
        held = 0
        if event.changes != ("deleted",):
            held = tables.text(held_text(event.value))
        return RowCells(
            id=event.id,
            depth=row.depth,
            alike=row.alike,
            kind=NUMBERS["variable"],
            label=name,
            name=name,
            start=event.start // UNIT,
            thread=event.thread,
            step=event.step,
            rank=event.rank,
            output=held,
            args=tables.text(f"changed\t{', '.join(event.changes)}"),
            site=tables.site(event.site),
            odd=odd,
            before=self._held_before(event, held),
        )

    def _held_before(self, event: Variable, held: int) -> int:
        """The text of what a variable held before it changed; remembers what it holds now."""
        variable = (event.rank, event.parent, event.name)
        before = self._held.get(variable, 0)
        self._held[variable] = held
        if event.changes == ("new",):
            return 0
        return before

    def _call(self, call: Call, row: PageRow, costs: Costs, odd: int) -> RowCells:
        tables, out = self._tables, call.result
        self._inputs += [tables.tensor(facts) for facts in call.inputs]
        if type(out) is TensorFacts:
            self._outputs.append(tables.tensor(out))
            output = tensor(out)
        else:
            self._outputs += [tables.tensor(facts) for facts in call.outputs]
            output = result(out)
        duration = inside = 0
        if call.duration is not None:
            duration = call.duration // UNIT + 1
            inside = (call.duration - costs.own) // UNIT
        # In the order of the fields, which keywords would make ten times as slow: most rows are calls.
        cells = (
            call.id,
            row.depth,
            row.alike,
            NUMBERS[call.kind],
            self._label(call),
            self._name(call.name),
            call.start // UNIT,
            call.thread,
            call.step,
            call.rank,
            tables.module(call.module),
            tables.text(output),
            tables.text(_arguments(call)),
            tables.site(call.site),
            tables.site(call.defined),
            duration,
            inside,
            costs.flops,
            tables.place(call.forward),
            int(call.phase == "backward"),
            tables.text(" ".join(call_marks(call))),
            tables.text(call.raised and safe(call.raised)),
            tables.text(call.message and short(safe(call.message), MOST_MESSAGE)),
            odd,
            0,
            tables.text(origin_reason(call) if odd & IS_ORIGIN else ""),
        )
        return RowCells._make(cells)

    def _label(self, call: Call) -> int:
        """The text of a call in a few words; that of a module is always the same."""
        if call.kind != "module" or call.module is None:
            return self._tables.text(call_label(call))
        number = self._types.get(call.module)
        if number is None:
            number = self._types[call.module] = self._tables.text(call_label(call))
        return number

    def _name(self, name: str) -> int:
        """The text of the whole name of a function."""
        number = self._names.get(name)
        if number is None:
            number = self._names[name] = self._tables.text(safe(name))
        return number

    def fill(self, columns: PackedColumns) -> None:
        """Add the columns."""
        for name, values in zip(RowCells._fields, self._rows.columns(), strict=True):
            columns.integers(f"row.{name}", values, delta=name in DELTAS)
        columns.integers("row.number_kind", self._number_kinds)
        columns.floats("row.number", self._numbers)
        columns.integers("row.taken", self._input_counts)
        columns.integers("row.returned", self._output_counts)
        columns.integers("given", self._inputs, delta=True)
        columns.integers("made", self._outputs, delta=True)


def _number_kind(item: Any) -> int:
    """Whether something is a number that a page can hold, and whether it is an integer."""
    if type(item) is float:
        return FLOAT
    if type(item) is not int or abs(item) >= MOST_FLOAT:
        return NO_NUMBER
    if abs(item) <= MOST_EXACT:
        return INTEGER
    return FLOAT


def call_label(call: Call) -> str:
    """The name of a call in a few words."""
    if call.kind == "module" and call.module is not None:
        return module_type(call.module)
    if call.kind == "aten":
        return f"{safe(call.name)}{collective_part(call)}"
    return compact(call)


def _arguments(call: Call) -> str:
    """The arguments, a line for each, in fields between tabs: its name or place, its value, and two more for tensors.

    These are how many tensors are in it, and what its tensor is called, where the operation knows that.
    """
    names = operation(call.kind, call.name).inputs
    lines: list[str] = []
    place = 0
    for name, item in (*enumerate(call.args), *call.kwargs.items()):
        line = f"{value_text(name)}\t{short(value_text(item), MOST_ARGUMENT)}"
        count = _tensor_count(item)
        if count:
            label = names[place] if place < len(names) else ""
            line += f"\t{count}\t{label}"
        place += count
        lines.append(line)
    return "\n".join(lines)


def _tensor_count(item: Any) -> int:
    """How many tensors are in an argument."""
    if type(item) is TensorFacts:
        return 1
    if type(item) in BARE:
        return 0
    return sum(1 for _ in tensors(item))
