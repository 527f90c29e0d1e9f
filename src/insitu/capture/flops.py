"""How many floating-point operations a call makes, by torch's own formulas, from the recorded shapes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, lru_cache
from math import prod
from typing import Any

from insitu.capture.torch_internals import FLASH_ATTENTION
from insitu.trace.event import Call, TensorFacts

_log = logging.getLogger("torch.utils.flop_counter")
_log.disabled = True  # from 2.12 on, torch logs that it does not find Triton: nobody has asked for its kernels here
try:
    from torch.utils.flop_counter import flop_registry
finally:
    _log.disabled = False

Shape = tuple[int, ...]


def flops(call: Call) -> int | None:
    """The operations of a call; None where torch has no formula for it, or the shapes are not known.

    >>> x, w = TensorFacts(0, (8, 3), "f32", "cpu"), TensorFacts(1, (3, 5), "f32", "cpu")
    >>> flops(Call(0, None, "aten", "aten.mm", args=(x, w), result=TensorFacts(2, (8, 5), "f32", "cpu")))
    240
    """
    formula = _operator(call.name) if call.kind == "aten" else _FUNCTIONS.get(call.name)
    if formula is None or call.result is None:
        return None
    named = [name for name in _ORDER if name in call.kwargs]
    args = (*call.args, *map(call.kwargs.__getitem__, named))
    rest = tuple([(name, shapes(item)) for name, item in call.kwargs.items() if name not in named])
    return _count(formula, shapes(args), shapes(call.result), rest)


@lru_cache(maxsize=4096)  # a formula of torch takes longer than all the rest of an event
def _count(formula: Callable[..., int], args: tuple[Any, ...], result: Any, named: tuple[Any, ...]) -> int | None:
    try:
        return int(formula(*args, out_val=result, **dict(named)))
    except Exception:  # symbolic sizes, or arguments that the formula does not know
        return None


# The tensors of all these functions, in an order that is right for each of them.
_ORDER = ("input", "self", "query", "mat1", "batch1", "key", "weight", "other", "mat2", "batch2", "value")


def shapes(item: Any) -> Any:
    """The same with each tensor as its shape; what a formula does not look at is None."""
    if type(item) is TensorFacts:
        return item.shape
    if isinstance(item, (tuple, list)):
        return tuple([shapes(part) for part in item])
    if isinstance(item, (int, float, str)):
        return item
    return None


@cache
def _operator(name: str) -> Callable[..., int] | None:
    """The formula of an operator, whatever its overload."""
    wanted = ".".join(name.split(".")[:2])
    if wanted == f"aten.{FLASH_ATTENTION}_for_cpu":  # torch knows the others of its kind
        return _attention
    return _formulas().get(wanted)


@cache
def _formulas() -> dict[str, Callable[..., int]]:
    """The formulas of torch by the names of the operators."""
    return {str(packet): formula for packet, formula in flop_registry.items()}


def _formula(name: str) -> Callable[..., int]:
    found = _operator(f"aten.{name}")
    assert found is not None
    return found


def _linear(x: Shape, weight: Shape, *rest: Any, out_val: Any = None, **named: Any) -> int:
    return _formula("mm")((prod(x[:-1]), x[-1]), weight[::-1])


def _matmul(a: Shape, b: Shape, *, out_val: Shape, **named: Any) -> int:
    left = (1, *a)[-max(len(a), 2) :]
    right = (*b, 1)[: max(len(b), 2)]
    outer = out_val[: max(len(left), len(right)) - 2]
    return _formula("bmm")((prod(outer), *left[-2:]), (prod(outer), *right[-2:]))


def _reflected(a: Shape, b: Shape, *, out_val: Shape) -> int:
    return _matmul(b, a, out_val=out_val)


def _conv(x: Shape, weight: Shape, *rest: Any, out_val: Shape, **named: Any) -> int:
    return _formula("convolution")(*_batched(x, weight), None, None, None, None, False, out_val=_with(out_val, weight))


def _conv_transposed(x: Shape, weight: Shape, *rest: Any, out_val: Shape, **named: Any) -> int:
    return _formula("convolution")(*_batched(x, weight), None, None, None, None, True, out_val=_with(out_val, weight))


def _batched(x: Shape, weight: Shape) -> tuple[Shape, Shape]:
    return _with(x, weight), weight


def _with(shape: Shape, weight: Shape) -> Shape:
    """A shape with its batch, which a convolution may go without."""
    if len(shape) == len(weight):
        return shape
    return (1, *shape)


def _attention(query: Shape, key: Shape, value: Shape, *rest: Any, out_val: Any = None, **named: Any) -> int:
    heads = [(prod(shape[:-3]), *(1, *shape)[-3:]) for shape in (query, key, value)]
    return _formula(FLASH_ATTENTION)(*heads)


def _multi_head(query: Shape, key: Shape, value: Shape, *rest: Any, out_val: Any = None, **named: Any) -> int:
    """The three projections, both products of attention, and the projection of what comes out."""
    width, many, others = query[-1], prod(query[:-1]), prod(key[:-1])
    batch = query[1] if len(query) == 3 else 1
    projected = many * width + others * (key[-1] + value[-1]) + many * width
    return 2 * width * (projected + 2 * many * (others // batch))


def _einsum(equation: str, *operands: Any, out_val: Any = None, **named: Any) -> int:
    """Two operands are one product of batches of matrices over all letters."""
    given = operands[0] if len(operands) == 1 and isinstance(operands[0][0], tuple) else operands
    letters = equation.replace(" ", "").partition("->")[0].split(",")
    left, right = given
    sizes: dict[str, int] = dict(zip(letters[0] + letters[1], (*left, *right), strict=True))
    return 2 * prod(sizes.values())


def _everywhere(name: str, formula: Callable[..., int]) -> dict[str, Callable[..., int]]:
    return {f"{owner}.{name}": formula for owner in ("torch", "torch.Tensor", "torch.nn.functional")}


# Torch's formulas are for operators: these make those of the functions that users call.
_FUNCTIONS: dict[str, Callable[..., int]] = {
    **_everywhere("linear", _linear),
    **_everywhere("matmul", _matmul),
    **_everywhere("__matmul__", _matmul),
    **_everywhere("__rmatmul__", _reflected),
    **_everywhere("mm", _formula("mm")),
    **_everywhere("bmm", _formula("bmm")),
    **_everywhere("addmm", _formula("addmm")),
    **_everywhere("baddbmm", _formula("baddbmm")),
    **_everywhere("conv1d", _conv),
    **_everywhere("conv2d", _conv),
    **_everywhere("conv3d", _conv),
    **_everywhere("conv_transpose1d", _conv_transposed),
    **_everywhere("conv_transpose2d", _conv_transposed),
    **_everywhere("conv_transpose3d", _conv_transposed),
    **_everywhere("scaled_dot_product_attention", _attention),
    **_everywhere("multi_head_attention_forward", _multi_head),
    "torch.einsum": _einsum,
}
