"""Names that are too long for their column: what matters stays."""

from __future__ import annotations

import pytest

from insitu.view.cutter import Cutter, shorten
from insitu.view.line import DETAIL, Line, Span

CUTTER = Cutter(len, "…")


def shown(*spans: Span, width: int) -> str:
    return "".join(text for text, _ in shorten(Line(spans), width, CUTTER)).rstrip()


@pytest.mark.parametrize(
    ("spans", "width", "wanted"),
    [
        ((("for batch in enumerate(loader):", "teal"), ("  × 8", "yellow")), 24, "for batch in enume…  × 8"),
        ((("optimizer.step()", "teal"), ("  96–120 calls", "grey")), 26, "optimizer.s…  96–120 calls"),
        ((("h.0 … h.3", "bold"), ("  × 4 alike", "yellow"), ("  Block", "purple"), ("(96)", DETAIL)), 30, None),
        ((("short", "teal"), ("  × 8", "yellow")), 30, "short  × 8"),
        ((("a name without a count that is too long", "teal"),), 12, "a name with…"),
    ],
)
def test_counts_stay_when_a_name_is_cut(spans: tuple[Span, ...], width: int, wanted: str | None) -> None:
    found = shown(*spans, width=width)
    assert len(found) <= width
    assert wanted is None or found == wanted
    counts = [text.strip() for text, ink in spans if ink in ("yellow", "grey")]
    assert all(count in found for count in counts)
