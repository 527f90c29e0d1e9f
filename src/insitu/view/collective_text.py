"""A collective in a few words: how much, in which group."""

from __future__ import annotations

from insitu.trace.collective import Collective, ProcessGroup, collective_of
from insitu.trace.event import Call
from insitu.view.number import amount
from insitu.view.value import safe

MOST_RANKS = 8


def collective_part(call: Call) -> str:
    """The size and the group of a collective in parentheses, behind its name; nothing for other calls."""
    found = collective_of(call)
    if found is None:
        return ""
    if found.name == "wait":
        return "()"
    return f"({collective_text(found)})"


def collective_text(found: Collective) -> str:
    """The reduction, the size and the group of a collective.

    >>> collective_text(Collective("all_reduce", ProcessGroup("0", 2, (0, 1)), 96, "sum", is_pending=True))
    'sum, 96 B, group 0: ranks 0, 1; async'
    >>> collective_text(Collective("all_gather", ProcessGroup(), 2048))
    '2.0 KiB, default group'
    """
    size = None if found.bytes is None else amount(found.bytes)
    text = ", ".join(filter(None, (safe(found.reduction), size, _group_text(found.group))))
    if found.is_pending:
        return f"{text}; async"
    return text


def _group_text(group: ProcessGroup) -> str:
    if group.name is None:
        return "default group"
    if group.size is None:
        return f"group {safe(group.name)}"
    listed = ", ".join(map(str, group.ranks[:MOST_RANKS]))
    if group.size > len(group.ranks[:MOST_RANKS]):
        return f"group {safe(group.name)}: {group.size:,} ranks, {listed}, …"
    return f"group {safe(group.name)}: ranks {listed}"
