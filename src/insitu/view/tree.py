"""The tree: every call under the one that made it, blocks that are alike folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress

from insitu.trace.event import Call, Event, Mark, Variable
from insitu.trace.fold import Columns, Fold, Steps, fold, steps
from insitu.trace.forest import Forest, Group, Node
from insitu.trace.loops import group_siblings
from insitu.trace.operation import operation
from insitu.view.beside import Beside, NothingBeside
from insitu.view.footer import Footer
from insitu.view.line import Line, Span, ViewTraits
from insitu.view.name import is_inner
from insitu.view.source_names import SourceNames
from insitu.view.tree_cells import TreeCells
from insitu.view.tree_name import call_spans, group_spans, site_of, step_spans
from insitu.view.tree_nonfinite import NonFiniteRows
from insitu.view.tree_variable import mark_line, variable_line

# The guide before the row of a child: before the last child, and before the others.
LAST, OTHER = "└─ ", "├─ "
# The guide before the rows below a child.
BELOW = {LAST: "   ", OTHER: "│  ", "": ""}

# A fold, the call around it, its depth, and the two parts of its guide. A plain tuple, because each row has one.
Branch = tuple[Fold, Call | None, int, str, str]


class Tree:
    """Shows each outermost call, once it is complete, with everything inside it.

    Blocks that are alike but for their values are one row, and so are the passes of a loop and the calls of one
    expression: `optimizer.step()`. Such a row has the range of all values and, behind a Σ, the sum of all times. The
    work inside torch's own leaf modules is left out; `unfold` shows everything. Outermost calls and steps can only fold
    when all events are at hand (`live=False`). `costs` adds own time, memory, parameters and operations; `backward`
    puts gradients and backward times beside the calls they belong to; `inputs` the shapes of the inputs, which are
    otherwise shown where the terminal has room for them.

    The first NaN or Inf is named below the tree in which it began. The footer comes at the end.
    """

    traits = ViewTraits(
        nested=True,
        replay={"live": False},
        unlimited={"inputs": False},
        flags={
            "unfold": "show each call of loops, expressions and blocks that are alike",
            "costs": "own time, memory, parameters and FLOPs of each call",
            "backward": "gradients and backward times beside the calls (recorded with --level aten)",
            "inputs": "dtypes and shapes of the inputs of each call",
        },
    )

    def __init__(
        self,
        *,
        unfold: bool = False,
        live: bool = True,
        costs: bool = False,
        backward: bool = False,
        inputs: bool | None = None,
    ) -> None:
        self._unfold = unfold
        has_more = costs or backward
        self._beside: Beside | NothingBeside = NothingBeside()
        if has_more:
            self._beside = Beside(costs=costs, backward=backward)
        self._shows_all = unfold and not has_more
        self._live = live and not backward  # the backward pass comes after the calls that it is shown beside
        self._sources = SourceNames()
        self._nonfinite = NonFiniteRows(self._sources)
        self._cells = TreeCells(self._sources, self._nonfinite, inputs=inputs, more=self._beside.columns)
        self._columns = self._cells.columns
        self._forest = Forest(folding=not unfold)
        self._roots: list[Node] = []
        self._events: list[Event] = []  # since the last outermost call
        self._hidden: set[int] = set()  # those of them that have no rows
        self._ends_with_first = True
        self.footer = Footer()

    def begin(self) -> Iterable[Line]:
        """The heading of a table with additional columns; the default columns need none."""
        if not self._beside.columns:
            return ()
        return (Line((("call", "grey"),), tuple((column.name, "grey") for column in self._columns), self._columns),)

    def __call__(self, event: Event) -> Iterable[Line]:
        """The rows of a tree that this event completes."""
        if type(event) is Mark and event.kind == "step":
            return ()
        self._events.append(event)
        root = self._forest.add(event)
        if root is None:
            return ()
        if not self._live:
            self._roots.append(root)
            return ()
        self._forest.forget()
        return self._complete(root)

    def left_out(self, event: Event) -> None:
        """Count an event without a row: the calls around it include what it costs, and NaN may begin there."""
        self._events.append(event)
        self._hidden.add(event.id)

    def _learn(self) -> None:
        """Learn from all new events what rows need to know; all at once, which is quicker than one by one."""
        events, hidden = self._events, self._hidden
        self._events, self._hidden = [], set()
        if self._beside.columns:
            for event in events:
                self._beside.add(event)
        self._nonfinite.add(events)
        self._sources.add({site.file for site in map(site_of, events) if site is not None})
        calls = [event for event in events if type(event) is Call]
        shown = calls
        if hidden:
            shown = [call for call in calls if call.id not in hidden]
        self.footer.add(shown, left_out=len(calls) - len(shown))

    def _complete(self, root: Node) -> Iterator[Line]:
        """The rows of an outermost call, which is forgotten once they are shown."""
        self._learn()
        yield from self._rows(fold(self._arranged([[root]])[0]))
        first = list(self._nonfinite.lines())
        yield from first
        self._ends_with_first = bool(first)
        self._nonfinite.forget()
        self._beside.forget()

    def finish(self) -> Iterable[Line]:
        """The rows of the calls that wait for the end, and of calls whose parents were not recorded; the footer."""
        self._learn()
        roots = sorted([*self._roots, *self._forest.rest()], key=lambda node: node.first.id)
        self._roots = []
        self._beside.settle()
        self._nonfinite.settle()
        if roots:
            yield from self._steps(steps(self._arranged([roots])[0]))
        missing = self._beside.missing
        if missing is not None:
            yield Line(((missing, "grey"),), (), self._columns)
        yield from self._end(has_rows=bool(roots))

    def _end(self, *, has_rows: bool) -> Iterator[Line]:
        """The first NaN or Inf, again if rows came after its line, and the footer."""
        first = list(self._nonfinite.lines())
        if first:
            yield from first
        elif has_rows or not self._ends_with_first:
            yield from self._nonfinite.repeated_lines()
        footer = self.footer.line(self._nonfinite)
        if footer is not None:
            yield footer

    def _steps(self, groups: list[Steps]) -> Iterator[Line]:
        """The rows of all steps; a single step has no title."""
        ranked = len({fold.nodes[0].first.rank for group in groups for fold in group.folds}) > 1
        for group in groups:
            is_single = len(groups) == 1 and group.count == 1
            if self._live or is_single:
                yield from self._rows(group.folds)
            else:
                yield from self._step(group, ranked)

    def _step(self, group: Steps, ranked: bool) -> Iterator[Line]:
        """The rows of a step, or of several that are the same; a step of one call has its number on that row."""
        title = step_spans(group, ranked)
        if len(group.folds) == 1:
            rows = self._rows(group.folds)
            first = next(rows)
            yield Line((*title, ("  ", "grey"), *first.spans), first.cells, first.columns)
        else:
            yield Line(title, (), self._columns)
            rows = self._rows(group.folds, depth=1)
        yield from rows

    def _rows(self, folds: list[Fold], *, depth: int = 0) -> Iterator[Line]:
        """One row for each fold and everything inside it; a stack, because programs recurse deeper than Python."""
        stack = _branches(folds, None, depth, "")
        while stack:
            item, parent, depth, guide, branch = stack.pop()
            event = item.event
            if isinstance(event, Mark):
                yield mark_line(event, depth, guide + branch, self._columns)
            elif isinstance(event, Variable):
                yield variable_line(item, depth, guide + branch, self._cells)
            else:
                name, cells = self._row(event, item, parent)
                if depth:
                    name = ((guide + branch, "grey"), *name)
                yield Line(name, cells, self._columns, depth)
                if item.nodes[0].children:
                    stack += self._below(event, item, parent, depth, guide + BELOW[branch])

    def _row(self, event: Call | Group, item: Fold, parent: Call | None) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """The spans that name a row, and its cells."""
        more = self._beside.cells(item)
        if isinstance(event, Group):
            return group_spans(event, item), self._cells.of_group(event, item, more)
        return call_spans(event, item, parent), self._cells.of_call(event, item, more)

    def _below(self, event: Call | Group, item: Fold, parent: Call | None, depth: int, guide: str) -> list[Branch]:
        """The rows below a call or a pass of a loop; the calls of an expression are not shown."""
        if isinstance(event, Group):
            if event.kind != "pass":
                return []
            around = parent
        else:
            around = event
        return _branches(item.children(self._arranged), around, depth + 1, guide)

    def _arranged(self, columns: Columns, path: str = "") -> Columns:
        """Siblings without those that are not shown, and in groups."""
        if self._shows_all:
            return columns
        shown = [self._is_shown(node) for node in columns[0]]
        if not all(shown):
            columns = [list(compress(nodes, shown)) for nodes in columns]
        if self._unfold:
            return columns
        return group_siblings(columns, path)

    def _is_shown(self, node: Node) -> bool:
        """Whether a node has a row of its own."""
        if self._beside.hides(node.event):
            return False
        if self._unfold:
            return True
        return not _is_hidden(node)


def _branches(folds: list[Fold], parent: Call | None, depth: int, guide: str) -> list[Branch]:
    """The folds, the last one first."""
    if depth == 0:
        return [(item, parent, depth, guide, "") for item in reversed(folds)]
    branches = [(item, parent, depth, guide, OTHER) for item in reversed(folds)]
    if branches:
        branches[0] = (folds[-1], parent, depth, guide, LAST)
    return branches


def _is_hidden(node: Node) -> bool:
    """Whether a call is left out: an incidental one, or part of how a leaf module of torch does its work."""
    event = node.event
    if not isinstance(event, Call):
        return False
    if event.raised is not None or event.kind == "python":
        return False
    if operation(event.kind, event.name).is_incidental:
        return True
    if event.kind != "function" or node.children:
        return False
    return event.path != "" and is_inner(event)
