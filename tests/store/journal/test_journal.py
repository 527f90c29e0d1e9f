from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.store.recorded import check, record, tensor

import insitu
from insitu.errors import StoreError
from insitu.store import files as store_files
from insitu.store.journal import frames, journal_reader
from insitu.store.journal.journal_writer import Entry, JournalWriter, value_json
from insitu.store.run.merge import merge_journals
from insitu.store.run.run import Run


def numbers(step: int) -> list[Any]:
    return [tensor("x", 0, np.array([step], np.int64)), tensor("y", 0, np.full(3, step, np.float32))]


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.journal"))


def test_each_file_of_a_journal_can_be_read_alone(tmp_path: Path) -> None:
    check_run = record(tmp_path / "run.h5.parts", roll=1500)
    assert len(files(tmp_path)) > 4
    with insitu.load(tmp_path / "run.h5") as run:
        check(run, check_run)
    first = files(tmp_path / "run.h5.parts" / "rank00000")[0]
    first.unlink()
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["forward.x"].rank(1).steps.tolist() == list(range(6))
        kept = run["forward.x"].rank(0)
        assert 0 < len(kept) < 6 and kept.values[:, 0, 0].tolist() == kept.steps.tolist()
        assert any("frames are missing" in text for text in run.missing)


def test_run_that_ends_while_it_is_read_is_not_called_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalWriter(tmp_path / "run.h5.parts")
    journal.step(0, 0.0, numbers(0))
    read = journal_reader._read_file

    def read_then_end(*arguments: Any) -> int:
        sequence = read(*arguments)
        journal.close()
        return sequence

    monkeypatch.setattr(journal_reader, "_read_file", read_then_end)
    with insitu.load(tmp_path / "run.h5") as run:
        assert run.running and run.missing == ["rank 0 still runs: the last step written is 0"]
    monkeypatch.undo()
    with insitu.load(tmp_path / "run.h5") as run:
        assert not run.running and run.missing == []


def test_journal_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        JournalWriter(tmp_path / "run.h5.parts").close()
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_dir()} == {0o700}


def test_existing_journal_is_not_overwritten(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    with pytest.raises(StoreError, match=r"rank00000' is there already, from a run that was killed or still goes on"):
        JournalWriter(tmp_path / "run.h5.parts")
    with pytest.raises(StoreError, match="cannot be made"):
        JournalWriter("/proc/nowhere/run.h5.parts")


def test_committed_step_is_known_and_closed_journal_raises(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "p")
    assert journal.committed_step is None
    journal.step(7, 0.0, numbers(7))
    assert journal.committed_step == 7
    journal.flush()
    journal.close()
    journal.close()
    for use in (lambda: journal.step(8, 0.0, []), journal.flush, lambda: journal.event("mark", "")):
        with pytest.raises(StoreError, match="is closed"):
            use()


def test_close_ends_threads_and_closes_files(tmp_path: Path) -> None:
    before, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    journal = JournalWriter(tmp_path / "p", roll=500, sync=0.01)
    for step in range(50):
        journal.step(step, 0.0, numbers(step))
    journal.close()
    assert threading.active_count() == before and len(os.listdir("/proc/self/fd")) == descriptors


def test_thread_ends_when_journal_is_garbage_collected(tmp_path: Path) -> None:
    before = threading.active_count()
    journal = JournalWriter(tmp_path / "p", sync=0.01)
    thread = journal._sync_thread._thread
    del journal
    thread.join(5)
    assert not thread.is_alive() and threading.active_count() == before


def test_a_child_process_does_not_write(tmp_path: Path, monkeypatch: Any) -> None:
    journal = JournalWriter(tmp_path / "p")
    journal.step(0, 0.0, numbers(0))
    monkeypatch.setattr("insitu.store.journal.journal_writer.os.getpid", lambda: 1)
    with pytest.raises(StoreError, match="a child cannot write to it"):
        journal.step(1, 0.0, numbers(1))
    monkeypatch.undo()
    journal.step(1, 0.0, numbers(1))
    journal.close()
    assert insitu.load(_named(tmp_path)).steps.tolist() == [0, 1]


def _named(folder: Path) -> Path:
    (folder / "p").rename(folder / "run.h5.parts")
    return folder / "run.h5"


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (("x", 0, "float32", (3,), bytes(8)), r"'x' has 8 bytes, and float32 of shape \(3,\) takes 12"),
        (("x", 0, "float33", (3,), bytes(8)), "values of the type 'float33' cannot be stored"),
        (("x", 0, "numpy:O", (3,), bytes(8)), "arrays of the type 'O' cannot be stored"),
    ],
)
def test_a_wrong_entry_is_refused_and_the_journal_goes_on(tmp_path: Path, entry: Any, message: str) -> None:
    journal = JournalWriter(tmp_path / "p")
    journal.step(0, 0.0, numbers(0))
    with pytest.raises(StoreError, match=message):
        journal.step(1, 0.0, [*numbers(1), entry])
    journal.step(2, 0.0, numbers(1))  # what was not written is not taken for known
    journal.close()
    with insitu.load(_named(tmp_path)) as run:
        assert run["x"].steps.tolist() == [0, 2] and run["x"].values.tolist() == [[0], [1]]


