from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.store.example import everything, picture

import insitu
import insitu.verbs.save
from insitu.errors import StoreError
from insitu.store import load, save
from insitu.store.trace.schema import SCHEMA
from insitu.store.trace.trace_encoder import encode
from insitu.store.trace.trace_file import write
from insitu.trace.event import Call, Event, Mark, TensorFacts
from insitu.trace.trace import Trace

ROWS = len(everything())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "run.h5"
    save(everything(), path)
    return path


def test_a_trace_comes_back_as_it_was(saved: Path) -> None:
    assert picture(load(saved)) == picture(everything())


def test_file_from_before_a_column_was_added_comes_back(tmp_path: Path) -> None:
    trace = everything()
    tables = encode(trace, trace.about)
    added = {(table, name) for table, rules in SCHEMA.items() for name, rule in rules.items() if rule.added}
    assert added
    for table, name in added:
        del tables[table][name]
    write(tables, trace.about, tmp_path / "old.h5", overwrite=False)
    old = load(tmp_path / "old.h5")
    assert [event.id for event in old] == [event.id for event in trace]
    assert {call.mode for call in old.calls} == {"eager"}
    assert {call.site.nesting for call in old.calls if call.site is not None} == {None}


def test_large_columns_come_back_as_they_were(tmp_path: Path) -> None:
    # Long enough for several compressed chunks in a column.
    starts = [random.Random(0).randrange(2**62) for _ in range(70_000)]
    save(
        Trace([Mark(number, None, "note", f"n{number}", start) for number, start in enumerate(starts)]),
        tmp_path / "a.h5",
    )
    back = load(tmp_path / "a.h5")
    assert [(mark.start, mark.text) for mark in back.marks] == [(start, f"n{n}") for n, start in enumerate(starts)]


