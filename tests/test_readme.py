"""The README is true: its examples run, and its pictures show what a terminal shows.

`pytest --update` draws the pictures again.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from tests.pictures import TERMINAL_COLUMNS, are_alike, cells, printed_in_a_terminal, svg_lines, terminal_svg

import insitu
from insitu.demo import GPT

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# An example, and the picture of what it prints.
SHOWN = re.compile(r"^```python\n((?:(?!```).*\n)*)```\n\n!\[([^\]]+)\]\((docs/pictures/\w+\.svg)\)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s:]+)\)")


def readme() -> str:
    return README.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return [text for name, text in FENCED.findall(readme()) if name == language]


@pytest.mark.parametrize("number", range(3))
def test_picture_shows_what_the_example_prints(number: int, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    code, title, picture = SHOWN.findall(readme())[number]
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text("import torch\ntorch.manual_seed(0)\ntorch.set_num_threads(1)\n")
    printed = printed_in_a_terminal([sys.executable, "example.py"], tmp_path, columns=TERMINAL_COLUMNS)
    if request.config.getoption("--update"):
        (ROOT / picture).write_text(terminal_svg(printed, title), encoding="utf-8")
    shown = svg_lines((ROOT / picture).read_text(encoding="utf-8"))
    for expected, found in zip(cells(shown), cells(printed), strict=True):
        assert are_alike(expected, found), (expected, found)
    assert len(printed.splitlines()) > 5 and max(map(len, shown)) <= TERMINAL_COLUMNS
    assert "\x1b[" in printed  # it has colours


def test_every_example_has_a_picture_and_no_output_is_left_untested() -> None:
    assert len(SHOWN.findall(readme())) == len(blocks("python")) == 3
    assert blocks("") == []


def test_the_two_commands_have_a_block_of_their_own() -> None:
    assert "make demo\nmake test\n" in blocks("sh")


def test_every_file_that_the_readme_names_exists() -> None:
    missing = [name for name in LINK.findall(readme()) if not (ROOT / name).exists()]
    assert missing == []
    assert len(LINK.findall(readme())) > 10


CALLS = re.findall(r"^\|[^|]+\|[^|]+\| `@?(insitu\.[^`]+)`", readme(), re.MULTILINE)


def test_comparison_has_a_call_for_each_tool() -> None:
    assert len(CALLS) == 9


@pytest.mark.parametrize("call", CALLS)
def test_every_call_of_the_comparison_works(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = GPT(layers=1)
    with insitu.record(model) as trace:
        model(torch.randint(256, (1, 8)))
    found = eval(call, {"insitu": insitu, "model": model, "trace": trace})
    if hasattr(found, "__enter__"):
        with found:
            model(torch.randint(256, (1, 8)))


def test_readme_can_be_read_in_a_minute() -> None:
    words = re.sub(r"```.*?```", "", readme(), flags=re.DOTALL).split()
    assert len(words) < 600
    assert len(readme().splitlines()) <= 130