def test_an_exception_while_the_entries_are_made_writes_nothing(tmp_path: Path) -> None:
    def broken() -> Any:
        yield numbers(1)[0]
        raise KeyboardInterrupt

    with JournalWriter(tmp_path / "p") as journal:
        journal.step(0, 0.0, numbers(0))
        with pytest.raises(KeyboardInterrupt):
            journal.step(1, 0.0, broken())
        journal.step(2, 0.0, numbers(1))
    with insitu.load(_named(tmp_path)) as run:
        assert run["x"].steps.tolist() == [0, 2] and run["x"].values.tolist() == [[0], [1]] and run.complete


def test_journal_takes_any_buffer(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32)
    found: list[Any] = [array, array.tobytes(), bytearray(array.tobytes()), memoryview(array), array.view(np.uint8)]
    with JournalWriter(tmp_path / "p") as journal:
        journal.step(0, 0.0, [("x", call, "float32", (2, 3), data) for call, data in enumerate(found)])
    with insitu.load(_named(tmp_path)) as run:
        assert run["x"].values.tolist() == [array.reshape(2, 3).tolist()] * 5


def test_many_and_large_buffers_are_written_whole(tmp_path: Path, monkeypatch: Any) -> None:
    """More than one call takes, and calls that write a part only."""
    real = os.writev
    monkeypatch.setattr(store_files.os, "writev", lambda file, left: real(file, [bytes(left[0])[:9_001]]))
    values = [np.full(20_000 + number, number % 251, np.uint8) for number in range(1200)]
    with JournalWriter(tmp_path / "p") as journal:
        journal.step(0, 0.0, [tensor("x", call, value) for call, value in enumerate(values)])
    with insitu.load(_named(tmp_path)) as run:
        assert run.complete and b"".join(value.tobytes() for value in run["x"].values) == b"".join(values)


class FullDisk:
    """`os.writev` of a disk that takes so many bytes more."""

    def __init__(self, left: int) -> None:
        self.left, self.real = left, os.writev

    def __call__(self, file: int, buffers: Any) -> int:
        whole = b"".join(buffers)
        taken = whole[: self.left]
        if not taken and whole:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.left -= len(taken)
        return self.real(file, [taken])


def test_full_disk_is_reported_once_and_loses_no_committed_step(tmp_path: Path, monkeypatch: Any) -> None:
    journal = JournalWriter(tmp_path / "p")
    for step in range(3):
        journal.step(step, 0.0, numbers(step))
    disk = FullDisk(50)
    monkeypatch.setattr(store_files.os, "writev", disk)
    with pytest.raises(StoreError, match=r"step 3 of rank 0 is not recorded: No space left on device; all up to"):
        journal.step(3, 0.0, numbers(3))
    assert [journal.step(step, 0.0, numbers(step)) for step in (4, 5)] == [False, False]
    assert journal.committed_step == 2 and journal.dropped == 3
    disk.left = 2**30
    assert journal.step(6, 0.0, numbers(3))
    journal.close()
    with insitu.load(_named(tmp_path)) as run:
        assert run["x"].steps.tolist() == [0, 1, 2, 6] and run["x"].values.tolist() == [[0], [1], [2], [3]]
        assert run.missing == ["rank 0: 3 steps could not be written"] and run.dropped == 3
        assert [(event.kind, event.text) for event in run.events] == [
            ("trouble", "3 steps could not be written"),
            ("end", ""),
        ]


def test_journal_continues_in_a_new_file_after_a_torn_step(tmp_path: Path, monkeypatch: Any) -> None:
    journal = JournalWriter(tmp_path / "p")
    journal.step(0, 0.0, numbers(0))

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(store_files.os, "writev", FullDisk(60))
        patch.setattr("insitu.store.journal.journal_writer.os.ftruncate", broken)
        with pytest.raises(StoreError, match="No space left"):
            journal.step(1, 0.0, numbers(1))
    journal.step(2, 0.0, numbers(2))
    journal.close()
    assert len(files(tmp_path)) == 2
    with insitu.load(_named(tmp_path)) as run:
        assert run["x"].steps.tolist() == [0, 2] and run["y"].values[:, 0].tolist() == [0.0, 2.0]
        assert any("are damaged" in text for text in run.missing)


def test_sync_error_is_recorded_as_an_event(tmp_path: Path, monkeypatch: Any) -> None:
    journal = JournalWriter(tmp_path / "p", sync=1000)
    journal.step(0, 0.0, numbers(0))

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("insitu.store.journal.journal_writer.os.fdatasync", broken)
        with pytest.raises(StoreError, match="cannot be written to the disk: Input/output error"):
            journal.flush()
        journal._is_dirty = True
        journal._sync()
    journal.step(1, 0.0, numbers(1))
    journal.close()
    events = insitu.load(_named(tmp_path)).events
    assert events[0].kind == "trouble" and "Input/output error" in events[0].text


