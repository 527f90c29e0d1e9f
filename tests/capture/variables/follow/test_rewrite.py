"""Tests of the rewriting of functions; the cases are plain functions, for other Pythons run them too."""

from __future__ import annotations

import pytest
from tests.capture.variables.follow.cases import PROGRAM_CASES, REWRITING, Case


@pytest.mark.parametrize("case", REWRITING.values(), ids=REWRITING.keys())
def test_case(case: Case) -> None:
    case()


@pytest.mark.parametrize("case", PROGRAM_CASES.values(), ids=PROGRAM_CASES.keys())
def test_program(case: Case) -> None:
    case()
