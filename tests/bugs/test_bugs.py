"""The verdict on each faulty program names the line at fault; on the healthy ones there is none."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from tests.bugs.catalog import Program, faulty, healthy, missed
from tests.bugs.verdicts import Verdict, subjects, verdict

import insitu

pytestmark = pytest.mark.usefixtures("one_thread")

# A verdict that names everything names nothing: the call, its operands, where they come from, where the fix belongs.
MOST_PLACES = 7

NOT_YET = frozenset(missed())
REPAIRED = [program for program in faulty() if program.found_by != "compare" and program.repair is not None]
PORTED = [program for program in healthy() if hasattr(program.module, "port")]


def expected(programs: list[Program]) -> list[Any]:
    """The programs as parameters of a test; a test of one in `missed.txt` must fail, so that the list shrinks."""
    fails = pytest.mark.xfail(raises=AssertionError, strict=True, reason="see missed.txt")
    return [
        pytest.param(program, id=program.name, marks=[fails] if program.name in NOT_YET else []) for program in programs
    ]


def test_each_name_in_the_list_of_missed_programs_is_a_program() -> None:
    assert {program.name for program in [*faulty(), *healthy()]} >= NOT_YET


@pytest.mark.parametrize("program", expected(faulty()))
def test_the_verdict_names_the_fault(program: Program) -> None:
    said = verdict(program)
    assert said.names(program.wanted), f"{program.wanted} is not named in:\n{said.text or 'nothing'}"
    assert program.says is None or program.says in said.text, said.text
    assert program.spares is None or not said.names(program.spares), said.text
    assert len(said.places) <= MOST_PLACES, said.text


@pytest.mark.parametrize("program", expected(healthy()))
def test_the_guard_is_silent_on_a_healthy_program(program: Program, uninitialised_is_nan: None) -> None:
    for has_model in (True, False):
        subject = subjects(program)
        with warnings.catch_warnings(), insitu.guard(*subject if has_model else ()) as guard:
            warnings.simplefilter("error")
            result = program.module.run(*subject)
        assert [finding.text for finding in guard.findings] == []
        assert torch.isfinite(result)


@pytest.mark.parametrize("program", REPAIRED, ids=lambda program: program.name)
def test_the_guard_is_silent_on_a_repaired_program(program: Program) -> None:
    names = program.repaired()
    torch.manual_seed(0)
    subject = [names["build"]()] if "build" in names else []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insitu.guard(*subject, action="record") as guard:
            names["run"](*subject)
    assert [finding.text for finding in guard.findings if finding.severity != "info"] == []


@pytest.mark.parametrize("program", healthy(), ids=lambda program: program.name)
def test_two_runs_of_a_healthy_program_are_the_same(program: Program) -> None:
    diff = insitu.compare(recorded(program), recorded(program))
    assert diff.first is None, str(diff.first)


@pytest.mark.parametrize("program", PORTED, ids=lambda program: program.name)
def test_a_port_whose_results_agree_has_no_cause(program: Program) -> None:
    model = program.module.build()
    diff = insitu.compare(recorded(program, model), recorded(program, program.module.port(model)))
    assert diff.first is None, str(diff)


def recorded(program: Program, *subject: Any) -> Any:
    with insitu.record(level="functions", keep="stats") as trace:
        program.module.run(*subject or subjects(program))
    return trace


@pytest.fixture
def uninitialised_is_nan() -> Iterator[None]:
    """Memory from `torch.empty` may hold NaN: here it does for sure."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_a_part_of_a_name_is_not_the_name() -> None:
    said = Verdict("no gradient: layers.10.weight, at deep.py:12, made at my-deep.py:3")
    assert said.places == ["deep.py:12", "my-deep.py:3"]
    assert said.names("layers.10.weight") and said.names("deep.py:12") and said.names("my-deep.py:3")
    assert not any(map(said.names, ("layers.1", "10.weight", "deep.py:1", "deep.py:3", "layers.10")))