def test_an_error_in_the_run_is_in_its_journal(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), JournalWriter(tmp_path / "p") as journal:
        journal.step(4, 0.0, numbers(4))
        _ = 1 / 0
    events = insitu.load(_named(tmp_path)).events
    assert [(event.kind, event.text) for event in events] == [
        ("error", "ZeroDivisionError: division by zero"),
        ("end", ""),
    ]


def test_journal_stores_python_values(tmp_path: Path) -> None:
    assert value_json(np.float32(0.5)) == "0.5" and value_json(np.int64(3)) == "3"
    assert value_json([np.zeros(2)]).startswith('{"repr":["list",')


def test_the_bytes_of_a_journal_can_be_values_of_it(tmp_path: Path) -> None:
    """After damage the reader looks for frames, and those in a tensor are none."""
    journal = JournalWriter(tmp_path / "p")
    journal.step(0, 0.0, numbers(0))
    path = files(tmp_path)[0]
    journal.step(1, 0.0, [tensor("copy", 0, np.frombuffer(path.read_bytes(), np.uint8)), *numbers(1)])
    journal.step(2, 0.0, numbers(2))
    journal.close()
    whole = bytearray(path.read_bytes())
    tag = whole[8:16]
    places = [at for at in range(16, len(whole)) if whole[at : at + 8] == tag]
    assert len(places) > 5
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with insitu.load(_linked(tmp_path)) as run:
            for series in (run["x"], run["y"]):
                assert len(set(series.steps.tolist())) == len(series)  # a step in the copy is not a step
                assert all((value == step).all() for step, value in zip(series.steps, series, strict=True))
            assert not run.complete


def _linked(folder: Path) -> Path:
    if not (folder / "run.h5.parts").exists():
        (folder / "run.h5.parts").symlink_to(folder / "p")
    return folder / "run.h5"


def test_the_sizes_of_the_format_are_fixed() -> None:
    assert (frames.HEAD.size, frames.STEP_HEAD.size, frames.ENTRY.itemsize, len(frames.MAGIC)) == (32, 24, 40, 8)


def entry_of(path: str, number: int, call: int = 0) -> Entry:
    return path, call, "uint8", (1,), bytes([number])


def test_frames_of_one_step_are_one_step_and_later_values_replace(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts) as journal:
        for step in range(2):
            journal.step(step, 1.0 + step, [entry_of("x", 1), entry_of("w", 5)], flags=frames.OPEN)
            journal.step(
                step, 1.0 + step, [entry_of("w", 6 + step), entry_of("g", 2)], flags=frames.MORE | frames.AGAIN
            )
    merge_journals(parts, tmp_path / "run.h5", keep_parts=True)
    for place in (parts, tmp_path / "run.h5"):
        with Run.open(place) as run:
            assert run["w"].values[:, 0].tolist() == [6, 7] and run["x"].values[:, 0].tolist() == [1, 1]
            assert run["g"].steps.tolist() == run.steps.tolist() == [0, 1] and run.complete
    with h5py.File(tmp_path / "run.h5") as file:
        assert file["steps/step"][:].tolist() == [0, 1]


def test_equal_value_in_the_same_step_is_stored_once(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [entry_of("w", 5)])
        journal.step(0, 0.0, [entry_of("w", 5)], flags=frames.MORE | frames.AGAIN)
        journal.step(1, 0.0, [entry_of("w", 5)])
    with Run.open(tmp_path / "run.h5.parts") as run:
        assert run["w"].steps.tolist() == [0, 1] and run.complete


def test_a_frame_with_the_ticket_of_the_last_one_is_not_written_again(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for ticket in (1, 1, 2):
            assert journal.step(ticket, 0.0, [entry_of("x", ticket)], ticket=ticket)
    with Run.open(tmp_path / "run.h5.parts") as run:
        assert run["x"].steps.tolist() == [1, 2] and run.complete


def test_a_journal_that_ends_in_an_open_step_says_so(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(3, 0.0, [entry_of("x", 1)], flags=frames.OPEN)
    with Run.open(tmp_path / "run.h5.parts") as run:
        assert run.missing == ["rank 0: step 3 had not ended: values of it may be missing"]


def test_omitted_values_are_missing_once_for_each_reason(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts", roll=200) as journal:
        for step in range(4):
            journal.omit("x", "too large", step=step)
            journal.step(step, 0.0, [entry_of("y", step)])
            with Run.open(tmp_path / "run.h5.parts") as run:
                assert "rank 0: not all of 'x' is recorded, first at step 0: too large" in run.missing
    with Run.open(tmp_path / "run.h5.parts") as run:
        assert len(run.missing) == 1 and run["y"].steps.tolist() == [0, 1, 2, 3]
