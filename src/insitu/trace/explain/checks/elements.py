"""Mistakes in the elements of tensors: dtypes, devices, indices that are out of range."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, NamedOperand, before_dot
from insitu.trace.explain.checks.registry import Checks, listing
from insitu.trace.explain.explanation import Misfit

CHECKS = Checks()
MOST_NAMED = 8  # operands that a sentence names
MOST_EXACT = 2**53  # the largest integer up to which floats hold every integer exactly
# torch names another mistake, although the dtypes differ, too.
OTHER_MISTAKE = re.compile("size|shape|attn_mask")
SAME_DTYPE = re.compile(r"same dtype|scalar type|[Ee]xpected .*dtype")
# torch needs integers: as indices, as targets.
NEEDS_INTEGERS = re.compile(
    r"'indices' to have one of the following scalar types|expected target dtype to be Long|tensors used as indices must"
    r"|Expected dtype int\d+ .*for index|index tensor of type LongTensor"
)
CLASSIFICATION = ("cross_entropy", "nll_loss")


@CHECKS.add()
def devices_differ(case: Case) -> Misfit | None:
    """Tensors on different devices; a single number may be anywhere."""
    operands = [operand for operand in case.operands if operand.facts.shape]
    if "device" in case.message:
        operands = list(case.operands)
    devices = [operand.facts.device for operand in operands]
    if len(set(devices)) < 2:
        return None
    return Misfit(f"the devices differ: {_each(operands, 'is on', devices)}", names=_names(operands))


@CHECKS.add()
def dtypes_differ(case: Case) -> Misfit | None:
    """Tensors of different dtypes where they must be the same."""
    operands = [operand for operand in case.operands if operand.facts.dtype != "b8"]
    dtypes = [operand.facts.dtype for operand in operands]
    if len(set(dtypes)) < 2 or not _must_have_one_dtype(case):
        return None
    return Misfit(
        f"the dtypes differ: {_each(operands, 'is', dtypes)}", advice=_conversion(operands), names=_names(operands)
    )


def _must_have_one_dtype(case: Case) -> bool:
    if OTHER_MISTAKE.search(case.message) or _needs_integers(case):
        return False
    return case.operation.needs_one_dtype or SAME_DTYPE.search(case.message) is not None


def _each(operands: Sequence[NamedOperand], verb: str, values: Sequence[str]) -> str:
    """`x is f32, w is f64`."""
    pairs = zip(operands[:MOST_NAMED], values, strict=False)
    return listing(f"{operand.label} {verb} {value}" for operand, value in pairs)


def _names(operands: Sequence[NamedOperand]) -> tuple[str, ...]:
    return tuple(operand.name for operand in operands[:MOST_NAMED])


def _conversion(operands: Sequence[NamedOperand]) -> str:
    """The operand to convert: integers first, parameters last."""
    order = sorted(operands, key=_reluctance)
    first = order[0]
    other = next(operand.facts.dtype for operand in reversed(order) if operand.facts.dtype != first.facts.dtype)
    to = f".to(torch.{dtype_named(other).name})"
    if first.name:
        return f"{before_dot(first.name)}{to}"
    return f"{to} for the one that is {first.facts.dtype}"


def _reluctance(operand: NamedOperand) -> tuple[bool, bool]:
    """Integers are converted first, parameters last."""
    return not dtype_named(operand.facts.dtype).is_integer, operand.facts.type == "Parameter"


@CHECKS.add(says="could not infer output dtype|must be either a floating point|floating point and complex", operands=1)
def integers_where_floats_are_needed(case: Case, match: re.Match[str]) -> Misfit:
    """A mean, a deviation or a gradient of integers."""
    operand = case.operands[0]
    return Misfit(f"{operand.label} holds integers ({operand.facts.dtype})", advice=".float() first")


@CHECKS.add(operands=1)
def floats_where_integers_are_needed(case: Case) -> Misfit | None:
    """Indices, or targets, that are not integers."""
    if not _needs_integers(case):
        return None
    wrong = next((each for each in _indices(case) if each.facts.dtype.startswith(("f", "bf", "c"))), None)
    if wrong is None:
        return None
    text = f"{wrong.label} is {wrong.facts.dtype} and must hold integers"
    return Misfit(text, advice=f"{before_dot(wrong.name)}.long()", names=(wrong.name,))


def _needs_integers(case: Case) -> bool:
    is_target = case.name in CLASSIFICATION and "expected scalar type Long" in case.message
    return is_target or NEEDS_INTEGERS.search(case.message) is not None


def _indices(case: Case) -> Sequence[NamedOperand]:
    """The operands that may be indices: those of a lookup, else all but the first one."""
    lookup = _lookup(case)
    if lookup is not None:
        return [each for each in case.operands if each.facts is lookup.indices]
    return case.operands[1:] or case.operands


@CHECKS.add(says=r"result type (\w+) can't be cast to the desired output type (\w+)")
def result_of_another_dtype(case: Case, match: re.Match[str]) -> Misfit:
    """A result that cannot be written into a tensor of its dtype."""
    text = f"a result of type {match[1]} does not fit into a {match[2]} tensor"
    operands = _each(case.operands, "is", [operand.facts.dtype for operand in case.operands])
    return Misfit(
        f"{text}: {operands}" if operands else text,
        advice=f"convert the {match[2]} tensor to {match[1]}",
        names=_names(case.operands),
    )


@CHECKS.add(says=r"index (-?\d+) is out of bounds for (dimension|axis) (\d+) with size (\d+)")
def index_out_of_range(case: Case, match: re.Match[str]) -> Misfit:
    """An index beyond the end of a dimension."""
    index, size = int(match[1]), int(match[4])
    text = f"index {index} in dimension {_dimension(case, index, size, int(match[3]))}, whose size is {size}"
    if not case.name and match[2] == "dimension":
        return Misfit(text)  # the function is not known, so neither is whether it takes negative indices
    least = 0 if case.operation.counts_from_zero else -size
    return Misfit(f"{text}: it has {least} … {size - 1}")


def _dimension(case: Case, index: int, size: int, counted: int) -> int:
    """The dimension of an index: torch counts only those that are not sliced."""
    facts, key = case.tensor(0, "input"), case.argument(1, "key")
    if facts is None or case.name != "__getitem__" or not isinstance(key, tuple):
        return counted
    if _is_counted_by_user(key, index, counted):
        return counted
    sizes = zip(key, facts.shape, strict=False)
    fits = [place for place, (part, room) in enumerate(sizes) if _is_index(part) and room == size]
    if len(fits) == 1:
        return fits[0]
    return counted


def _is_counted_by_user(key: tuple[Any, ...], index: int, counted: int) -> bool:
    """Whether torch's dimension is that of the key, or the key adds or skips dimensions."""
    adds_dimensions = None in key or "..." in map(str, key)
    return adds_dimensions or (counted < len(key) and key[counted] == index)


