"""Mistakes where tensors are joined or multiplied: cat, stack, einsum, matmul, linear."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, NamedOperand
from insitu.trace.explain.checks.broadcasting import Shape, conflict_misfit
from insitu.trace.explain.checks.registry import Checks
from insitu.trace.explain.explanation import Misfit, ShapeRow

CHECKS = Checks()
# The least number of dimensions: a tensor with fewer gets more in front.
LEAST_DIMENSIONS = {"vstack": 2, "hstack": 1}


@CHECKS.add("matmul dot mv", operands=2)
def matrix_product(case: Case) -> Misfit | None:
    """The inner dimensions of a matrix product, and the outer ones."""
    left, right = map(attrgetter("facts"), case.operands[:2])
    if case.operation.is_reflected:
        left, right = right, left
    rows = case.rows(left=left, right=right)
    if not left.shape or not right.shape:
        return Misfit("a matrix product needs at least one dimension", rows)
    return _inner(left, right, rows) or _outer(case, left, right, rows)


def _inner(left: TensorFacts, right: TensorFacts, rows: tuple[ShapeRow, ...]) -> Misfit | None:
    """The last dimension of the left operand and the rows, or the elements, of the right one."""
    size = left.shape[-1]
    text = f"the last dimension of left is {size}, right has"
    if len(right.shape) == 1:
        if right.shape[0] == size:
            return None
        return Misfit(f"{text} {right.shape[0]} elements", rows)
    if right.shape[-2] == size:
        return None
    misfit = Misfit(f"{text} {right.shape[-2]} rows", rows)
    if right.shape[-1] == size:
        return replace(misfit, way_out=f"{_transpose(right)} would fit")
    return misfit


def _transpose(right: TensorFacts) -> str:
    if right.type != "ndarray":
        return "right.transpose(-2, -1)"
    if len(right.shape) == 2:
        return "right.T"
    return "np.swapaxes(right, -2, -1)"


def _outer(case: Case, left: TensorFacts, right: TensorFacts, rows: tuple[ShapeRow, ...]) -> Misfit | None:
    """The dimensions before the matrices: `bmm` has one and does not broadcast it."""
    if case.name == "bmm" and left.shape[0] != right.shape[0]:
        return Misfit(f"left has {left.shape[0]} matrices, right has {right.shape[0]}", rows, -3)
    return conflict_misfit([(*left.shape[:-2], 1, 1), (*right.shape[:-2], 1, 1)], rows)


@CHECKS.add("linear", tensors="input weight")
def features_of_linear(case: Case, given: TensorFacts, weight: TensorFacts) -> Misfit | None:
    """The features that go into a linear layer, and those that its weight takes."""
    return _features(case, given, weight, -1)


@CHECKS.add("addmm", tensors="input mat1 mat2")
def features_of_addmm(case: Case, bias: TensorFacts, given: TensorFacts, weight: TensorFacts) -> Misfit | None:
    """The same for a weight that is not transposed."""
    return _features(case, given, weight, 0)


def _features(case: Case, given: TensorFacts, weight: TensorFacts, dimension: int) -> Misfit | None:
    rows = case.rows(input=given, weight=weight)
    if len(weight.shape) not in (1, 2):
        return Misfit(f"the weight has {len(weight.shape)} of the 2 dimensions that {case.name} takes", rows)
    features = weight.shape[dimension]
    if _has_features(given, features):
        return None
    return Misfit(f"the last dimension of input is {given.shape[-1]}, the layer takes {features}", rows, -1)


@CHECKS.add("Linear", tensors="input")
def features_of_layer(case: Case, given: TensorFacts) -> Misfit | None:
    """The features that go into a linear layer, and those that its settings name."""
    features = case.setting("in_features")
    if features is None or _has_features(given, features):
        return None
    return Misfit(f"the last dimension is {given.shape[-1]}, the layer takes {features}", case.rows(input=given), -1)


def _has_features(given: TensorFacts, features: Any) -> bool:
    return not given.shape or given.shape[-1] == features


@dataclass(slots=True, frozen=True)
class Join:
    """Tensors that are put together along a dimension; None if stack makes a new one."""

    parts: Sequence[TensorFacts]
    shapes: Sequence[Shape]
    along: int | None

    @property
    def rule(self) -> str:
        """What the shapes must have in common, as the end of a sentence about two sizes that differ."""
        if self.along is None:
            return ", and all must be of one shape"
        return f"; only dimension {self.along} may"


@CHECKS.add("cat concat concatenate stack vstack hstack")
def joined_shapes(case: Case) -> Misfit | None:
    """Tensors that are put one after the other, or one above the other."""
    join = _join(case)
    if join is None:
        return None
    for index, shape in enumerate(join.shapes):
        if not _fits(join.shapes[0], shape, join.along):
            return _join_misfit(case, join, index)
    return None


def _join_misfit(case: Case, join: Join, index: int) -> Misfit:
    """The misfit between the first tensor and another one."""
    first, other = join.shapes[0], join.shapes[index]
    rows = (case.row("[0]", join.parts[0]), case.row(f"[{index}]", join.parts[index]))
    if len(first) != len(other):
        return Misfit(f"[0] has {len(first)} dimensions, [{index}] has {len(other)}", rows)
    dimension = _differences(first, other, join.along)[0]
    text = f"dimension {dimension}: {first[dimension]} and {other[dimension]} differ{join.rule}"
    return Misfit(text, rows, dimension - len(first))


def _join(case: Case) -> Join | None:
    parts = case.argument(0, "tensors")
    if not isinstance(parts, (list, tuple)) or not parts:
        return None
    if set(map(type, parts)) != {TensorFacts}:
        return None
    least = LEAST_DIMENSIONS.get(case.name, 0)
    shapes = [(1,) * (least - len(part.shape)) + part.shape for part in parts]
    return Join(parts, shapes, _along(case, len(shapes[0])))


def _along(case: Case, dimensions: int) -> int | None:
    """The dimension that tensors are put together along; None if stack makes a new one."""
    if case.name in LEAST_DIMENSIONS:
        return int(case.name == "hstack" and dimensions > 1)
    dim = case.argument(1, "dim", 0)
    if case.name != "stack" and isinstance(dim, int):
        return dim
    return None


def _fits(first: Shape, other: Shape, along: int | None) -> bool:
    """Whether two shapes can be joined; torch.cat ignores empty tensors."""
    if len(first) != len(other):
        return other == (0,) and along is not None
    return not _differences(first, other, along)


def _differences(first: Shape, other: Shape, along: int | None) -> list[int]:
    """The dimensions in which two shapes differ, without the one that they are joined along."""
    dimensions = [index for index in range(len(first)) if along not in (index, index - len(first))]
    return [index for index in dimensions if first[index] != other[index]]


@CHECKS.add("einsum")
def einsum_letters(case: Case) -> Misfit | None:
    """A letter with two sizes, or another number of letters than dimensions."""
    equation = case.argument(0, "equation")
    if not isinstance(equation, str):
        return None
    terms = re.sub(r"\s", "", equation.partition("->")[0]).split(",")
    rows = tuple(map(_term_row, terms, case.operands))
    plain = [row for row in rows if "." not in row.role]
    text = _letter_count(plain) or _letter_sizes(plain)
    if not text:
        return None
    return Misfit(text, rows)


def _term_row(term: str, operand: NamedOperand) -> ShapeRow:
    return ShapeRow(term, operand.facts.shape, operand.name)


def _letter_count(rows: list[ShapeRow]) -> str:
    """The first term whose letters are not as many as the dimensions of its tensor."""
    for row in rows:
        if len(row.role) != len(row.shape):
            return f"{row.role} names {len(row.role)} dimensions, the tensor has {len(row.shape)}"
    return ""


def _letter_sizes(rows: list[ShapeRow]) -> str:
    """The first letter that has two sizes."""
    first: dict[str, tuple[int | str, str]] = {}
    for row in rows:
        for letter, size in zip(row.role, row.shape, strict=True):
            known, term = first.setdefault(letter, (size, row.role))
            if size != known and 1 not in (known, size):
                return f"{letter} is {known} in {term} and {size} in {row.role}"
    return ""
