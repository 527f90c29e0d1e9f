"""The line that makes a module, read from the source; None where it could be several."""

from __future__ import annotations

from pathlib import Path

import pytest

from insitu.trace.module_source import ModuleSource, SourceClass, SourceLine, construction

SOURCE = """\
class Net(nn.Module):
    def __init__(self):
        self.attention = nn.Softmax(dim=-1)
        self.out = Softmax(dim=1)
        self.norm = nn.LayerNorm(4)

def build():
    return nn.Sequential(nn.Linear(2, 2), nn.Sigmoid(), nn.Linear(2, 2), nn.Sigmoid())

def other():
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), body, nn.Tanh())
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "net.py"
    path.write_text(SOURCE, "utf-8")
    return str(path)


def test_the_only_call_in_the_class_makes_the_module(file: str) -> None:
    assert construction(ModuleSource("LayerNorm", classes=(SourceClass(file, "Net"),))) == SourceLine(file, 5)


def test_one_of_several_is_known_by_its_attribute(file: str) -> None:
    source = ModuleSource("Softmax", "out", classes=(SourceClass(file, "Net"),))
    assert construction(source) == SourceLine(file, 4)
    assert construction(ModuleSource("Softmax", "third", classes=(SourceClass(file, "Net"),))) is None


def test_a_part_of_a_sequence_is_known_by_its_siblings(file: str) -> None:
    siblings = ("Linear", "ReLU", "Block", "Tanh")
    assert construction(ModuleSource("Tanh", siblings=siblings, index=3, files=(file,))) == SourceLine(file, 11)
    twice = ("Linear", "Sigmoid", "Linear", "Sigmoid")
    found = construction(ModuleSource("Sigmoid", siblings=twice, index=3, files=(file,)))
    assert found == SourceLine(file, 8)
    wrong = ("Linear", "Tanh", "Linear", "Sigmoid")
    assert construction(ModuleSource("Sigmoid", siblings=wrong, index=3, files=(file,))) is None


def test_without_a_source_nothing_is_known() -> None:
    assert construction(ModuleSource("Softmax", files=("missing.py",))) is None
