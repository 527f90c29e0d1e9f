"""How much of a tensor is kept: only its facts, its statistics, or the result of a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor

from insitu.capture.containers import MOST_DEPTH, leaves
from insitu.capture.deferral import Deferral, PendingTensor
from insitu.capture.isolation import run_isolated
from insitu.capture.statistics import as_tensor, has_exact_sums, range_and_mean, statistics
from insitu.capture.tensor_memory import has_values, is_dense
from insitu.capture.tensors import Keep
from insitu.errors import ChoiceError, choose
from insitu.trace.dtype import DTYPES

KEEPS = ("meta", "stats", "values")
SMALL = 16  # elements of a tensor whose values are shown themselves
# Older versions of torch do not have all of them.
NOT_IN_NUMPY = tuple(getattr(torch, row.name, None) for row in DTYPES if row.storage == "ml_dtypes")


def make_keep(
    keep: str | Callable[[Tensor], Any], trouble: Callable[[str, Exception], None], deferral: Deferral | None = None
) -> Keep | None:
    """The function that is called with each tensor that a call produces; None for `meta`."""
    if keep is small_values_or_statistics:
        direct = protected_keep(small_values_or_statistics, "statistics", trouble, arrays=True)
        return deferred_keep(direct, deferral, small_values_later, trouble)
    if callable(keep):
        direct = protected_keep(keep, "the function given as keep", trouble)
        return deferred_keep(direct, deferral, lambda tensor, later: pending_parts(keep(tensor), later), trouble)
    if not isinstance(keep, str):
        raise ChoiceError(f"keep={keep!r} is neither one of {', '.join(map(repr, KEEPS))} nor a function of a tensor")
    choose("keep", keep, KEEPS)
    if keep == "stats":
        direct = protected_keep(statistics, "statistics", trouble, arrays=True)
        return deferred_keep(direct, deferral, lambda tensor, later: later.statistics(tensor), trouble)
    return None


def protected_keep(
    function: Callable[[Tensor], Any], what: str, trouble: Callable[[str, Exception], None], *, arrays: bool = False
) -> Keep:
    """Wrap a function so that autograd and modes do not see it; an exception turns it off for this session.

    With `arrays`, it is called with NumPy arrays too, as tensors.
    """
    failed = False

    def call(tensor: Any) -> Any:
        nonlocal failed
        if not isinstance(tensor, Tensor):
            tensor = as_tensor(tensor) if arrays else None
        if failed or tensor is None or not has_values(tensor):
            return None
        try:
            return run_isolated(lambda: plain(function(tensor.detach())))
        except Exception as error:
            failed = True
            trouble(what, error)
            return None

    return call


def deferred_keep(
    direct: Keep,
    deferral: Deferral | None,
    defer: Callable[[Tensor, Deferral], Any],
    trouble: Callable[[str, Exception], None],
) -> Keep:
    """The function that calls `defer` with tensors whose numbers wait on their device, and `direct` with all others."""
    if deferral is None:
        return direct
    later = protected_keep(lambda tensor: defer(tensor, deferral), "what is kept of a tensor", trouble)

    def call(tensor: Any) -> Any:
        if deferral.applies_to(tensor):
            return later(tensor)
        return direct(tensor)

    return call


def small_values_later(tensor: Tensor, deferral: Deferral) -> Any:
    """The values of a small tensor, the statistics of another one, as soon as somebody needs them."""
    if not is_dense(tensor) or tensor.numel() > SMALL:
        return deferral.statistics(tensor, bins=False, is_brief=is_dense(tensor) and has_exact_sums(tensor))
    return deferral.send(tensor, plain_tensor)


def pending_parts(item: Any, deferral: Deferral, depth: int = 0) -> Any:
    """A result whose tensors are on their way: what `plain` returns, as soon as somebody needs it."""
    if isinstance(item, Tensor):
        return deferral.send(item, plain_tensor)
    if not isinstance(item, (list, tuple, dict)) or depth == MOST_DEPTH:
        return plain(item, depth)
    if isinstance(item, dict):
        return {str(key): pending_parts(value, deferral, depth + 1) for key, value in item.items()}
    return [pending_parts(part, deferral, depth + 1) for part in item]


def weighed_keep(keep: Keep, weigh: Callable[[int], None]) -> Keep:
    """The same function, which calls `weigh` with the bytes of each large result."""

    def call(tensor: Any) -> Any:
        result = keep(tensor)
        if result is not None and (size := size_of(result)):
            weigh(size)
        return result

    return call


def small_values_or_statistics(tensor: Tensor) -> Any:
    """The values of a small tensor, the statistics of another one."""
    if not is_dense(tensor):
        return statistics(tensor)
    if tensor.numel() > SMALL:
        return range_and_mean(tensor)
    try:
        return plain(tensor)
    except (TypeError, RuntimeError):  # a type that NumPy does not have
        return statistics(tensor)


# ---- results


def plain(item: Any, depth: int = 0) -> Any:
    """A small result without tensors in it."""
    if isinstance(item, Tensor):
        return plain_tensor(item)
    if not isinstance(item, (list, tuple, dict)):
        return item
    if depth == MOST_DEPTH:
        raise ValueError(f"a result may be nested at most {MOST_DEPTH} levels deep")
    if isinstance(item, dict):
        return {str(key): plain(value, depth + 1) for key, value in item.items()}
    return [plain(part, depth + 1) for part in item]


def plain_tensor(tensor: Tensor) -> Any:
    """The values of a tensor as a number or an array."""
    tensor = tensor.detach().cpu()
    if tensor.dim() == 0:
        return tensor.item()
    if tensor.dtype in NOT_IN_NUMPY:
        tensor = tensor.float()
    return tensor.numpy().copy()


def size_of(item: Any) -> int:
    """The bytes of the arrays and texts in a result."""
    return sum(map(leaf_size, leaves(item)))


def leaf_size(leaf: Any) -> int:
    """The bytes of an array or a text; 0 for any other value, which is small."""
    if isinstance(leaf, (numpy.ndarray, PendingTensor)):
        return int(leaf.nbytes)
    if isinstance(leaf, (str, bytes)):
        return len(leaf)
    return 0
