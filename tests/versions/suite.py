"""Run the tests in an environment and read the result."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from xml.etree import ElementTree

from tests.versions.environment import ROOT, Environment

# A browser and a long run say nothing about a torch; neither do the linters of this project.
OPTIONS = ("-q", "-m", "not browser", "--ignore", "tests/soak", "--ignore", "tests/browser")
_RESULTS = "tests.xml"
_QUESTION = "import platform, torch; print(platform.python_version(), torch.__version__)"


@dataclass(frozen=True)
class Outcome:
    """What the tests said in one environment."""

    torch: str
    python: str
    day: str
    passed: int
    skipped: int
    failures: tuple[str, ...]


def run_tests(environment: Environment, workers: int) -> None:
    """Run the tests; the result is a file in the environment."""
    parallel = ("--numprocesses", str(workers), "--dist", "worksteal")
    command = [environment.python, "-m", "pytest", *OPTIONS, *parallel, "-p", "no:cacheprovider"]
    file = environment.folder / _RESULTS
    subprocess.run([*map(str, command), f"--junitxml={file}"], cwd=ROOT, check=False)


def outcome(environment: Environment) -> Outcome | None:
    """The result of the last run in an environment; None if the tests did not run."""
    file = environment.folder / _RESULTS
    if not file.exists():
        return None
    asked = subprocess.run([environment.python, "-c", _QUESTION], capture_output=True, text=True, check=False)
    python, torch = asked.stdout.split() or (environment.python_version, environment.folder.name)
    cases = list(ElementTree.parse(file).getroot().iter("testcase"))
    failures = tuple(name for case in cases for name in _failure(case))
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = len(cases) - skipped - len(failures)
    day = date.fromtimestamp(file.stat().st_mtime).isoformat()
    return Outcome(torch, python, day, passed, skipped, failures)


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
