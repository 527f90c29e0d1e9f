"""Groups that no call of a trace holds: what one expression made a library do, and the passes of a loop."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Literal

from insitu.trace.event import Call, Site
from insitu.trace.fold import Columns, identical_ranges, place
from insitu.trace.forest import Group, Node, result_key
from insitu.trace.operation import operation, own_name

Range = tuple[int, int]
WORDS = re.compile(r"\w+")

LEAST_CALLS = 2  # for an expression to be a group
LEAST_SAVED = 4  # rows, for the passes of a loop to be groups
MOST_TRIES = 8  # how many lengths of a pass are tried at each place
MOST_ROUNDS = 16  # each finds the loops with passes of one length, all that there are


def group_siblings(columns: Columns, path: str = "") -> Columns:
    """Siblings with expressions and passes of loops as groups; a loop may lie in another one."""
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
    found: Columns = []
    for nodes in columns:
        found.append([])
        at = 0
        for start, end in ranges:
            found[-1] += [*nodes[at:start], _group(kind, nodes[start:end])]
            at = end
        found[-1] += nodes[at:]
    return found


def _group(kind: Literal["expression", "pass"], nodes: list[Node]) -> Node:
    group = Group(kind, nodes)
    if kind == "pass":
        return Node(group, nodes, (kind, *[node.signature for node in nodes]))
    # The numbers that an optimizer is given differ from step to step, what it does is the same.
    return Node(group, nodes, (kind, *map(_done, nodes)))


def _done(node: Node) -> Hashable:
    """What a call did, whatever it was given."""
    call = node.event
    if not isinstance(call, Call):
        return node.signature
    return (call.name, result_key(call.result), *map(_done, node.children))


def _expressions(nodes: list[Node]) -> list[Range]:
    """Where an expression made a library call several functions."""
    found = []
    start = 0
    for index in range(1, len(nodes) + 1):
        if index < len(nodes) and _is_one_expression(nodes[start], nodes[index]):
            continue
        calls = [node.event for node in nodes[start:index] if isinstance(node.event, Call)]
        if index - start >= LEAST_CALLS and not any(map(_is_written, calls)):
            found.append((start, index))
        start = index
    return found


def _is_written(call: Call) -> bool:
    """Whether the expression names the function: then its calls are a loop of the user, which stays visible."""
    if call.operator is not None or call.site is None:
        return True
    words = WORDS.findall(call.site.text[call.site.start : call.site.end])
    return not words or own_name(call.kind, call.name) in words


def _is_one_expression(one: Node, other: Node) -> bool:
    """Whether two calls come from one expression, and can be shown as one row."""
    return _origin(one) == _origin(other) and _is_part(one) and _is_part(other)


def _origin(node: Node) -> Hashable:
    """The expression that made a call, and when; None for what is not a call, or has no known place."""
    call = node.event
    if not isinstance(call, Call) or call.site is None:
        return None
    return id(call.site), call.thread, call.step, call.rank


def _is_part(node: Node) -> bool:
    call = node.event
    if not isinstance(call, Call) or call.site is None:
        return False
    is_plain_function = call.kind == "function" and call.module is None
    return is_plain_function and _is_sound(node)


def _is_sound(node: Node) -> bool:
    """Whether a call may be hidden among others: calls that raised or produced NaN stay visible."""
    call = node.event
    if not isinstance(call, Call) or call.raised is not None:
        return False
    has_nan = any(facts.stats is not None and facts.stats.nan for facts in call.outputs)
    is_suspicious = has_nan and not operation(call.kind, call.name).is_uninitialized
    return not is_suspicious and all(map(_is_sound, node.children))


def _passes(nodes: list[Node], path: str) -> list[Range]:
    """Where each pass begins and ends, of the loops with the shortest passes: they may lie in others."""
    alike = identical_ranges(nodes, path)
    keys = _keys(nodes, alike, path)
    length = _shortest(keys)
    if length is None:
        return []
    found: list[Range] = []
    at = 0
    while at < len(keys):
        end = _end(keys, at, length)
        if end is None:
            at += 1
            continue
        count, rest = divmod(end - at, length)
        at += _beginning([nodes[alike[place][0]] for place in range(at, at + length)], rest)
        starts = [at + number * length for number in range(count)]
        found += [(alike[start][0], alike[start + length - 1][1]) for start in starts]
        at += length * count
    return found


def _beginning(nodes: list[Node], most: int) -> int:
    """How many calls to leave out, so many at most, for a pass to begin where the loop does in the source."""
    chains = [_callers(node) for node in nodes]
    if not all(chains):
        return 0
    deepest = min(map(len, chains)) - 1
    depth = next((depth for depth in range(deepest) if _differ_at(chains, depth)), deepest)
    sites = [chain[depth] for chain in chains]
    if len({(site.file, site.function) for site in sites}) > 1:
        return 0
    return min(range(most + 1), key=lambda place: sites[place].line)


def _callers(node: Node) -> list[Site]:
    """The places that a call was made from, the outermost first; nothing where they are not known."""
    event = node.first
    if isinstance(event, Call) and event.site:
        return event.site.chain()
    return []


def _differ_at(chains: list[list[Site]], depth: int) -> bool:
    return len({id(chain[depth]) for chain in chains}) > 1


def _keys(nodes: list[Node], alike: list[Range], path: str) -> list[int]:
    """A number for each run of identical siblings; equal ones have the same."""
    numbers: dict[Hashable, int] = {}
    found = []
    for start, end in alike:
        event = nodes[start].first
        key = (nodes[start].signature, place(nodes[start].event, path), end - start, event.step, event.rank)
        found.append(numbers.setdefault(key, len(numbers)))
    return found


def _shortest(keys: list[int]) -> int | None:
    """The least number of keys that are repeated at once, and are worth a group."""
    search = _PassSearch(keys)
    for at in range(len(keys)):
        search.look(at)
    return search.least


class _PassSearch:
    """Looks for the shortest pass that begins at each place of the keys."""

    def __init__(self, keys: list[int]) -> None:
        self._keys, self._following = keys, _following(keys)
        self._differing: dict[int, int] = {}  # by length, the place of the last key that was not repeated
        self.least: int | None = None

    def look(self, at: int) -> None:
        """Try the distances to the next places with the same key, the nearest first."""
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
        is_known_to_differ = at <= self._differing.get(length, -1) < at + length
        if length < 2 or is_known_to_differ:
            return
        if _end(self._keys, at, length) is not None:
            self.least = length
        else:
            self._differing[length] = _difference(self._keys, at, length)


def _difference(keys: list[int], at: int, length: int) -> int:
    """The last place in keys[at : at + length] whose key is not repeated `length` later; -1 if all are."""
    places = range(at + length - 1, at - 1, -1)
    return next((place for place in places if keys[place] != keys[place + length]), -1)


def _following(keys: list[int]) -> list[int]:
    """The place where each key comes next; the end of the list where it does not."""
    following, last = [0] * len(keys), dict[int, int]()
    for at in range(len(keys) - 1, -1, -1):
        following[at] = last.get(keys[at], len(keys))
        last[keys[at]] = at
    return following


def _end(keys: list[int], at: int, length: int) -> int | None:
    """Where it ends that the keys from here on are repeated; None if they are not, or if it saves too little."""
    again = at + length
    end = again + length
    if end > len(keys) or keys[end - 1] != keys[again - 1] or keys[at:again] != keys[again:end]:
        return None
    while end < len(keys) and keys[end] == keys[end - length]:
        end += 1
    if (end - at) // length * length - length >= LEAST_SAVED:
        return end
    return None
