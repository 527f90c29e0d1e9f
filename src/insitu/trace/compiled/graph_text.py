"""Reads a graph as torch prints it: `GraphModule.print_readable`, which inductor's caches hold as well.

def forward(self, x: "f32[2, 3][3, 1]cpu"):
    # File: model.py:8 in forward, code: y = torch.relu(x)
    relu: "f32[2, 3][3, 1]cpu" = torch.ops.aten.relu.default(x);  x = None
    return (relu,)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from insitu.trace.compiled.compiled_graph import GraphInput, GraphLine, GraphNode

_SOURCE = re.compile(r"#.*?File: (?P<file>.+):(?P<line>\d+) in (?P<function>.+?), code: (?P<text>.*)$")
_NO_SOURCE = "# No stacktrace found"
_HEAD = re.compile(r"\s*def forward\(")


@dataclass(frozen=True, slots=True)
class GraphText:
    """The inputs, the calls and the outputs of a graph."""

    inputs: tuple[GraphInput, ...] = ()
    nodes: tuple[GraphNode, ...] = ()
    outputs: tuple[str, ...] = ()


def read_graph(text: str) -> GraphText:
    """The graph in a text; without calls if the text is not that of a graph.

    >>> graph = read_graph(__doc__)
    >>> graph.nodes[0].name, graph.nodes[0].code, graph.nodes[0].source.line, graph.outputs
    ('relu', 'torch.ops.aten.relu.default(x)', 8, ('relu',))
    """
    lines = iter(text.splitlines())
    inputs = _inputs(_signature(lines))
    nodes: list[GraphNode] = []
    outputs: tuple[str, ...] = ()
    source: GraphLine | None = None
    for line in lines:
        stripped = line.strip()
        if stripped.startswith("#"):
            source = _source_after(stripped, source)
            continue
        statement = _statement(stripped)
        if isinstance(statement, ast.Return):
            outputs = _names(statement.value)
            break
        renamed = _renamed_input(statement)
        if renamed is not None:
            inputs = tuple([_renamed(item, renamed) for item in inputs])
            continue
        node = _node(statement, source)
        if node is not None:
            nodes.append(node)
    return GraphText(inputs, tuple(nodes), outputs)


def _signature(lines: Iterator[str]) -> str:
    """The head of `forward`, which may have several lines."""
    head = ""
    for line in lines:
        if head or _HEAD.match(line):
            head += line.strip()
            if head.endswith(":"):
                return head
    return ""


def _inputs(head: str) -> tuple[GraphInput, ...]:
    function = _statement(f"{head} pass")
    if not isinstance(function, ast.FunctionDef):
        return ()
    return tuple([GraphInput(item.arg, _annotation(item.annotation)) for item in function.args.args[1:]])


def _annotation(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant):
        return str(annotation.value)
    return ""


def _statement(text: str) -> ast.stmt | None:
    """The first statement of a line; None if there is none."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return None
    if body:
        return body[0]
    return None


def _source_after(comment: str, source: GraphLine | None) -> GraphLine | None:
    """The line of the program from which the calls below a comment come."""
    if comment.startswith(_NO_SOURCE):
        return None
    found = _SOURCE.search(comment)
    if found is None:
        return source
    return GraphLine(found["file"], int(found["line"]), found["function"], found["text"].strip())


def _node(statement: ast.stmt | None, source: GraphLine | None) -> GraphNode | None:
    target: ast.expr | None = None
    facts = ""
    if isinstance(statement, ast.AnnAssign):
        target, facts = statement.target, _annotation(statement.annotation)
    elif isinstance(statement, ast.Assign):
        target = statement.targets[0]
    value = getattr(statement, "value", None)
    if not isinstance(target, ast.Name) or value is None:
        return None
    return GraphNode(target.id, ast.unparse(value), facts, source)


def _renamed_input(statement: ast.stmt | None) -> tuple[str, str] | None:
    """An input and the other name that a graph of dynamo gives to it, `l_x_ = L_x_`; None for any other statement."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Name):
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Name):
        return None
    return statement.value.id, target.id


def _renamed(item: GraphInput, names: tuple[str, str]) -> GraphInput:
    if item.name == names[0]:
        return replace(item, name=names[1])
    return item


def _names(value: ast.expr | None) -> tuple[str, ...]:
    """The names in what a graph returns, each at its position; empty for what is not a name."""
    if value is None:
        return ()
    items = value.elts if isinstance(value, (ast.Tuple, ast.List)) else [value]
    return tuple([item.id if isinstance(item, ast.Name) else "" for item in items])
