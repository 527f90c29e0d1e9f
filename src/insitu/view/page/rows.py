"""Events as rows of a page: in the order of the tree, siblings that are alike counted, each row with its depth."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress

from insitu.trace.costs import CostLedger, Costs
from insitu.trace.event import Call, Event, Mark, Site
from insitu.trace.fold import Fold, identical_ranges, path_of, steps
from insitu.trace.forest import Forest, Group, Node
from insitu.trace.loops import group_siblings
from insitu.trace.nonfinite import NonFiniteSearch
from insitu.trace.operation import operation
from insitu.trace.order import completion_order
from insitu.view.name import expression
from insitu.view.page.flags import flags

Inside = dict[int, list[list[Node]]]


@dataclass(slots=True)
class PageRow:
    """An event in its place; `run` is how many siblings that are alike begin here, and 0 for the others of them.

    A step and a group have a heading instead of an event.
    """

    event: Event | Heading
    depth: int
    run: int = 1

    @property
    def kind(self) -> str:
        """The kind of the event or heading; a variable has none of its own."""
        return getattr(self.event, "kind", "variable")


@dataclass(slots=True)
class Heading:
    """The title over several calls, the first of them, and the time from there to the end of the last."""

    kind: str
    title: str
    first: Event
    duration: int
    site: Site | None = None


class RowFacts:
    """What the page shows about events: costs of calls, flags of what is not finite. Events come as they ended."""

    def __init__(self) -> None:
        self.costs: dict[int, Costs] = {}
        self._ledger, self._search = CostLedger(), NonFiniteSearch()

    def add_costs(self, event: Event) -> None:
        """Count what a call costs."""
        if isinstance(event, Call):
            self.costs[event.id] = self._ledger.add(event)

    def add_flags(self, event: Event) -> None:
        """Follow NaN and Inf through an event."""
        if not isinstance(event, Mark):
            self._search.add(event)

    @cached_property
    def odd(self) -> dict[int, int]:
        """The flags of events that are not finite, by id; ask for them after the last event."""
        return flags(self._search)


def page_rows(
    events: Sequence[Event], *, shown: Container[int] | None = None, depth: int | None = None
) -> tuple[list[PageRow], RowFacts]:
    """The rows of a trace and the facts about them; with `depth` only so many levels.

    With `shown` only the events with these ids have rows; calls around the others still include their costs.
    """
    forest, facts = Forest(), RowFacts()
    roots: list[Node] = []
    for event in completion_order(events):
        facts.add_costs(event)
        is_shown = shown is None or event.id in shown
        if not is_shown or (isinstance(event, Mark) and event.kind == "step"):
            continue
        facts.add_flags(event)
        root = forest.add(event)
        if root is not None:
            roots.append(root)
    roots = sorted([*roots, *forest.rest()], key=lambda node: node.first.id)
    rows = _stepped(_arranged([roots])[0])
    return [row for row in rows if depth is None or row.depth < depth], facts


def row_facts(events: Iterable[Event]) -> RowFacts:
    """The facts about calls that are in no tree."""
    facts = RowFacts()
    for event in completion_order(events):
        facts.add_flags(event)
        facts.add_costs(event)
    return facts


def _stepped(roots: list[Node]) -> Iterator[PageRow]:
    """The rows below those of their steps, if there is more than one step."""
    groups = steps(roots)
    ranked = len({node.first.rank for node in roots}) > 1
    titled = sum(group.count for group in groups) > 1
    for group in groups:
        inside = _inside(group.folds)
        for number in range(group.count):
            copy = [item.nodes[number * item.count : (number + 1) * item.count] for item in group.folds]
            if titled:
                yield PageRow(_step_heading(list(chain(*copy)), ranked), 0, 0 if number else group.count)
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
        if not isinstance(item.event, Group):
            columns = _arranged(columns, path)
        places = identical_ranges(columns[0], path)
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


def _nested(run: list[Node], depth: int, inside: Inside) -> Iterator[PageRow]:
    """Siblings that are alike and everything inside each; a stack, because programs recurse deeper than Python."""
    stack = _stacked(run, depth)
    while stack:
        node, level, count = stack.pop()
        event = node.event
        yield PageRow(_group_heading(event) if isinstance(event, Group) else event, level, count)
        for deeper in reversed(inside.get(id(node), ())):
            stack += _stacked(deeper, level + 1)


def _arranged(columns: list[list[Node]], path: str = "") -> list[list[Node]]:
    """Siblings without those that are not shown, and in groups, as in the tree."""
    seen = [_is_seen(node) for node in columns[0]]
    return group_siblings([list(compress(nodes, seen)) for nodes in columns], path)


def _stacked(run: list[Node], depth: int) -> list[tuple[Node, int, int]]:
    """The siblings of a run, the last one first."""
    return [(node, depth, len(run) if node is run[0] else 0) for node in reversed(run)]


def _is_seen(node: Node) -> bool:
    """Whether a node has a row: incidental calls are left out, as in the tree."""
    event = node.event
    if not isinstance(event, Call) or event.raised is not None or node.children:
        return True
    return not operation(event.kind, event.name).is_incidental


def places(rows: Iterable[PageRow], first: int = 0) -> dict[int, int]:
    """The numbers of the rows by the ids of their events."""
    return {row.event.id: number for number, row in enumerate(rows, first) if not isinstance(row.event, Heading)}
