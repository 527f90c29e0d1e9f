"""Folding: blocks, passes of a loop and steps that are alike as one row."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import chain, pairwise, takewhile
from typing import Any

from insitu.trace.event import Call, Event, Mark, ModuleFacts, Variable
from insitu.trace.forest import ODD, Group, Node, beginning, have_same_shapes, own_key, value_key
from insitu.trace.key_order import KeyOrder
from insitu.trace.path import relative

NUMBER = "#"  # the sign for any number in a path

# Siblings, and beside them those of blocks that are alike: each list has the same structure.
Columns = list[list[Node]]
Arrange = Callable[[Columns, Event | Group], Columns]


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
        return sum(1 for _ in takewhile(lambda node: node.first.parent == parent, self.nodes))

    @property
    def _has_passes(self) -> bool:
        """Whether the children of the nodes are passes of a loop, or calls of a function."""
        return isinstance(self.event, Group) and self.event.has_passes

    @property
    def passes(self) -> list[int]:
        """For a loop, the number of passes each time it ran; a line runs once."""
        if self._has_passes:
            return [len(node.children) for node in self.nodes]
        return [1] * len(self.nodes)

    @property
    def is_single_pass(self) -> bool:
        """Whether nothing is repeated."""
        return max(self.passes) == 1

    def children(self, arrange: Arrange | None = None) -> list[Fold]:
        """The rows inside these nodes; `arrange` may leave out some, or group them."""
        if self._has_passes:
            return _merge([step for node in self.nodes for step in node.children], arrange)
        return _merge(self.nodes, arrange)


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
    return fold_columns(columns, path_of(first.event))


class _MergedRows:
    """The rows of blocks that differ: those from the same place are one, each after the row it follows."""

    def __init__(self, blocks: int) -> None:
        self._blocks = blocks
        self._found: dict[Hashable, list[Fold]] = {}
        self._order = KeyOrder()

    def add(self, part: list[Fold]) -> None:
        """Add the rows of blocks that are alike."""
        keys = _keys(part)
        before: Hashable = None
        if part and self._found.keys().isdisjoint(keys):
            before = self._last_before(part[0])
        for key, item in zip(keys, part, strict=True):
            if key not in self._found:
                self._found[key] = []
                self._order.insert(key, before)
            self._found[key].append(item)
            before = key

    def _last_before(self, item: Fold) -> Hashable:
        """The last row on an earlier line.

        The very last row if another file, or the same line, has one: then the blocks came one after the other.
        """
        file, line = _line(item)
        before: Hashable = None
        for key, (other, *_) in self._found.items():
            other_file, other_line = _line(other)
            if other_file != file or other_line == line:
                return self._order.last
            if other_line < line:
                before = key
        return before

    def folds(self) -> list[Fold]:
        """The rows in order."""
        return [self._joined(self._found[key]) for key in self._order]

    def _joined(self, items: list[Fold]) -> Fold:
        """The row of several blocks, whose nodes are in the order in which they began."""
        nodes = items[0].nodes
        if len(items) > 1:
            nodes = sorted(chain.from_iterable(item.nodes for item in items), key=beginning)
        present = sum(item.present for item in items)
        return Fold(nodes, max(item.count for item in items), present, self._blocks)


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
        return (_spot(event), *_module_key(event.module, node.marks), event.raised)
    return (_spot(event), event.kind, event.name, event.phase, event.raised)


def _module_key(module: ModuleFacts, marks: int) -> tuple[Hashable, ...]:
    """What modules in one row share; one of a list has a row of its own if something went wrong in it."""
    path = _numberless(module.path)
    is_odd = bool(marks & ODD) and NUMBER in path
    return (path, module.type, module.parameters, value_key(module.settings), is_odd)


def _spot(event: Any) -> Hashable:
    """The columns of an event in the source; whoever called the function around it."""
    site = event.site
    if site is None:
        return None
    return (site.file, site.line, site.start, site.end)


def fold(nodes: list[Node], base: Event | Group | None = None) -> list[Fold]:
    """Siblings with each run of alike ones as one: modules `h.0`, `h.1`, …, or one line of a loop run again."""
    return fold_columns([nodes], path_of(base))


def path_of(base: Event | Group | None) -> str:
    """The path that the names of modules inside an event leave out."""
    if isinstance(base, Call):
        return base.path
    return ""


def fold_columns(columns: Columns, path: str) -> list[Fold]:
    """The rows of siblings, and of those beside them; `path` is that of the call around them."""
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
    """Whether two siblings are one row."""
    if one.signature != other.signature or fold_place(one.event, path) != fold_place(other.event, path):
        return False
    if isinstance(one.event, Group) or isinstance(other.event, Group):
        return True
    if own_key(one.event) != own_key(other.event):
        return False
    if _have_same_module(one.event, other.event):
        return True
    return have_same_shapes(one, other)


def _have_same_module(one: Event, other: Event) -> bool:
    """Whether two events belong to the same module, or to none."""
    return not isinstance(one, Call) or one.module is getattr(other, "module", None)


def fold_place(event: Event | Group, base: str) -> Hashable:
    """The place that siblings must share to be folded: numbered modules their list, other calls their line."""
    if isinstance(event, Group):
        return (event.kind, event.loop, _spot(event))
    if isinstance(event, Mark):
        return event.id
    if isinstance(event, Variable) or event.kind != "module":
        return event.site
    return _numberless(relative(event.path, base))


def _numberless(path: str) -> tuple[str, ...]:
    """A path with a sign in place of each number.

    >>> _numberless("h.0.attn")
    ('h', '#', 'attn')
    """
    return tuple([NUMBER if part.isdigit() else part for part in path.split(".")])
