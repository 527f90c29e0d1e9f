"""Groups of siblings: the calls that a library made for one expression, and the passes of a loop."""

from __future__ import annotations

import re
from collections.abc import Hashable
from itertools import groupby
from typing import Literal

from insitu.trace.event import Call, Site, TensorFacts
from insitu.trace.fold import Columns, identical_ranges, place
from insitu.trace.forest import Group, Node, calls_of, result_key
from insitu.trace.operation import operation, own_name

Range = tuple[int, int]
WORDS = re.compile(r"\w+")

LEAST_CALLS = 2  # for an expression to be a group
LEAST_SAVED = 4  # rows, for the passes of a loop to be groups
MOST_TRIES = 8  # lengths of a pass that are tried at each index
MOST_ROUNDS = 16  # each round finds all loops with passes of one length


def group_siblings(columns: Columns, path: str = "") -> Columns:
    """Siblings with expressions and passes of loops as groups; a loop may be inside another one."""
    if len(columns[0]) < LEAST_CALLS:
        return columns
    columns = _with_groups(columns, "expression", _expressions(columns[0]))
    for _ in range(MOST_ROUNDS):
        ranges = _passes(columns[0], path)
        if not ranges:
            break
        columns = _with_groups(columns, "pass", ranges)
    return columns


def _with_groups(columns: Columns, kind: Literal["expression", "pass"], ranges: list[Range]) -> Columns:
    if not ranges:
        return columns
    return [_with_groups_at(nodes, kind, ranges) for nodes in columns]


def _with_groups_at(nodes: list[Node], kind: Literal["expression", "pass"], ranges: list[Range]) -> list[Node]:
    """The nodes, with one group in place of those in each range."""
    found: list[Node] = []
    at = 0
    for start, end in ranges:
        found += nodes[at:start]
        found.append(_group(kind, nodes[start:end]))
        at = end
    return found + nodes[at:]


def _group(kind: Literal["expression", "pass"], nodes: list[Node]) -> Node:
    group = Group(kind, nodes)
    if kind == "pass":
        return Node(group, nodes, (kind, *[node.signature for node in nodes]))
    # The arguments of an optimizer's calls differ from step to step: they do not count.
    return Node(group, nodes, (kind, *map(_key_without_arguments, nodes)))


def _key_without_arguments(node: Node) -> Hashable:
    call = node.event
    if not isinstance(call, Call):
        return node.signature
    return (call.name, result_key(call.result), *map(_key_without_arguments, node.children))


def _expressions(nodes: list[Node]) -> list[Range]:
    """The ranges of calls that a library made for one expression."""
    found = []
    start = 0
    for key, siblings in groupby(nodes, key=_expression_key):
        calls = list(siblings)
        end = start + len(calls)
        if key is not None and _is_group(calls):
            found.append((start, end))
        start = end
    return found


def _expression_key(node: Node) -> Hashable:
    """The expression that a call comes from, and when it ran; None if the call needs a row of its own."""
    call = node.event
    if not isinstance(call, Call) or call.site is None:
        return None
    is_plain_function = call.kind == "function" and call.module is None
    if not is_plain_function or not _is_sound(node):
        return None
    return id(call.site), call.thread, call.step, call.rank


def _is_group(nodes: list[Node]) -> bool:
    return len(nodes) >= LEAST_CALLS and not any(_is_written(call) for call in calls_of(nodes))


def _is_written(call: Call) -> bool:
    """Whether the expression names the function: then its calls are a loop of the user, which stays visible."""
    if call.operator is not None or call.site is None:
        return True
    words = WORDS.findall(call.site.text[call.site.start : call.site.end])
    return not words or own_name(call.kind, call.name) in words


def _is_sound(node: Node) -> bool:
    """Whether a call may be hidden among others: calls that raised or produced NaN stay visible."""
    call = node.event
    if not isinstance(call, Call) or call.raised is not None:
        return False
    if any(map(_has_nan, call.outputs)) and not operation(call.kind, call.name).is_uninitialized:
        return False
    return all(map(_is_sound, node.children))


def _has_nan(facts: TensorFacts) -> bool:
    return facts.stats is not None and facts.stats.nan > 0


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
        event = nodes[start].first
        key = (nodes[start].signature, place(nodes[start].event, path), end - start, event.step, event.rank)
        found.append(numbers.setdefault(key, len(numbers)))
    return found


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
