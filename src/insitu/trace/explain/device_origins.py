"""Why a tensor is on another device: the code around its construction that chose it, a buffer that no file restores."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from insitu.trace.explain.bindings import FUNCTIONS, covers, nodes_of
from insitu.trace.explain.call_stack import stack_of
from insitu.trace.explain.case import NamedOperand
from insitu.trace.explain.explanation import ExpressionSite, Origin, OriginKind
from insitu.trace.explain.expressions import called_name, segment, tree_of
from insitu.trace.explain.failed_line import FailedLine
from insitu.trace.explain.failure import Failure
from insitu.trace.explain.slice_starts import operand_start
from insitu.trace.explain.slices.points import ClassPlace, Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.source_callees import bases

META = "meta"
CHOOSING = frozenset(("device", "init_empty_weights", "set_default_device", "skip_init"))


def device_origins(
    failure: Failure, line: FailedLine, operand: NamedOperand, at: int | None, device: str
) -> Iterator[Origin]:
    """The code that chose the device, and for the meta device the buffers that no checkpoint has."""
    if device == META:
        start = operand_start(failure, line, operand.name)
        for site in _unsaved_buffers(start) if start is not None else ():
            yield Origin(OriginKind.NOT_SAVED, site, operand.name)
    for frame in stack_of(failure.history, failure.history.on_line(at)):
        for node in _choices(frame.file, frame.line):
            site = ExpressionSite(frame.file, node.lineno, frame.code.co_name, segment(frame.file, node))
            yield Origin(OriginKind.SOURCE, site, device)


def _choices(file: str, line: int) -> Iterator[ast.expr]:
    """The `with torch.device(...)` around a line."""
    tree = tree_of(file)
    if tree is None:
        return
    for block in nodes_of(tree, ast.With):
        if covers(block, line):
            yield from (item.context_expr for item in block.items if called_name(item.context_expr) in CHOOSING)


def _unsaved_buffers(start: Point) -> Iterator[ExpressionSite]:
    """Where the attributes in an expression are registered as buffers that are not part of the state."""
    resolver = Resolver()
    for node in ast.walk(start.node):
        if isinstance(node, ast.Attribute):
            for instance in resolver.instances(start.part(node.value)):
                for place in bases(instance.owner):
                    yield from _registrations(place, node.attr)


def _registrations(place: ClassPlace, attribute: str) -> Iterator[ExpressionSite]:
    for node in nodes_of(place.node, ast.Call):
        is_buffer = called_name(node) == "register_buffer" and node.args
        if is_buffer and getattr(node.args[0], "value", None) == attribute and not _is_persistent(node):
            yield ExpressionSite(place.file, node.lineno, _function_name(place, node), segment(place.file, node))


def _is_persistent(node: ast.Call) -> bool:
    words = [word.value for word in node.keywords if word.arg == "persistent"]
    asked = [*node.args[2:3], *words]
    return not any(isinstance(each, ast.Constant) and each.value is False for each in asked)


def _function_name(place: ClassPlace, node: ast.AST) -> str:
    line = getattr(node, "lineno", 0)
    return next((each.name for each in place.node.body if isinstance(each, FUNCTIONS) and covers(each, line)), "")
