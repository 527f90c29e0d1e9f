"""Numbers are the same text on the page and in the terminal: formats.js and view/number.py agree on the same cases."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from playwright.sync_api import Browser

from insitu.view.number import amount, duration, figure, limits, operations
from insitu.view.page.row_columns import UNIT

pytestmark = pytest.mark.browser

NUMBERS = [-2.125, 0.0, 0.0010005, 0.00001, 0.125, 1.125, 2.5, 9.9921875, 12.3456, 101.5, 102.5, 999.75, 4096.0]
NUMBERS += [8034.75, 65504.0, 99999.75, 131072.0, 1.25e9, 3e38, -1e-30]
RANGES = [[-2.2, 2.271], [3.0, 3.0], [0.9999, 1.0001], [0.0, 1e6]]
TIMES = [0, 900, 3_400, 99_900, 340_000, 999_400, 2_200_000, 99_940_000, 170_000_000, 999_400_000, 3_000_000_000]
SIZES = [0, 12, 1023, 1024, 3_400, 18_874_368, 5 * 2**30, 2**45]
COUNTS = [0, 12, 999, 3_400, 46_596_096, 999_600, 2_100_000_000_000]


@pytest.mark.parametrize(
    ("script", "cases", "expected"),
    [
        ("digits", NUMBERS, [figure(number) for number in NUMBERS]),
        ("(range) => limits(...range)", RANGES, [limits(*ends) for ends in RANGES]),
        ("(number) => digits(number, 3, true)", [131072.0, 2.0**63], ["131072", "≈ 9.22e+18"]),
        (f"(time_ns) => time(Math.floor(time_ns / {UNIT}))", TIMES, [duration(time) for time in TIMES]),
        ("bytesText", SIZES, [amount(size) for size in SIZES]),
        ("countText", COUNTS, [operations(count) for count in COUNTS]),
    ],
)
def test_the_page_writes_numbers_as_the_terminal_does(
    browser: Browser, script: str, cases: list[Any], expected: list[str]
) -> None:
    source = (files("insitu.view") / "page" / "web" / "formats.js").read_text("utf-8")
    tab = browser.new_page()
    text = f"(cases) => {{ {source}\n const format = {script}; return cases.map((item) => format(item)); }}"
    assert tab.evaluate(text, cases) == expected
    tab.close()
