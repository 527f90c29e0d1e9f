"""Tests of the functions that a function can call; the cases are plain functions, for other Pythons run them too."""

from __future__ import annotations

import pytest
from tests.capture.variables.follow.cases import REACHING, Case


@pytest.mark.parametrize("case", REACHING.values(), ids=REACHING.keys())
def test_case(case: Case) -> None:
    case()
