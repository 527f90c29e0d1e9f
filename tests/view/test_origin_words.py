"""The words for origins, on explanations made by hand."""

from __future__ import annotations

import pytest

from insitu.trace.advice import Advice, Certainty, Fix, SuspectLine
from insitu.trace.explain.explanation import Explanation, ExpressionSite, Origin, OriginKind, RangeExit
from insitu.view.error import note
from insitu.view.origin_words import ORIGIN_WORDS, with_reason

SITE = ExpressionSite("net.py", 7, "", "links + shift")
ABOVE = Origin(OriginKind.RANGE, SITE, "rows", range_exit=RangeExit(72, is_above=True))
BELOW = Origin(OriginKind.RANGE, SITE, "rows", range_exit=RangeExit(0, is_above=False))
ROWS = [
    (ABOVE, "rows  goes past 72 at net.py:7   links + shift"),
    (BELOW, "rows  goes below 0 at net.py:7   links + shift"),
    (Origin(OriginKind.NAN_PRODUCED, SITE, count=0), "NaN  made from no element at net.py:7   links + shift"),
    (Origin(OriginKind.NAN_PRODUCED, SITE, count=1), "NaN  made from one element at net.py:7   links + shift"),
    (Origin(OriginKind.SIZE, SITE, size=51), "the 51  comes from net.py:7   links + shift"),
    (Origin(OriginKind.PASSED, SITE, "x", "Net"), "x  passed to Net at net.py:7   links + shift"),
]
REASONS = [
    (ABOVE, "rows goes past 72 there"),
    (BELOW, "rows goes below 0 there"),
    (Origin(OriginKind.NAN_PRODUCED, SITE, count=0), "NaN is produced there"),
    (Origin(OriginKind.SIZE, SITE, size=51), "the 51 comes from there"),
    (Origin(OriginKind.VALUE, SITE, "shift"), "shift comes from there"),
]


@pytest.mark.parametrize(("origin", "row"), ROWS)
def test_table_has_a_row_of_words_for_an_origin(origin: Origin, row: str) -> None:
    assert note(Explanation("IndexError", "", origins=(origin,))) == f"    {row}"


def test_each_kind_of_origin_has_words() -> None:
    assert ORIGIN_WORDS.keys() == set(OriginKind)


@pytest.mark.parametrize(("origin", "reason"), REASONS)
def test_line_to_look_at_has_the_reason_of_its_origin(origin: Origin, reason: str) -> None:
    first = Origin(OriginKind.PRODUCED, SITE, "other")
    advice = Advice(Certainty.UNKNOWN, look_at=SuspectLine("net.py", 7, 1))
    shown = note(Explanation("IndexError", "", origins=(first, origin), advice=advice))
    assert shown.splitlines()[-1] == f"    → no fix is known; look at net.py:7: {reason}"


@pytest.mark.parametrize(
    "advice",
    [
        Advice(Certainty.UNKNOWN),
        Advice(Certainty.LIKELY, Fix("net.py", 7, "x = 1"), "x may be wrong"),
        Advice(Certainty.UNKNOWN, doubt="i is 9 there", look_at=SuspectLine("net.py", 7)),
        Advice(Certainty.UNKNOWN, look_at=SuspectLine("net.py", 7, 5)),
        Advice(Certainty.UNKNOWN, look_at=SuspectLine("net.py", 7, -1)),
    ],
)
def test_advice_without_an_origin_of_the_explanation_stays_as_it_is(advice: Advice) -> None:
    assert with_reason(advice, (ABOVE,)) == advice
