"""CSV: one row for each call, with the columns of `Trace.to_pandas`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any

from insitu.trace.counter import count_progress
from insitu.trace.trace import COLUMNS, Trace, row
from insitu.view.value import PLAIN, kept_text

# A spreadsheet takes such a text for a formula and runs it; a bare operator such as `+` or `@=` is not a formula.
FORMULA = re.compile(r"[=+\-@\t\r].*[\w(]", re.DOTALL)
KEPT = COLUMNS.index("kept")


def pieces(trace: Trace) -> Iterator[str]:
    """The calls as comma-separated values, row by row; a text that a spreadsheet would run gets a `'` in front.

    >>> from insitu.trace.event import Call
    >>> list(pieces(Trace([Call(7, None, "function", "torch.ones")])))[1][:26]
    '7,,function,torch.ones,,,,'
    """
    writer = csv.writer(line := _Last(), lineterminator="\n")
    writer.writerow(COLUMNS)
    yield line.text
    calls = trace.calls
    for call in count_progress(calls, len(calls), "writing"):
        cells = list(row(call))
        if type(cells[KEPT]) not in PLAIN:
            cells[KEPT] = kept_text(cells[KEPT])
        writer.writerow(map(_cell, cells))
        yield line.text


class _Last:
    """A file that holds the text that was written to it last."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def _cell(item: Any) -> Any:
    """A cell as the file holds it: a text is made safe."""
    if type(item) is str:
        return _plain(item)
    return item


def _plain(text: str) -> str:
    """The text without characters that no file can hold; a formula is disarmed."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    text = text.replace("\0", "\\x00")
    if FORMULA.match(text):
        return f"'{text}"
    return text
