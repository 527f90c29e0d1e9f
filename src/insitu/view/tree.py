"""The tree: every call under the one that made it, blocks that are alike folded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import compress

from insitu.trace.arrange import arrange
from insitu.trace.event import Call, Event, Mark, Variable
from insitu.trace.failed_calls import failed_calls
from insitu.trace.fold import Columns, Fold, fold
from insitu.trace.folded_steps import Steps, by_step, fold_steps
from insitu.trace.forest import Forest, Group, Node, beginning
from insitu.trace.operation import operation
from insitu.trace.wrappers import without_wrappers
from insitu.view.beside import Beside, NothingBeside
from insitu.view.footer import Footer
from insitu.view.line import Line, Span, ViewTraits
from insitu.view.name import is_inner
from insitu.view.screen import Opened, Screen
from insitu.view.source_names import SourceNames
from insitu.view.tree_cells import TreeCells
from insitu.view.tree_group import closed_spans, gap_spans, group_spans, present_spans
from insitu.view.tree_name import call_spans, site_of, step_spans
from insitu.view.tree_nonfinite import NonFiniteRows
from insitu.view.tree_row import Gap, TreeRow, note_training, with_gaps
from insitu.view.tree_variable import mark_line, variable_line

# The guide before the row of a child: before the last child, and before the others.
LAST_CHILD, OTHER_CHILD = "└─ ", "├─ "
# The guide before the rows below a child.
BELOW = {LAST_CHILD: "   ", OTHER_CHILD: "│  ", "": ""}

# A row or a gap, its depth, and the two parts of its guide. A plain tuple, because each row has one.
Branch = tuple[TreeRow | Gap, int, str, str]


class Tree:
    """Shows each outermost call, once it is complete, with everything inside it.

    Blocks that are alike but for their values are one row, and so are the passes of a loop and the calls of one
    expression: `optimizer.step()`. Such a row has the range of all values and, behind a Σ, the sum of all times. The
    work inside torch's own leaf modules is left out; `unfold` shows everything. Outermost calls and steps can only fold
    when all events are at hand (`live=False`). The calls of a program are then under the lines that made them, and
    what a library does for a line is one row. `costs` adds own time, memory, parameters and operations; `backward`
    puts gradients and backward times beside the calls they belong to; `inputs` the shapes of the inputs, which are
    otherwise shown where the terminal has room for them. With `rows`, no more than so many lines are shown: rows are
    closed until it fits, the training loop last. `failed` shows only the way to the call that failed.

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
            "failed": "only the way to the call that failed",
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
        rows: int | None = None,
        failed: bool = False,
    ) -> None:
        self._unfold = unfold
        has_more_columns = costs or backward
        self._beside: Beside | NothingBeside = NothingBeside()
        if has_more_columns:
            self._beside = Beside(costs=costs, backward=backward)
        self._shows_all = unfold and not has_more_columns
        needs_all_calls = backward or failed or rows is not None
        self._live = live and not needs_all_calls
        self._sources = SourceNames()
        self._nonfinite = NonFiniteRows(self._sources)
        self._cells = TreeCells(self._sources, self._nonfinite, inputs=inputs, more=self._beside.columns)
        self._columns = self._cells.columns
        self._forest = Forest(folding=not unfold)
        self._roots: list[Node] = []
        self._events: list[Event] = []  # since the last outermost call
        self._hidden: set[int] = set()  # those of them that have no rows
        self._ends_with_first = True  # whether the last line names the first NaN or Inf, if there is one
        self._most_rows = rows
        self._shows_only_failure = failed
        self.footer = Footer()
        self._has_steps = False  # whether the outermost rows are steps
        self.is_cut = False  # whether a row was closed, or left out, to make the others fit

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
        yield from self._lines(self._rows(fold(self._arranged([[root]], None)[0]), None), None)
        first = list(self._nonfinite.lines())
        yield from first
        self._ends_with_first = bool(first)
        self._nonfinite.forget()
        self._beside.forget()

    def finish(self) -> Iterable[Line]:
        """The rows of the calls that wait for the end, and of calls whose parents were not recorded; the footer."""
        self._learn()
        roots = sorted([*self._roots, *self._forest.rest()], key=beginning)
        self._roots = []
        self._beside.settle()
        self._nonfinite.settle()
        if roots:
            groups = fold_steps([self._arranged([nodes], None)[0] for nodes in by_step(roots)])
            rows = self._step_rows(groups)
            yield from self._lines(rows, self._opened(rows, roots))
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

    def _step_rows(self, groups: list[Steps]) -> list[TreeRow]:
        """The rows of all steps; a single step has no title."""
        is_single = len(groups) == 1 and groups[0].count == 1
        if self._live or is_single:
            return [row for group in groups for row in self._rows(group.folds, None)]
        self._has_steps = True
        ranks = {item.nodes[0].first.rank for group in groups for item in group.folds}
        return [self._step_row(group, has_ranks=len(ranks) > 1) for group in groups]

    def _step_row(self, group: Steps, *, has_ranks: bool) -> TreeRow:
        """The row of a step, or of several that are alike; a step of one call has its number on that row."""
        title = step_spans(group, has_ranks)
        if len(group.folds) == 1:
            return TreeRow(group.folds[0], None, (*title, ("  ", "grey")))
        return TreeRow(None, None, title, tuple(group.folds))

    def _rows(self, folds: Iterable[Fold], around: Call | None) -> list[TreeRow]:
        """A row for each fold inside a call, without those that only surround another one."""
        shown = without_wrappers(list(folds), self._arranged, is_inside_call=around is not None)
        rows = [TreeRow(item, around) for item in shown]
        if self._most_rows is not None:
            note_training(rows)
        return rows

    def _opened(self, rows: list[TreeRow], roots: list[Node]) -> Opened[TreeRow] | None:
        """The rows to open; None for all."""
        if self._shows_only_failure:
            opened = self._way_to_failure(rows, roots)
            if opened is not None:
                return opened
        if self._most_rows is None:
            return None
        return Screen(self._inside, lambda row: row.weight, self._most_rows).fit(rows)

    def _way_to_failure(self, rows: list[TreeRow], roots: list[Node]) -> Opened[TreeRow] | None:
        """The rows around the call that failed, and that call; None if no call did."""
        ids = {call.id for call in failed_calls(_calls_at_end(roots))}
        opened: Opened[TreeRow] = {}
        row: TreeRow | None = None
        inside = rows
        while inside:
            found = next((each for each in inside if each.holds(ids)), None)
            if found is None:
                break
            opened[row] = [found]
            row = found
            inside = self._inside(row)
        return opened or None

    def _lines(self, rows: list[TreeRow], opened: Opened[TreeRow] | None) -> Iterator[Line]:
        """The line of each row and of everything inside it; a stack, because programs recurse deeper than Python."""
        stack = _branches(_shown(None, rows, opened), 0, "")
        while stack:
            row, depth, guide, branch = stack.pop()
            if isinstance(row, Gap):
                self.is_cut = True
                yield self._gap(row, depth, guide + branch)
                continue
            inside = self._inside(row)
            is_closed = opened is not None and row not in opened and bool(inside)
            self.is_cut |= is_closed
            yield self._line(row, depth, guide + branch, is_closed)
            stack += _branches(_shown(row, inside, opened), depth + 1, guide + BELOW[branch])

    def _line(self, row: TreeRow, depth: int, guide: str, is_closed: bool) -> Line:
        """The line of a row; a row that is closed says how many calls are in it."""
        item = row.item
        if item is None:
            return Line(row.title, (), self._columns)
        event = item.event
        if isinstance(event, Mark):
            return mark_line(event, depth, guide, self._columns)
        if isinstance(event, Variable):
            return variable_line(item, depth, guide, self._cells)
        name, cells = self._row(event, item, row.around)
        if is_closed:
            name = (*name, *closed_spans(item))
        if depth:
            name = ((guide, "grey"), *name)
        return Line((*row.title, *name), cells, self._columns, depth)

    def _gap(self, gap: Gap, depth: int, guide: str) -> Line:
        """One line for several rows that are not shown."""
        spans = gap_spans(gap)
        if depth:
            spans = ((guide, "grey"), *spans)
        return Line(spans, self._cells.of_gap(gap.times), self._columns, depth)

    def _row(self, event: Call | Group, item: Fold, around: Call | None) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """The spans that name a row, and its cells."""
        more = self._beside.cells(item)
        if isinstance(event, Group):
            name, cells = group_spans(event, item), self._cells.of_group(event, item, more)
        else:
            name, cells = call_spans(event, item, around), self._cells.of_call(event, item, more)
        if self._has_steps and around is None:
            return name, cells  # a step may begin and end in the middle of a pass
        return (*name, *present_spans(item)), cells

    def _inside(self, row: TreeRow) -> list[TreeRow]:
        """The rows inside a row; what a library does is not shown."""
        if row.inside is None:
            row.inside = self._rows_inside(row)
        return row.inside

    def _rows_inside(self, row: TreeRow) -> list[TreeRow]:
        """The rows inside a row, which are found once."""
        item = row.item
        if item is None:
            return self._rows(row.folds, None)
        if not _can_open(item):
            return []
        around = row.around
        if isinstance(item.event, Call):
            around = item.event
        return self._rows(item.children(self._arranged), around)

    def _arranged(self, columns: Columns, around: Event | Group | None) -> Columns:
        """Siblings without those that are not shown, and in groups."""
        if self._shows_all:
            return columns
        shown = [self._is_shown(node) for node in columns[0]]
        if not all(shown):
            columns = [list(compress(nodes, shown)) for nodes in columns]
        if self._unfold:
            return columns
        return arrange(columns, around, self._forest)

    def _is_shown(self, node: Node) -> bool:
        """Whether a node has a row of its own."""
        if self._beside.hides(node.event):
            return False
        if self._unfold:
            return True
        return not _is_hidden(node)


