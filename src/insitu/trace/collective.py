"""Calls that communicate with other processes: which collective, in which group, of how many bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import Call, Fields, TensorFacts, Word, tensors
from insitu.trace.operation import is_pending, operation

GROUP = "ProcessGroup"  # the type of the fields by which a record describes a group
# Collectives that get the tensor for the result before their own; those of `_c10d_functional` return the result.
_RESULT_FIRST = frozenset(("all_gather", "reduce_scatter", "all_to_all"))
_FUNCTIONAL = ("_c10d_functional.", "torch.ops._c10d_functional.")


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """A process group: its name, how many ranks it has, and the first of these; None is not known.

    All three are unknown for the default group, if a program does not name a group.
    """

    name: str | None = None
    size: int | None = None
    ranks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Collective:
    """A call that communicates with other processes.

    `name` is the one name for all spellings ("all_reduce"), "wait" for a call that waits for a collective. `bytes` is
    the size of the tensors that this rank puts in; a rank that only receives puts in the tensor it receives into. It is
    None if a size is symbolic. `reduction` is "sum", "avg", … or "". `is_pending` says that the call returned before
    the collective had ended: a wait follows. `call` is the call itself.
    """

    name: str
    group: ProcessGroup
    bytes: int | None
    reduction: str = ""
    is_pending: bool = False
    call: Call | None = field(default=None, compare=False, repr=False)


def collective_of(call: Call) -> Collective | None:
    """What a call communicates; None if it does not communicate.

    >>> x = TensorFacts(0, (4, 8), "f32", "cpu")
    >>> found = collective_of(Call(0, None, "aten", "_c10d_functional.all_reduce", args=(x, "sum", "0")))
    >>> found.name, found.reduction, found.bytes, found.group.name
    ('all_reduce', 'sum', 128, '0')
    """
    if call.kind not in ("function", "aten"):
        return None
    found = operation(call.kind, call.name)
    if found.family != "collective":
        return None
    pending = is_pending(call.name) or call.kwargs.get("async_op") is True
    size = _bytes(call, found.name)
    return Collective(found.name, _group(call), size, _reduction(call), is_pending=pending, call=call)


def _arguments(call: Call) -> list[Any]:
    return [*call.args, *call.kwargs.values()]


def _group(call: Call) -> ProcessGroup:
    """The group among the arguments; the operators of `_c10d_functional` take its name, after all others."""
    groups = filter(_is_group, _arguments(call))
    found = next(groups, None)
    if found is not None:
        facts = found.items
        return ProcessGroup(facts["name"], facts["size"], tuple(facts["ranks"]))
    if _is_functional(call):
        return ProcessGroup(_texts(call)[-1])
    return ProcessGroup()


def _is_group(item: Any) -> bool:
    return isinstance(item, Fields) and item.type == GROUP


def _is_functional(call: Call) -> bool:
    """Whether a call is one of `_c10d_functional` with a group: `wait_tensor` has none."""
    return call.name.startswith(_FUNCTIONAL) and bool(_texts(call))


def _texts(call: Call) -> list[str]:
    return [item for item in _arguments(call) if type(item) is str]


def _bytes(call: Call, name: str) -> int | None:
    """The size of the tensors that this rank puts in; None if one of them is symbolic."""
    sizes = list(map(tensor_bytes, tensors(_payload(call, name)))) or list(map(tensor_bytes, call.inputs))
    if None in sizes:
        return None
    return sum(filter(None, sizes))


def _payload(call: Call, name: str) -> Any:
    """The argument with the tensors that this rank puts in."""
    has_result_first = name in _RESULT_FIRST and not call.name.startswith(_FUNCTIONAL)
    if has_result_first:
        return call.args[1:2]
    return call.args[:1]


def tensor_bytes(facts: TensorFacts) -> int | None:
    """The size of a tensor; None if it is symbolic."""
    if str in map(type, facts.shape):
        return None
    return prod(map(int, facts.shape)) * dtype_named(facts.dtype).size


def _reduction(call: Call) -> str:
    """The name of the reduction, in small letters."""
    op = call.kwargs.get("op")
    if isinstance(op, Word):
        return op.lower()
    if _is_functional(call):
        return "".join(_texts(call)[:-1]).lower()
    return ""
