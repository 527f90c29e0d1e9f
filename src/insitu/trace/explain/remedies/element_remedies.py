"""Remedies for elements: dtypes, devices, indices that are out of range."""

from __future__ import annotations

import ast
import re

from insitu.trace.advice import Advice, Fix, likely, possible, unknown
from insitu.trace.dtype import dtype_named
from insitu.trace.explain.case import NamedOperand, before_dot
from insitu.trace.explain.checks import elements, layers
from insitu.trace.explain.explanation import OriginKind
from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.remedies.call_parts import (
    NamedArgument,
    argument,
    method_in,
    torch_in,
    with_keyword,
    without_keyword,
)
from insitu.trace.explain.remedies.situation import Remedies, Situation
from insitu.trace.explain.remedies.source_part import NoAdvice, SourcePart, first_advice, needed, only, part_at, require
from insitu.trace.explain.remedies.working_layers import has_worked

REMEDIES = Remedies()
# The method that converts to a dtype.
CONVERSIONS = {
    **{"f32": "float", "f64": "double", "f16": "half", "bf16": "bfloat16"},
    **{"i64": "long", "i32": "int", "b8": "bool"},
}
USUAL = "f32"  # the dtype of a layer if nobody asked for another one
ASKS_FOR_DTYPE = (".half()", ".bfloat16()", ".to(", "dtype=", ".double()")
PARAMETER = "Parameter"
FACTORIES = ("zeros", "ones", "full", "arange", "linspace", "randn", "rand", "tensor", "eye")


def _converted(part: SourcePart, dtype: str) -> Fix:
    """The part with a conversion; a conversion that ends it already is replaced."""
    method, known = f".{CONVERSIONS[dtype]}()", f".{called_name(part.node)}()"
    if called_name(part.node) in CONVERSIONS.values() and part.text.endswith(known):
        return part.with_text(f"{part.text.removesuffix(known)}{method}")
    return part.with_suffix(method)


def _since(situation: Situation, operand: NamedOperand) -> SourcePart:
    """The place since which a value has its dtype, as far back as the walk came; else the operand on the line."""
    try:
        return situation.origin_part(OriginKind.FACT, name=operand.facts.dtype)
    except NoAdvice:
        return situation.source_of(operand.name)


@REMEDIES.add(elements.dtypes_differ)
def one_dtype(situation: Situation) -> Advice:
    """Make the layer of the dtype that the data were given; else convert the operand that is not a parameter."""
    return first_advice(situation, _layer_of_dtype, _data_of_dtype)


def _layer_of_dtype(situation: Situation) -> Advice:
    """The layer has the usual dtype, and the program asked for the dtype of the data."""
    parameters = [operand for operand in situation.case.operands if operand.facts.type == PARAMETER]
    layer = needed(next((operand for operand in parameters if operand.facts.dtype == USUAL), None))
    data = min(situation.case.operands, key=elements.reluctance)
    origin = situation.origin_part(OriginKind.FACT, name=data.facts.dtype)
    require(any(words in origin.text for words in ASKS_FOR_DTYPE))
    part = situation.producer(layer.name)
    dtype = f"{torch_in(part.file)}.{dtype_named(data.facts.dtype).name}"
    return likely(with_keyword(part, "dtype", dtype), f"{data.label} may be of the wrong dtype instead")


def _data_of_dtype(situation: Situation) -> Advice:
    operands = [operand for operand in situation.case.operands if operand.facts.dtype != "b8"]
    first = min(operands, key=elements.reluctance)
    other = next(operand for operand in operands if operand.facts.dtype != first.facts.dtype)
    part, dtype = _since(situation, first), other.facts.dtype
    if isinstance(part.node, ast.Tuple):
        fix = _converted(situation.on_line(first.name), dtype)
        return possible(fix, f"{part.text} may hold other tensors that need the same")
    return likely(_converted(part, dtype), f"{other.label} may be of the wrong dtype instead")


@REMEDIES.add(elements.devices_differ)
def one_device(situation: Situation) -> Advice:
    """Make a tensor on no special device; else move data to the device of the other operand."""
    return first_advice(situation, _not_on_meta, _moved)


def _not_on_meta(situation: Situation) -> Advice:
    operand = needed(next((each for each in situation.case.operands if each.facts.device == "meta"), None))
    origin = situation.find_origin(OriginKind.FACT, name="meta")
    part = situation.producer(operand.name) if origin is None else part_at(origin.site)
    doubt = "a tensor on meta has no elements; they may be meant to be loaded"
    if "device=" in part.text:
        return likely(without_keyword(part, "device"), doubt)
    require(called_name(part.node) in FACTORIES)
    return likely(with_keyword(part, "device", '"cpu"'), doubt)


def _moved(situation: Situation) -> Advice:
    operands = situation.case.operands
    require("meta" not in [operand.facts.device for operand in operands])
    data = next((operand for operand in operands if operand.facts.type != PARAMETER), operands[0])
    other = next(operand for operand in operands if operand.facts.device != data.facts.device)
    fix = situation.on_line(data.name).with_suffix(f".to({_device(situation, other)})")
    return likely(fix, f"{other.label} may have to move instead")


def _device(situation: Situation, operand: NamedOperand) -> str:
    """The device of an operand by its name on the line, else as a text."""
    try:
        return f"{situation.on_line(operand.name).text}.device"
    except NoAdvice:
        return f'"{operand.facts.device}"'


@REMEDIES.add(elements.integers_where_floats_are_needed)
def floats(situation: Situation) -> Advice:
    """Convert the operand."""
    part = situation.on_line(situation.case.operands[0].name)
    return situation.certain(part, f"{before_dot(part.text)}.float()", _converted(part, "f32"))


