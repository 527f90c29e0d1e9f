"""What is around a place in the source: statements, loops, branches, and what runs where it is not written."""

from __future__ import annotations

import dis
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from insitu.capture.nestings import Nestings
from insitu.trace.event import Arm, Nesting


class Source:
    """A file of source, compiled; `here()` in it marks the places that are looked at."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path / "source.py"
        self.path.write_text(textwrap.dedent(text))
        self.nestings = Nestings()

    def codes(self) -> Iterator[CodeType]:
        waiting = [compile(self.path.read_text(), str(self.path), "exec")]
        while waiting:
            code = waiting.pop()
            yield code
            waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]

    def places(self, opname: str = "CALL") -> list[tuple[int, Nesting]]:
        """The line and the nesting of each instruction of this name, in the order of the source and of the code."""
        found = []
        for code in self.codes():
            positions = list(code.co_positions())
            for instruction in dis.get_instructions(code):
                if instruction.opname != opname:
                    continue
                nesting = self.nestings.of_instruction(code, instruction.offset, positions)
                assert nesting is not None
                found.append((positions[instruction.offset // 2][0] or 0, instruction.offset, nesting))
        return [(line, nesting) for line, _, nesting in sorted(found, key=lambda item: item[:2])]

    def loops(self, opname: str = "CALL") -> list[tuple[int, list[str]]]:
        return [(line, [loop.text for loop in nesting.loops]) for line, nesting in self.places(opname)]

    def arms(self) -> dict[int, tuple[tuple[int, int], ...]]:
        return {line: tuple((arm.condition, arm.branch) for arm in nesting.arms) for line, nesting in self.places()}


@pytest.fixture
def source(tmp_path: Path):  # type: ignore[no-untyped-def]
    return lambda text: Source(tmp_path, text)


def test_loops_are_named_by_their_headers(source) -> None:  # type: ignore[no-untyped-def]
    program = source(
        """
        for epoch in range(3):
            for (x, y), z in zip(
                a, b
            ):
                here()
            here()
        here()
        """
    )
    header = "for (x, y), z in zip( a, b ):"
    assert program.loops() == [
        (2, []),
        (3, ["for epoch in range(3):"]),
        (6, ["for epoch in range(3):", header]),
        (7, ["for epoch in range(3):"]),
        (8, []),
    ]


def test_next_item_is_taken_in_the_loop_and_the_iterable_is_evaluated_before_it(source) -> None:  # type: ignore[no-untyped-def]
    program = source("for x in data: here(x)\n")
    assert program.loops("GET_ITER") == [(1, [])]
    assert program.loops("FOR_ITER") == program.loops("CALL") == [(1, ["for x in data:"])]


def test_test_of_a_while_loop_belongs_to_the_end_of_each_pass(source) -> None:  # type: ignore[no-untyped-def]
    program = source("while here():\n    x = 1\n    there()\nelse:\n    after()\n")
    places = program.places()
    before, last = places[0][1], places[1][1]
    assert (before.statement, before.loops, before.is_end) == (1, (), False)
    assert (last.statement, [loop.text for loop in last.loops], last.is_end) == (3, ["while here():"], True)
    assert [(line, bool(nesting.loops)) for line, nesting in places[2:]] == [(3, True), (5, False)]


def test_test_that_follows_a_continue_belongs_to_the_pass(source) -> None:  # type: ignore[no-untyped-def]
    program = source("while here():\n    if a:\n        continue\n    there()\n")
    first = program.places()[0][1]
    assert (first.statement, [loop.text for loop in first.loops], first.is_end) == (1, ["while here():"], False)


def test_continue_of_an_inner_loop_does_not_lead_to_the_test(source) -> None:  # type: ignore[no-untyped-def]
    program = source("while here():\n    for b in c:\n        continue\n")
    assert program.places()[0][1].loops == ()


def test_exit_of_a_with_block_comes_after_its_body(source) -> None:  # type: ignore[no-untyped-def]
    program = source("with here() as x:\n    one()\n    two()\nafter()\n")
    found = [(line, nesting.statement, nesting.is_end) for line, nesting in program.places()]
    assert found == [(1, 1, False), (1, 3, True), (2, 2, False), (3, 3, False), (4, 4, False)]


def test_statement_over_several_lines_has_its_first_line(source) -> None:  # type: ignore[no-untyped-def]
    program = source("x = outer(\n    inner(),\n    [\n        deep()],\n)\n")
    assert [(nesting.statement, nesting.text) for _, nesting in program.places()] == [(1, "x = outer(")] * 3


def test_comprehensions_are_loops(source) -> None:  # type: ignore[no-untyped-def]
    program = source("x = [here(a, b) for a in first() for b in second(a) if third(b)]\ny = {f(k): g(k) for k in z}\n")
    outer, inner = "for a in first()", "for b in second(a)"
    found = [loops for _, loops in program.loops()]
    assert found.count([outer, inner]) == 2  # here(…) and third(b)
    assert found.count([outer]) == 1  # second(a)
    assert found.count(["for k in z"]) == 2  # f(k) and g(k)
    assert [] in found  # first()


def test_functions_classes_and_lambdas_begin_anew(source) -> None:  # type: ignore[no-untyped-def]
    program = source(
        """
        for x in y:
            @decorate(1)
            def f(a=default()):
                here()
            class C:
                there()
            g = lambda: inside()
        """
    )
    found = dict(program.loops())
    assert found[3] == found[4] == ["for x in y:"]
    assert found[5] == found[7] == found[8] == []


def test_only_one_arm_of_a_condition_runs(source) -> None:  # type: ignore[no-untyped-def]
    program = source(
        """
        if here():
            one()
        elif there():
            two()
        else:
            three()
        match here():
            case 1:
                four()
            case _:
                five()
        """
    )
    arms = program.arms()
    assert (arms[3], arms[5], arms[7]) == (((2, 0),), ((2, 1), (4, 0)), ((2, 1), (4, 1)))
    assert (arms[10], arms[12]) == (((8, 0),), ((8, 1),))


def test_statements_after_a_jump_are_the_other_arm(source) -> None:  # type: ignore[no-untyped-def]
    program = source(
        """
        for x in y:
            if here():
                one()
                continue
            two()
            if here():
                three()
            else:
                break
            four()
        """
    )
    arms = program.arms()
    assert (arms[4], arms[6]) == (((3, 0),), ((3, 1),))
    assert (arms[8], arms[11]) == (((3, 1), (7, 0)), ((3, 1), (7, 0)))
    last = program.places()[-1][1]
    assert [arm.is_optional for arm in last.arms] == [True, False]  # after `continue`, and after `break`


def test_handlers_follow_the_block_that_they_protect(source) -> None:  # type: ignore[no-untyped-def]
    program = source("try:\n    one()\nexcept E:\n    two()\nexcept F:\n    three()\nfinally:\n    four()\n")
    assert program.arms() == {2: (), 4: ((1, 0),), 6: ((1, 1),), 8: ()}


def test_lines_without_an_instruction_belong_to_their_loop(source) -> None:  # type: ignore[no-untyped-def]
    program = source("for i in range(3):\n    x = i\ny = 1\n")
    found = [program.nestings.of_line(str(program.path), line) for line in (1, 2, 3)]
    assert [nesting is not None and len(nesting.loops) for nesting in found] == [1, 1, 0]


def test_source_that_is_missing_or_damaged_is_not_known(source) -> None:  # type: ignore[no-untyped-def]
    code = compile("for x in y:\n    here()\n", "/nowhere/source.py", "exec")
    assert Nestings().of_instruction(code, 10, list(code.co_positions())) is None
    damaged = source("here()\n")
    damaged.path.write_text("for x in:\n")
    assert damaged.nestings.of_line(str(damaged.path), 1) is None


def test_reading_a_file_repeats_none_of_its_warnings(source) -> None:  # type: ignore[no-untyped-def]
    program = source("text = '\\d'\n")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert program.nestings.of_line(str(program.path), 1) is not None
    assert found == []


@pytest.mark.parametrize("count", [200, 5000])
def test_many_branches_do_not_exceed_the_recursion_limit(source, count: int) -> None:  # type: ignore[no-untyped-def]
    program = source("".join(f"{'el' * bool(number)}if a == {number}:\n    here()\n" for number in range(count)))
    found = program.nestings.of_line(str(program.path), 2)
    if count < 1000:
        assert found is not None and found.arms == (Arm(1, 0),)
    else:
        assert found is None  # Python itself refuses to parse it
