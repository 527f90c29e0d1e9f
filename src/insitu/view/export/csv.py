"""CSV: one row for each call, with the columns of `Trace.to_pandas`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator

from insitu.trace.collector import collector_paused
from insitu.trace.counting import counted
from insitu.trace.trace import COLUMNS, Trace, row
from insitu.view.value import kept

# A spreadsheet takes such a text for a formula, and runs it; a bare operator, as `+` or `@=`, is none.
FORMULA = re.compile(r"[=+\-@\t\r].*[\w(]", re.DOTALL)
KEPT = COLUMNS.index("kept")


def to_csv(trace: Trace) -> str:
    """The calls of a trace as comma-separated values; a text that a spreadsheet would run is given a `'` in front.

    >>> from insitu.trace.event import Call
    >>> to_csv(Trace([Call(7, None, "function", "torch.ones")])).splitlines()[1][:26]
    '7,,function,torch.ones,,,,'
    """
    with collector_paused():
        return "".join(csv_pieces(trace))


def csv_pieces(trace: Trace) -> Iterator[str]:
    """The same text row by row, each made when it is asked for."""
    writer = csv.writer(line := _Last(), lineterminator="\n")
    writer.writerow(COLUMNS)
    yield line.text
    calls = trace.calls
    for call in counted(calls, len(calls), "writing"):
        cells = list(row(call))
        if cells[KEPT] is not None and type(cells[KEPT]) not in (int, float, bool):
            cells[KEPT] = kept(cells[KEPT])
        writer.writerow([_plain(cell) if type(cell) is str else cell for cell in cells])
        yield line.text


class _Last:
    """A file that holds what was written to it last."""

    text = ""

    def write(self, text: str) -> None:
        self.text = text


def _plain(text: str) -> str:
    """The text as it is, but for what no file can hold, and for what is not to be run."""
    if not text.isascii():
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    text = text.replace("\0", "\\x00")
    return f"'{text}" if FORMULA.match(text) else text
