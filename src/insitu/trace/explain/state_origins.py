"""Where a parameter gets its size that does not fit a checkpoint: the constructor, and the numbers behind it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from insitu.trace.explain.explanation import Origin, OriginKind
from insitu.trace.explain.expressions import called_name
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.layer_arguments import layer_points, weight_argument
from insitu.trace.explain.messages import STATE_KEYS
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import operand_start
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.rules.keys_rule import keys_rule
from insitu.trace.explain.slices.rules.size_rule import SizeRules

MISMATCH = re.compile(
    r"size mismatch for (?P<path>[\w.]+): .*?Size\(\[(?P<saved>[\d, ]*)\]\).*?Size\(\[(?P<own>[\d, ]*)\]\)"
)
MOST_PARAMETERS = 3
LOAD = "load_state_dict"


def state_origins(failure: Failure, line: FailedLine) -> Iterator[Origin]:
    """The constructors of the parameters that differ from the checkpoint, and the numbers that they got."""
    yield from _key_origins(failure, line)
    mismatches = list(MISMATCH.finditer(failure.message))[:MOST_PARAMETERS]
    model = _model(line) if mismatches else None
    start = operand_start(failure, line, model) if model is not None else None
    if start is None:
        return
    for found in mismatches:
        dimension = _different(found["saved"], found["own"])
        for layer in layer_points(Resolver(), start, found["path"].split(".")[:-1]):
            argument = weight_argument(layer, dimension)
            size = found["own"].split(", ")[dimension]
            yield from slice_origins([argument], SizeRules(int(size)).number, f"the {size}", most=2)
            yield Origin(OriginKind.PRODUCED, layer.site, found["path"])


def _key_origins(failure: Failure, line: FailedLine) -> Iterator[Origin]:
    """What gives the dict its keys; of a model that has other layers, the number of them."""
    if not re.search(STATE_KEYS, failure.message):
        return
    for node in ast.walk(line.statement.expression.statement):
        if called_name(node) == LOAD and isinstance(node, ast.Call) and node.args:
            start = operand_start(failure, line, ast.unparse(node.args[0]))
            yield from slice_origins([start], keys_rule, "each key", is_shown=False)


def _model(line: FailedLine) -> str | None:
    """The expression whose `load_state_dict` is called."""
    for node in ast.walk(line.statement.expression.statement):
        if isinstance(node, ast.Attribute) and node.attr == LOAD:
            return ast.unparse(node.value)
    return None


def _different(one: str, other: str) -> int:
    """The first dimension in which two shapes differ."""
    sizes = zip(one.split(", "), other.split(", "), strict=False)
    return next((place for place, pair in enumerate(sizes) if len(set(pair)) > 1), 0)