def _can_open(item: Fold) -> bool:
    """Whether a row shows what is inside: what a library does is not shown."""
    event = item.event
    if isinstance(event, Group):
        return event.kind not in ("expression", "rest")
    return isinstance(event, Call) and bool(item.nodes[0].children)


def _calls_at_end(roots: list[Node]) -> Iterator[Event]:
    """The events in the order in which they ended, as far as the last that failed: the innermost first."""
    for root in roots:
        waiting = [root]
        raised: list[Event] = []
        while waiting:
            node = waiting.pop()
            if isinstance(node.event, Call) and node.event.raised is not None:
                raised.append(node.event)
                waiting += node.children
        yield from reversed(raised)


def _shown(row: TreeRow | None, inside: list[TreeRow], opened: Opened[TreeRow] | None) -> Sequence[TreeRow | Gap]:
    """The rows inside a row that are shown, and the gaps between them."""
    if opened is None:
        return inside
    if row not in opened:
        return ()
    return with_gaps(inside, opened[row])


def _branches(rows: Sequence[TreeRow | Gap], depth: int, guide: str) -> list[Branch]:
    """The rows with their guides, the last one first."""
    if depth == 0:
        return [(row, depth, guide, "") for row in reversed(rows)]
    branches: list[Branch] = [(row, depth, guide, OTHER_CHILD) for row in reversed(rows)]
    if branches:
        branches[0] = (rows[-1], depth, guide, LAST_CHILD)
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
