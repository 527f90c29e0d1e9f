"""A file that a newer version of insitu wrote is reported as newer, and never as damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import h5py
import pytest
from tests.store.example import everything
from tests.store.recorded import check, record

import insitu
from insitu.errors import NewerVersionError, StoreError
from insitu.store.format_version import check_version
from insitu.store.journal import frames
from insitu.store.run.merge import merge_journals
from insitu.store.trace.archive import Archive
from insitu.trace.trace import Trace

NEWER = r"a newer insitu wrote it: it is a {} of format version {}, and this insitu reads version 1: update insitu"


def newer_trace(folder: Path) -> Path:
    path = folder / "run.h5"
    insitu.save(everything(), path)
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = 2
        del file["events/rows"]  # a newer version may have other tables
    return path


def newer_run(folder: Path) -> Path:
    path = folder / "run.h5"
    record(folder / "run.h5.parts")
    merge_journals(folder / "run.h5.parts", path)
    with h5py.File(path, "r+") as file:
        file.attrs["format_version"] = 2
        del file["about"]
    return path


def newer_text(folder: Path) -> Path:
    path = folder / "run.trace"
    path.write_text("insitu trace 2\nsomething else\n")
    return path


@pytest.mark.parametrize(("make", "form"), [(newer_trace, "trace"), (newer_run, "run"), (newer_text, "trace")])
def test_newer_file_is_reported_with_both_versions(tmp_path: Path, make: Callable[[Path], Path], form: str) -> None:
    with pytest.raises(NewerVersionError, match=NEWER.format(form, 2)) as caught:
        insitu.load(make(tmp_path))
    assert "damaged" not in str(caught.value)


def journal_file(parts: Path) -> Path:
    (path,) = (parts / "rank00000").iterdir()
    return path


def test_journal_with_a_newer_first_frame_is_newer(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    path = journal_file(tmp_path / "run.h5.parts")
    content = path.read_bytes()
    with path.open("rb") as file:
        first = frames.FrameScan(frames.OpenFile(file.fileno()), content[8:16]).first()
    assert first is not None
    index = json.dumps({**json.loads(first.index), "format_version": 7}).encode()
    path.write_bytes(content[:16] + frames.head(content[8:16], frames.ABOUT, 0, index, 0) + content[first.start :])
    with pytest.raises(NewerVersionError, match=NEWER.format("journal", 7)):
        insitu.load(tmp_path / "run.h5")


def test_journal_of_which_no_frame_can_be_read_is_newer_by_its_first_bytes(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    path = journal_file(tmp_path / "run.h5.parts")
    path.write_bytes(b"\x93isj02\r\n" + bytes(1000))
    with pytest.raises(NewerVersionError, match=NEWER.format("journal", 2)):
        insitu.load(tmp_path / "run.h5")


def test_newer_journal_is_neither_merged_nor_removed(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    path = journal_file(tmp_path / "run.h5.parts")
    path.write_bytes(b"\x93isj02\r\n" + bytes(1000))
    with pytest.raises(NewerVersionError):
        merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    assert path.exists() and not (tmp_path / "run.h5").exists()


def test_damaged_version_of_a_readable_journal_is_damage(tmp_path: Path) -> None:
    expected = record(tmp_path / "run.h5.parts")
    path = journal_file(tmp_path / "run.h5.parts")
    path.write_bytes(path.read_bytes().replace(b"isj01", b"isj09", 1))
    with insitu.load(tmp_path / "run.h5") as run:
        check(run, expected)
        assert ["is damaged: it begins with b'\\x93isj09" in text for text in run.missing] == [True]


def test_newer_file_of_an_archive_is_reported(tmp_path: Path) -> None:
    archive = Archive(str(tmp_path))
    archive.add(everything().events)
    with h5py.File(archive.files[0], "r+") as file:
        file.attrs["format_version"] = 2
    trace = Trace([])
    trace._archive = archive
    with pytest.raises(NewerVersionError, match=NEWER.format("trace", 2)):
        insitu.save(trace, tmp_path / "run.h5")


@pytest.mark.parametrize("version", [None, 0, -1, b"1", "1", 1.5])
def test_version_that_no_file_has_is_damage(version: object) -> None:
    with pytest.raises(StoreError, match="it is damaged: it has format version") as caught:
        check_version("trace", version, 1)
    assert not isinstance(caught.value, NewerVersionError)
