"""The sizes of sums of products: each dimension of the result is one of a factor."""

from __future__ import annotations

from insitu.trace.explain.sizes.operator_call import UNSURE, OperatorCall, PassedOn, Rule


def linear(call: OperatorCall, dim: int) -> PassedOn | None:
    """The last dimension is the output of the weight."""
    if dim == len(call.shape) - 1:
        return PassedOn(1, 0)
    return PassedOn(0, dim)


def matrix_product(call: OperatorCall, dim: int) -> PassedOn | None:
    """The rows are those of the left factor, the columns those of the right one; the batch is that of either."""
    left, right = (len(facts.shape) for facts in call.inputs[-2:])
    first = len(call.inputs) - 2
    from_right = dim - len(call.shape)
    if left < 2 or right < 2:
        return UNSURE
    if from_right == -1:
        return PassedOn(first + 1, right - 1)
    if from_right == -2:
        return PassedOn(first, left - 2)
    for place, rank in ((first, left), (first + 1, right)):
        is_there = rank >= -from_right and call.inputs[place].shape[from_right] == call.shape[dim]
        if is_there:
            return PassedOn(place, rank + from_right)
    return UNSURE


def convolution(call: OperatorCall, dim: int) -> PassedOn | None:
    """The channels are the output of the weight; a side is that of the input if it has kept its size."""
    channels = 1 - int(_has_no_batch(call))
    if dim == channels:
        return PassedOn(1, 0)
    return _kept_side(call, dim)


def transposed_convolution(call: OperatorCall, dim: int) -> PassedOn | None:
    """The same, where the weight has its output in the second dimension."""
    channels = 1 - int(_has_no_batch(call))
    if dim == channels:
        return PassedOn(1, 1)
    return _kept_side(call, dim)


def _has_no_batch(call: OperatorCall) -> bool:
    """Whether the input is a single image."""
    return len(call.inputs[0].shape) < len(call.inputs[1].shape)


def _kept_side(call: OperatorCall, dim: int) -> PassedOn | None:
    if call.inputs[0].shape[dim] == call.shape[dim]:
        return PassedOn(0, dim)
    return None


def einsum(call: OperatorCall, dim: int) -> PassedOn | None:
    """The letter of the dimension, in the first operand that has it."""
    equation = call.argument(0, "equation")
    if not isinstance(equation, str):
        return UNSURE
    has_all_letters = "->" in equation and "." not in equation
    if not has_all_letters:
        return UNSURE
    operands, _, result = equation.replace(" ", "").partition("->")
    letter = result[dim]
    for place, letters in enumerate(operands.split(",")):
        if letter in letters:
            return PassedOn(place, letters.index(letter))
    return UNSURE


PRODUCT_RULES: dict[str, Rule] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), convolution),
    **dict.fromkeys(("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), transposed_convolution),
    **dict.fromkeys(("matmul", "addmm", "baddbmm"), matrix_product),
    "linear": linear,
    "einsum": einsum,
}
