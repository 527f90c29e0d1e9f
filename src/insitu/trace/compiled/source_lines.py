"""The lines of the program behind a graph that came from a cache.

Inductor's caches keep a graph with the lines of the program that compiled it first: another program, or the same one
before an edit. Dynamo captures the graph again each time, so its lines are those of this program. A line of the cache is
the line of this program with the same text in the same function; where that is not certain, it is not known.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from insitu.trace.compiled.compiled_graph import GraphNode, SourceLine

Lines = dict[SourceLine, SourceLine | None]


def with_lines_of_program(nodes: Iterable[GraphNode], captured: Iterable[GraphNode]) -> list[GraphNode]:
    """The calls of a graph with the lines of this program, in which these calls were captured."""
    nodes = list(nodes)
    lines = _lines_of_program(
        {node.source for node in nodes if node.source is not None},
        {node.source for node in captured if node.source is not None},
    )
    return [replace(node, source=lines[node.source]) if node.source is not None else node for node in nodes]


def _lines_of_program(cached: set[SourceLine], captured: set[SourceLine]) -> Lines:
    """The line of this program for each line of a cache.

    >>> old, new = SourceLine("a.py", 3, "f", "x = x + 1"), SourceLine("b.py", 5, "f", "x = x + 1")
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


def _by_text(lines: set[SourceLine]) -> defaultdict[tuple[str, str], list[SourceLine]]:
    """Lines by their function and text, in the order of the file."""
    found: defaultdict[tuple[str, str], list[SourceLine]] = defaultdict(list)
    for line in sorted(lines, key=lambda line: (line.file, line.line)):
        found[line.function, line.text].append(line)
    return found
