"""Fixes as plain data: applied to a source."""

from __future__ import annotations

import pytest

from insitu.trace.advice import Certainty, Fix, certain, likely, possible

SOURCE = "def f(x):\n    y = x\n    return y"


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        ("replace", "def f(x):\n    y = 2\n    return y"),
        ("before", "def f(x):\n    y = 2\n    y = x\n    return y"),
        ("after", "def f(x):\n    y = x\n    y = 2\n    return y"),
    ],
)
def test_a_fix_keeps_the_indentation_of_its_line(action: str, wanted: str) -> None:
    assert Fix("f.py", 2, "y = 2", action).applied(SOURCE) == wanted


def test_each_word_of_certainty_has_its_function() -> None:
    fix = Fix("f.py", 2, "y = 2")
    found = [certain(fix), likely(fix, "d"), possible(fix, "d")]
    assert [each.certainty for each in found] == [Certainty.CERTAIN, Certainty.LIKELY, Certainty.POSSIBLE]
