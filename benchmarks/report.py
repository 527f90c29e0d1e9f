"""The report: one table, the environment it was measured in, and the same as JSON."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from benchmarks.measure import Row

PACKAGES = ("insitu", "torch", "transformers", "torchlens", "torch-code-tracing", "torchview", "torchinfo")
HEAD = ("", "measured", "quartiles", "target", "verdict", "")
RIGHT = (1,)
METHOD = (
    "CPU time of one thread, in turn after a warm-up; the median of the ratios of all turns. The garbage collector is"
    " on; before each time that is taken it has collected, and what was there before all of them is frozen."
)


def table(rows: Iterable[Row]) -> str:
    """The rows as text, in columns."""
    cells = [HEAD, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(_line(line, widths) for line in cells)


def _cells(row: Row) -> tuple[str, ...]:
    spread = " … ".join(number(value, row.unit) for value in row.quartiles) if row.quartiles else ""
    return (row.name, number(row.median, row.unit), spread, str(row.target or ""), row.verdict, row.note)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    pairs = enumerate(zip(cells, widths, strict=True))
    return "  ".join(cell.rjust(width) if at in RIGHT else cell.ljust(width) for at, (cell, width) in pairs).rstrip()


def number(value: float, unit: str) -> str:
    """A number with its unit; three digits say enough.

    >>> number(1.234, "x"), number(43.21, "x"), number(0.1234, "s"), number(278.4, "B")
    ('1.23x', '43.2x', '0.123 s', '278 B')
    """
    if unit == "B":
        return f"{value:.0f} B"
    if unit == "s":
        return f"{value:.3f} s"
    return f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def environment() -> dict[str, str]:
    """Where and when this was measured."""
    found = {"date": time.strftime("%Y-%m-%d %H:%M"), "python": platform.python_version()}
    for package in PACKAGES:
        found[package] = version(package)
    return found


def version(package: str) -> str:
    """The version of a package; of insitu also where it is on the path but not installed."""
    if package == "insitu":
        import insitu

        return insitu.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def save(rows: Iterable[Row], path: Path) -> None:
    """Write the rows, with all that was measured, as JSON."""
    found = [
        {
            "name": row.name,
            "unit": row.unit,
            "median": row.median,
            "quartiles": row.quartiles,
            "target": str(row.target) if row.target else None,
            "verdict": row.verdict or None,
            "note": row.note,
            "samples": row.samples,
        }
        for row in rows
    ]
    path.write_text(json.dumps({"environment": environment(), "rows": found}, indent=1) + "\n")
