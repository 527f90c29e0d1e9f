"""docs/architecture.md is true: every function that it names is in the file beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
HOPS = re.findall(r"^\| \d+ \| `([\w.]+)` \| `([\w/.]+)` \|", PAGE, re.MULTILINE)
MENTIONS = re.findall(r"`([\w.]+)`\s\(`([\w/.]+)`\)", PAGE)
MOST_HOPS = {
    "One operator, from torch to the terminal": 16,
    "One recorded value, from the model to the file and back": 28,
    "One exception, to its text": 18,
    "One comparison": 21,
}


def definitions(path: Path) -> set[str]:
    """The functions, classes and methods of a file, by their qualified names."""
    names: set[str] = set()

    def collect(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                names.add(prefix + child.name)
                collect(child, f"{prefix}{child.name}.")

    collect(ast.parse(path.read_text("utf-8")), "")
    return names


def test_functions_are_mentioned_with_their_files() -> None:
    assert ("Recorder.start", "capture/recorder.py") in MENTIONS


@pytest.mark.parametrize(("function", "file"), [*HOPS, *MENTIONS])
def test_hop_is_a_function_of_the_file_beside_it(function: str, file: str) -> None:
    assert function in definitions(ROOT / "src" / "insitu" / file)


@pytest.mark.parametrize("journey", MOST_HOPS)
def test_journey_is_numbered_and_short(journey: str) -> None:
    section = PAGE.split(f"### {journey}\n")[1].split("\n## ")[0].split("\n### ")[0]
    numbers = [int(number) for number in re.findall(r"^\| (\d+) \|", section, re.MULTILINE)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert 5 < len(numbers) <= MOST_HOPS[journey]


def test_every_row_with_a_number_is_a_hop() -> None:
    assert len(HOPS) == len(re.findall(r"^\| \d+ \|", PAGE, re.MULTILINE))
