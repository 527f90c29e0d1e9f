"""What does not fit in the elements: dtypes, devices, indices that are out of range."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, NamedOperand, before_dot
from insitu.trace.explain.explanation import Misfit

WIDE = 8  # of a large tensor only so many are listed
MOST_EXACT = 2**53  # of the integers that a float holds exactly


def dtypes(case: Case) -> Misfit | None:
    """Tensors of different dtypes where they must be the same."""
    given = [operand for operand in case.operands if operand.facts.dtype != "b8"]
    complains = re.search(r"same dtype|scalar type|[Ee]xpected .*dtype", case.message) is not None
    if len({operand.facts.dtype for operand in given}) < 2 or not (complains or case.operation.needs_one_dtype):
        return None
    if "size" in case.message or "shape" in case.message or "attn_mask" in case.message or _needs_whole(case):
        return None
    told = ", ".join(f"{operand.name or 'a tensor'} is {operand.facts.dtype}" for operand in given[:WIDE])
    return Misfit(f"the dtypes differ: {told}", advice=_converted(given), names=_names(given))


def _names(operands: Sequence[NamedOperand]) -> tuple[str, ...]:
    return tuple(operand.name for operand in operands[:WIDE])


def _converted(given: list[NamedOperand]) -> str:
    """The one to convert: whole numbers to the others' type, else what is no parameter."""
    order = sorted(given, key=_reluctance)
    first = order[0]
    other = next(operand.facts.dtype for operand in reversed(order) if operand.facts.dtype != first.facts.dtype)
    to = f".to(torch.{dtype_named(other).name})"
    return f"{before_dot(first.name)}{to}" if first.name else f"{to} for the one that is {first.facts.dtype}"


def _reluctance(operand: NamedOperand) -> tuple[bool, bool]:
    """Integers are converted first, parameters last."""
    return not dtype_named(operand.facts.dtype).is_integer, operand.facts.type == "Parameter"


def devices(case: Case) -> Misfit | None:
    """Tensors on different devices; a single number may be anywhere."""
    placed = [operand for operand in case.operands if operand.facts.shape or "device" in case.message]
    if len({operand.facts.device for operand in placed}) < 2:
        return None
    told = ", ".join(f"{operand.name or 'a tensor'} is on {operand.facts.device}" for operand in placed[:WIDE])
    return Misfit(f"the devices differ: {told}", names=_names(placed))


def not_floating(case: Case) -> Misfit | None:
    """A mean, a deviation or a gradient of whole numbers."""
    if not re.search(
        r"could not infer output dtype|must be either a floating point|floating point and complex", case.message
    ):
        return None
    if not case.operands:
        return None
    operand = case.operands[0]
    return Misfit(f"{operand.name or 'it'} holds {operand.facts.dtype}, whole numbers", advice=".float() first")


def not_whole(case: Case) -> Misfit | None:
    """Indices, or targets, that are no whole numbers."""
    if not _needs_whole(case):
        return None
    indices, _ = _looked_up(case)
    rest = case.operands[1:] or case.operands
    given = [each for each in case.operands if each.facts is indices] if indices is not None else rest
    wrong = next((each for each in given if dtype_named(each.facts.dtype).is_floating), None)
    if wrong is None:
        return None
    advice = f"{before_dot(wrong.name)}.long()"
    return Misfit(f"{wrong.name or 'it'} is {wrong.facts.dtype} and must hold whole numbers", advice=advice)


# What torch says where it needs whole numbers: as indices, as targets.
WHOLE = re.compile(
    r"'indices' to have one of the following scalar types|expected target dtype to be Long|tensors used as indices must"
    r"|Expected dtype int\d+ .*for index|index tensor of type LongTensor"
)


def _needs_whole(case: Case) -> bool:
    is_loss = case.name in ("cross_entropy", "nll_loss")
    return bool(WHOLE.search(case.message)) or (is_loss and "expected scalar type Long" in case.message)


def cast_back(case: Case) -> Misfit | None:
    """A result that cannot be written into a tensor of its dtype."""
    found = re.search(r"result type (\w+) can't be cast to the desired output type (\w+)", case.message)
    if found is None:
        return None
    told = ", ".join(f"{operand.name or 'a tensor'} is {operand.facts.dtype}" for operand in case.operands[:WIDE])
    text = f"a result of type {found[1]} does not go into {found[2]}"
    return Misfit(
        f"{text}: {told}" if told else text,
        advice=f"make the {found[2]} one a {found[1]} one",
        names=_names(case.operands),
    )


