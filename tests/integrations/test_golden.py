"""The pytest plugin, in projects of its own: what is stored, what fails and how, what `--update` and CI do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import insitu
from insitu.integrations.golden import TOLERANCES, file_name, tolerance_of
from insitu.trace.event import Call, TensorFacts
from insitu.trace.trace import Trace

NET = """
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(3, width)
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        x = F.relu(self.fc(x))
        return self.out(x).softmax(-1)

def seeded(width=4):
    torch.manual_seed(0)
    x = torch.randn(2, 3)
    return Net(width), x
"""

TEST = """
from net import seeded

def test_net(golden_trace):
    model, x = seeded()
    with golden_trace(model):
        model(x)
"""


@dataclass
class Project:
    """A folder with tests, and pytest run in it as a user does."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(dedent(text), "utf-8")

    def run(self, *arguments: str, **options: Any) -> tuple[int, str]:
        """The exit code and what was printed."""
        started = self.start(*arguments, **options)
        out, _ = started.communicate()
        return started.returncode, out

    def start(self, *arguments: str, plugin: bool = True, **environment: str) -> subprocess.Popen[str]:
        """Pytest as it runs."""
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "INSITU", "PYTEST_ADDOPTS")}
        # Whether or not insitu is installed with its entry point: the plugin is loaded once, by name.
        environment = {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(self.folder), **environment}
        loaded = ["-p", "insitu.integrations.golden"] if plugin else []
        command = [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", *loaded, *arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=environment, **pipes)

    @property
    def golden(self) -> list[str]:
        """The files that are stored, from the folder of the tests on."""
        return sorted(path.relative_to(self.folder).as_posix() for path in self.folder.rglob("golden/**/*.*"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("net.py", NET)
    made.write("pytest.ini", "[pytest]\n")
    return made


@pytest.mark.slow
def test_a_trace_is_stored_then_compared_then_renewed(project: Project) -> None:
    project.write("tests/test_it.py", TEST)
    code, out = project.run()
    assert code == 0 and "1 passed" in out
    assert "= golden traces =" in out and "\ntests/golden/test_it/test_net.trace: stored\n" in out
    assert project.golden == ["tests/golden/test_it/test_net.trace"]
    path = project.folder / project.golden[0]
    first = path.read_bytes()
    assert insitu.load(path).find("fc")[0].outputs[0].shape == (2, 4) and len(first) < 2500

    code, out = project.run()
    assert code == 0 and "golden" not in out and path.read_bytes() == first

    # Another operation: the call and its line are named, and nothing of insitu or pytest stands in the traceback.
    project.write("net.py", NET.replace("F.relu", "F.gelu"))
    code, out = project.run()
    assert code == 1 and path.read_bytes() == first
    assert "the trace is not that of tests/golden/test_it/test_net.trace" in out
    assert (
        "gelu" in out and "relu" in out and "net.py:13" in out and "if that is as it should be: pytest --update" in out
    )
    assert "Traceback" not in out and "golden.py" not in out
    assert "FAILED tests/test_it.py::test_net - Failed: the trace is not that of" in out

    code, out = project.run("--update")
    assert code == 0 and "\ntests/golden/test_it/test_net.trace: renewed\n" in out and path.read_bytes() != first
    renewed = path.stat().st_mtime_ns
    code, out = project.run("--update")
    assert code == 0 and "golden" not in out and path.stat().st_mtime_ns == renewed


@pytest.mark.slow
def test_another_weight_argument_or_size_fails_at_its_call(project: Project) -> None:
    changes = [
        ("return Net(width), x", "net = Net(width); net.out.weight.data *= 1.1; return net, x"),
        ("softmax(-1)", "softmax(0)"),
        ("Linear(width, 2)", "Linear(width, 5)"),
    ]
    for number in range(len(changes)):
        project.write(f"net_{number}.py", NET)
        project.write(f"test_{number}.py", TEST.replace("from net", f"from net_{number}"))
    assert project.run()[0] == 0
    for number, (before, after) in enumerate(changes):
        assert NET.count(before) == 1
        project.write(f"net_{number}.py", NET.replace(before, after))
    code, out = project.run()
    assert code == 1 and "3 failed" in out
    texts = out.split(" test_net _")[1:]
    for number, text in enumerate(texts):
        assert f"net_{number}.py:14" in text and "relu" not in text  # nothing before that line differs
    assert "out" in texts[0] and "softmax" in texts[1] and "[2, 5]" in texts[2]


@pytest.mark.slow
def test_names_parameters_and_classes_make_files(project: Project) -> None:
    project.write(
        "tests/test_many.py",
        """
        import pytest, torch
        from net import seeded

        @pytest.mark.parametrize("width", [4, 5])
        @pytest.mark.parametrize("how", ["a/b", "a?b"])
        def test_wide(golden_trace, width, how):
            model, x = seeded(width)
            with golden_trace(model, level="modules") as trace:
                model(x)
            assert len(trace.modules) == 3

        class TestNet:
            def test_two(self, golden_trace):
                model, x = seeded()
                with golden_trace(model, only="fc", name="first"):
                    model(x)
                with golden_trace(name="sum", keep="meta"):
                    x.sum()

        def test_twice(golden_trace):
            model, x = seeded()
            golden_trace(model)
            with pytest.raises(ValueError, match="is the golden trace of another block.*give this one a name="):
                golden_trace(model)

        def test_options(golden_trace):
            model, x = seeded()
            for options in ({"keep": "values"}, {"level": "atn"}, {"only": "fcc"}, {"rtol": 1e-3}, {"atol": -1.0}):
                with pytest.raises(ValueError):
                    golden_trace(model, name=str(options), **options)
            with pytest.raises(TypeError, match="cannot trace"):
                golden_trace(3, name="three")
        """,
    )
    code, out = project.run()
    assert code == 0, out
    folder = "tests/golden/test_many"
    assert project.golden == [
        *(f"{folder}/TestNet.test_two.{name}.trace" for name in ("first", "sum")),
        *sorted(f"{folder}/{file_name(f'test_wide[{how}-{n}]')}.trace" for how in ("a/b", "a?b") for n in (4, 5)),
    ]
    assert len(set(map(str.casefold, project.golden))) == 6
    code, out = project.run()
    assert code == 0 and "golden" not in out


@pytest.mark.slow
def test_what_is_not_stored(project: Project) -> None:
    project.write(
        "test_it.py",
        """
        import pytest
        from net import seeded

        def test_error(golden_trace):
            model, x = seeded()
            with golden_trace(model):
                model(x)
                raise KeyError("mine")

        def test_skip(golden_trace):
            model, x = seeded()
            with golden_trace(model):
                model(x)
                pytest.skip("not today")

        def test_nothing(golden_trace):
            with golden_trace(seeded()[0]):
                pass
        """,
    )
    code, out = project.run("-rs")
    assert code == 1 and "2 failed, 1 skipped" in out and project.golden == []
    assert "KeyError: 'mine'" in out and "not today" in out and "golden.py" not in out
    assert "nothing was called in the block of golden_trace" in out
    project.write("test_it.py", TEST)
    code, out = project.run(INSITU="0")
    assert code == 0 and project.golden == [] and "test_net.trace: not checked, for INSITU=0 turns insitu off" in out


@pytest.mark.slow
def test_on_ci_a_missing_file_fails(project: Project) -> None:
    project.write("test_it.py", TEST)
    code, out = project.run(CI="true")
    assert code == 1 and project.golden == []
    assert "there is no golden/test_it/test_net.trace: run the test where CI is not set, and commit it" in out
    assert project.run("--update", CI="true")[0] == 0
    assert project.golden == ["golden/test_it/test_net.trace"]
    assert project.run(CI="true")[0] == 0


@pytest.mark.slow
def test_a_damaged_file_is_named_and_can_be_renewed(project: Project) -> None:
    project.write("test_it.py", TEST)
    assert project.run(CI="false")[0] == 0
    path = project.folder / "golden/test_it/test_net.trace"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], "<<<<<<< HEAD", *lines[4:], ""]))
    code, out = project.run()
    assert code == 1 and "test_net.trace' cannot be loaded: line 5: " in out and "pytest --update" in out
    assert project.run("--update")[0] == 0
    assert path.read_text().splitlines() == lines


