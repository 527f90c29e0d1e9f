"""The lines of an advice."""

from __future__ import annotations

import pytest

from insitu.trace.advice import Advice, Certainty, Fix, unknown
from insitu.view.advice_line import advice_lines

FIX = Fix("/home/me/net.py", 7, "y = x.t()")
SHOWN = [
    (Advice(Certainty.CERTAIN, FIX), ["  → certain fix at net.py:7: y = x.t()"]),
    (Advice(Certainty.LIKELY, FIX, "so"), ["  → likely fix at net.py:7: y = x.t()", "    doubt: so"]),
    (Advice(Certainty.POSSIBLE, words="turn it"), ["  → possible fix: turn it"]),
    (Advice(Certainty.UNKNOWN), ["  → no fix is known"]),
    (unknown("net.py", 7, "a 3"), ["  → no fix is known; look at net.py:7: a 3"]),
    (Advice(Certainty.LIKELY, Fix("net.py", 7, "a = 1", "before")), ["  → likely fix before net.py:7: a = 1"]),
    (Advice(Certainty.LIKELY, Fix("net.py", 7, "a = '\\x1b[2J'")), ["  → likely fix at net.py:7: a = '\\x1b[2J'"]),
]


@pytest.mark.parametrize(("advice", "lines"), SHOWN)
def test_an_advice_says_how_sure_it_is_and_where_the_code_belongs(advice: Advice, lines: list[str]) -> None:
    assert [str(line) for line in advice_lines(advice, 2)] == lines


def test_control_characters_of_a_source_do_not_reach_the_terminal() -> None:
    (line,) = advice_lines(Advice(Certainty.LIKELY, Fix("net.py", 7, "a = '\x1b[2J'")), 0)
    assert "\x1b" not in str(line)
