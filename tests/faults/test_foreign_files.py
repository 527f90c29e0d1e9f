"""Files that insitu did not write, with names as if it had: `load` raises at once and says what they are."""

from __future__ import annotations

import os
import pickle
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.store.example import everything
from tests.store.recorded import check, record

import insitu
from insitu import cli
from insitu.errors import StoreError
from insitu.store.run.merge import merge_journals
from insitu.store.trace.schema import SCHEMA
from insitu.store.trace.trace_file import write

NAMES = ("run.h5", "run.hdf5", "run.trace", "run.h5.parts")
NO_FILE = "only files are read"


class Runs:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def _zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.pkl", b"no")


def _other_hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(5)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # the whole name may be too long for one


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "nothing": (lambda path: None, "the file does not exist"),
    "empty": (lambda path: path.write_bytes(b""), "not an HDF5 file|does not begin with"),
    "one byte": (lambda path: path.write_bytes(b"\x89"), "not an HDF5 file|not text in UTF-8"),
    "picture": (lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(900)), "not an HDF5 file|not text in UTF-8"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps(Runs(path.with_name("ran")))), "not an HDF5 file|not text"),
    "archive": (_zip, "not an HDF5 file|does not begin with|not text"),
    "text": (lambda path: path.write_text("insitu trace\n"), "not an HDF5 file|does not begin with"),
    "newer text": (lambda path: path.write_text("insitu trace 2\nend\n"), "not an HDF5 file|update insitu"),
    "a stranger's": (_other_hdf5, "not one of insitu|not text in UTF-8"),
    "pipe": (os.mkfifo, NO_FILE),
    "socket": (_socket, "it cannot be read: No such device or address"),
    "device": (lambda path: path.symlink_to("/dev/zero"), NO_FILE),
    "terminal": (lambda path: path.symlink_to("/dev/tty"), f"{NO_FILE}|cannot be read"),
    "loop": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "dangling": (lambda path: path.symlink_to("nowhere"), "the file does not exist"),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("what", WRONG)
@pytest.mark.timeout(10)
def test_foreign_file_is_refused(tmp_path: Path, monkeypatch: Any, what: str, name: str, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    make, message = WRONG[what]
    make(tmp_path / name)
    with pytest.raises(StoreError, match=message) as caught:
        insitu.load(tmp_path / name)
    assert repr(str(tmp_path / name)) in str(caught.value) and not (tmp_path / "ran").exists()
    for words in (["show", name], ["diff", name, name], ["export", name, "page.html"], ["recover", name]):
        if name != "run.trace" or words[0] != "recover":
            assert cli.main(words) == 2
            assert capsys.readouterr().err.startswith("insitu: ")


@pytest.mark.parametrize("name", ["run.trace", "run.h5"])
def test_directory_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(StoreError, match="is a directory without journals of a run: give the name of a file"):
        insitu.load(tmp_path / name)


@pytest.mark.parametrize("name", ["a\0b.h5", "a\0b.trace", f"{'x' * 300}.h5", "\ud800.trace"])
def test_impossible_file_name_raises_store_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="cannot be loaded"):
        insitu.load(tmp_path / name)


@pytest.fixture
def as_another_user() -> Iterator[Callable[[], None]]:
    """Become one, until the test is over; root may read everything."""
    user = os.geteuid()
    yield lambda: os.seteuid(65534) if not user else None
    os.seteuid(user)


@pytest.mark.parametrize("name", ["run.h5", "run.trace", "run.h5.parts"])
def test_a_file_that_may_not_be_read(tmp_path: Path, name: str, as_another_user: Callable[[], None]) -> None:
    if name.endswith("parts"):
        record(tmp_path / name)
    else:
        insitu.save(everything(), tmp_path / name)
    (tmp_path / name).chmod(0)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    as_another_user()
    with pytest.raises(StoreError, match=r"cannot be read: Permission denied|Permission"):
        insitu.load(tmp_path / name)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.h5"
    expected = record(tmp_path / "run.h5.parts")
    merge_journals(tmp_path / "run.h5.parts", path)
    whole = path.read_bytes()
    with insitu.load(path) as run:
        (tmp_path / "other").write_bytes(b"no")
        os.replace(tmp_path / "other", path)
        check(run, expected)  # what was opened is still there
    path.write_bytes(whole)
    with insitu.load(path) as run:
        os.truncate(path, len(whole) // 2)
        with pytest.raises(StoreError, match=r"run\.h5' is damaged"):
            for name in run:
                _ = run[name].values, run.events
    record(tmp_path / "live.h5.parts")
    with insitu.load(tmp_path / "live.h5") as run:
        for file in (tmp_path / "live.h5.parts").glob("rank*/*.journal"):
            os.truncate(file, 100)
        with pytest.raises(StoreError, match="changed while it was read"):
            _ = run["forward.x"].values


def test_few_bytes_do_not_become_millions_of_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of nothing but zeros take next to no room, and each row of them would be an object."""
    rows = 5_000_000
    tables = {
        table: {name: np.zeros(0, rule.kind + "1" if rule.kind != "f" else "f8") for name, rule in rules.items()}
        for table, rules in SCHEMA.items()
    }
    tables["sites"] = {name: np.zeros(rows, np.int8) for name in SCHEMA["sites"]}
    with monkeypatch.context() as forging:
        forging.setattr("insitu.store.trace.trace_file._MOST_ROWS", rows)  # our own writer leaves one column as it is
        write(tables, {}, tmp_path / "run.h5", overwrite=False)
    assert (tmp_path / "run.h5").stat().st_size < 400_000
    with pytest.raises(StoreError, match=r"/events/sites/[a-z]+ declares 5000000 rows, in a file of [0-9]+ bytes"):
        insitu.load(tmp_path / "run.h5")