def index_out_of_range(case: Case) -> Misfit | None:
    """An index beyond the end of a dimension."""
    found = re.search(r"index (-?\d+) is out of bounds for dimension (\d+) with size (\d+)", case.message)
    array = re.search(r"index (-?\d+) is out of bounds for axis (\d+) with size (\d+)", case.message)
    told = found or array
    if told is None:
        return None
    index, size = int(told[1]), int(told[3])
    where = _dimension(case, index, size, int(told[2]))
    text = f"index {index} in dimension {where}, whose size is {size}"
    if not case.name and array is None:
        return Misfit(text)  # who knows from where on it counts
    least = 0 if case.operation.counts_from_zero else -size
    return Misfit(f"{text}: it has {least} … {size - 1}")


def _dimension(case: Case, index: int, size: int, told: int) -> int:
    """The dimension that is meant: torch counts it after the ones that were sliced."""
    facts, key = case.argument(0, "input"), case.argument(1, "key")
    if not isinstance(facts, TensorFacts) or case.name != "__getitem__" or not isinstance(key, tuple):
        return told
    if "..." in map(str, key) or None in key or (told < len(key) and key[told] == index):
        return told
    sizes = zip(key, facts.shape, strict=False)
    fits = [place for place, (part, room) in enumerate(sizes) if _is_index(part) and room == size]
    return fits[0] if len(fits) == 1 else told


def _is_index(part: Any) -> bool:
    return isinstance(part, (int, TensorFacts)) and not isinstance(part, bool)


def outside_table(case: Case) -> Misfit | None:
    """Indices that the table of an embedding does not have."""
    indices, table = _looked_up(case)
    if not isinstance(indices, TensorFacts) or "index out of range" not in case.message:
        return None
    rows = (
        f" {table.shape[0]} rows (0 … {int(table.shape[0]) - 1})" if isinstance(table, TensorFacts) else " fewer rows"
    )
    owner = (case.name_of(table) if isinstance(table, TensorFacts) else "") or "the table"
    told = _holds(case, indices)
    return Misfit(f"{told}; {owner} has{rows}" if told else f"{owner} has{rows}", names=(owner,))


def _looked_up(case: Case) -> tuple[Any, Any]:
    """The indices and the table of an embedding; `torch.embedding`, which the others call, takes the table first."""
    if case.call is None or "embedding" not in case.name.lower():
        return None, None
    if case.call.name.startswith("torch.embedding"):
        return case.argument(1, "indices"), case.argument(0, "weight")
    return case.argument(0, "input"), case.argument(1, "weight")


def target_outside(case: Case) -> Misfit | None:
    """Targets beyond the number of classes."""
    found = re.search(r"Target (-?\d+) is out of bounds|Class values must be smaller than num_classes", case.message)
    if found is None:
        return None
    scores, target = case.argument(0, "input"), case.argument(1, "target")
    classes = scores.shape[-1 if len(scores.shape) == 1 else 1] if isinstance(scores, TensorFacts) else None
    if case.name == "one_hot":
        classes, target = target if isinstance(target, int) else None, scores
    if not isinstance(target, TensorFacts):
        return Misfit(f"target {found[1]} is no class") if found[1] else None
    there = f"; there are {classes} classes (0 … {int(classes) - 1})" if isinstance(classes, int) else ""
    told = _holds(case, target) or (f"target {found[1]} is no class" if found[1] else "")
    return Misfit(f"{told}{there}" if told else there.removeprefix("; ")) if told or there else None


def _holds(case: Case, facts: TensorFacts) -> str:
    limits = case.limits(facts)
    if limits is None:
        return ""
    return f"{case.name_of(facts) or 'it'} holds {_number(limits[0])} … {_number(limits[1])}"


def _number(limit: float) -> str:
    """A number; an integer is exact."""
    is_whole = abs(limit) < MOST_EXACT and float(limit).is_integer()
    return f"{limit:.0f}" if is_whole else f"{limit:g}"


def outside_unit(case: Case) -> Misfit | None:
    """Probabilities that are none."""
    if "should be between 0 and 1" not in case.message or not case.operands:
        return None
    told = _holds(case, case.operands[0].facts) or "some are not between 0 and 1"
    return Misfit(told, advice="take the sigmoid, or the loss `…_with_logits`")


def _typed(facts: TensorFacts) -> str:
    return f"{facts.dtype}[{', '.join(map(str, facts.shape))}]"


def ambiguous(case: Case) -> Misfit | None:
    """Several numbers where one is needed."""
    if not re.search(
        r"Boolean value of Tensor with more|cannot be converted to Scalar|only one element tensors", case.message
    ):
        return None
    if not case.operands:
        return None
    operand = case.operands[0]
    return Misfit(
        f"{operand.name or 'it'} is {_typed(operand.facts)}: more than one element",
        advice=".any(), .all() or an index",
    )


CHECKS = (
    devices,
    dtypes,
    not_floating,
    not_whole,
    cast_back,
    index_out_of_range,
    outside_table,
    target_outside,
    outside_unit,
    ambiguous,
)