def test_millions_of_rows_that_are_all_alike_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take next to no room, as what was made to fill the memory does."""
    monkeypatch.setattr("insitu.store.trace.trace_file._MOST_ROWS", 2**10)
    save(Trace([Mark(number, None, "note", "a") for number in range(200_000)]), tmp_path / "a.h5")
    assert len(load(tmp_path / "a.h5")) == 200_000


def test_call_with_thousands_of_tensors_is_read_back(tmp_path: Path) -> None:
    x = TensorFacts(0, (1,), "f32", "cpu")
    many: list[Event] = [Call(number, None, "aten", "add", None, ([x] * 2500,), {}, None) for number in range(2000)]
    with pytest.MonkeyPatch.context() as before:
        before.setattr("insitu.store.trace.trace_file._MOST_ROWS", 2**60)  # files of before have all columns compressed
        save(Trace(many), tmp_path / "a.h5")
    assert len(load(tmp_path / "a.h5")) == 2000


def test_events_with_equal_ids_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="two events have the same number, 3"):
        save(
            Trace([Mark(3, None, "note", "a"), Mark(4, None, "note", "b"), Mark(3, None, "note", "c")]),
            tmp_path / "a.h5",
        )
    assert list(tmp_path.iterdir()) == []


def test_h5py_shows_the_format_and_the_facts(saved: Path) -> None:
    with h5py.File(saved) as file:
        facts = dict(file.attrs)
        assert len(file["events/rows/id"]) == len(everything())
    assert facts.pop("checksum") > 0
    assert facts == {
        **{"format": b"insitu trace", "format_version": 1},
        **{"insitu": b"0.1.0", "torch": b"2.13.0", "start": b"2026-01-01"},
    }


def test_facts_that_do_not_fit_an_attribute_are_kept(tmp_path: Path) -> None:
    about = {"torch": "2\0\ud800" + "x" * 100_000, "python": 2**80, "started": None}
    save(Trace(about=about), tmp_path / "a.h5")
    assert load(tmp_path / "a.h5").about == about


def _link(file: h5py.File, name: str, link: Any) -> None:
    del file[name]
    file[name] = link


def _virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(shape=(4,), dtype="i8")
    layout[:] = h5py.VirtualSource("other.h5", "data", shape=(4,))
    del file["events/rows/id"]
    file.create_virtual_dataset("events/rows/id", layout)


def _replace(name: str, **how: Any) -> Callable[[h5py.File], None]:
    def spoil(file: h5py.File) -> None:
        del file[name]
        file.create_dataset(name, **how)

    return spoil


def _group(file: h5py.File) -> None:
    del file["events/rows/id"]
    file.create_group("events/rows/id")


def _many_links(file: h5py.File) -> None:
    zeros = file.create_dataset("zeros", data=np.zeros(2**26, dtype=np.int64), chunks=(2**20,), compression="gzip")
    for name in list(file["events/stats"]):
        del file[f"events/stats/{name}"]
        file[f"events/stats/{name}"] = zeros


SPOILED: list[tuple[Callable[[h5py.File], Any], str]] = [
    (lambda file: file.attrs.pop("format"), "not one of insitu"),
    (lambda file: file.attrs.update(format=np.bytes_(b"other")), "not one of insitu"),
    (lambda file: file.attrs.update(format="insitu trace"), "not one of insitu"),  # of variable length
    (lambda file: file.attrs.update(format=np.zeros(3)), "not one of insitu"),
    (lambda file: file.attrs.pop("format_version"), "format version None"),
    (
        lambda file: file.attrs.update(format_version=2),
        "a newer insitu wrote it: it is a trace of format version 2, and this insitu reads version 1: update",
    ),
    (lambda file: file.attrs.update(format_version=np.bytes_(b"1")), "format version"),
    (lambda file: file.attrs.update(format_version=0), "format version 0"),
    (lambda file: file.attrs.pop("checksum"), "its checksum"),
    (lambda file: file.attrs.update(checksum=1), "its checksum"),
    (lambda file: file["events/rows/step"].write_direct(np.full(ROWS, 9, dtype=np.int8)), "its checksum"),
    (lambda file: file.pop("events"), "/events is missing"),
    (lambda file: file.pop("events/sites"), "/events/sites is missing"),
    (lambda file: file.pop("events/rows/step"), "/events/rows/step is missing"),
    (lambda file: file.pop("events/rows/defined"), "rows/defined is missing"),  # a file of before never counted it
    (lambda file: _link(file, "events/rows/changes", h5py.SoftLink("/events/rows/name")), "a link to another place"),
    (_group, "/events/rows/id is not a dataset"),
    (lambda file: _link(file, "events/rows/id", h5py.SoftLink("/events/rows/name")), "a link to another place"),
    (lambda file: _link(file, "events/rows/id", h5py.ExternalLink("other.h5", "/x")), "a link to another place"),
    (lambda file: _link(file, "events", h5py.ExternalLink("other.h5", "/events")), "a link to another place"),
    (_virtual, "takes its data from other files"),
    (
        _replace("events/rows/id", shape=(ROWS,), dtype="i8", external=[("/etc/hostname", 0, 8 * ROWS)]),
        "from other files",
    ),
    (
        _replace("events/rows/id", shape=(2**45,), dtype="i1", chunks=(2**20,)),
        "declares 35184372088832 bytes and stores 0",
    ),
    (_replace("events/rows/id", shape=(ROWS,), dtype=h5py.string_dtype()), "not a column of numbers"),
    (_replace("events/rows/id", shape=(ROWS,), dtype=h5py.ref_dtype), "not a column of numbers"),
    (_replace("events/rows/id", data=np.zeros((3, 5), dtype="i1")), "not a column of numbers"),
    (_replace("events/rows/id", data=np.int8(1)), "not a column of numbers"),
    (_replace("events/rows/id", data=h5py.Empty("i1")), "not a column of numbers"),
    (
        _replace("events/rows/id", data=np.zeros(ROWS, dtype="i1"), compression="lzf"),
        "compressed with an unknown filter",
    ),
    (_many_links, "at most 4294967296 are read"),
]


@pytest.mark.parametrize(("spoil", "message"), SPOILED, ids=range(len(SPOILED)))
def test_a_file_that_is_not_ours_is_refused(saved: Path, spoil: Callable[[h5py.File], Any], message: str) -> None:
    with h5py.File(saved, "r+") as file:
        spoil(file)
    with pytest.raises(StoreError, match=message) as caught:
        load(saved)
    assert repr(str(saved)) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"text\n", b"\x89HDF\r\n\x1a\n", os.urandom(5000)], ids=["empty", "text", "head", "noise"]
)
def test_file_that_is_not_hdf5_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.h5"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="not an HDF5 file, or a damaged one"):
        load(path)


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nowhere\.h5' cannot be loaded: the file does not exist"):
        load(tmp_path / "nowhere.h5")
    (tmp_path / "dir.h5").mkdir()
    with pytest.raises(StoreError, match=r"dir\.h5' cannot be loaded"):
        load(tmp_path / "dir.h5")


def test_a_file_cut_short_anywhere_is_refused(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 50)):
        saved.write_bytes(whole[:length])
        with pytest.raises(StoreError):
            load(saved)


def test_a_flipped_bit_never_gives_another_trace(saved: Path) -> None:
    whole, expected, dice = saved.read_bytes(), picture(everything()), random.Random(0)
    refused = 0
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        saved.write_bytes(damaged)
        try:
            found = picture(load(saved))
        except StoreError:
            refused += 1
        else:
            assert found == expected  # the bit was in a place that holds nothing
    assert refused > 10


def test_the_public_names_are_these() -> None:
    assert insitu.save is insitu.verbs.save.save and insitu.load is load
