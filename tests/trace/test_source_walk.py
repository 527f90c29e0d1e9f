"""Loops by their source: each pass is found, whatever the program does in it."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest
from tests.trace.random_programs import run

import insitu
from insitu.trace.arrange import arrange
from insitu.trace.forest import Forest, Group, Node
from insitu.trace.order import completion_order
from insitu.view.page.rows import PageRow, page_rows


def loop_passes(trace: insitu.Trace, file: str) -> dict[int, int]:
    """How many passes the trace has of each loop, by the number in its `begin(…)`, but for those that are unsure."""
    forest = Forest()
    roots = [node for event in completion_order(trace.events) if (node := forest.add(event)) is not None]
    found: dict[int, int] = {}
    unsure: set[int] = set()
    waiting: list[Node] = arrange([roots], None, forest)[0]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        group = node.event
        if not isinstance(group, Group) or group.kind != "loop" or group.loop is None:
            continue
        if group.site is None or group.site.file != file:
            continue
        number = number_of(file, group.loop.line)
        found[number] = found.get(number, 0) + len(node.children)
        if group.is_unsure:
            unsure.add(number)
    return {number: count for number, count in found.items() if number not in unsure}


def number_of(file: str, line: int) -> int:
    """The number of the loop whose header is on a line."""
    text = "".join(linecache.getlines(file)[line : line + 2])
    found = re.search(r"begin\((\d+)\)", text)
    assert found is not None
    return int(found.group(1))


@pytest.mark.parametrize("seed", range(24))
def test_passes_are_counted_as_the_program_counts_them(seed: int, tmp_path: Path) -> None:
    trace, file, truth = run(seed, tmp_path)
    found = loop_passes(trace, file)
    assert found == {number: truth[number] for number in found}


def test_few_loops_are_unsure(tmp_path: Path) -> None:
    known = every = 0
    for seed in range(12):
        trace, file, truth = run(seed, tmp_path)
        known += len(loop_passes(trace, file))
        every += len(truth)
    assert known > every / 2


@pytest.mark.parametrize("seed", range(8))
def test_copies_on_a_page_have_the_same_rows(seed: int, tmp_path: Path) -> None:
    trace, _, _ = run(seed, tmp_path)
    rows, _ = page_rows(trace.events)
    assert {row.event.id for row in rows if row.event.__class__.__name__ == "Call"} == {  # type: ignore[union-attr]
        event.id for event in trace.events
    }
    ends = ends_of(rows)
    for first, row in enumerate(rows):
        copy = first
        for _ in range(row.alike - 1):
            copy = ends[copy]
            assert rows[copy].alike == 0
            assert form(rows, first, ends) == form(rows, copy, ends)


def form(rows: list[PageRow], start: int, ends: list[int]) -> list[tuple[int, str, int]]:
    """The depth, the kind and the number of copies of each row in a row."""
    inside = [(row.depth, row.kind, row.alike) for row in rows[start + 1 : ends[start]]]
    return [(rows[start].depth, rows[start].kind, 0), *inside]


def ends_of(rows: list[PageRow]) -> list[int]:
    """For each row, the number of the first row after all those inside it."""
    ends = [len(rows)] * len(rows)
    running: list[int] = []
    for number, row in enumerate(rows):
        while running and rows[running[-1]].depth >= row.depth:
            ends[running.pop()] = number
        running.append(number)
    return ends
