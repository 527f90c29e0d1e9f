"""The tape: the layout of a record, fields by name, records in order, the call that made an autograd node."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import insitu
from insitu.capture.tape import (
    BACKWARD,
    ENTERED,
    FIXED,
    INHERITED,
    LEFT,
    NODE_COUNT,
    NODES,
    OUTERMOST,
    RUNNING,
    START,
    MarkEntry,
    Tape,
    VariableEntry,
    new_record,
)

CAPTURE = Path(insitu.__file__).parent / "capture"
POINT: Any = None


def callee(kind: str) -> Any:
    return SimpleNamespace(kind=kind, name=kind)


def add(tape: Tape, kind: str, parent: int = OUTERMOST, *, nodes: range | None = None, time: float = 0.0) -> int:
    """Add a call without arguments; its offset."""
    at, record = len(tape), new_record(callee(kind), parent)
    record[START] = time
    record[NODES] = nodes.start + len(nodes) * NODE_COUNT if nodes is not None else 0
    tape.extend(record)
    return at


def test_fields_are_read_by_name() -> None:
    tape = Tape(thread=3, level="aten")
    outer = add(tape, "module")
    at, code = len(tape), compile("0", "file.py", "eval")
    record = new_record(callee("function"), outer, phase=BACKWARD, args=2, kwargs=4)
    record += ["a", "b", "dim", 1, "keepdim", True, code, 6]
    record[FIXED - 1] = 2
    tape.extend(record)
    assert tape.callee(at).kind == "function"
    assert (tape.parent(at), tape.phase(at), list(tape.ancestors(at))) == (outer, BACKWARD, [at, outer])
    assert tape.args(at) == ["a", "b"]
    assert tape.kwargs(at) == {"dim": 1, "keepdim": True}
    assert tape.inputs(at) == ["a", "b", "dim", 1, "keepdim", True]
    assert tape.frames(at) == [code, 6]
    head = (tape.callee(at), RUNNING, outer, 0.0, 0.0, BACKWARD, 0)
    assert tape.record(at) == (*head, ["a", "b"], ["dim", 1, "keepdim", True], [code, 6])
    assert tape.end_of(at) == len(tape)


def test_a_record_may_have_the_stack_of_its_parent() -> None:
    tape = Tape()
    record = new_record(callee("aten"), OUTERMOST, args=1)
    record[FIXED - 1] = INHERITED
    tape.extend([*record, "x"])
    assert tape.record(0)[-1] is None and tape.frames(0) == [] and tape.end_of(0) == len(tape)


def test_a_call_runs_until_it_is_finished() -> None:
    tape = Tape()
    first, second = add(tape, "function"), add(tape, "function")
    assert tape.result(first) is RUNNING and tape.end_of_running() == len(tape)
    tape.finish(second, 2.0, None)
    assert tape.end_of_running() == tape.end_of(first)
    tape.finish(first, 3.0, "result")
    assert tape.end_of_running() == 0 and tape.result(first) == "result"


def test_calls_come_in_the_order_they_began() -> None:
    tape = Tape()
    outer = add(tape, "module")
    tape.extend((VariableEntry(POINT, "x", None), 1))
    inner = add(tape, "function", outer)
    tape.extend(new_record(MarkEntry("step", ""), OUTERMOST))
    assert list(tape.calls()) == [outer, inner, inner + FIXED]
    assert list(tape.calls(inner)) == [outer]


def test_a_change_of_a_variable_is_in_the_watched_call_that_runs() -> None:
    tape = Tape()
    outer = add(tape, "python", time=1.0)
    inner = add(tape, "python", outer, time=2.0)
    inside = len(tape)
    tape.extend((VariableEntry(POINT, "x", None), 1))
    tape.extend((LEFT, inner))
    left = len(tape)
    tape.extend((VariableEntry(POINT, "x", None), 2))
    tape.extend((ENTERED, inner))
    entered = len(tape)
    tape.extend((VariableEntry(POINT, "x", None), 3))
    changes = {at: (time, parent) for time, at, parent in tape.records() if parent is not None}
    assert changes == {inside: (2.0, inner), left: (2.0, outer), entered: (2.0, inner)}
    assert tape.change(entered)[1] == 3


def test_a_record_that_ends_behind_the_end_is_left_out() -> None:
    tape = Tape()
    first, second = add(tape, "function"), add(tape, "function")
    assert list(tape.calls(len(tape) - 1)) == [first]
    assert list(tape.calls(len(tape))) == [first, second]


def test_the_innermost_call_made_a_node() -> None:
    tape = Tape()
    outer = add(tape, "module", nodes=range(5, 9))
    inner = add(tape, "function", outer, nodes=range(6, 8))
    operator = add(tape, "aten", inner)
    tape[operator + NODES] = 6  # the node that ran an operator of a backward pass is not one that it made
    assert [tape.maker(node) for node in (4, 5, 6, 7, 8, 9)] == [None, outer, inner, inner, outer, None]
    assert tape.maker(6, inner) == outer
    assert tape.node(operator) == 6


def test_a_part_of_a_tape_is_a_copy_that_knows_its_thread() -> None:
    tape = Tape(thread=3, level="aten")
    first, second = add(tape, "function"), add(tape, "function")
    part = tape.part(second)
    tape.clear()
    assert list(part.calls()) == [first] and (part.thread, part.level) == (3, "aten")


@pytest.mark.parametrize("name", ["ops.py", "modules.py"])
def test_record_literals_of_the_hot_path_have_the_layout(name: str) -> None:
    """These lists stand for calls of `new_record`: the same slots in the same order, but for the number of frames."""
    literals = [
        node
        for node in ast.walk(ast.parse((CAPTURE / name).read_text("utf-8")))
        if isinstance(node, ast.List) and len(node.elts) > 1 and ast.unparse(node.elts[1]) == "RUNNING"
    ]
    assert literals
    for literal in literals:
        slots = [ast.unparse(each) for each in literal.elts]
        assert len(slots) == FIXED
        assert (slots[0], slots[3:5], slots[6:9]) == ("callee", ["0.0", "0.0"], ["0", "len(args)", "0"])


def test_only_the_hot_path_names_slots() -> None:
    slots = {"RESULT", "PARENT", "START", "END", "PHASE", "NODES", "ARGS", "KWARGS", "FRAMES", "FIXED", "SHORT"}
    users = {
        path.relative_to(CAPTURE).as_posix()
        for path in CAPTURE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "insitu.capture.tape"
        if slots & {alias.name for alias in node.names}
    }
    hot = {"arguments.py", "guard/check.py", "guard/handlers.py", "modules.py", "ops.py", "probe.py"}
    assert users == {*hot, "compiled_graphs/inside_run.py"}  # the latter makes records of its own
