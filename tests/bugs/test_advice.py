"""The advice on the faulty programs: followed to the letter, it repairs what it is sure of."""

from __future__ import annotations

import warnings

import pytest
from tests.bugs.advised import SURE, explained, outcome
from tests.bugs.catalog import Program, faulty

from insitu.trace.advice import Certainty

pytestmark = pytest.mark.usefixtures("one_thread")

EXPLAINED = [program for program in faulty() if program.found_by == "explain"]
GUARDED = [program for program in faulty() if program.found_by == "guard"]
LEAST_REPAIRED = 60  # of the programs, by an advice that is certain or likely


def name(program: Program) -> str:
    return program.name


@pytest.mark.parametrize("program", EXPLAINED, ids=name)
def test_every_explanation_ends_with_an_advice(program: Program) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        explanation = explained(program)
    assert explanation is not None and explanation.advice is not None
    lines = explanation.note.splitlines()
    last = next(line for line in reversed(lines) if not line.startswith("      doubt: "))
    assert last.startswith("    → ")
    has_reason = explanation.advice.doubt or explanation.advice.certainty is not Certainty.LIKELY
    assert has_reason, "a fix that is not certain says why"


@pytest.mark.parametrize("program", [*EXPLAINED, *GUARDED], ids=name)
def test_an_advice_that_is_certain_or_likely_repairs(program: Program) -> None:
    tried = outcome(program)
    assert tried.repairs is not False, tried.advice
    assert tried.advice is None or tried.advice.certainty not in SURE or tried.repairs, tried.advice


def test_advice_repairs_many_programs() -> None:
    repaired = [program.name for program in [*EXPLAINED, *GUARDED] if outcome(program).repairs]
    assert len(repaired) >= LEAST_REPAIRED
