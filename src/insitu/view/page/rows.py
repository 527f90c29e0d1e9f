"""Events as rows of a page: in the order of the tree, siblings that are alike counted, each row with its depth."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, compress

from insitu.trace.arrange import arrange
from insitu.trace.costs import CostLedger, Costs
from insitu.trace.event import Call, Event, Mark, Site
from insitu.trace.fold import Columns, Fold, identical_ranges, path_of
from insitu.trace.folded_steps import Steps, by_step, fold_steps
from insitu.trace.forest import Forest, Group, Node, beginning, group_of
from insitu.trace.nonfinite import NonFiniteEvent, NonFiniteSearch
from insitu.trace.operation import operation
from insitu.trace.order import completion_order
from insitu.view.page.flags import flags
from insitu.view.tree_group import source_text
from insitu.view.tree_name import site_of

Inside = dict[int, list[list[Node]]]


@dataclass(slots=True)
class PageRow:
    """An event in its place; `alike` is how many siblings that are alike begin here, and 0 for the others of them.

    A step and a group have a heading instead of an event.
    """

    event: Event | Heading
    depth: int
    alike: int = 1

    @property
    def kind(self) -> str:
        """The kind of the event or heading; a variable has none of its own."""
        return getattr(self.event, "kind", "variable")


@dataclass(slots=True)
class Heading:
    """The title over several calls, the first of them, and the time from there to the end of the last, if known."""

    kind: str
    title: str
    first: Event
    duration: int | None
    site: Site | None = None


class RowFacts:
    """The costs of calls, and the flags of events that are not finite. Events come in the order in which they ended."""

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
    def found(self) -> dict[int, NonFiniteEvent]:
        """The events that are not finite, by id; ask for them after the last event."""
        return self._search.result()

    @cached_property
    def odd(self) -> dict[int, int]:
        """Their flags."""
        return flags(self.found)


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
        if shown is not None and event.id not in shown:
            continue
        if isinstance(event, Mark) and event.kind == "step":
            continue
        facts.add_flags(event)
        root = forest.add(event)
        if root is not None:
            roots.append(root)
    roots = sorted([*roots, *forest.rest()], key=beginning)
    rows = _stepped(roots, forest)
    if depth is None:
        return list(rows), facts
    return [row for row in rows if row.depth < depth], facts


def row_facts(events: Iterable[Event]) -> RowFacts:
    """The facts about calls that are in no tree."""
    facts = RowFacts()
    for event in completion_order(events):
        facts.add_flags(event)
        facts.add_costs(event)
    return facts


def _stepped(roots: list[Node], forest: Forest) -> Iterator[PageRow]:
    """The rows below those of their steps, if there is more than one step."""
    groups = fold_steps([_top_nodes(nodes, forest) for nodes in by_step(roots)])
    has_ranks = len({node.first.rank for node in roots}) > 1
    has_titles = sum(group.count for group in groups) > 1
    for group in groups:
        inside = _inside(group.folds, forest)
        for number in range(group.count):
            step = _step_nodes(group, number)
            if has_titles:
                heading = _step_heading(list(chain(*step)), has_ranks)
                yield PageRow(heading, 0, group.count * (number == 0))
            for siblings in step:
                yield from _nested(siblings, int(has_titles), inside)


def _step_nodes(group: Steps, number: int) -> list[list[Node]]:
    """The outermost nodes of one of several steps that are alike; those that are alike are together."""
    return [item.nodes[number * item.count : (number + 1) * item.count] for item in group.folds]


def _top_nodes(roots: list[Node], forest: Forest) -> list[Node]:
    """The outermost nodes of a step, in groups."""
    (nodes,) = _without_wrappers(_arranged([roots], None, forest), "", is_inside_call=False)
    return nodes


def _inside(folds: list[Fold], forest: Forest) -> Inside:
    """The siblings in each node, those that are alike together; nodes that are alike have the same rows."""
    found: Inside = {}
    stack = list(folds)
    while stack:
        item = stack.pop()
        if not item.nodes[0].children:
            continue
        path = path_of(item.event)
        columns = [node.children for node in item.nodes]
        if not isinstance(item.event, Group):
            columns = _arranged(columns, item.event, forest)
        columns = _without_wrappers(columns, path, is_inside_call=not isinstance(item.event, Group))
        places = identical_ranges(columns[0], path)
        for node, column in zip(item.nodes, columns, strict=True):
            found[id(node)] = [column[start:end] for start, end in places]
        stack += [Fold([node for column in columns for node in column[start:end]]) for start, end in places]
    return found


def _step_heading(nodes: list[Node], has_ranks: bool) -> Heading:
    """The heading over the calls of a step."""
    whole = group_of("pass", nodes)
    first = whole.first
    title = f"step {first.step}"
    if has_ranks:
        title = f"rank {first.rank} {title}"
    return Heading("step", title, first, whole.duration)


def _group_heading(group: Group) -> Heading:
    """The heading over the calls of a group; the page knows three kinds."""
    kind = group.kind if group.kind in ("pass", "token") else "expression"
    return Heading(kind, _group_title(group), group.first, group.duration, group.site or site_of(group.first))


def _group_title(group: Group) -> str:
    """The source of a group and how much is in it; a pass is below its loop, which says that."""
    first = group.first
    if group.kind != "pass":
        return f"{source_text(group)} · {_content(group)}"
    if group.site is not None:
        return source_text(group)
    if isinstance(first, Call) and first.phase == "backward":  # autograd repeats itself where nobody wrote a loop
        return "repeated"
    return "pass of a loop"


def _content(group: Group) -> str:
    """How many calls a group has, or how many passes a loop."""
    if group.has_passes:
        return f"{len(group.nodes):,} passes"
    if group.calls == 1:
        return "1 call"
    return f"{group.calls:,} calls"


def _nested(alike: list[Node], depth: int, inside: Inside) -> Iterator[PageRow]:
    """Siblings that are alike and everything inside each; a stack, because programs recurse deeper than Python."""
    stack = _stacked(alike, depth)
    while stack:
        node, level, count = stack.pop()
        event = node.event
        if isinstance(event, Group):
            yield PageRow(_group_heading(event), level, count)
        else:
            yield PageRow(event, level, count)
        for deeper in reversed(inside.get(id(node), ())):
            stack += _stacked(deeper, level + 1)


def _arranged(columns: Columns, around: Event | None, forest: Forest) -> Columns:
    """Siblings without those that are not shown, and in groups, as in the tree."""
    seen = [_is_seen(node) for node in columns[0]]
    return arrange([list(compress(nodes, seen)) for nodes in columns], around, forest)


def _without_wrappers(columns: Columns, path: str, *, is_inside_call: bool) -> Columns:
    """Siblings with what is in a loop or line in its place, where that says as much; as in the tree.

    The passes of a loop that are alike are one row. A single pass inside a call, and a line around calls that are
    alike, are the calls in them.
    """
    while True:
        levels = [_wrapper_levels(node, path, is_inside_call) for node in columns[0]]
        if not any(levels):
            return columns
        columns = [list(chain.from_iterable(map(_opened, nodes, levels))) for nodes in columns]


def _wrapper_levels(node: Node, path: str, is_inside_call: bool) -> int:
    """How many levels of a node are left out: a loop, or a loop and its only pass, or a line; 0 if it stays."""
    if not isinstance(node.event, Group):
        return 0
    if node.event.kind == "line":
        return int(_is_one_row(node, path))
    is_even_loop = node.event.has_passes and len({step.signature for step in node.children}) == 1
    if not is_even_loop:
        return 0
    if len(node.children) > 1:
        return 1
    is_left_out = is_inside_call or _is_one_row(node.children[0], path)
    return 1 + int(is_left_out)


def _is_one_row(node: Node, path: str) -> bool:
    """Whether all calls in a node are alike, and so one row."""
    is_call = isinstance(node.children[0].event, Call)
    return is_call and len(identical_ranges(node.children, path)) == 1


def _opened(node: Node, levels: int) -> list[Node]:
    """What is so many levels inside a node."""
    nodes = [node]
    for _ in range(levels):
        nodes = [child for each in nodes for child in each.children]
    return nodes


def _stacked(alike: list[Node], depth: int) -> list[tuple[Node, int, int]]:
    """Siblings that are alike with their depth, the last one first; the first has their number."""
    stack = [(node, depth, 0) for node in reversed(alike)]
    stack[-1] = (alike[0], depth, len(alike))
    return stack


def _is_seen(node: Node) -> bool:
    """Whether a node has a row: incidental calls are left out, as in the tree."""
    event = node.event
    if not isinstance(event, Call) or node.children:
        return True
    if event.raised is not None:
        return True
    return not operation(event.kind, event.name).is_incidental


def places(rows: Iterable[PageRow], first: int = 0) -> dict[int, int]:
    """The numbers of the rows by the ids of their events."""
    return {row.event.id: number for number, row in enumerate(rows, first) if not isinstance(row.event, Heading)}
