"""`insitu diff`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.trace.comparing import Program, chain, fused, in_modules

import insitu
from insitu import cli


def saved(folder: Path, name: str, program: Program) -> str:
    insitu.save(program.trace, folder / name)
    return str(folder / name)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    return (
        saved(tmp_path, "a.h5", chain(("softmax", 1.0, (-1,)), ("abs", 2.0, ()))),
        saved(tmp_path, "b.h5", chain(("softmax", 1.5, (0,)), ("abs", 2.5, ()))),
    )


def test_the_exit_code_is_0_1_or_2(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", files[0], files[0]]) == 0
    assert capsys.readouterr().out.startswith("the same: 2 calls")
    assert cli.main(["diff", *files]) == 1
    assert "argument 2 is 0 in b, -1 in a" in capsys.readouterr().out
    assert cli.main(["diff", files[0], "nowhere.h5"]) == 2
    assert "nowhere.h5" in capsys.readouterr().err


def test_tolerances_decide_what_differs(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", *files, "--rtol", "1", "--atol", "1"]) == 0
    assert capsys.readouterr().out.startswith(
        "the results agree within rtol 1, atol 1 (largest difference: relative error ≥ 0.143, Δ mean 0.5); "
        "1 call is made differently on the way"
    )
    assert cli.main(["diff", *files, "--rtol", "1"]) == 2
    assert "give both" in capsys.readouterr().err


def test_other_calls_with_the_same_results_are_nothing_to_report(tmp_path: Path) -> None:
    a, b = (saved(tmp_path, f"{number}.h5", run) for number, run in enumerate(fused(4.0)))
    assert cli.main(["diff", a, b]) == 0
    c = saved(tmp_path, "c.h5", fused(6.0)[1])
    assert cli.main(["diff", a, c]) == 1


def test_reference_says_which_run_is_wrong(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", *files, "--reference", files[0]]) == 1
    assert "here a is 0 from the reference, b ≥ 0.2: b is wrong" in capsys.readouterr().out
    assert cli.main(["diff", *files, "--reference", "nowhere.h5"]) == 2


def test_json_prints_the_difference(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", *files, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["a"], found["b"], found["causes"][0]["kind"]) == ("a.h5", "b.h5", "argument")


def test_rename_matches_modules_of_other_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = saved(tmp_path, "a.h5", in_modules("old.0")), saved(tmp_path, "b.h5", in_modules("new.0"))
    assert cli.main(["diff", a, b, "--rename", "old.*=new.*"]) == 0
    assert cli.main(["diff", a, b, "--rename", "old.*"]) == 2
    assert cli.main(["diff", a, b, "--rename", "oldd.*=new.*"]) == 2
    assert "did you mean 'old.*'" in capsys.readouterr().err


def test_colour_is_an_option(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", *files, "--color"]) == 1
    assert "\033[" in capsys.readouterr().out


def test_diff_does_not_import_torch(files: tuple[str, str]) -> None:
    program = "import sys; from insitu.cli import main; main(sys.argv[1:]); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program, "diff", *files], check=True, capture_output=True)


def test_the_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["diff", "--help"])
    assert "insitu diff before.h5 after.h5" in capsys.readouterr().out
