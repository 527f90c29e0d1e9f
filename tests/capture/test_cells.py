"""Cells of a notebook have the number that the notebook shows beside them, and their notes are read in tracebacks."""

from __future__ import annotations

import re

import pytest
from tests.notebooks import Output, outputs

from insitu.capture.cells import file_or_cell

MODEL = """
import torch, insitu
class Net(torch.nn.Module):
    def forward(self, x):
        h = x.relu()
        return h @ torch.ones(3, 3)
model = Net()
"""
RECORD = """
with insitu.record(model) as trace:
    model(torch.ones(2, 3))
print(*(f"{site.file}:{site.line} {site.text.strip()}" for site in trace.calls[-1].site.chain()), sep="|")
"""
WATCHED = """
@insitu.watch("y")
def add(x):
    y = x + 1
    return y
with open("watched.txt", "w") as file:
    insitu.watch(file=file)(add)(3)
print(open("watched.txt").read())
"""
GUARDED = """
with insitu.guard(action="record") as guard:
    torch.log(torch.zeros(2, requires_grad=True))
print(guard.findings[0].text)
"""
FAILING = """
with insitu.record(model):
    model(torch.ones(2, 4))
"""


def text(output: Output) -> str:
    """What a cell printed, or its traceback, without colours."""
    return re.sub("\x1b\\[[0-9;]*m", "", output.text)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    cells = [MODEL, RECORD, RECORD, WATCHED, GUARDED, FAILING, "print(insitu.explain())"]
    with pytest.MonkeyPatch.context() as patch:
        found = outputs(cells, tmp_path_factory.mktemp("cells"), patch, allow_errors=True)
    return ["\n".join(map(text, each)) for each in found]


@pytest.mark.slow
def test_sites_have_the_number_of_their_cell_and_its_source(shown: list[str]) -> None:
    assert shown[1].strip() == "In [2]:2 model(torch.ones(2, 3))|In [1]:5 return h @ torch.ones(3, 3)"


@pytest.mark.slow
def test_a_cell_that_runs_again_has_its_new_number(shown: list[str]) -> None:
    assert shown[2].strip() == "In [3]:2 model(torch.ones(2, 3))|In [1]:5 return h @ torch.ones(3, 3)"


@pytest.mark.slow
def test_nothing_above_the_cell_is_shown(shown: list[str]) -> None:
    assert "[In [4]:2] add called from <module>:6 (In [4]:6)\n" in shown[3]


@pytest.mark.slow
def test_findings_name_the_cell(shown: list[str]) -> None:
    assert shown[4].startswith("In [5]:2: torch.log produced Inf")


@pytest.mark.slow
def test_a_traceback_shows_the_note_once(shown: list[str]) -> None:
    assert shown[5].count("  In [1]:5 in forward    Net\n") == 1
    assert shown[5].count("✗ the last dimension of left is 4, right has 3 rows") == 1
    assert "    h  made at In [1]:4   x.relu()" in shown[5]


@pytest.mark.slow
def test_explain_names_the_cell_of_the_last_error(shown: list[str]) -> None:
    assert shown[6].splitlines()[1] == "  In [1]:5 in forward    Net"


def test_files_are_what_they_are_outside_of_notebooks() -> None:
    assert file_or_cell("/tmp/ipykernel_7/1162403565.py") == "/tmp/ipykernel_7/1162403565.py"
    assert file_or_cell("<stdin>") == "<stdin>"
