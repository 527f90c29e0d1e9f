"""Folding: blocks, passes of a loop and steps that are alike as one row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any

from insitu.trace.event import Call, Event, Mark, Variable
from insitu.trace.forest import ODD, Group, Node, have_same_shapes, own_key, value_key
from insitu.trace.path import relative

# Siblings, and beside them those of blocks that are alike: each list has the same structure.
Columns = list[list[Node]]
Arrange = Callable[[Columns, Event | Group], Columns]

LOOPS = ("loop", "function")  # groups that have passes
FRAMES = (*LOOPS, "line")


@dataclass(slots=True, eq=False)
class Fold:
    """The nodes of one row, in the order in which they began.

    The first `count` nodes are siblings that are alike. The row is inside a row for `blocks` blocks or passes, and
    `present` of them have it.
    """

    nodes: list[Node]
    count: int = 1
    present: int = 1
    blocks: int = 1

    @property
    def event(self) -> Event | Group:
        """The event of the first node."""
        return self.nodes[0].event

    @property
    def near(self) -> int:
        """How many of the first nodes are inside the same call."""
        parent = self.nodes[0].first.parent
        for index, node in enumerate(self.nodes):
            if node.first.parent != parent:
                return index
        return len(self.nodes)

    @property
    def passes(self) -> list[int]:
        """For a loop, the number of passes each time it ran; a line runs once."""
        if isinstance(self.event, Group) and self.event.kind in LOOPS:
            return [len(node.children) for node in self.nodes]
        return [1] * len(self.nodes)

    @property
    def is_single_pass(self) -> bool:
        """Whether nothing is repeated."""
        return max(self.passes) == 1

    @property
    def marks(self) -> int:
        """The marks of all nodes."""
        found = 0
        for node in self.nodes:
            found |= node.marks
        return found

    def children(self, arrange: Arrange | None = None) -> list[Fold]:
        """The rows inside these nodes; `arrange` may leave out some, or group them."""
        blocks = self.nodes
        if isinstance(self.event, Group) and self.event.kind in LOOPS:
            blocks = [step for node in blocks for step in node.children]
        return _merge(blocks, arrange)


def without_frames(items: list[Fold], arrange: Arrange, *, is_inside_call: bool) -> list[Fold]:
    """Rows without those that only surround another one: a loop of one call is that call, several times."""
    found: list[Fold] = []
    for item in items:
        if isinstance(item.event, Group) and item.event.kind in FRAMES:
            found += _without_frame(item, arrange, is_inside_call=is_inside_call)
        else:
            found.append(item)
    return found


def _without_frame(item: Fold, arrange: Arrange, *, is_inside_call: bool) -> list[Fold]:
    """The rows in place of one: those inside it if it is a single pass in a call, the only call if there is no more."""
    inside = item.children(arrange)
    if is_inside_call and item.is_single_pass:
        return inside
    only = _only_call(inside, arrange)
    passes = set(item.passes)
    if only is None or len(passes) > 1:
        return [item]
    is_loop_of_models = only.nodes[0].first.kind == "module" and not item.is_single_pass  # type: ignore[union-attr]
    if is_loop_of_models and not is_inside_call:
        return [item]
    return [Fold(only.nodes, only.count * passes.pop(), item.present, item.blocks)]


def _only_call(rows: list[Fold], arrange: Arrange) -> Fold | None:
    """The call that is in all passes, and alone there, be it in lines and functions that hold nothing else."""
    while len(rows) == 1 and rows[0].present == rows[0].blocks:
        (row,) = rows
        if isinstance(row.event, Call):
            return row
        is_frame = isinstance(row.event, Group) and row.event.kind in FRAMES
        if not is_frame or not row.is_single_pass:
            return None
        rows = row.children(arrange)
    return None


def _merge(blocks: list[Node], arrange: Arrange | None) -> list[Fold]:
    """The rows inside several blocks. Those of blocks with the same signature are found at once."""
    alike: dict[int, list[Node]] = {}
    for block in blocks:
        alike.setdefault(block.signature, []).append(block)
    parts = [_rows(part, arrange) for part in alike.values()]
    if len(parts) == 1:
        return parts[0]
    rows = _MergedRows(len(blocks))
    for part in parts:
        rows.add(part)
    return rows.folds()


def _rows(blocks: list[Node], arrange: Arrange | None) -> list[Fold]:
    """The rows inside blocks that are alike."""
    first = blocks[0]
    if not first.children:
        return []
    columns = [block.children for block in blocks]
    if arrange is not None and not isinstance(first.event, Group):
        columns = arrange(columns, first.event)
    return _folds(columns, path_of(first.event))


class _MergedRows:
    """The rows of blocks that differ: those from the same place are one, each after the row it follows."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._found: dict[Hashable, list[Fold]] = {}
        self._next: dict[Hashable, Hashable] = {}
        self._tail: Hashable = None

    def add(self, part: list[Fold]) -> None:
        """Add the rows of blocks that are alike."""
        keys = _keys(part)
        before: Hashable = None
        if part and not any(key in self._found for key in keys):
            before = self._last_before(part[0])
        for key, item in zip(keys, part, strict=True):
            if key not in self._found:
                self._insert(key, before)
            self._found[key].append(item)
            before = key

    def _last_before(self, item: Fold) -> Hashable:
        """The last row on an earlier line; the very last one if the same line has a row: it is a later pass then."""
        file, line = _line(item)
        before: Hashable = None
        for key, (other, *_) in self._found.items():
            other_file, other_line = _line(other)
            if other_file != file or other_line == line:
                return self._tail
            if other_line < line:
                before = key
        return before

    def _insert(self, key: Hashable, before: Hashable) -> None:
        self._found[key] = []
        self._next[key] = self._next.get(before)
        self._next[before] = key
        if before == self._tail:
            self._tail = key

    def folds(self) -> list[Fold]:
        """The rows in order."""
        found = []
        key = self._next.get(None)
        while key is not None:
            found.append(self._joined(self._found[key]))
            key = self._next[key]
        return found

    def _joined(self, items: list[Fold]) -> Fold:
        if len(items) == 1:
            nodes = items[0].nodes
        else:
            nodes = sorted(chain.from_iterable(item.nodes for item in items), key=_beginning)
        present = sum(item.present for item in items)
        return Fold(nodes, max(item.count for item in items), present, self._blocks)


