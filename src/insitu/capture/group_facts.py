"""The arguments of collectives as records hold them: process groups and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from insitu.trace.event import Fields, Opaque, Word

MOST_RANKS = 16  # of a group that a record lists

_groups: WeakKeyDictionary[Any, Fields] = WeakKeyDictionary()


def group_facts(group: Any) -> Fields:
    """A process group by its name, its size and its first ranks; looked up once for each group."""
    found = _groups.get(group)
    if found is None:
        ranks = dist.get_process_group_ranks(group)
        facts = {"name": str(group.group_name), "size": len(ranks), "ranks": list(ranks[:MOST_RANKS])}
        found = _groups[group] = Fields("ProcessGroup", facts)
    return found


def script_object_facts(item: torch.ScriptObject) -> Fields | Opaque:
    """An object of C++ as operators take it: a process group, or one of which only the type is known."""
    try:
        return group_facts(dist.ProcessGroup.unbox(item))
    except RuntimeError:  # another object, such as a reduction
        return Opaque(type(item).__name__)


def reduction_name(item: Any) -> Word:
    """The name of a reduction: `SUM`."""
    return Word(str(item).rpartition(".")[2])


def _descriptions() -> tuple[tuple[Any, Callable[[Any], Any]], ...]:
    """How records hold the arguments of collectives; see `atoms.DESCRIPTIONS`."""
    if not dist.is_available():
        return ()
    return (
        (dist.ProcessGroup, group_facts),
        (torch.ScriptObject, script_object_facts),
        ((dist.ReduceOp, type(dist.ReduceOp.SUM)), reduction_name),
    )


COLLECTIVE_DESCRIPTIONS = _descriptions()