@REMEDIES.add(elements.floats_where_integers_are_needed)
def integers(situation: Situation) -> Advice:
    """Convert the indices."""
    return likely(_converted(situation.on_line(situation.misfit.names[0]), "i64"), ".long() cuts fractions off")


@REMEDIES.add(elements.result_of_another_dtype)
def dtype_of_place(situation: Situation) -> Advice:
    """Convert the integers among floats."""
    operands = situation.case.operands
    whole = only(operand for operand in operands if dtype_named(operand.facts.dtype).is_integer)
    floating = next(operand for operand in operands if dtype_named(operand.facts.dtype).is_floating)
    fix = _converted(situation.source_of(whole.name), floating.facts.dtype)
    return likely(fix, f"{whole.label} may be needed as integers")


@REMEDIES.add(layers.attention)
def mask_of_attention(situation: Situation) -> Advice:
    """Make a mask of integers one of booleans, where it became integers."""
    operand = situation.operand(situation.row("attn_mask").name)
    require(dtype_named(operand.facts.dtype).is_integer)
    fix = _converted(_since(situation, operand), "b8")
    return likely(fix, "the numbers may be meant to be added to the scores")


@REMEDIES.add(elements.not_a_probability)
def loss_of_scores(situation: Situation) -> Advice:
    """Take the loss that computes the probabilities itself; else compute them."""
    return first_advice(situation, _loss_with_logits, _probabilities)


def _loss_with_logits(situation: Situation) -> Advice:
    function = situation.part.inner(method_in(situation.part, "binary_cross_entropy"))
    return likely(function.with_text(f"{function.text}_with_logits"), "other numbers than scores may be the mistake")


def _probabilities(situation: Situation) -> Advice:
    part = situation.on_line(situation.case.operands[0].name)
    return likely(part.with_suffix(".sigmoid()"), "other numbers than scores may be the mistake")


@REMEDIES.add(elements.several_elements_where_one_is_needed)
def one_element(situation: Situation) -> Advice:
    """Ask whether any element is true."""
    require("Boolean" in situation.case.message)
    part = situation.on_line(situation.case.operands[0].name)
    return possible(part.with_suffix(".any()"), ".all() or an index may be meant")


@REMEDIES.add(elements.index_outside_of_table)
def rows_of_table(situation: Situation) -> Advice:
    """Count from 0; or add the rows that are missing."""
    lookup = needed(elements.lookup_of(situation.case))
    table = needed(lookup.table)
    low, high = needed(situation.case.limits(lookup.indices))
    rows = int(table.shape[0])
    if (low, high) == (1, rows):
        part = _first_count(situation, situation.case.name_of(lookup.indices))
        return likely(_one_less(part), f"the table may need {rows + 1} rows")
    require(high >= rows)
    name = situation.case.name_of(table)
    layer = situation.constructor(name)
    require(not has_worked(situation, name, layer))
    count = argument(layer, NamedArgument(0, "num_embeddings", ("Embedding",)))
    fix = count.with_text(_larger(count, int(high) + 1 - rows))
    doubt = f"the indices may be wrong instead: they go up to {high:.0f}"
    if high == rows:
        return likely(fix, doubt)
    return possible(fix, doubt)


def _larger(count: SourcePart, more: int) -> str:
    """A number of rows with more of them."""
    if count.text.isdecimal():
        return str(int(count.text) + more)
    return f"{count.text} + {more}"


@REMEDIES.add(elements.target_outside_of_classes)
def targets_from_zero(situation: Situation) -> Advice:
    """Count from 0."""
    case = situation.case
    target, classes = needed(case.tensor(1, "target")), needed(case.tensor(0, "input")).shape[:2][-1]
    require(case.limits(target) == (1, classes))
    doubt = f"the scores may need {int(classes) + 1} classes"
    return likely(_one_less(_first_count(situation, case.name_of(target))), doubt)


def _first_count(situation: Situation, name: str) -> SourcePart:
    """Where the source counts from one, `n + 1`; else where the value was made."""
    sources = [each.site for each in situation.origins if (each.kind, each.name) == (OriginKind.SOURCE, name)]
    counts = [site for site in filter(None, sources) if site.text.endswith(" + 1")]
    if counts:
        return part_at(counts[0])
    return situation.source_of(name)


def _one_less(part: SourcePart) -> Fix:
    """An expression, less one: `n + 1` as `n`, `torch.arange(1, n + 1)` as `torch.arange(n)`."""
    whole = re.fullmatch(r"(?P<n>.+) \+ 1", part.text)
    if whole is not None and isinstance(part.node, ast.BinOp):
        return part.with_value(whole["n"])
    counted = re.fullmatch(r"(?P<arange>[\w.]*\barange)\(1, (?P<n>[^,]+) \+ 1\)", part.text)
    if counted is not None:
        return part.with_text(f"{counted['arange']}({counted['n']})")
    return part.with_value(f"{part.text} - 1")


@REMEDIES.add(elements.index_out_of_range)
def index_to_look_at(situation: Situation) -> Advice:
    """No fix is known: the index itself is the thing to look at."""
    node = situation.part.node
    require(isinstance(node, ast.Subscript))
    assert isinstance(node, ast.Subscript)
    require(not isinstance(node.slice, ast.Constant | ast.Tuple))
    index = needed(re.search(r"index (-?\d+) is out of bounds", situation.case.message))[1]
    site = situation.site
    return unknown(site.file, site.line, f"{situation.part.text_of(node.slice)} is {index} there")
