"""What does not fit when tensors are joined or multiplied: cat, stack, einsum, matmul."""

from __future__ import annotations

import re
from typing import Any

from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case
from insitu.trace.explain.explanation import Misfit, ShapeRow

PRODUCTS = ("matmul", "dot", "mv")


def product(case: Case) -> Misfit | None:
    """The inner dimensions of a matrix product, and the outer ones."""
    if case.operation.base not in PRODUCTS or len(case.operands) < 2:
        return None
    left, right = (operand.facts for operand in case.operands[:2])
    if case.operation.is_reflected:
        left, right = right, left
    if not left.shape or not right.shape:
        return Misfit(
            "a matrix product needs at least one dimension", (case.row("left", left), case.row("right", right))
        )
    rows = (case.row("left", left), case.row("right", right))
    inner = right.shape[-2] if len(right.shape) > 1 else right.shape[-1]
    if left.shape[-1] != inner:
        side = "rows" if len(right.shape) > 1 else "elements"
        return Misfit(
            f"the last dimension of left is {left.shape[-1]}, right has {inner} {side}",
            rows,
            advice=_turned(left, right),
        )
    if case.name == "bmm":
        return _batches(rows, left.shape[0], right.shape[0])
    return _outer(rows, left.shape[:-2], right.shape[:-2])


def _turned(left: TensorFacts, right: TensorFacts) -> str:
    """The transposition that would make them fit."""
    if len(right.shape) < 2 or left.shape[-1] != right.shape[-1]:
        return ""
    if right.type == "ndarray":
        return "right.T would fit" if len(right.shape) == 2 else "np.swapaxes(right, -2, -1) would fit"
    return "right.transpose(-2, -1) would fit"


def _batches(rows: tuple[ShapeRow, ...], left: Any, right: Any) -> Misfit | None:
    """The batches of `bmm`, which does not broadcast."""
    return Misfit(f"left has {left} matrices, right has {right}", rows, -3) if left != right else None


def _outer(rows: tuple[ShapeRow, ...], left: tuple[Any, ...], right: tuple[Any, ...]) -> Misfit | None:
    for index in range(1, min(len(left), len(right)) + 1):
        one, other = left[-index], right[-index]
        if one != other and 1 not in (one, other):
            return Misfit(f"dimension {-index - 2}: {one} and {other} differ and neither is 1", rows, -index - 2)
    return None


def linear(case: Case) -> Misfit | None:
    """The features that go into a linear layer, and those it takes."""
    if case.name not in ("linear", "Linear", "addmm"):
        return None
    given, weight = case.argument(0, "input"), case.argument(1, "weight")
    if case.name == "addmm":
        given, weight = case.argument(1, "mat1"), case.argument(2, "mat2")
    if not isinstance(given, TensorFacts):
        return None
    if not isinstance(weight, TensorFacts):
        return _settings(case, given)
    if not weight.shape or len(weight.shape) > 2:
        rows = (case.row("input", given), case.row("weight", weight))
        return Misfit(f"the weight has {len(weight.shape)} of the 2 dimensions that {case.name} takes", rows)
    takes = weight.shape[0] if case.name == "addmm" else weight.shape[-1]
    if not given.shape or given.shape[-1] == takes:
        return None
    rows = (case.row("input", given), case.row("weight", weight))
    return Misfit(f"the last dimension of input is {given.shape[-1]}, the layer takes {takes}", rows, -1)


def _settings(case: Case, given: TensorFacts) -> Misfit | None:
    module = case.call.module if case.call is not None else None
    takes = module.settings.get("in_features") if module is not None else None
    if takes is None or not given.shape or given.shape[-1] == takes:
        return None
    return Misfit(f"the last dimension is {given.shape[-1]}, the layer takes {takes}", (case.row("input", given),), -1)


def joined(case: Case) -> Misfit | None:
    """Tensors that are put one after the other, or one above the other."""
    if case.name not in ("cat", "concat", "concatenate", "stack", "vstack", "hstack"):
        return None
    parts = case.argument(0, "tensors")
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, TensorFacts) for part in parts) or not parts:
        return None
    least = AT_LEAST.get(case.name, 0)
    shapes = [(1,) * (least - len(part.shape)) + part.shape for part in parts]
    first, along = shapes[0], _along(case, len(shapes[0]))
    other = next((i for i, shape in enumerate(shapes) if _misfit(first, shape, along) is not None), None)
    if other is None:
        return None
    rows = tuple(case.row(f"[{index}]", parts[index]) for index in sorted({0, other}))
    where = _misfit(first, shapes[other], along)
    if where == "number":
        return Misfit(f"[0] has {len(first)} dimensions, [{other}] has {len(shapes[other])}", rows)
    assert isinstance(where, int)
    index = where - len(first)
    sizes = f"{first[where]} and {shapes[other][where]}"
    beside = f"; only dimension {along} may" if along is not None else ", and all must be of one shape"
    return Misfit(f"dimension {where}: {sizes} differ{beside}", rows, index)


AT_LEAST = {"vstack": 2, "hstack": 1}  # dimensions: what has fewer gets them in front


def _along(case: Case, dimensions: int) -> int | None:
    """The dimension that tensors are put together along; None where there is a new one for it."""
    if case.name in AT_LEAST:
        return int(case.name == "hstack" and dimensions > 1)
    dim = case.argument(1, "dim", 0)
    return dim if case.name != "stack" and isinstance(dim, int) else None


def _misfit(first: tuple[Any, ...], other: tuple[Any, ...], along: int | None) -> int | str | None:
    """The first dimension in which two shapes differ, besides the one they are joined along."""
    if len(first) != len(other):
        return None if other == (0,) and along is not None else "number"
    skipped = along % len(first) if along is not None and first else None
    return next(
        (i for i, sizes in enumerate(zip(first, other, strict=True)) if len(set(sizes)) > 1 and i != skipped), None
    )


def einsum(case: Case) -> Misfit | None:
    """A letter with two sizes, or as many letters as there are no dimensions."""
    equation = case.argument(0, "equation")
    if case.name != "einsum" or not isinstance(equation, str):
        return None
    terms = re.sub(r"\s", "", equation.partition("->")[0]).split(",")
    rows = tuple(
        ShapeRow(term, operand.facts.shape, operand.name) for term, operand in zip(terms, case.operands, strict=False)
    )
    sizes: dict[str, tuple[int | str, str]] = {}
    for term, operand in zip(terms, case.operands, strict=False):
        if "." in term:
            continue
        if len(term) != len(operand.facts.shape):
            return Misfit(f"{term} names {len(term)} dimensions, there are {len(operand.facts.shape)}", rows)
        for letter, size in zip(term, operand.facts.shape, strict=True):
            known, before = sizes.setdefault(letter, (size, term))
            if known != size and 1 not in (known, size):
                return Misfit(f"{letter} is {known} in {before} and {size} in {term}", rows)
    return None


CHECKS = (product, linear, joined, einsum)
