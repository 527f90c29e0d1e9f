"""Small sources for the tests of slices: the expression on the line with `# HERE` is where a slice begins."""

from __future__ import annotations

import ast
from itertools import count
from pathlib import Path
from textwrap import dedent

from insitu.trace.explain.bindings import nodes_of
from insitu.trace.explain.expressions import tree_of
from insitu.trace.explain.slices.passed_arguments import scope_at
from insitu.trace.explain.slices.points import Point
from insitu.trace.explain.slices.resolver import Resolver
from insitu.trace.explain.slices.slice_walk import Rule, explaining_nodes

_numbers = count()


def start(folder: Path, source: str) -> Point:
    """The argument of `use(...)` on the line that ends with `# HERE`."""
    file = folder / f"program_{next(_numbers)}.py"
    file.write_text(dedent(source), "utf-8")
    tree = tree_of(str(file))
    assert tree is not None
    line = next(
        number for number, text in enumerate(file.read_text("utf-8").splitlines(), 1) if text.endswith("# HERE")
    )
    calls = [node for node in nodes_of(tree, ast.Call) if node.lineno == line and getattr(node.func, "id", "") == "use"]
    return Point(scope_at(str(file), line), calls[0].args[0])


def ends(folder: Path, source: str) -> set[str]:
    """The expressions that compute the value at the start."""
    return {ast.unparse(point.node) for point in Resolver().ends(start(folder, source))}


def explained(folder: Path, source: str, rule: Rule) -> list[str]:
    """The expressions that explain a fact about the value at the start, the best first."""
    return [node.site.text for node in explaining_nodes([start(folder, source)], rule)]
