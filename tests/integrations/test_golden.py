"""The pytest plugin, in projects of its own: what is stored, what fails and how, what `--update` and CI do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import insitu
from insitu.integrations import golden
from insitu.integrations.golden import file_name

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


OPTIONS = ("-W", "error", "-p", "no:cacheprovider")


@dataclass
class Project:
    """A folder with tests, and pytest run in it."""

    folder: Path

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(dedent(text), "utf-8")

    def run(self, *arguments: str, plugin: bool = True, **environment: str) -> tuple[int, str]:
        """The exit code and what was printed, in this process: torch is imported already."""
        plugins = [golden] if plugin else []
        out = StringIO()
        with self._as_if_alone(environment), redirect_stdout(out), redirect_stderr(out):
            code = pytest.main([*OPTIONS, *arguments], plugins)
        return int(code), out.getvalue()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Pytest as a user starts it."""
        # Whether or not insitu is installed with its entry point: the plugin is loaded once, by name.
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-p", "insitu.integrations.golden", *arguments]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(command, cwd=self.folder, env=self._environment(), **pipes)

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("CI", "INSITU", "PYTEST_ADDOPTS")}
        return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(self.folder)}

    @contextmanager
    def _as_if_alone(self, environment: dict[str, str]) -> Iterator[None]:
        """The state of a new process; modules of the folder are forgotten again, for the next run has other ones."""
        before = set(sys.modules)
        with pytest.MonkeyPatch.context() as patch:
            for name in os.environ.keys() - self._environment().keys():
                patch.delenv(name)
            for name, value in {**self._environment(), **environment}.items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            patch.syspath_prepend(self.folder)
            patch.setattr(sys, "dont_write_bytecode", True)  # what is written within a second would not be read anew
            yield
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.folder)):
                del sys.modules[name]

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
            for options in ({"keep": "valeus"}, {"level": "atn"}, {"only": "fcc"}, {"rtol": 1e-3}, {"atol": -1.0}):
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
    assert "the block of golden_trace made no call" in out
    project.write("test_it.py", TEST)
    code, out = project.run(INSITU="0")
    assert code == 0 and project.golden == [] and "test_net.trace: not checked: INSITU=0 turns insitu off" in out


def test_on_ci_a_missing_file_fails(project: Project) -> None:
    project.write("test_it.py", TEST)
    code, out = project.run(CI="true")
    assert code == 1 and project.golden == []
    assert "golden/test_it/test_net.trace does not exist: run the test where CI is not set, and commit the file" in out
    assert project.run("--update", CI="true")[0] == 0
    assert project.golden == ["golden/test_it/test_net.trace"]
    assert project.run(CI="true")[0] == 0


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
    """Both leave the block at the same time."""
    project.write(
        "test_it.py",
        """
        import os, pathlib, time
        from net import seeded

        def test_net(golden_trace):
            model, x = seeded()
            with golden_trace(model):
                model(x)
                pathlib.Path(f"{os.getpid()}.ready").touch()
                deadline = time.monotonic() + 60
                while len(list(pathlib.Path().glob("*.ready"))) < 2:
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
        """,
    )
    started = project.start()
    code, out = project.run()
    other, _ = started.communicate()
    assert (code, started.returncode) == (0, 0), (out, other)
    assert project.golden == ["golden/test_it/test_net.trace"]
    assert insitu.load(project.folder / project.golden[0]).calls


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


@pytest.mark.parametrize("place", ["conftest.py", "deep/checks/conftest.py"])
def test_an_update_option_of_the_project_is_used(project: Project, place: str) -> None:
    """Also one in a conftest.py that pytest finds only when it collects, if no path is given."""
    project.write("deep/checks/test_it.py", TEST)
    project.write(place, "def pytest_addoption(parser):\n    parser.addoption('--update', action='store_true')\n")
    assert project.run()[0] == 0
    (project.folder / project.golden[0]).write_text("damaged")
    code, out = project.run("--update", "deep/checks")
    assert code == 0 and "renewed" in out


def test_the_plugin_costs_nothing_where_it_is_not_used(project: Project) -> None:
    project.write(
        "test_it.py",
        """
        import sys

        def test_modules():
            assert not {"torch", "numpy", "h5py", "insitu.session.record", "insitu.store"} & set(sys.modules)
        """,
    )
    started = project.start()
    out, _ = started.communicate()
    assert started.returncode == 0 and "golden" not in out
    code, out = project.run("--help")
    assert code == 0 and "--update" in out and "write the golden traces that differ anew" in out
    code, out = project.run("--fixtures")
    assert "golden_trace -- " in out and "Compare the trace of a block with the one in a file" in out
    assert project.run("--update", plugin=False)[0] == 4  # as it is without the plugin


def test_each_dtype_has_its_own_tolerance(project: Project) -> None:
    """That the model computes in bf16 makes no other integer, bool or f32 the same."""
    test = """
        import torch

        def test_{dtype}(golden_trace):
            x = torch.ones(4, dtype=torch.bfloat16)
            y = torch.tensor([1000, {value}], dtype=torch.{dtype})
            with golden_trace():
                x.mul(2)
                y.flip(0)
        """
    changes = {"bfloat16": ("500.0", "502.0"), "float32": ("500.0", "500.5"), "int64": ("500", "501")}
    for dtype, (before, _) in changes.items():
        project.write(f"test_{dtype}.py", test.format(dtype=dtype, value=before))
    assert project.run()[0] == 0
    for dtype, (_, after) in changes.items():
        project.write(f"test_{dtype}.py", test.format(dtype=dtype, value=after))
    code, out = project.run("-rA")
    assert code == 1 and "PASSED test_bfloat16.py" in out
    assert "FAILED test_float32.py" in out and "FAILED test_int64.py" in out


def test_file_names_are_short_and_told_apart() -> None:
    names = [file_name(text) for text in ("a b", "a_b", "a/b", "x" * 300, "x" * 301, "é", "ü")]
    assert len(set(names)) == len(names) and all(len(name) < 120 and name.isascii() for name in names)
    assert names[1] == "a_b"
