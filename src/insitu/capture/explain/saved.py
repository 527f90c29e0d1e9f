"""What autograd has saved for a backward pass: read from the graph itself, which knows exactly what changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from types import CodeType
from typing import Any

from torch import Tensor, nn

from insitu.capture.explain.reading import Reading
from insitu.capture.names import ModuleCallee
from insitu.capture.tensors import Value
from insitu.capture.torch_internals import FORWARD_CLASS, is_packed_by_hook, node_number, packed_data, packed_names
from insitu.trace.explain.failure import InPlaceChange

MOST_VIEWS = 20  # of each other
# Calls whose result has the memory of their first input.
VIEWING = frozenset(
    [
        *(
            "detach",
            "data",
            "t",
            "T",
            "mT",
            "transpose",
            "permute",
            "view",
            "view_as",
            "reshape",
            "flatten",
            "unflatten",
        ),
        *("squeeze", "unsqueeze", "expand", "expand_as", "getitem", "select", "narrow", "chunk", "split", "unbind"),
        *("movedim", "swapaxes", "diagonal", "unfold", "contiguous", "to", "float", "real", "alias"),
    ]
)


@dataclass(slots=True, frozen=True)
class SavedTensor:
    """A tensor that a node of the graph has saved, and the number of the node."""

    node: int
    tensor: Tensor


def nodes(loss: Any) -> Iterator[Any]:
    """Every node of the graph of a loss."""
    waiting: list[Any] = [loss.grad_fn] if isinstance(loss, Tensor) else []
    seen: set[Any] = {None}
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            yield node
            waiting += [following for following, _ in node.next_functions]


def custom_backward(loss: Any, name: str) -> CodeType | None:
    """The `backward` of a custom function of the user that is in the graph of a loss."""
    functions = (getattr(type(node), FORWARD_CLASS, None) for node in nodes(loss) if node.name() == name)
    function = next(filter(None, functions), None)
    backward = getattr(function, "backward", None)
    return getattr(backward, "__code__", None)


def find_change(reading: Reading, loss: Any, message: str, end: int) -> InPlaceChange | None:
    """The call that needs a tensor of the graph for its gradient, and the last one that changed the tensor in place."""
    saved = stale(loss, message)
    if saved is None:
        return None
    needed_by = reading.maker(saved.node, end)
    if needed_by is None:
        return None
    later = [at for at in reading.before(end) if at > needed_by]
    changes = [at for at in later if _changes(reading, at, saved.tensor, needed_by)]
    changed_by = max(changes, default=None)
    parameter = _parameter_path(reading, needed_by, saved.tensor)
    return InPlaceChange(needed_by, changed_by, parameter, _handed_out(reading, needed_by, saved.tensor))


def _handed_out(reading: Reading, needed_by: int, saved: Tensor) -> int | None:
    """The call that made a view of the tensor that changed, if the one that needs it got the view from another line."""
    for value in reading.inputs(needed_by):
        for at, source in _views_behind(reading, value):
            if _is_elsewhere(reading, at, needed_by) and share_memory(source(), saved):
                return at
    return None


def _is_elsewhere(reading: Reading, one: int, other: int) -> bool:
    """Whether two calls are written on different lines."""
    here, there = reading.site(one), reading.site(other)
    return here is not None and there is not None and (here.file, here.line) != (there.file, there.line)


def _views_behind(reading: Reading, value: Value) -> Iterator[tuple[int, Value]]:
    """The calls that made a tensor a view of another one, each with that one, the last call first."""
    at = reading.producer(value)
    for _ in range(MOST_VIEWS):
        if at is None or reading.operation(at).base not in VIEWING:
            return
        source = next(iter(reading.inputs(at)), None)
        if source is None:
            return
        yield at, source
        at = reading.producer(source)


def _changes(reading: Reading, at: int, saved: Tensor, needed_by: int) -> bool:
    """Whether a call changes a saved tensor in place."""
    if not reading.callee_facts(at).in_place:
        return False
    return any(_is_saved(reading, value, saved, needed_by) for value in reading.tensors(reading.args(at)[:1]))


def _is_saved(reading: Reading, value: Value, saved: Tensor, needed_by: int) -> bool:
    """Whether a value is the tensor that a call saved: by its memory or, if only the graph still has the tensor, as an
    input or output of this call."""
    tensor = value()
    if tensor is not None:
        return share_memory(tensor, saved)
    calls = list(reading.ancestors(needed_by))
    inputs = map(id, chain.from_iterable(map(reading.inputs, calls)))
    is_of_call = reading.producer(value) in calls or id(value) in inputs
    return is_of_call and value.layout[0] == saved.shape


def _parameter_path(reading: Reading, at: int, tensor: Tensor) -> str:
    """The path of a parameter in the outermost module around a call; empty for other tensors."""
    for each in reversed(list(reading.ancestors(at))):
        callee = reading.callee(each)
        if not isinstance(callee, ModuleCallee):
            continue
        name = _parameter_name(callee.ref(), tensor)
        if name:
            return ".".join(filter(None, (_module_name(reading, each, callee), name)))
    return ""


def _module_name(reading: Reading, at: int, callee: ModuleCallee) -> str:
    """The path of a module or, if it has none of its own, the expression that called it."""
    if callee.path and callee.path.partition("#")[0] != callee.facts.type:
        return callee.path
    node = reading.expression(at).node
    if isinstance(node, ast.Call):
        return ast.unparse(node.func)
    return ""


def _parameter_name(module: nn.Module | None, tensor: Tensor) -> str:
    if module is None:
        return ""
    return next((name for name, parameter in module.named_parameters() if share_memory(parameter, tensor)), "")


def stale(loss: Any, message: str) -> SavedTensor | None:
    """The saved tensor that changed, as the message says; the last of several, which a backward pass reaches first.

    What hooks have packed is left alone: to unpack it may run code of the user.
    """
    found = [saved for node in nodes(loss) for saved in _stale_in(node, _without_hint(message))]
    return max(found, key=lambda saved: saved.node, default=None)


def _stale_in(node: Any, message: str) -> Iterator[SavedTensor]:
    for packed, unpacking in packed_names(node):
        plain = _plain_tensors(getattr(node, packed))
        if plain and _complaint(node, unpacking) == message:
            yield from (SavedTensor(node_number(node), tensor) for tensor in plain)


def _plain_tensors(saved: Any) -> list[Tensor]:
    """The saved tensors that no hook has packed."""
    each = saved if isinstance(saved, (tuple, list)) else [saved]
    unpacked = [packed_data(item) for item in each if not is_packed_by_hook(item)]
    return [tensor for tensor in unpacked if isinstance(tensor, Tensor)]


def _complaint(node: Any, name: str) -> str:
    """The error of autograd when a saved tensor is asked for; empty if the tensor has not changed."""
    try:
        getattr(node, name)
    except RuntimeError as error:
        return _without_hint(str(error))
    return ""


def _without_hint(message: str) -> str:
    return message.partition(" Hint:")[0]


def share_memory(one: Any, other: Any) -> bool:
    """Whether two tensors have their values in the same memory."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    address = one.untyped_storage().data_ptr()
    return address != 0 and address == other.untyped_storage().data_ptr()
