"""Run the tests in an environment and read the result."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

from tests.versions.environment import ROOT, Environment

# A browser and a long run say nothing about a torch.
_OPTIONS = ("-q", "--ignore", "tests/soak", "--ignore", "tests/browser")
_RESULTS = "tests.xml"
_SELECTION = "tests.txt"
_QUESTION = "import platform, torch; print(platform.python_version(), torch.__version__)"


@dataclass(frozen=True)
class Selection:
    """Which tests run: some files and folders, or all without any; `is_quick` leaves out those that are slow."""

    paths: tuple[str, ...] = ()
    is_quick: bool = False

    @property
    def text(self) -> str:
        """How the table names the tests."""
        names = ", ".join(self.paths) or "all"
        return f"{names}, without slow ones" if self.is_quick else names

    @property
    def options(self) -> list[str]:
        """The options of pytest."""
        marks = "not browser and not slow" if self.is_quick else "not browser"
        return [*_OPTIONS, "-m", marks, *self.paths]


@dataclass(frozen=True)
class Outcome:
    """What the tests said in one environment."""

    torch: str
    python: str
    selection: str
    day: str
    passed: int
    skipped: int
    failures: tuple[str, ...]


def run_tests(environment: Environment, selection: Selection, workers: int) -> None:
    """Run the tests; the result is two files in the environment."""
    parallel = ("--numprocesses", str(workers), "--dist", "worksteal", "-p", "no:cacheprovider")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets jobs in the background ignore Ctrl-C
    results = environment.folder / _RESULTS
    results.unlink(missing_ok=True)
    (environment.folder / _SELECTION).write_text(selection.text, encoding="utf-8")
    command = [str(environment.python), "-m", "pytest", *selection.options, *parallel, f"--junitxml={results}"]
    subprocess.run(command, cwd=ROOT, check=False)


def outcome(environment: Environment) -> Outcome | None:
    """The result of the last run in an environment; None if the tests did not run to their end."""
    file = environment.folder / _RESULTS
    if not file.exists():
        return None
    asked = subprocess.run([environment.python, "-c", _QUESTION], capture_output=True, text=True, check=True)
    python, torch = asked.stdout.split()
    selection = (environment.folder / _SELECTION).read_text(encoding="utf-8")
    return read_outcome(file, torch, python, selection)


def read_outcome(file: Path, torch: str, python: str, selection: str) -> Outcome:
    """The outcome in a file that pytest has written."""
    cases = list(ElementTree.parse(file).getroot().iter("testcase"))
    failures = tuple(name for case in cases for name in _failure(case))
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - skipped - len(failures)
    day = date.fromtimestamp(file.stat().st_mtime).isoformat()
    return Outcome(torch, python, selection, day, passed, skipped, failures)


def _failure(case: ElementTree.Element) -> Iterator[str]:
    """The name of a test that failed."""
    if case.find("failure") is not None or case.find("error") is not None:
        file = (case.get("classname") or "").replace(".", "/")
        yield f"{file}::{case.get('name')}"


def ready_environments(folder: Path) -> list[Environment]:
    """The environments of pairs in a folder."""
    found = sorted(folder.glob("torch-*-python-*"), key=_versions)
    return [Environment(each, each.name.rpartition("-")[2]) for each in found]


def _versions(folder: Path) -> list[list[int]]:
    """The versions in the name of an environment, as numbers."""
    return [[int(part) for part in text.split(".") if part.isdigit()] for text in folder.name.split("-")]
