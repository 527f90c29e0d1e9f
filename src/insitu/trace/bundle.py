"""Bundles: which siblings belong together, by their indices. The same holds for siblings that are like them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from insitu.trace.event import Loop, Site
from insitu.trace.forest import Forest, GroupKind, Node, group_of
from insitu.trace.place import Place


@dataclass(slots=True, eq=False)
class Bundle:
    """Siblings, and bundles of them, that become a group.

    `matters` says that a row of a library must not hide it. A bundle that `is_function_body` is the call of a function,
    and holds what that does. A loop that `is_unsure` is alone in the body of another one: which passes belong together
    cannot be seen. `number` is that of a token.
    """

    kind: GroupKind
    entries: list[Entry]
    site: Site | None = None
    loop: Loop | None = None
    matters: bool = False
    is_function_body: bool = False
    is_unsure: bool = False
    number: int = 0


# A sibling by its index, or several of them.
Entry = int | Bundle


@dataclass(slots=True, eq=False)
class Body:
    """What a function did that was called at some place; one that `is_transparent` is not shown as a function."""

    place: Place
    entries: list[Entry]
    is_transparent: bool


@dataclass(slots=True, eq=False)
class EvaluatedExpression:
    """An expression of a statement, the calls that it made, and the functions that it called."""

    place: Place
    items: list[int | Body] = field(default_factory=list)


def indices(entries: Iterable[Entry]) -> Iterator[int]:
    """All siblings in entries, in order."""
    waiting = list(entries)[::-1]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, Bundle):
            waiting += entry.entries[::-1]
        else:
            yield entry


def only_bundle(entries: list[Entry]) -> Bundle | None:
    """The bundle that is the only entry; None if there are several entries, or if the only one is a sibling."""
    first = next(iter(entries), None)
    if isinstance(first, Bundle) and len(entries) == 1:
        return first
    return None


def note_lone_loops(loop: Bundle, entries: list[Entry], nodes: list[Node]) -> None:
    """Note if a pass may do nothing but run other loops: then its end cannot be told from that of a pass of theirs."""
    first = loop.site.line if loop.site is not None else 0
    inner: list[Bundle] = []
    waiting = [(entry, first) for entry in entries]
    while waiting:
        entry, line = waiting.pop()
        if isinstance(entry, Bundle) and entry.kind == "loop":
            inner.append(entry)
        elif _is_conditional(entry, nodes, line):
            continue
        elif isinstance(entry, Bundle) and entry.is_function_body:
            waiting += [(each, 0) for each in entry.entries]
        else:
            return
    for each in inner:
        loop.is_unsure = each.is_unsure = True


def _is_conditional(entry: Entry, nodes: list[Node], line: int) -> bool:
    """Whether a pass of a loop at this line can do without an entry."""
    site = entry.site if isinstance(entry, Bundle) else getattr(nodes[entry].first, "site", None)
    if site is None or site.nesting is None:
        return False
    return any(arm.condition > line and arm.is_optional for arm in site.nesting.arms)


def bundled(entries: list[Entry], siblings: list[Node], forest: Forest) -> list[Node]:
    """The siblings with a node for each bundle; a stack, because programs recurse deeper than Python."""
    top: list[Node] = []
    stack = [(Bundle("line", entries), iter(entries), top)]
    while stack:
        bundle, rest, nodes = stack[-1]
        entry = next(rest, None)
        if isinstance(entry, Bundle):
            stack.append((entry, iter(entry.entries), []))
        elif entry is not None:
            nodes.append(siblings[entry])
        else:
            stack.pop()
            if stack:
                group = group_of(bundle.kind, nodes, site=bundle.site, loop=bundle.loop)
                group.is_unsure, group.number = bundle.is_unsure, bundle.number
                stack[-1][2].append(forest.group(group))
    return top
