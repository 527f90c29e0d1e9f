"""The lines of the program behind a graph that came from a cache.

Inductor's caches keep a graph with the lines of the program that compiled it first: another program, or the same one
before an edit. Dynamo captures the graph again each time, so its lines are those of this program. A line of the cache
is the line of this program with the same text in the same function; where that is not certain, it is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from insitu.trace.compiled.compiled_graph import GraphLine, GraphNode

Lines = dict[GraphLine, GraphLine | None]


def with_lines_of_program(nodes: Iterable[GraphNode], captured: Iterable[GraphNode]) -> list[GraphNode]:
    """The calls of a graph with the lines of this program, in which these calls were captured."""
    nodes = list(nodes)
    lines = _lines_of_program(
        {node.source for node in nodes if node.source is not None},
        {node.source for node in captured if node.source is not None},
    )
    return [replace(node, source=lines[node.source]) if node.source is not None else node for node in nodes]


def _lines_of_program(cached: set[GraphLine], captured: set[GraphLine]) -> Lines:
    """The line of this program for each line of a cache.

    >>> old, new = GraphLine("a.py", 3, "f", "x = x + 1"), GraphLine("b.py", 5, "f", "x = x + 1")
    >>> _lines_of_program({old}, {new})[old].line
    5
    """
    if cached <= captured:
        return {line: line for line in cached}
    found: Lines = dict.fromkeys(cached)
    old, new = _by_text(cached), _by_text(captured)
    for text, lines in old.items():
        if len(lines) == len(new[text]):
            found.update(zip(lines, new[text], strict=True))
    return found


def _by_text(lines: set[GraphLine]) -> defaultdict[tuple[str, str], list[GraphLine]]:
    """Lines by their function and text, in the order of the file."""
    found: defaultdict[tuple[str, str], list[GraphLine]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: (line.file, line.line)):
        found[line.function, line.text].append(line)
    return found
