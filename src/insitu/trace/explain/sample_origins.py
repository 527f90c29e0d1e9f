"""Values that only the source explains: None, and samples of a dataset that do not fit together."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from insitu.trace.explain.call_stack import stack_at
from insitu.trace.explain.case import Case
from insitu.trace.explain.explanation import Origin
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.messages import NONE
from insitu.trace.explain.slice_origins import slice_origins
from insitu.trace.explain.slice_starts import operand_start, stack_scope
from insitu.trace.explain.slices.expression_parts import arguments_of
from insitu.trace.explain.slices.points import ANY, Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.rules.none_rule import none_rule
from insitu.trace.explain.slices.rules.size_rule import ANY_SIZE

UNEQUAL = re.compile(
    r"stack expects each tensor to be equal size|each element in list of batch should be of equal size"
)


def missing_origins(failure: Failure, line: FailedLine, case: Case) -> Iterator[Origin]:
    """Where the names on the line that are None may have got that value."""
    names = [missing.name for missing in case.missing]
    if not names and NONE in failure.message:
        names = list(_arguments_that_are_none(line))
    for name in names:
        yield from slice_origins([operand_start(failure, line, name)], none_rule, name)


def _arguments_that_are_none(line: FailedLine) -> Iterator[str]:
    """The arguments of the call on the line that are None: `batch["mask"]`."""
    for node in arguments_of(line.statement.expression.node):
        if line.frame.value(node) is None and not isinstance(node, ast.Constant):
            yield ast.unparse(node)


def sample_origins(failure: Failure, line: FailedLine) -> Iterator[Origin]:
    """Where the samples of a loop over a DataLoader get their sizes, if they cannot be stacked."""
    node = line.statement.expression.node
    if not UNEQUAL.search(failure.message) or not isinstance(node, (ast.For, ast.AsyncFor)):
        return
    scope = stack_scope(failure.history, stack_at(failure, line.at))
    if scope is None:
        return
    samples = Resolver().ends(Point(scope, node.iter, (ANY,)))
    starts = [part for sample in samples for part in _tensors_of(sample)]
    yield from slice_origins(starts, ANY_SIZE.length, "sizes", is_shown=False)


def _tensors_of(sample: Point) -> list[Point]:
    """The parts of a sample: the items of a tuple or a dict, else the sample itself."""
    node = sample.node
    parts = node.values if isinstance(node, ast.Dict) else getattr(node, "elts", [node])
    return [sample.part(each) for each in parts]
