"""The report: one table, the environment it was measured in, and the same as JSON."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from benchmarks.measure import Row, Target

PACKAGES = ("insitu", "torch", "transformers", "torchlens", "torch-code-tracing", "torchview", "torchinfo")
HEAD = ("", "measured", "quartiles", "target", "verdict", "")
RIGHT = (1,)
METHOD = (
    "The times are CPU times of one thread, measured in turn after a warm-up. The garbage collector is on: it collects"
    " before each measurement, and objects from before all measurements are frozen."
)


def table(rows: Iterable[Row]) -> str:
    """The rows as text, in columns."""
    every = [HEAD, *(cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return "\n".join(_line(line, widths) for line in every)


def cells(row: Row) -> tuple[str, ...]:
    """A row as text, cell by cell."""
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
        return f"{value:,.0f} B"
    if unit == "s":
        return f"{value:.3f} s"
    return f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def environment() -> dict[str, str]:
    """Where and when this was measured."""
    found = {"date": time.strftime("%Y-%m-%d %H:%M"), "machine": machine(), "python": platform.python_version()}
    for package in PACKAGES:
        found[package] = version(package)
    return found


def machine() -> str:
    """The processor and how many cores there are of it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):  # not Linux
        model = platform.processor() or platform.machine()
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"


def version(package: str) -> str:
    """The version of a package; of insitu also where it is on the path but not installed."""
    if package == "insitu":
        import insitu

        return insitu.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, topic by topic, and where."""

    environment: dict[str, str]
    topics: dict[str, list[Row]]

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return [row for rows in self.topics.values() for row in rows]


def load(path: Path) -> Report:
    """What was measured before, from the file that `save` wrote."""
    found = json.loads(path.read_text(encoding="utf-8"))
    topics: dict[str, list[Row]] = {}
    for row in found["rows"]:
        target = Target.parse(row["target"]) if row["target"] else None
        made = Row(row["name"], row["samples"], target, row["unit"], row["note"])
        topics.setdefault(row["topic"], []).append(made)
    return Report(found["environment"], topics)


def save(report: Report, path: Path) -> None:
    """Write the rows, with all that was measured, as JSON."""
    found = [
        {
            "topic": topic,
            "name": row.name,
            "unit": row.unit,
            "median": row.median,
            "quartiles": row.quartiles,
            "target": str(row.target) if row.target else None,
            "verdict": row.verdict or None,
            "note": row.note,
            "samples": row.samples,
        }
        for topic, rows in report.topics.items()
        for row in rows
    ]
    text = json.dumps({"environment": report.environment, "rows": found}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
