"""The rules: for each family of operators, where a dimension of the result has its size from."""

from __future__ import annotations

from math import prod
from typing import Any

from insitu.trace.event import TensorFacts
from insitu.trace.explain.sizes.indexing import indexed
from insitu.trace.explain.sizes.operator_call import UNSURE, OperatorCall, PassedOn, Rule, Shape
from insitu.trace.explain.sizes.products import PRODUCT_RULES
from insitu.trace.operation import Family


def rule_for(call: OperatorCall) -> Rule | None:
    """The rule for a call: that of its name, else that of its family; None if nothing is known about it."""
    operation = call.operation
    found = NAMED_RULES.get(operation.base) or FAMILY_RULES.get(operation.family)
    if found is None and _keeps_shape(call):
        return same_place
    return found


def _keeps_shape(call: OperatorCall) -> bool:
    """Whether the result of an unknown function has the shape of its first tensor."""
    return bool(call.inputs) and call.inputs[0].shape == call.shape


def introduced(call: OperatorCall, dim: int) -> PassedOn | None:
    """A new tensor has its sizes from the arguments of the call."""
    return None


def same_place(call: OperatorCall, dim: int) -> PassedOn | None:
    """The first input that has this size at the same place, counted from the right, as for broadcasting."""
    from_right = dim - len(call.shape)
    for place, facts in enumerate(call.inputs):
        is_there = len(facts.shape) >= -from_right and facts.shape[from_right] == call.shape[dim]
        if is_there:
            return PassedOn(place, len(facts.shape) + from_right)
    return None


def same_index(call: OperatorCall, dim: int) -> PassedOn | None:
    """The same dimension of the first input."""
    if call.inputs and dim < len(call.inputs[0].shape):
        return PassedOn(0, dim)
    return None


def permuted(call: OperatorCall, dim: int) -> PassedOn | None:
    """Dimensions in another order."""
    order = call.numbers("dims")
    if len(order) != len(call.shape):
        return UNSURE
    return PassedOn(0, order[dim] % len(order))


def transposed(call: OperatorCall, dim: int) -> PassedOn | None:
    """Two dimensions in each other's place."""
    pair = (call.argument(1, "dim0"), call.argument(2, "dim1"))
    if not all(isinstance(number, int) for number in pair):
        return UNSURE
    one, other = (number % len(call.shape) for number in pair)
    return PassedOn(0, {one: other, other: one}.get(dim, dim))


def last_two_swapped(call: OperatorCall, dim: int) -> PassedOn | None:
    """A matrix, or many of them, transposed."""
    last = len(call.shape) - 1
    return PassedOn(0, {last: last - 1, last - 1: last}.get(dim, dim))


def reshaped(call: OperatorCall, dim: int) -> PassedOn | None:
    """A dimension that has the same size, and as many elements before it, as one of the input."""
    if not call.inputs:
        return UNSURE
    source = call.inputs[0].shape
    if not _are_known(source) or not _are_known(call.shape):
        return UNSURE
    before = prod(map(int, call.shape[:dim]))
    for place, size in enumerate(source):
        is_there = size == call.shape[dim] and prod(map(int, source[:place])) == before
        if is_there:
            return PassedOn(0, place)
    return None


def _are_known(shape: Shape) -> bool:
    return all(isinstance(size, int) for size in shape)


def unsqueezed(call: OperatorCall, dim: int) -> PassedOn | None:
    """A dimension of one more than before."""
    new = call.argument(1, "dim")
    if not isinstance(new, int):
        return UNSURE
    return _without_inserted(new % len(call.shape), dim)


def stacked(call: OperatorCall, dim: int) -> PassedOn | None:
    """The new dimension counts the tensors; the others are theirs."""
    new = call.argument(1, "dim", 0)
    if not isinstance(new, int):
        return UNSURE
    return _without_inserted(new % len(call.shape), dim)


def _without_inserted(new: int, dim: int) -> PassedOn | None:
    """A dimension of the input, where the call has inserted one."""
    if dim == new:
        return None
    return PassedOn(0, dim - int(dim > new))


def concatenated(call: OperatorCall, dim: int) -> PassedOn | None:
    """The dimension along which tensors are joined is new; the others are those of the tensors."""
    along = call.argument(1, "dim", 0)
    if not isinstance(along, int):
        return UNSURE
    if along % len(call.shape) == dim:
        return None
    return same_place(call, dim)


