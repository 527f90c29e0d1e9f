"""Events as rows of a page: in the order of the tree, siblings that are alike counted, each row with its depth."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

from insitu.trace.analysis import completed
from insitu.trace.costs import Costs, Ledger
from insitu.trace.event import Call, Event, Mark, Site, TensorFacts, Variable, tensors
from insitu.trace.folding import Fold, path_of, runs, steps
from insitu.trace.grouping import grouped
from insitu.trace.nesting import Forest, Group, Node
from insitu.trace.operation import operation
from insitu.view.name import compact, expression, module_type
from insitu.view.page.nonfinite import Nonfinite
from insitu.view.page.packing import Columns
from insitu.view.page.tables import Tables
from insitu.view.value import MOST_EXACT, held_text, result, safe, short, tensor, value_text

# The number of a kind is its place; `model.js` has the same list.
KINDS = ("module", "function", "aten", "python", "variable", "note", "trouble", "step", "expression", "pass")
NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
Inside = dict[int, list[list[Node]]]

UNIT = 100  # nanoseconds: as exact as times are shown
DELTAS = frozenset({"id", "start", "forward", "site"})
MOST_MESSAGE = 2000
MOST_FLOAT = 10**300
_INTEGERS = (
    *("id", "depth", "run", "kind", "label", "name", "module", "output", "args", "site", "defined", "start"),
    *("duration", "inside", "flops", "forward", "is_backward", "thread", "step", "rank", "raised", "message", "odd"),
)
NO_NUMBER, INTEGER, FLOAT = 0, 1, 2


@dataclass(slots=True)
class Row:
    """An event in its place; `run` is how many siblings that are alike begin here, and 0 for the others of them.

    A step and a group have no event but a heading.
    """

    event: Event | Heading
    depth: int
    run: int = 1


@dataclass(slots=True)
class Heading:
    """What stands over several calls, the first of them, and the time from there to the end of the last."""

    kind: str
    title: str
    first: Event
    duration: int
    site: Site | None = None


@dataclass(slots=True)
class Found:
    """What was found out about the calls while they were put into the tree."""

    costs: dict[int, Costs]
    odd: dict[int, int]


def ordered(
    events: Sequence[Event], *, shown: Container[int] | None = None, depth: int | None = None
) -> tuple[list[Row], Found]:
    """The rows of a trace, and what was found out on the way; with `depth` only so many levels.

    With `shown` only the events with these ids have rows; the others are still counted in what those around them cost.
    """
    forest, ledger, nonfinite = Forest(), Ledger(), Nonfinite()
    found = Found({}, {})
    roots: list[Node] = []
    for event in completed(events):
        if isinstance(event, Call):
            found.costs[event.id] = ledger.add(event)
        if shown is not None and event.id not in shown:
            continue
        if isinstance(event, Mark):
            if event.kind == "step":
                continue
        elif flags := nonfinite(event):
            found.odd[event.id] = flags
        root = forest.add(event)
        if root is not None:
            roots.append(root)
    roots = sorted([*roots, *forest.rest()], key=lambda node: node.first.id)
    rows = _stepped(_arranged([roots])[0])
    return [row for row in rows if depth is None or row.depth < depth], found


def judged(events: Iterable[Event]) -> Found:
    """What is found out about calls that stand in no tree."""
    ledger, nonfinite, found = Ledger(), Nonfinite(), Found({}, {})
    for event in completed(events):
        if isinstance(event, (Call, Variable)) and (flags := nonfinite(event)):
            found.odd[event.id] = flags
        if isinstance(event, Call):
            found.costs[event.id] = ledger.add(event)
    return found


def _stepped(roots: list[Node]) -> Iterator[Row]:
    """The rows below those of their steps, if there is more than one step."""
    groups = steps(roots)
    ranked = len({node.first.rank for node in roots}) > 1
    titled = sum(group.count for group in groups) > 1
    for group in groups:
        inside = _inside(group.folds)
        for number in range(group.count):
            copy = [item.nodes[number * item.count : (number + 1) * item.count] for item in group.folds]
            if titled:
                heading = _step_heading([node for run in copy for node in run], ranked)
                yield Row(heading, 0, group.count if number == 0 else 0)
            for run in copy:
                yield from _nested(run, int(titled), inside)


def _inside(folds: list[Fold]) -> Inside:
    """The runs of siblings in each node; in nodes that are alike they are the same, so that their rows are too."""
    found: Inside = {}
    stack = list(folds)
    while stack:
        item = stack.pop()
        if not item.nodes[0].children:
            continue
        path = path_of(item.event)
        columns = [node.children for node in item.nodes]
        columns = columns if isinstance(item.event, Group) else _arranged(columns, path)
        places = runs(columns[0], path)
        for node, column in zip(item.nodes, columns, strict=True):
            found[id(node)] = [column[start:end] for start, end in places]
        stack += [Fold([node for column in columns for node in column[start:end]]) for start, end in places]
    return found


def _step_heading(nodes: list[Node], ranked: bool) -> Heading:
    whole = Group("pass", nodes)
    first = whole.first
    title = f"rank {first.rank} step {first.step}" if ranked else f"step {first.step}"
    return Heading("step", title, first, whole.duration)


def _group_heading(group: Group) -> Heading:
    first = group.first
    site = None if isinstance(first, Mark) else first.site
    if group.kind == "expression":
        title = f"{expression(site)} · {len(group.nodes)} calls"
    else:  # autograd repeats itself where nobody wrote a loop
        title = "repeated" if isinstance(first, Call) and first.phase == "backward" else "pass of a loop"
    return Heading(group.kind, title, first, group.duration, site)


def _nested(run: list[Node], depth: int, inside: Inside) -> Iterator[Row]:
    """Siblings that are alike and all that lies in each; a stack, because programs recurse deeper than Python."""
    stack = _stacked(run, depth)
    while stack:
        node, level, count = stack.pop()
        event = node.event
        yield Row(_group_heading(event) if isinstance(event, Group) else event, level, count)
        for deeper in reversed(inside.get(id(node), ())):
            stack += _stacked(deeper, level + 1)


def _arranged(columns: list[list[Node]], path: str = "") -> list[list[Node]]:
    """Siblings without those that are not seen, and in groups, as in the tree."""
    seen = [_is_seen(node) for node in columns[0]]
    return grouped([list(compress(nodes, seen)) for nodes in columns], path)


def _stacked(run: list[Node], depth: int) -> list[tuple[Node, int, int]]:
    """The siblings of a run, the last one first."""
    return [(node, depth, len(run) if node is run[0] else 0) for node in reversed(run)]


def _is_seen(node: Node) -> bool:
    """Attributes that are only looked at are left out, as in the tree."""
    event = node.event
    if not isinstance(event, Call) or event.raised is not None or node.children:
        return True
    return not operation(event.kind, event.name).is_incidental


def places(rows: Iterable[Row], first: int = 0) -> dict[int, int]:
    """The numbers of the rows by the ids of their events."""
    return {row.event.id: number for number, row in enumerate(rows, first) if not isinstance(row.event, Heading)}


class RowColumns:
    """Collects the columns of rows."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._rows: list[tuple[int, ...]] = []
        self._given: list[int] = []
        self._taken: list[int] = []
        self._made: list[int] = []
        self._returned: list[int] = []
        self._kinds: list[int] = []
        self._numbers: list[float | None] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row, found: Found) -> None:
        """Add a row."""
        event = row.event
        before = (len(self._given), len(self._made))
        if isinstance(event, Heading):
            cells = self._plain(-1, row, event.kind, event.title, event.first, event.duration + UNIT, event.site)
        elif isinstance(event, Mark):
            cells = self._plain(event.id, row, event.kind, safe(event.text), event)
        elif isinstance(event, Variable):
            cells = self._variable(event, row, found.odd.get(event.id, 0))
        else:
            cells = self._call(event, row, found.costs.get(event.id) or Costs(), found.odd.get(event.id, 0))
        self._rows.append(cells)
        self._add_number(event)
        self._taken.append(len(self._given) - before[0])
        self._returned.append(len(self._made) - before[1])

    def _add_number(self, event: Event | Heading) -> None:
        """What was returned, or what a variable is, if that is a number."""
        item: Any = event.result if isinstance(event, Call) else getattr(event, "value", None)
        kind = {int: INTEGER, float: FLOAT}.get(type(item), NO_NUMBER)
        if kind == INTEGER and abs(item) > MOST_EXACT:
            kind = FLOAT if abs(item) < MOST_FLOAT else NO_NUMBER
        self._kinds.append(kind)
        self._numbers.append(float(item) if kind else None)

    def _plain(
        self, id: int, row: Row, kind: str, text: str, event: Event, time: int = 0, site: Site | None = None
    ) -> tuple[int, ...]:
        """A row of what is no call; the event says when it was, and where."""
        label = self._tables.text(short(text, MOST_MESSAGE))
        head = (id, row.depth, row.run, NUMBERS[kind], label, label, 0, 0, 0, self._tables.site(site), 0)
        return (*head, event.start // UNIT, time // UNIT, 0, 0, 0, 0, event.thread, event.step, event.rank, 0, 0, 0)

    def _variable(self, event: Variable, row: Row, odd: int) -> tuple[int, ...]:
        tables = self._tables
        self._made += [tables.tensor(facts) for facts in tensors(event.value)]
        name = tables.text(short(safe(event.name), 200))
        output = tables.text("" if event.changes == ("deleted",) else held_text(event.value))
        head = (event.id, row.depth, row.run, NUMBERS["variable"], name, name, 0, output)
        more = (tables.text(f"changed\t{', '.join(event.changes)}"), tables.site(event.site), 0, event.start // UNIT, 0)
        return (*head, *more, 0, 0, 0, 0, event.thread, event.step, event.rank, 0, 0, odd)

    def _call(self, call: Call, row: Row, costs: Costs, odd: int) -> tuple[int, ...]:
        tables, out = self._tables, call.result
        self._given += [tables.tensor(facts) for facts in call.inputs]
        self._made += (
            [tables.tensor(out)] if type(out) is TensorFacts else [tables.tensor(item) for item in call.outputs]
        )
        time = call.duration
        output = tensor(out) if type(out) is TensorFacts else result(out)
        forward = tables.places.get(call.forward, -1) + 1 if call.forward is not None else 0
        return (
            *(
                call.id,
                row.depth,
                row.run,
                NUMBERS[call.kind],
                tables.text(label(call)),
                tables.text(safe(call.name)),
            ),
            *(tables.module(call.module), tables.text(output), tables.text(_arguments(call)), tables.site(call.site)),
            *(tables.site(call.defined), call.start // UNIT, time // UNIT + 1 if time is not None else 0),
            *(
                (time - costs.own) // UNIT if time is not None else 0,
                costs.flops,
                forward,
                int(call.phase == "backward"),
            ),
            *(call.thread, call.step, call.rank, tables.text(call.raised and safe(call.raised))),
            *(tables.text(call.message and short(safe(call.message), MOST_MESSAGE)), odd),
        )

    def fill(self, columns: Columns) -> None:
        """Add the columns."""
        for place, name in enumerate(_INTEGERS):
            columns.integers(f"row.{name}", [row[place] for row in self._rows], delta=name in DELTAS)
        columns.integers("row.number_kind", self._kinds)
        columns.floats("row.number", self._numbers)
        columns.integers("row.taken", self._taken)
        columns.integers("row.returned", self._returned)
        columns.integers("given", self._given, delta=True)
        columns.integers("made", self._made, delta=True)


def label(call: Call) -> str:
    """What was called, in a few words."""
    if call.kind == "module" and call.module is not None:
        return module_type(call.module)
    return safe(call.name) if call.kind == "aten" else compact(call)


def _arguments(call: Call) -> str:
    """The arguments, a line for each: its name or place, a tab, what it is."""
    lines = [f"{place}\t{short(value_text(item), 400)}" for place, item in enumerate(call.args)]
    lines += [f"{value_text(name)}\t{short(value_text(item), 400)}" for name, item in call.kwargs.items()]
    return "\n".join(lines)
