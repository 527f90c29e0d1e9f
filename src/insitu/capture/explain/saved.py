"""What autograd has saved for a backward pass and finds changed: asked of the graph itself, which knows exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from insitu.capture.torch_internals import node_number, packed_names


def nodes(loss: Any) -> Iterator[Any]:
    """Every node of the graph of a loss."""
    waiting: list[Any] = [loss.grad_fn] if isinstance(loss, Tensor) else []
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            waiting += [following for following, _ in node.next_functions]


def stale(loss: Any, message: str) -> tuple[int, Tensor] | None:
    """The node that has saved what the message says was changed, by its number, and that tensor; the last of several,
    which a backward pass comes to first.

    What hooks have packed is left alone: to unpack it may run code of the user.
    """
    found: list[tuple[int, Tensor]] = []
    for node in nodes(loss):
        for packed, unpacking in packed_names(node):
            saved = getattr(node, packed)
            plain = [each for each in (saved if isinstance(saved, (tuple, list)) else [saved]) if _is_plain(each)]
            if plain and _complaint(node, unpacking) == _fact(message):
                found += [(node_number(node), each.data) for each in plain]
    return max(found, key=lambda each: each[0], default=None)


def _is_plain(saved: Any) -> bool:
    return getattr(saved, "unpack_hook", True) is None and isinstance(saved.data, Tensor)


def _complaint(node: Any, name: str) -> str:
    """What autograd says when it is asked for what a node has saved; empty if it is as it was."""
    try:
        getattr(node, name)
    except RuntimeError as error:
        return _fact(str(error))
    return ""


def _fact(message: str) -> str:
    """The message without its hints."""
    return message.partition(" Hint:")[0]


def share(one: Any, other: Any) -> bool:
    """Whether two tensors have their values in the same memory."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() != 0)