@pytest.mark.slow
def test_two_processes_may_store_the_same_file(project: Project) -> None:
    project.write("test_it.py", TEST)
    both = [project.start(), project.start()]
    outs = [started.communicate()[0] for started in both]
    assert [started.returncode for started in both] == [0, 0], outs
    assert project.golden == ["golden/test_it/test_net.trace"]
    assert insitu.load(project.folder / project.golden[0]).calls


@pytest.mark.slow
def test_tolerances(project: Project) -> None:
    """Sums in another order are no difference by default; tolerances that are given count instead."""
    test = """
        from net import seeded

        def test_default(golden_trace):
            model, x = seeded()
            with golden_trace(model):
                model(x * {scale})

        def test_strict(golden_trace):
            model, x = seeded()
            with golden_trace(model, rtol=0, atol=1e-6):
                model(x * {scale})
        """
    project.write("test_it.py", test.format(scale="1.0"))
    assert project.run()[0] == 0
    project.write("test_it.py", test.format(scale="(1 + 2e-5)"))
    code, out = project.run()
    assert code == 1 and "1 failed, 1 passed" in out and "FAILED test_it.py::test_strict" in out


@pytest.mark.slow
@pytest.mark.parametrize("place", ["conftest.py", "deep/checks/conftest.py"])
def test_an_update_option_of_the_project_is_used(project: Project, place: str) -> None:
    """Also one in a conftest.py that pytest finds only when it collects, if no path is given."""
    project.write("deep/checks/test_it.py", TEST)
    project.write(place, "def pytest_addoption(parser):\n    parser.addoption('--update', action='store_true')\n")
    assert project.run()[0] == 0
    (project.folder / project.golden[0]).write_text("damaged")
    code, out = project.run("--update", "deep/checks")
    assert code == 0 and "renewed" in out


