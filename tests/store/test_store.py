from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from insitu.errors import ChoiceError, StoreError, SubjectError
from insitu.store import check, load, save
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run.merge import merge_journals
from insitu.store.run.run import Run
from insitu.trace.event import Mark
from insitu.trace.trace import Trace

ONE, TWO = Trace([Mark(1, None, "note", "one")]), Trace([Mark(2, None, "note", "two")])


@pytest.mark.parametrize("name", ["run.h5", "run.hdf5", "RUN.H5", "a b.c.h5"])
def test_the_suffix_chooses_the_form(tmp_path: Path, name: str) -> None:
    save(ONE, tmp_path / name)
    assert [mark.text for mark in load(str(tmp_path / name)).marks] == ["one"]


@pytest.mark.parametrize("name", ["run.html", "run", "run.h5.txt", ".h5"])
def test_an_unknown_suffix_names_the_ones_there_are(tmp_path: Path, name: str) -> None:
    for verb in (lambda: save(ONE, tmp_path / name), lambda: load(tmp_path / name)):
        with pytest.raises(ChoiceError, match=r"choose \.h5, \.hdf5 or \.trace"):
            verb()


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    save(ONE, path)
    with pytest.raises(StoreError, match=r"run\.h5' is there already: give another name, or overwrite=True"):
        save(TWO, path)
    assert load(path).marks[0].text == "one"
    save(TWO, path, overwrite=True)
    assert load(path).marks[0].text == "two"


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "run.h5").symlink_to(tmp_path / "elsewhere.h5")
    with pytest.raises(StoreError, match="is there already"):
        save(ONE, tmp_path / "run.h5")
    assert not (tmp_path / "elsewhere.h5").exists()


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        save(ONE, tmp_path / "run.h5")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run.h5").stat().st_mode) == 0o600


def test_save_leaves_no_temporary_file(tmp_path: Path) -> None:
    save(ONE, tmp_path / "run.h5")
    save(TWO, tmp_path / "run.h5", overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["run.h5"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: Any, step: str) -> None:
    save(ONE, tmp_path / "run.h5")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"insitu.store.files.os.{step}", full)
    with pytest.raises(StoreError, match=r"run\.h5' cannot be written: No space left on device"):
        save(TWO, tmp_path / "run.h5", overwrite=True)
    monkeypatch.undo()
    assert load(tmp_path / "run.h5").marks[0].text == "one"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: Any) -> None:
    path, sync = tmp_path / "run.h5", os.fsync

    def somebody_else_writes(descriptor: int) -> None:
        path.touch()
        sync(descriptor)

    monkeypatch.setattr("insitu.store.files.os.fsync", somebody_else_writes)
    with pytest.raises(StoreError, match="is there already"):
        save(ONE, path)
    assert path.read_bytes() == b"" and len(list(tmp_path.iterdir())) == 1


def test_save_works_without_hard_links(tmp_path: Path, monkeypatch: Any) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("insitu.store.files.os.link", refuse)
    save(ONE, tmp_path / "run.h5")
    assert load(tmp_path / "run.h5").marks[0].text == "one"


def test_unwritable_target_raises_before_recording(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"the directory .*nowhere' does not exist: make it before"):
        check(tmp_path / "nowhere" / "run.h5")
    (tmp_path / "dir.h5").mkdir()
    with pytest.raises(StoreError, match="is a directory"):
        check(tmp_path / "dir.h5", overwrite=True)


def test_swapped_arguments_are_explained() -> None:
    with pytest.raises(SubjectError, match=r"save\(\) writes a Trace, not 'run.h5' \(str\)"):
        save("run.h5", ONE)  # type: ignore[arg-type]


def test_a_run_that_ends_while_its_parts_are_read_is_read_from_its_file(tmp_path: Path, monkeypatch: Any) -> None:
    path, parts, opened = tmp_path / "run.h5", tmp_path / "run.h5.parts", Run.open
    with JournalWriter(parts) as journal:
        journal.step(0, 0.0, [("forward.x", 0, "uint8", (2,), bytes(2))])

    def ends_first(where: Path) -> Run:
        if parts.is_dir():
            merge_journals(parts, path)
        return opened(where)

    monkeypatch.setattr(Run, "open", ends_first)
    with load(path) as run:
        assert run.path == path and run.complete and run.paths == ["forward.x"]


def test_loading_imports_neither_torch_nor_pandas_nor_pickles(tmp_path: Path) -> None:
    save(ONE, tmp_path / "run.h5")
    program = f"""
import sys, pickle
def refuse(*_, **__): raise AssertionError("unpickled")
pickle.loads = pickle.load = pickle.Unpickler = refuse
import insitu
print(len(insitu.load({str(tmp_path / "run.h5")!r})), sorted({{"torch", "pandas"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "1 []\n"
