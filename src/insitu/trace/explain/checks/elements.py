"""Mistakes in the elements of tensors: dtypes, devices, indices that are out of range."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from insitu.trace.dtype import dtype_named
from insitu.trace.event import TensorFacts
from insitu.trace.explain.case import Case, NamedOperand, before_dot
from insitu.trace.explain.checks.registry import Checks, listing
from insitu.trace.explain.explanation import Misfit

CHECKS = Checks()
MOST_NAMED = 8  # operands that a sentence names
MOST_EXACT = 2**53  # the largest integer up to which floats hold every integer exactly
# The message names another mistake, although the dtypes differ, too.
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
    operands = list(case.operands)
    if "device" not in case.message:
        operands = [operand for operand in operands if operand.facts.shape]
    devices = list(map(attrgetter("facts.device"), operands))
    if len(set(devices)) < 2:
        return None
    return Misfit(f"the devices differ: {_each(operands, 'is on', devices)}", names=_names(operands), fact="device")


@CHECKS.add()
def dtypes_differ(case: Case) -> Misfit | None:
    """Tensors of different dtypes where they must be the same."""
    operands = [operand for operand in case.operands if _has_dtype_in_question(case, operand)]
    dtypes = _dtypes(operands)
    if len(set(dtypes)) < 2 or not _must_have_one_dtype(case):
        return None
    text = f"the dtypes differ: {_each(operands, 'is', dtypes)}"
    return Misfit(text, way_out=_conversion(operands), names=_names(operands), fact="dtype")


def _has_dtype_in_question(case: Case, operand: NamedOperand) -> bool:
    """Whether a tensor may need the dtype of the others: not a mask, and not the classes of a classification."""
    is_classes = case.name in CLASSIFICATION and dtype_named(operand.facts.dtype).is_integer
    is_target = is_classes and operand.facts is case.tensor(1, "target")
    return operand.facts.dtype != "b8" and not is_target


def _dtypes(operands: Sequence[NamedOperand]) -> list[str]:
    return list(map(attrgetter("facts.dtype"), operands))


def _must_have_one_dtype(case: Case) -> bool:
    if OTHER_MISTAKE.search(case.message) or _needs_integers(case):
        return False
    if case.operation.needs_one_dtype:
        return True
    return SAME_DTYPE.search(case.message) is not None


def _each(operands: Sequence[NamedOperand], verb: str, values: Sequence[str]) -> str:
    """`x is f32, w is f64`."""
    pairs = zip(operands[:MOST_NAMED], values, strict=False)
    return listing(f"{operand.label} {verb} {value}" for operand, value in pairs)


def _names(operands: Sequence[NamedOperand]) -> tuple[str, ...]:
    return tuple(operand.name for operand in operands[:MOST_NAMED])


def _conversion(operands: Sequence[NamedOperand]) -> str:
    """The operand to convert: integers first, parameters last."""
    order = sorted(operands, key=reluctance)
    first, dtypes = order[0], _dtypes(order)
    other = [dtype for dtype in dtypes if dtype != dtypes[0]][-1]
    to = f".to(torch.{dtype_named(other).name})"
    if first.name:
        return f"{before_dot(first.name)}{to}"
    return f"{to} for the tensor that is {dtypes[0]}"


def reluctance(operand: NamedOperand) -> tuple[bool, bool]:
    """Integers are converted first, parameters last."""
    return not dtype_named(operand.facts.dtype).is_integer, operand.facts.type == "Parameter"


@CHECKS.add(says="could not infer output dtype|must be either a floating point|floating point and complex", operands=1)
def integers_where_floats_are_needed(case: Case, match: re.Match[str]) -> Misfit:
    """A mean, a deviation or a gradient of integers."""
    operand = case.operands[0]
    text = f"{operand.label} holds integers ({operand.facts.dtype})"
    return Misfit(text, way_out=".float() first", names=(operand.name,), fact="dtype")


@CHECKS.add(operands=1)
def floats_where_integers_are_needed(case: Case) -> Misfit | None:
    """Indices, or targets, that are not integers."""
    if not _needs_integers(case):
        return None
    for operand in _indices(case):
        if operand.facts.dtype.startswith(("f", "bf", "c")):
            text = f"{operand.label} is {operand.facts.dtype} and must hold integers"
            return Misfit(text, way_out=f"{before_dot(operand.name)}.long()", names=(operand.name,), fact="dtype")
    return None


def _needs_integers(case: Case) -> bool:
    """Whether the message asks for integers: for indices, or for the targets of a classification."""
    if case.name in CLASSIFICATION and "expected scalar type Long" in case.message:
        return True
    return NEEDS_INTEGERS.search(case.message) is not None


def _indices(case: Case) -> Sequence[NamedOperand]:
    """The operands that may be indices: those of a lookup, else all but the first one."""
    lookup = lookup_of(case)
    if lookup is not None:
        return [each for each in case.operands if each.facts is lookup.indices]
    return case.operands[1:] or case.operands


@CHECKS.add(says=r"result type (\w+) can't be cast to the desired output type (\w+)")
def result_of_another_dtype(case: Case, match: re.Match[str]) -> Misfit:
    """A result that cannot be written into a tensor of its dtype."""
    text = f"a result of type {match[1]} does not fit into a {match[2]} tensor"
    if case.operands:
        text += f": {_each(case.operands, 'is', _dtypes(case.operands))}"
    return Misfit(
        text, way_out=f"convert the {match[2]} tensor to {match[1]}", names=_names(case.operands), fact="dtype"
    )


@CHECKS.add(says=r"index (-?\d+) is out of bounds for (dimension|axis) (\d+) with size (\d+)")
def index_out_of_range(case: Case, match: re.Match[str]) -> Misfit:
    """An index beyond the end of a dimension."""
    index, size = int(match[1]), int(match[4])
    text = f"index {index} in dimension {_dimension(case, index, size, int(match[3]))}, whose size is {size}"
    if not case.name and match[2] == "dimension":
        return Misfit(text)  # an unknown function may or may not take negative indices
    if case.operation.counts_from_zero:
        return Misfit(f"{text}: it has 0 … {size - 1}")
    return Misfit(f"{text}: it has {-size} … {size - 1}")


def _dimension(case: Case, index: int, size: int, reported: int) -> int:
    """The dimension of an index. The message reports it without the dimensions that are sliced."""
    facts, key = case.tensor(0, "input"), case.argument(1, "key")
    if facts is None or case.name != "__getitem__" or not isinstance(key, tuple):
        return reported
    if _is_right(key, index, reported):
        return reported
    possible = [place for place in _indexed_dimensions(key) if facts.shape[place : place + 1] == (size,)]
    if len(possible) == 1:
        return possible[0]
    return reported


def _is_right(key: tuple[Any, ...], index: int, reported: int) -> bool:
    """Whether the dimension of the message is that of the key; a key that adds or skips dimensions is not read."""
    if None in key or "..." in map(str, key):
        return True
    return key[reported : reported + 1] == (index,)


def _indexed_dimensions(key: tuple[Any, ...]) -> list[int]:
    """The dimensions that a key indexes by numbers or tensors."""
    return [place for place, part in enumerate(key) if type(part) in (int, TensorFacts)]


@dataclass(slots=True, frozen=True)
class Lookup:
    """The indices and the table of an embedding; the table is None if it is not known."""

    indices: TensorFacts
    table: TensorFacts | None


def lookup_of(case: Case) -> Lookup | None:
    """The lookup of an embedding."""
    if case.call is None or "embedding" not in case.name.lower():
        return None
    place, table = (0, 1)
    if case.call.name.startswith("torch.embedding"):
        place, table = (1, 0)  # this function, which the others call, takes the table first
    indices = case.tensor(place, "indices") or case.tensor(place, "input")
    if indices is None:
        return None
    return Lookup(indices, case.tensor(table, "weight"))


@CHECKS.add(says="index out of range")
def index_outside_of_table(case: Case, match: re.Match[str]) -> Misfit | None:
    """Indices that the table of an embedding does not have."""
    lookup = lookup_of(case)
    if lookup is None:
        return None
    limits = _limits_text(case, lookup.indices)
    if lookup.table is None:
        return Misfit(_sentence(limits, "the table has fewer rows"))
    name = case.name_of(lookup.table)
    rows = _range(lookup.table.shape[0], "rows")
    return Misfit(_sentence(limits, f"{name or 'the table'} has {rows}"), names=(name,))


def _sentence(*parts: str) -> str:
    """The parts that are not empty as one text."""
    return "; ".join(filter(None, parts))


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
    text, classes = _limits_text(case, values), case.argument(1, "num_classes")
    if isinstance(classes, int):
        text = _sentence(text, f"there are {_range(classes, 'classes')}")
    if not text:
        return None
    return Misfit(text)


@CHECKS.add(says="should be between 0 and 1", operands=1)
def not_a_probability(case: Case, match: re.Match[str]) -> Misfit:
    """Probabilities below 0 or above 1."""
    text = _limits_text(case, case.operands[0].facts) or "some are not between 0 and 1"
    return Misfit(text, way_out="take the sigmoid, or the loss `…_with_logits`")


def _limits_text(case: Case, facts: TensorFacts | None) -> str:
    """`ids holds 0 … 12`, if the tensor can still be read."""
    if facts is None:
        return ""
    limits = case.limits(facts)
    if limits is None:
        return ""
    low, high = map(_number, limits)
    return f"{case.name_of(facts) or 'a tensor'} holds {low} … {high}"


def _number(limit: float) -> str:
    """A number; an integer is exact."""
    if abs(limit) < MOST_EXACT and float(limit).is_integer():
        return f"{limit:.0f}"
    return f"{limit:g}"


@CHECKS.add(says="Boolean value of Tensor with more|cannot be converted to Scalar|only one element tensors", operands=1)
def several_elements_where_one_is_needed(case: Case, match: re.Match[str]) -> Misfit:
    """Several numbers where one is needed."""
    operand = case.operands[0]
    tensor = f"{operand.facts.dtype}[{listing(operand.facts.shape)}]"
    text = f"{operand.label} is {tensor}: more than one element"
    return Misfit(text, way_out=".any(), .all() or an index", names=(operand.name,))
