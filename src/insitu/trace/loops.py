"""Groups that no call of a trace holds: what one expression made a library do, and the passes of a loop."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Literal

from insitu.trace.event import Call
from insitu.trace.fold import Columns, place, runs
from insitu.trace.forest import Group, Node, frozen_result
from insitu.trace.operation import operation, own_name

Range = tuple[int, int]
WORDS = re.compile(r"\w+")

LEAST_CALLS = 2  # for an expression to be a group
LEAST_SAVED = 4  # rows, for the passes of a loop to be groups
MOST_TRIES = 8  # how many lengths of a pass are tried at each place
MOST_ROUNDS = 16  # each finds the loops with passes of one length, all that there are


def grouped(columns: Columns, path: str = "") -> Columns:
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
    return (call.name, frozen_result(call.result), *map(_done, node.children))


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
    """Whether the function stands in the expression itself: calls of it are a loop of the user's, to be seen."""
    name = own_name(call.kind, call.name)
    if call.operator is not None or call.site is None:
        return True
    words = WORDS.findall(call.site.text[call.site.start : call.site.end])
    return not words or name in words


def _is_one_expression(one: Node, other: Node) -> bool:
    a, b = one.event, other.event
    if not (isinstance(a, Call) and isinstance(b, Call) and a.site is b.site and a.site is not None):
        return False
    if (a.thread, a.step, a.rank) != (b.thread, b.step, b.rank):
        return False
    return (
        all(call.kind == "function" and call.module is None for call in (a, b)) and _is_sound(one) and _is_sound(other)
    )


def _is_sound(node: Node) -> bool:
    """Whether a call may be one of many: one that raised, or gave NaN that is more than unused memory, is seen."""
    call = node.event
    if not isinstance(call, Call) or call.raised is not None:
        return False
    has_nan = any(facts.stats is not None and facts.stats.nan for facts in call.outputs)
    is_suspicious = has_nan and not operation(call.kind, call.name).is_uninitialized
    return not is_suspicious and all(map(_is_sound, node.children))


def _passes(nodes: list[Node], path: str) -> list[Range]:
    """Where each pass begins and ends, of the loops with the shortest passes: they may lie in others."""
    alike = runs(nodes, path)
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
    chains = [event.site.chain() if isinstance(event := node.first, Call) and event.site else [] for node in nodes]
    if not all(chains):
        return 0
    depth = 0
    while all(len(chain) > depth + 1 for chain in chains) and len({id(chain[depth]) for chain in chains}) == 1:
        depth += 1
    sites = [chain[depth] for chain in chains]
    if len({(site.file, site.function) for site in sites}) > 1:
        return 0
    return min(range(most + 1), key=lambda place: sites[place].line)


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
    """The least number of keys that come again at once, and are worth a group."""
    following, least = _following(keys), None
    differing: dict[int, int] = {}  # where, by length, a key was last seen not to come again
    for at in range(len(keys)):
        again = at
        for _ in range(MOST_TRIES):
            again = following[again]
            length = again - at
            if again + length > len(keys) or (least is not None and length >= least):
                break
            if length > 1 and not at <= differing.get(length, -1) < again:
                if _end(keys, at, length) is not None:
                    least = length
                else:
                    differing[length] = _difference(keys, at, length)
    return least


def _difference(keys: list[int], at: int, length: int) -> int:
    """The last place in so many keys whose key does not come again; -1 if all do, and only save too little."""
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
    return end if (end - at) // length * length - length >= LEAST_SAVED else None