def _is_index(part: Any) -> bool:
    return isinstance(part, (int, TensorFacts)) and not isinstance(part, bool)


@dataclass(slots=True, frozen=True)
class Lookup:
    """The indices and the table of an embedding; the name of the table is empty if it is not known."""

    indices: TensorFacts
    table: TensorFacts | None


def _lookup(case: Case) -> Lookup | None:
    if case.call is None or "embedding" not in case.name.lower():
        return None
    # torch.embedding, which the others call, takes the table first
    places = (1, 0) if case.call.name.startswith("torch.embedding") else (0, 1)
    indices = case.tensor(places[0], "indices") or case.tensor(places[0], "input")
    if indices is not None:
        return Lookup(indices, case.tensor(places[1], "weight"))
    return None


@CHECKS.add(says="index out of range")
def index_outside_of_table(case: Case, match: re.Match[str]) -> Misfit | None:
    """Indices that the table of an embedding does not have."""
    lookup = _lookup(case)
    if lookup is None:
        return None
    texts = [_limits_text(case, lookup.indices), _rows_text(case, lookup.table)]
    name = case.name_of(lookup.table) if lookup.table is not None else ""
    return Misfit("; ".join(filter(None, texts)), names=(name,))


def _rows_text(case: Case, table: TensorFacts | None) -> str:
    if table is None:
        return "the table has fewer rows"
    return f"{case.name_of(table) or 'the table'} has {_range(table.shape[0], 'rows')}"


def _range(count: int | str, noun: str) -> str:
    return f"{count} {noun} (0 … {int(count) - 1})"


@CHECKS.add(says=r"Target (-?\d+) is out of bounds")
def target_outside_of_classes(case: Case, match: re.Match[str]) -> Misfit:
    """Targets beyond the number of classes."""
    scores, target = case.tensor(0, "input"), case.tensor(1, "target")
    text = _limits_text(case, target) or f"target {match[1]} is not a class"
    if scores is None:
        return Misfit(text)
    classes = scores.shape[:2][-1]  # scores without a batch have one dimension
    return Misfit(f"{text}; there are {_range(classes, 'classes')}")


@CHECKS.add("one_hot", says="Class values must be smaller than num_classes", tensors="input")
def value_outside_of_classes(case: Case, match: re.Match[str], values: TensorFacts) -> Misfit | None:
    """Values beyond the number of classes of one_hot."""
    classes = case.argument(1, "num_classes")
    known = f"there are {_range(classes, 'classes')}" if isinstance(classes, int) else ""
    text = "; ".join(filter(None, (_limits_text(case, values), known)))
    if text:
        return Misfit(text)
    return None


@CHECKS.add(says="should be between 0 and 1", operands=1)
def not_a_probability(case: Case, match: re.Match[str]) -> Misfit:
    """Probabilities below 0 or above 1."""
    text = _limits_text(case, case.operands[0].facts) or "some are not between 0 and 1"
    return Misfit(text, advice="take the sigmoid, or the loss `…_with_logits`")


def _limits_text(case: Case, facts: TensorFacts | None) -> str:
    """`ids holds 0 … 12`, if the tensor can still be read."""
    limits = case.limits(facts) if facts is not None else None
    if facts is None or limits is None:
        return ""
    return f"{case.name_of(facts) or 'a tensor'} holds {_number(limits[0])} … {_number(limits[1])}"


def _number(limit: float) -> str:
    """A number; an integer is exact."""
    is_integer = abs(limit) < MOST_EXACT and float(limit).is_integer()
    if is_integer:
        return f"{limit:.0f}"
    return f"{limit:g}"


@CHECKS.add(says="Boolean value of Tensor with more|cannot be converted to Scalar|only one element tensors", operands=1)
def several_elements_where_one_is_needed(case: Case, match: re.Match[str]) -> Misfit:
    """Several numbers where one is needed."""
    operand = case.operands[0]
    tensor = f"{operand.facts.dtype}[{listing(operand.facts.shape)}]"
    text = f"{operand.label} is {tensor}: more than one element"
    return Misfit(text, advice=".any(), .all() or an index", names=(operand.name,))
