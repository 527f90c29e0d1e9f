"""Loops where the source is not known: passes that are repeated to the letter."""

from __future__ import annotations

from collections.abc import Hashable

from insitu.trace.event import Call, Site
from insitu.trace.fold import Columns, fold_place, identical_ranges
from insitu.trace.forest import Forest, Group, Node, group_of, own_key

Range = tuple[int, int]

LEAST_SAVED = 4  # rows, for the passes of a loop to be groups
MOST_TRIES = 8  # lengths of a pass that are tried at each index
MOST_ROUNDS = 16  # each round finds all loops with passes of one length


def group_repetitions(columns: Columns, path: str, forest: Forest) -> Columns:
    """Siblings with passes of loops as groups; a loop may be inside another one."""
    for _ in range(MOST_ROUNDS):
        ranges = _passes(columns[0], path)
        if not ranges:
            break
        columns = [_with_passes(nodes, ranges, forest) for nodes in columns]
    return columns


def _with_passes(nodes: list[Node], ranges: list[Range], forest: Forest) -> list[Node]:
    """The nodes, with one group in place of those in each range."""
    found: list[Node] = []
    at = 0
    for start, end in ranges:
        found += nodes[at:start]
        found.append(forest.group(group_of("pass", nodes[start:end])))
        at = end
    return found + nodes[at:]


def _passes(nodes: list[Node], path: str) -> list[Range]:
    """The range of each pass, of the loops with the shortest passes: they may be inside other loops."""
    identical = identical_ranges(nodes, path)
    keys = _keys(nodes, identical, path)
    length = _shortest_pass(keys)
    if length is None:
        return []
    found: list[Range] = []
    at = 0
    while at < len(keys):
        end = _end_of_loop(keys, at, length)
        if end is None:
            at += 1
            continue
        count, rest = divmod(end - at, length)
        at += _lead([nodes[start] for start, _ in identical[at : at + length]], rest)
        for start in range(at, at + length * count, length):
            found.append((identical[start][0], identical[start + length - 1][1]))
        at += length * count
    return found


def _lead(nodes: list[Node], most: int) -> int:
    """The number of calls to leave out, at most `most`, for the passes to begin where the loop does in the source."""
    chains = list(map(_callers, nodes))
    if not all(chains):
        return 0
    sites = _first_difference(chains)
    functions = {(site.file, site.function) for site in sites}
    if len(functions) > 1:
        return 0
    return min(range(most + 1), key=lambda index: sites[index].line)


def _callers(node: Node) -> list[Site]:
    """The sites that a call was made from, the outermost first; empty if they are not known."""
    event = node.first
    if isinstance(event, Call) and event.site:
        return event.site.chain()
    return []


def _first_difference(chains: list[list[Site]]) -> tuple[Site, ...]:
    """The site of each chain at the first depth where the chains differ, else at the last depth that all have."""
    for sites in zip(*chains, strict=False):
        if len(set(map(id, sites))) > 1:
            break
    return sites


def _keys(nodes: list[Node], identical: list[Range], path: str) -> list[int]:
    """A number for each range of identical siblings; equal ranges have the same number."""
    numbers: dict[Hashable, int] = {}
    found = []
    for start, end in identical:
        node = nodes[start]
        key = (node.signature, fold_place(node.event, path), _own_keys(node), end - start)
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def _own_keys(node: Node) -> Hashable:
    """The arguments and results of the calls of a node: without the source, only what is equal is the same line.

    Those of an optimizer differ from step to step: they do not count.
    """
    found: list[Hashable] = []
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if not isinstance(node.event, Group):
            found.append(own_key(node.event))
        elif node.event.kind != "expression":
            waiting += node.children
    return tuple(found)


def _shortest_pass(keys: list[int]) -> int | None:
    """The number of keys of the shortest pass that is worth a group."""
    search = _PassSearch(keys)
    for at in range(len(keys)):
        search.look(at)
    return search.least


class _PassSearch:
    """Looks for the shortest pass that begins at each index of the keys."""

    def __init__(self, keys: list[int]) -> None:
        self._keys, self._following = keys, _next_indices(keys)
        self._differences: dict[int, int] = {}  # by length, the index of the last key that was not repeated
        self.least: int | None = None

    def look(self, at: int) -> None:
        """Try the distances to the next indices with the same key, the nearest first."""
        again = at
        for _ in range(MOST_TRIES):
            again = self._following[again]
            length = again - at
            if self._is_too_long(again, length):
                return
            self._try(at, length)

    def _is_too_long(self, again: int, length: int) -> bool:
        if again + length > len(self._keys):
            return True
        return self.least is not None and length >= self.least

    def _try(self, at: int, length: int) -> None:
        has_known_difference = at <= self._differences.get(length, -1) < at + length
        if length < 2 or has_known_difference:
            return
        if _end_of_loop(self._keys, at, length) is not None:
            self.least = length
        else:
            self._differences[length] = _last_difference(self._keys, at, length)


def _last_difference(keys: list[int], at: int, length: int) -> int:
    """The last index in keys[at : at + length] whose key is not repeated `length` later; -1 if all are."""
    for index in range(at + length - 1, at - 1, -1):
        if keys[index] != keys[index + length]:
            return index
    return -1


def _next_indices(keys: list[int]) -> list[int]:
    """The index where each key comes next; the end of the list if it does not."""
    following, last = [0] * len(keys), dict[int, int]()
    for at in range(len(keys) - 1, -1, -1):
        following[at] = last.get(keys[at], len(keys))
        last[keys[at]] = at
    return following


def _end_of_loop(keys: list[int], at: int, length: int) -> int | None:
    """The index up to which passes of this length are repeated; None if they are not, or save too few rows."""
    if not _is_repeated(keys, at, length):
        return None
    end = at + 2 * length
    while end < len(keys) and keys[end] == keys[end - length]:
        end += 1
    count = (end - at) // length
    if (count - 1) * length >= LEAST_SAVED:
        return end
    return None


def _is_repeated(keys: list[int], at: int, length: int) -> bool:
    again = at + length
    end = again + length
    if end > len(keys) or keys[end - 1] != keys[again - 1]:  # the last key differs most often: no slice is needed
        return False
    return keys[at:again] == keys[again:end]
