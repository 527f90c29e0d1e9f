"""Environments for other versions: what is read from wheels and results. `make versions` runs the rest."""

from __future__ import annotations

import sys
import zipfile
from argparse import ArgumentTypeError
from pathlib import Path

import pytest
from tests.versions.__main__ import table
from tests.versions.interpreters import interpreter
from tests.versions.pairs import PAIRS, Pair, parse_pair
from tests.versions.suite import Selection, read_outcome
from tests.versions.wheel import Wheel, cuda_folder, without_large_packages

from insitu.capture.torch_versions import NEWEST, OLDEST, is_tried, release

METADATA = """Metadata-Version: 2.4
Name: torch
Requires-Dist: filelock
Requires-Dist: nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"
Requires-Dist: cuda-toolkit[cudart]==13.0.2; platform_system == "Linux"
Requires-Dist: cuda-bindings<14,>=13.0.3; platform_system == "Linux"
Requires-Dist: triton==3.7.1; platform_system == "Linux"
"""
RESULTS = """<testsuites><testsuite>
<testcase classname="tests.capture.test_tree" name="test_a"/>
<testcase classname="tests.capture.test_tree" name="test_b"><failure message="no"/></testcase>
<testcase classname="tests.capture.test_tree" name="test_c"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def torch_wheel(tmp_path: Path) -> Wheel:
    path = tmp_path / "torch-2.12.1+cu130-cp311-cp311-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("torch-2.12.1.dist-info/METADATA", METADATA)
    return Wheel(path)


def test_a_wheel_says_which_cuda_it_needs(torch_wheel: Wheel) -> None:
    assert (torch_wheel.version, torch_wheel.cuda()) == ("2.12.1", "13")
    assert torch_wheel.cuda_packages() == ["nvidia-cudnn-cu13==9.20.0.48", "cuda-toolkit[cudart]==13.0.2"]


def test_the_packages_of_one_cuda_are_shared(torch_wheel: Wheel, tmp_path: Path) -> None:
    (tmp_path / "cuda13").mkdir()
    assert cuda_folder(torch_wheel, sys.executable, tmp_path) == tmp_path / "cuda13"


def test_large_packages_are_not_required_any_more() -> None:
    assert without_large_packages(METADATA).splitlines()[2:] == ["Requires-Dist: filelock"]


def test_the_table_counts_what_passed_and_names_what_failed(tmp_path: Path) -> None:
    file = tmp_path / "tests.xml"
    file.write_text(RESULTS, encoding="utf-8")
    found = read_outcome(file, "2.8.0", "3.12.1", Selection(("tests/capture",), is_quick=True).text)
    assert f"| 2.8.0 | 3.12.1 | tests/capture, without slow ones | 1 | 1 | 1 | {found.day} |" in table([found])
    assert "- tests/capture/test_tree::test_b" in table([found])


def test_a_pair_is_written_with_a_slash() -> None:
    assert parse_pair("2.8.0/3.12") == Pair("2.8.0", "3.12")
    with pytest.raises(ArgumentTypeError, match=r"a pair is written as 2\.8\.0/3\.12 or newest/3\.13, got '2\.8\.0'"):
        parse_pair("2.8.0")


def test_the_oldest_torch_that_is_claimed_is_tried() -> None:
    versions = [release(pair.torch) for pair in PAIRS if pair.torch[0].isdigit()]
    assert min(versions) == release(OLDEST)
    assert all(is_tried(".".join(map(str, version))) for version in versions)
    assert release(NEWEST) >= max(versions)


def test_a_python_that_is_not_there_is_not_found() -> None:
    assert interpreter("python-that-does-not-exist") is None