@pytest.mark.slow
def test_the_plugin_costs_nothing_where_it_is_not_used(project: Project) -> None:
    project.write(
        "test_it.py",
        """
        import sys

        def test_modules():
            assert not {"torch", "numpy", "h5py", "insitu.session", "insitu.store"} & set(sys.modules)
        """,
    )
    code, out = project.run()
    assert code == 0 and "golden" not in out
    code, out = project.run("--help")
    assert code == 0 and "--update" in out and "write the golden traces that differ anew" in out
    code, out = project.run("--fixtures")
    assert "golden_trace -- " in out and "Compare the trace of a block with the one in a file" in out
    assert project.run("--update", plugin=False)[0] == 4  # as it is without the plugin


def test_tolerance_is_that_of_the_coarsest_type() -> None:
    def of(*dtypes: str) -> Any:
        return tolerance_of(
            Trace(
                [
                    Call(i, None, "function", "f", result=TensorFacts(i, (), dtype, "cpu"))
                    for i, dtype in enumerate(dtypes)
                ]
            )
        )

    assert (of("f32", "i64"), of("f64"), of("f64", "bf16", "f32")) == (
        TOLERANCES["f32"],
        TOLERANCES["f64"],
        TOLERANCES["bf16"],
    )
    assert of("i64", "b8") == (None, None)


def test_file_names_are_short_and_told_apart() -> None:
    names = [file_name(text) for text in ("a b", "a_b", "a/b", "x" * 300, "x" * 301, "é", "ü")]
    assert len(set(names)) == len(names) and all(len(name) < 120 and name.isascii() for name in names)
    assert names[1] == "a_b"