def parted(call: OperatorCall, dim: int) -> PassedOn | None:
    """The dimension along which a tensor is split has a new size."""
    along = call.argument(2, "dim", 0)
    if not isinstance(along, int):
        return UNSURE
    if along % len(call.shape) == dim:
        return None
    return PassedOn(0, dim)


def unbound(call: OperatorCall, dim: int) -> PassedOn | None:
    """One dimension is gone."""
    return _with_removed(call, call.argument(1, "dim", 0), dim)


def _with_removed(call: OperatorCall, removed: Any, dim: int) -> PassedOn | None:
    """A dimension of the input, of which the call has removed one."""
    if not isinstance(removed, int) or not call.inputs:
        return UNSURE
    return PassedOn(0, dim + int(dim >= removed % len(call.inputs[0].shape)))


def reduced(call: OperatorCall, dim: int) -> PassedOn | None:
    """The dimensions that a reduction leaves."""
    rank = len(call.inputs[0].shape) if call.inputs else 0
    if rank == len(call.shape):
        return same_place(call, dim)
    dims = call.argument(1, "dim")
    removed = dims if isinstance(dims, (tuple, list)) else (dims,)
    if not all(isinstance(number, int) for number in removed):
        return UNSURE
    left = [place for place in range(rank) if place not in {number % rank for number in removed}]
    if dim < len(left):
        return PassedOn(0, left[dim])
    return UNSURE


def looked_up(call: OperatorCall, dim: int) -> PassedOn | None:
    """The rows of a table: the last dimension is that of the table, the others those of the indices."""
    if dim == len(call.shape) - 1:
        return PassedOn(1, 1)
    return PassedOn(0, dim)


def attended(call: OperatorCall, dim: int) -> PassedOn | None:
    """The last dimension is that of the values, the others those of the queries."""
    if dim == len(call.shape) - 1:
        return PassedOn(2, len(call.inputs[2].shape) - 1)
    return PassedOn(0, dim)


def gathered(call: OperatorCall, dim: int) -> PassedOn | None:
    """All sizes are those of the indices."""
    return _from_tensor(call, call.argument(2, "index"), dim)


def index_selected(call: OperatorCall, dim: int) -> PassedOn | None:
    """One dimension counts the indices."""
    along = call.argument(1, "dim")
    if isinstance(along, int) and along % len(call.shape) == dim:
        return _from_tensor(call, call.argument(2, "index"), 0)
    return PassedOn(0, dim)


def _from_tensor(call: OperatorCall, tensor: Any, dim: int) -> PassedOn | None:
    place = call.index_of(tensor)
    if place is None or not isinstance(tensor, TensorFacts):
        return UNSURE
    return PassedOn(place, dim)


# What changes the size of some dimensions, and keeps the others where they are.
RESIZING = (
    *("pad", "interpolate", "upsample", "fold", "grid_sample", "lp_pool1d", "lp_pool2d"),
    *(f"{kind}_pool{sides}d" for kind in ("max", "avg", "adaptive_max", "adaptive_avg") for sides in (1, 2, 3)),
)
NAMED_RULES: dict[str, Rule] = {
    **dict.fromkeys(("reshape", "flatten", "unflatten", "ravel", "squeeze", "view_as", "reshape_as"), reshaped),
    **dict.fromkeys(("t", "T", "mT", "H", "mH", "adjoint"), last_two_swapped),
    **dict.fromkeys(("flip", "fliplr", "flipud", "roll", "sort"), same_place),
    **dict.fromkeys(("chunk", "split", "split_with_sizes", "tensor_split"), parted),
    **dict.fromkeys(("zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like"), same_place),
    "permute": permuted,
    "transpose": transposed,
    "unsqueeze": unsqueezed,
    "unbind": unbound,
    "select": unbound,
    "narrow": same_place,
    "getitem": indexed,
    "index_select": index_selected,
    "gather": gathered,
    "take_along_dim": gathered,
    "cat": concatenated,
    "stack": stacked,
    "embedding": looked_up,
    "scaled_dot_product_attention": attended,
    **dict.fromkeys(("cumsum", "cumprod", "nan_to_num", "masked_fill", "where", "lerp"), same_place),
    **dict.fromkeys(RESIZING, same_place),
    **PRODUCT_RULES,
}
FAMILY_RULES: dict[Family, Rule] = {
    **dict.fromkeys(("copy", "conversion", "elementwise", "comparison", "rounding"), same_place),
    **dict.fromkeys(("normalization", "activation", "write", "repetition", "gradient"), same_place),
    **dict.fromkeys(("factory", "allocation", "random"), introduced),
    "reduction": reduced,
}
