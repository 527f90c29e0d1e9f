"""Shards that are read where they are: lazily, and with errors that name what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.addresses import faulty

import insitu
from insitu.errors import ChoiceError, StoreError
from insitu.store.address import Address
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.parts import journal_files, place_of, places
from insitu.store.journal.sender import send_folder

RUN, OTHER = "a" * 32, "b" * 32
SIZE = 1000


def value(rank: int, step: int) -> np.ndarray[Any, Any]:
    return np.full(SIZE, 100 * rank + step, np.float32)


def write_rank(parts: Path, rank: int, *, run: str = RUN, ranks: int = 2, steps: int = 6, attempt: int = 0) -> None:
    about = {"world_size": ranks}
    with JournalWriter(parts, rank, about, run=run, attempt=attempt, roll_steps=2) as journal:
        for step in range(steps):
            entries = [("x", 0, "float32", (SIZE,), value(rank, step).view(np.uint8)), ("loss", 0, None, (), step / 2)]
            journal.step(step, float(step), [*entries, ("same", 0, None, (), "text")])


def check(run: Any, steps: int = 6) -> None:
    assert run.complete and run.ranks == [0, 1]
    series = run["x"]
    assert (series.values[:, 0] == 100 * series.ranks + series.steps).all() and len(series) == 2 * steps
    assert run["loss"].rank(1).values.tolist() == [step / 2 for step in range(steps)]
    assert list(run["same"]) == ["text"] * (2 * steps)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for rank in range(2):
        write_rank(tmp_path / "copy", rank)
    return tmp_path / "copy"


def test_a_folder_of_journals_is_a_run(folder: Path) -> None:
    with insitu.load(folder) as run:
        check(run)


def test_an_address_is_a_run(folder: Path) -> None:
    faulty()
    send_folder(folder, Address.parse("faulty://bucket/run"))
    assert not folder.exists()
    with insitu.load("faulty://bucket/run") as run:
        check(run)


def test_only_the_values_that_are_asked_for_are_read(folder: Path) -> None:
    files = faulty()
    send_folder(folder, Address.parse("faulty://bucket/run"))
    files.reads.clear()
    with insitu.load("faulty://bucket/run") as run:
        assert all(path.endswith(".heads") for path, _, _ in files.reads)
        files.reads.clear()
        assert run["x"].rank(1)[4].tolist() == value(1, 4).tolist()
        ((path, start, end),) = [read for read in files.reads if read[0].endswith(".journal")]
        assert "rank00001" in path and "/00002-" in path and start is not None and end == start + 4 * SIZE


def test_a_segment_without_heads_is_read_itself(folder: Path) -> None:
    files = faulty()
    send_folder(folder, Address.parse("faulty://bucket/run"))
    for name in [name for name in files.store if name.endswith(".heads")]:
        del files.store[name]
    with insitu.load("faulty://bucket/run") as run:
        check(run)


def test_lists_that_do_not_fit_into_memory_are_read_again(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.run.run_journals.MOST_KEPT", 0)
    with insitu.load(folder) as run:
        check(run)


def test_a_large_run_is_checked_when_it_is_read(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.run.run_journals.MOST_CHECKED", 0)
    path = journal_files(place_of(folder, 1, RUN).path)[1][0]
    content = bytearray(path.read_bytes())
    content[content.index(value(1, 3).tobytes()) + 17] ^= 1
    path.write_bytes(content)
    with insitu.load(folder) as run:
        assert run["x"].rank(1)[2].tolist() == value(1, 2).tolist()
        with pytest.raises(StoreError, match=rf"a value of 'x' is damaged, at byte \d+ of .*{path.name}"):
            _ = run["x"].values


def test_shards_of_several_runs_are_named(folder: Path) -> None:
    write_rank(folder, 1, run=OTHER)
    message = r"these shards belong to 2 runs: aaaaaaaa \(ranks 0, 1\); bbbbbbbb \(rank 1\)"
    with pytest.raises(StoreError, match=message):
        insitu.load(folder)
    with insitu.load(folder, run="aaaa") as run:
        check(run)
    with pytest.raises(ChoiceError, match=r"no run here has an id that begins with 'cc'; there is aaaaaaaa"):
        insitu.load(folder, run="cc")


def test_an_unequal_number_of_ranks_is_named(folder: Path) -> None:
    write_rank(folder, 2, ranks=4)
    with pytest.raises(StoreError, match=r"do not belong together: .* ranks 0, 1 of 2; rank 2 of 4"):
        insitu.load(folder)


def test_missing_ranks_and_segments_are_named(folder: Path) -> None:
    journal_files(place_of(folder, 0, RUN).path)[1][0].unlink()
    for path, _ in journal_files(place_of(folder, 1, RUN).path):
        path.unlink()
    place_of(folder, 1, RUN).path.rmdir()
    with insitu.load(folder) as run:
        assert run.missing[0] == "rank 1 left no journal"
        assert run.missing[1].startswith("rank 0: ") and run.missing[1].endswith(": segment 1 is missing")
        assert run["x"].steps.tolist() == [0, 1, 4, 5]


def test_an_address_without_a_run_is_an_error(tmp_path: Path) -> None:
    faulty()
    with pytest.raises(StoreError, match="no journal of a run is at 'faulty://bucket/nothing'"):
        insitu.load("faulty://bucket/nothing")
    with pytest.raises(StoreError, match="is a directory without journals of a run"):
        insitu.load(tmp_path)
    with pytest.raises(ChoiceError, match="names no folder"):
        insitu.load("memory://")
    with pytest.raises(ChoiceError, match="is not an address that fsspec knows"):
        insitu.load("nonsense://bucket/run")


def test_a_dead_address_is_a_store_error() -> None:
    faulty(is_dead=True)
    with pytest.raises(StoreError, match=r"'faulty://bucket/run' cannot be loaded: .*no route to the host"):
        insitu.load("faulty://bucket/run")


def test_run_is_for_addresses_and_folders(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match=r"run='aa' chooses among the runs"):
        insitu.load(tmp_path / "run.h5", run="aa")


def test_forged_names_at_an_address_are_ignored(folder: Path) -> None:
    address = Address.parse(f"file://{folder}")
    address.write("rank00000-zz/00000-0123456789abcdef.journal", b"x")
    address.write("notes.txt", b"x")
    with insitu.load(f"file://{folder}") as run:
        check(run)
    assert len(places(folder)) == 2