def _beginning(node: Node) -> int:
    return node.first.id


def _line(item: Fold) -> tuple[str, int]:
    """The file and the line of a row."""
    site = getattr(item.event, "site", None)
    if site is None:
        return ("", 0)
    return (site.file, site.line)


def _keys(part: list[Fold]) -> list[Hashable]:
    """A key for each row; rows that come again in the same block are numbered."""
    seen: dict[Hashable, int] = {}
    found: list[Hashable] = []
    for item in part:
        key = _key(item.nodes[0])
        seen[key] = number = seen.get(key, -1) + 1
        found.append((key, number))
    return found


def _key(node: Node) -> Hashable:
    """The key of a row: where it is in the source, and what was called."""
    event = node.event
    if isinstance(event, Group):
        return (event.kind, event.loop, _spot(event))
    if isinstance(event, Mark):
        return (event.kind, event.text)
    if isinstance(event, Variable):
        return (_spot(event), event.name)
    if event.kind == "module" and event.module is not None:
        module = event.module
        is_odd = bool(node.marks & ODD) and any(part.isdigit() for part in module.path.split("."))
        facts = (module.type, module.parameters, value_key(module.settings))
        return (_spot(event), _numberless(module.path), facts, is_odd, event.raised)
    return (_spot(event), event.kind, event.name, event.phase, event.raised)


def _spot(event: Any) -> Hashable:
    site = event.site
    if site is None:
        return None
    return (site.file, site.line, site.start, site.end)


def fold(nodes: list[Node], base: Event | Group | None = None) -> list[Fold]:
    """Siblings with each run of alike ones as one: modules `h.0`, `h.1`, …, or one line of a loop run again."""
    return _folds([nodes], path_of(base))


def path_of(base: Event | Group | None) -> str:
    """The path that the names of modules inside an event leave out."""
    if isinstance(base, Call):
        return base.path
    return ""


def _folds(columns: Columns, path: str) -> list[Fold]:
    found = []
    blocks = len(columns)
    for start, end in identical_ranges(columns[0], path):
        if end - start == 1:
            nodes = [siblings[start] for siblings in columns]
        else:
            nodes = list(chain.from_iterable([siblings[start:end] for siblings in columns]))
        found.append(Fold(nodes, end - start, blocks, blocks))
    return found


def identical_ranges(nodes: list[Node], path: str) -> list[tuple[int, int]]:
    """The first and the last index of each series of siblings that are alike."""
    if len(nodes) < 2:
        return [(0, 1)] * len(nodes)
    starts = [index for index, pair in enumerate(pairwise(nodes), 1) if not _are_alike(*pair, path)]
    return list(pairwise((0, *starts, len(nodes))))


def _are_alike(one: Node, other: Node, path: str) -> bool:
    if one.signature != other.signature or place(one.event, path) != place(other.event, path):
        return False
    if isinstance(one.event, Group) or isinstance(other.event, Group):
        return True
    if own_key(one.event) != own_key(other.event):
        return False
    is_other_module = isinstance(one.event, Call) and one.event.module is not getattr(other.event, "module", None)
    return not is_other_module or have_same_shapes(one, other)


def place(event: Event | Group, base: str) -> Hashable:
    """The place that siblings must share to be folded: numbered modules their list, other calls their line."""
    if isinstance(event, Group):
        return (event.kind, event.loop, _spot(event))
    if isinstance(event, Mark):
        return event.id
    if isinstance(event, Variable) or event.kind != "module":
        return event.site
    return _numberless(relative(event.path, base))


def _numberless(path: str) -> tuple[str, ...]:
    """A path with a sign in place of each number."""
    return tuple(["#" if part.isdigit() else part for part in path.split(".")])


@dataclass(slots=True, eq=False)
class Steps:
    """Steps that are alike and follow each other, and the rows of each of them."""

    first: int
    last: int
    count: int
    folds: list[Fold]


def by_step(roots: list[Node]) -> list[list[Node]]:
    """The outermost nodes of each step of each rank."""
    return [list(nodes) for _, nodes in groupby(roots, key=_moment)]


def steps(every: Iterable[list[Node]]) -> list[Steps]:
    """The nodes of each step, with those of steps that are alike folded."""
    return [_steps(list(alike)) for _, alike in groupby(every, key=_structure)]


def _moment(node: Node) -> tuple[int, int]:
    return node.first.rank, node.first.step


def _structure(nodes: list[Node]) -> tuple[Hashable, ...]:
    """What steps that are alike have in common: the rank, the signatures of their nodes, and shapes and arguments."""
    return (nodes[0].first.rank, *[(node.signature, _shown_key(node.event)) for node in nodes])


def _shown_key(event: Event | Group) -> Any:
    if isinstance(event, Group):
        return None
    return own_key(event)


def _steps(alike: Columns) -> Steps:
    first, last = alike[0][0].first, alike[-1][0].first
    return Steps(first.step, last.step, len(alike), _folds(alike, ""))
