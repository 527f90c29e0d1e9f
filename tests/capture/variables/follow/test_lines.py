"""Tests of following line by line; the cases are plain functions, for other Pythons run them too."""

from __future__ import annotations

import pytest
from tests.capture.variables.follow.cases import FOLLOWING, Case


@pytest.mark.parametrize("case", FOLLOWING.values(), ids=FOLLOWING.keys())
def test_case(case: Case) -> None:
    case()
