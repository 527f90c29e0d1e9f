"""The programs of this folder, with what each says about its fault."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
MISSED = HERE / "missed.txt"
MEANS = ("explain", "guard", "compare")


@dataclass(frozen=True)
class Program:
    """One program: its module, its source, and what of insitu finds its fault: "explain", "guard" or "compare"."""

    name: str
    module: ModuleType
    source: str

    @property
    def file(self) -> str:
        return f"{self.name}.py"

    @property
    def found_by(self) -> str:
        return str(self.module.FOUND_BY)

    @property
    def faults(self) -> list[int]:
        """The lines that are marked as faulty."""
        lines = self.source.splitlines()
        return [number for number, line in enumerate(lines, 1) if re.search(r"\S.*# FAULT$", line)]

    @property
    def names(self) -> str | None:
        """The parameter that has to be named, where no line can be."""
        return getattr(self.module, "NAMES", None)

    @property
    def says(self) -> str | None:
        """What has to be said of the fault, where its line is no news: it is in the plain traceback already."""
        return getattr(self.module, "SAYS", None)

    @property
    def spares(self) -> str | None:
        """A parameter of the same model that is well, and must not be named."""
        return getattr(self.module, "SPARES", None)

    @property
    def repair(self) -> str | None:
        """What the line at fault should be."""
        return getattr(self.module, "REPAIR", None)

    @property
    def wanted(self) -> str:
        """What a verdict has to name: `file.py:12`, or a parameter."""
        return self.names or f"{self.file}:{self.faults[0]}"

    def repaired(self) -> dict[str, Any]:
        """The names of the program with its line repaired: `run`, or `good` and `bad`."""
        lines = self.source.splitlines()
        at = self.faults[0] - 1
        indent = lines[at][: -len(lines[at].lstrip())]
        lines[at] = f"{indent}{self.repair}"
        names: dict[str, Any] = {"__name__": f"{self.name}_repaired"}
        exec(compile("\n".join(lines), self.file, "exec"), names)
        return names


def faulty() -> list[Program]:
    """Every faulty program, those that the same means finds together."""
    return sorted(_programs("programs"), key=lambda program: MEANS.index(program.found_by))


def healthy() -> list[Program]:
    """The programs in which there is nothing to find."""
    return _programs("healthy")


def missed() -> frozenset[str]:
    """The names of the programs whose fault is not found yet."""
    lines = MISSED.read_text("utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def _programs(folder: str) -> list[Program]:
    return [
        Program(path.stem, import_module(f"tests.bugs.{folder}.{path.stem}"), path.read_text("utf-8"))
        for path in sorted((HERE / folder).glob("*.py"))
    ]
