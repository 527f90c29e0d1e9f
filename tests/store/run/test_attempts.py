"""Several attempts of a run, ranks that come late, journals from several machines: all of it in one run, none of it
twice, and nothing of another run."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.recorded import STEPS, as_entry, entries, tensor

import insitu
from insitu.errors import ChoiceError, NotRecordedError, StoreError
from insitu.store.journal import journal_writer
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.journaled_runs import runs_in
from insitu.store.journal.parts import place_of
from insitu.store.journal.process import Process
from insitu.store.run.merge import merge_journals
from insitu.store.run.merge_lock import merge_lock
from insitu.store.run.run import Run

A, B = "a" * 32, "b" * 32


def write(parts: Path, rank: int, steps: range, *, run: str = A, attempt: int = 0, ranks: int = 2) -> None:
    """A journal that has ended; each value says where it is from."""
    with JournalWriter(parts, rank, {"world_size": ranks, "attempt": attempt}, run=run, attempt=attempt) as journal:
        journal.describe("x", source=f"rank{rank}.py:1")
        for step in steps:
            value = np.array([int(run[:1], 16), rank, attempt, step])
            journal.step(step, 0.5, [tensor("x", 0, value), ("note", 0, None, (), f"step {step // 2}")])


def rows(run: Run, name: str = "x") -> list[tuple[int, ...]]:
    """Run, rank, attempt and step of each value, which must be the ones that it was recorded with."""
    series = run[name]
    columns = zip(series.ranks.tolist(), series.attempts.tolist(), series.steps.tolist(), strict=True)
    found = [tuple(value) for value in series.values.tolist()]
    assert [row[1:] for row in found] == list(columns)
    return found


def expected(*journals: tuple[int, range, int], run: str = A) -> list[tuple[int, ...]]:
    """The same of journals, each a rank, its steps and its attempt."""
    every = [(int(run[:1], 16), rank, attempt, step) for rank, steps, attempt in journals for step in steps]
    return sorted(every, key=lambda row: (row[3], row[1], row[2]))


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "run.h5"


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    return tmp_path / "run.h5.parts"


@pytest.mark.parametrize("merged", [False, True])
def test_run_joins_its_attempts(parts: Path, target: Path, merged: bool) -> None:
    journals = [(0, range(5), 0), (1, range(6), 0), (0, range(3, 8), 1), (1, range(3, 8), 1)]
    for rank, steps, attempt in journals:
        write(parts, rank, steps, attempt=attempt)
    if merged:
        assert merge_journals(parts, target) == [] and not parts.exists()
    with insitu.load(target) as run:
        assert rows(run) == expected(*journals) and run.complete and run.id == A
        assert [(attempt.number, attempt.steps, attempt.ranks) for attempt in run.attempts] == [
            (0, (0, 5), (0, 1)),
            (1, (3, 7), (0, 1)),
        ]
        assert "2 attempts" in repr(run) and "2 attempts" in repr(run["x"])
        assert run["x"].attempt(1).steps.tolist() == sorted([*range(3, 8)] * 2)
        latest = run["x"].latest()
        assert latest.steps.tolist() == sorted([*range(8)] * 2)
        assert latest.attempts.tolist() == [0] * 6 + [1] * 10
        assert run["x"].at(4, rank=1, attempt=0).tolist() == [10, 1, 0, 4]
        with pytest.raises(ChoiceError, match="2 values at step 4, rank 1: say attempt=…, rank=… or call=…"):
            run["x"].at(4, rank=1)
        with pytest.raises(NotRecordedError, match="has no value of attempt 2; there are attempts 0, 1"):
            run["x"].attempt(2)
        assert run["x"].to_pandas()["attempt"].tolist() == run["x"].attempts.tolist()
        assert run.about["attempt"] == 1 and run.last_committed == {0: 7, 1: 7}


def test_rank_missing_in_one_attempt_is_reported(parts: Path, target: Path) -> None:
    write(parts, 0, range(3))
    write(parts, 0, range(3), attempt=1)
    write(parts, 1, range(3), attempt=1)
    missing = ["attempt 0: rank 1 left no journal"]
    assert insitu.load(target).missing == missing and merge_journals(parts, target) == missing
    assert insitu.load(target).missing == missing and len(runs_in(parts)[A].places) == 3


def test_run_continues_after_merge(parts: Path, target: Path) -> None:
    write(parts, 0, range(5), ranks=1)
    assert merge_journals(parts, target) == [] and not parts.exists()
    write(parts, 0, range(4, 9), attempt=1, ranks=1)
    both = expected((0, range(5), 0), (0, range(4, 9), 1))
    for _ in range(2):
        with insitu.load(target) as run:
            assert rows(run) == both and run.complete and len(run.attempts) == 2
            assert run["note"].values[:3] == ["step 0", "step 0", "step 1"]
            assert [event.attempt for event in run.events if event.kind == "end"] == [0, 1]
        assert merge_journals(parts, target) == [] if parts.exists() else True
    assert not parts.exists()


def test_unmerge_restores_journals_bit_by_bit(parts: Path, target: Path) -> None:
    """All that a run can hold, from the file of its first attempt to that of both."""
    for rank in range(2):
        with JournalWriter(parts, rank, {"world_size": 2, "lr": 0.5}, run=A) as journal:
            journal.describe("weight", shard=rank)
            for step in (*range(STEPS), 2):  # a step that comes twice
                journal.step(step, float("nan") if step == 3 else 100.0, [as_entry(*e) for e in entries(step, rank)])
            journal.event("mark", "epoch", step=2, time=1.0)
    merge_journals(parts, target)
    with insitu.load(target) as run:
        before = {name: list(run[name].raw) if run[name].dtype != "json" else list(run[name]) for name in run}
        facts = {name: run[name].facts for name in run}
        steps = run._source.steps[0].tolist()
        first = run.attempts[0]
    write(parts, 0, range(2), attempt=1, ranks=1)
    assert merge_journals(parts, target) == []
    with insitu.load(target) as run:
        assert run.attempts[0] == first and run.events[0].text == "epoch"
        for name, values in before.items():
            series = run[name].attempt(0)
            found = list(series.raw) if series.dtype != "json" else list(series)
            assert len(found) == len(values) and series.facts == facts[name]
            assert all(np.array_equal(one, two, equal_nan=False) for one, two in zip(found, values, strict=True))
        assert sorted(run._source.steps[0].tolist()) == sorted([*steps, 0, 1])


def test_journal_of_late_rank_is_added_to_the_file(parts: Path, target: Path) -> None:
    write(parts, 0, range(5))
    late = JournalWriter(parts, 1, {"world_size": 2}, run=A)
    late.step(0, 0.5, [tensor("x", 0, np.array([10, 1, 0, 0]))])
    assert merge_journals(parts, target) == ["rank 1 still ran when the file was made: the last step written is 0"]
    late.step(1, 0.5, [tensor("x", 0, np.array([10, 1, 0, 1]))])
    with insitu.load(target) as run:
        assert run.running and rows(run) == expected((0, range(5), 0), (1, range(2), 0))
        assert run.missing == ["rank 1 still runs: the last step written is 1"]
    late.close()
    with insitu.load(target) as run:
        assert run.complete and rows(run) == expected((0, range(5), 0), (1, range(2), 0))
    assert merge_journals(parts, target) == [] and not parts.exists()
    with insitu.load(target) as run:
        assert run.complete and rows(run) == expected((0, range(5), 0), (1, range(2), 0))


def test_journal_started_during_merge_is_not_removed(
    parts: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(parts, 0, range(3), ranks=1)
    real = os.fsync

    def begin_then_sync(file: int) -> None:
        monkeypatch.undo()
        write(parts, 1, range(4), ranks=1)
        real(file)

    monkeypatch.setattr(os, "fsync", begin_then_sync)
    merge_journals(parts, target)
    assert rows(insitu.load(target)) == expected((0, range(3), 0), (1, range(4), 0))


def test_journals_copied_from_several_machines_are_one_run(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"node{rank}").mkdir()
        write(tmp_path / f"node{rank}" / "run.h5.parts", rank, range(3 + rank))
    here = tmp_path / "node0"
    assert merge_journals(here / "run.h5.parts", here / "run.h5") == ["rank 1 left no journal"]
    shutil.copytree(tmp_path / "node1" / "run.h5.parts", here / "run.h5.parts", dirs_exist_ok=True)
    both = expected((0, range(3), 0), (1, range(4), 0))
    assert rows(insitu.load(here / "run.h5")) == both
    assert merge_journals(here / "run.h5.parts", here / "run.h5") == []
    assert rows(insitu.load(here / "run.h5")) == both and not (here / "run.h5.parts").exists()
    shutil.copytree(tmp_path / "node1" / "run.h5.parts", here / "run.h5.parts")  # once more
    assert rows(insitu.load(here / "run.h5")) == both
    assert merge_journals(here / "run.h5.parts", here / "run.h5") == [] and rows(insitu.load(here / "run.h5")) == both


def test_journal_never_replaces_another_journal_of_the_same_rank(tmp_path: Path, parts: Path, target: Path) -> None:
    write(parts, 0, range(3), ranks=1)
    merge_journals(parts, target)
    write(parts, 0, range(7), ranks=1)  # another process that says that it is the same
    (text,) = merge_journals(parts, target)
    assert text.startswith("rank 0, attempt 0 is in the file from another journal") and text.endswith("left out")
    with insitu.load(target) as run:
        assert rows(run) == expected((0, range(3), 0)) and not run.complete
    assert len(list(parts.rglob("*.journal"))) == 1


def test_two_journals_in_one_folder_are_reported_and_kept(tmp_path: Path, parts: Path, target: Path) -> None:
    for name, steps in (("one", 3), ("two", 9)):
        write(tmp_path / name, 0, range(steps), ranks=1)
        shutil.copytree(tmp_path / name, parts, dirs_exist_ok=True)
    assert rows(insitu.load(target)) == expected((0, range(9), 0))
    (text,) = merge_journals(parts, target)
    assert "also has the journal" in text and len(list(parts.rglob("*.journal"))) == 2


def test_merge_never_mixes_runs(parts: Path, target: Path) -> None:
    for rank in range(4):
        write(parts, rank, range(3), run=A, ranks=4)
    for rank in range(2):
        write(parts, rank, range(5), run=B)
    new = expected((0, range(5), 0), (1, range(5), 0), run=B)
    with insitu.load(target) as run:
        assert rows(run) == new and run.complete and len(run.others) == 1 and "aaaaaaaa (4 ranks" in run.others[0]
    assert merge_journals(parts, target) == [] and list(runs_in(parts)) == [A]
    with insitu.load(target) as run:
        assert rows(run) == new and "aaaaaaaa" in run.others[0]
    with insitu.load(parts) as run:
        assert run.id == A and len(run.ranks) == 4 and run.complete
    with pytest.raises(StoreError, match=r"run\.h5' is there already"):
        merge_journals(parts, target, runs=[A])
    assert merge_journals(parts, target, runs=[A], overwrite=True) == [] and insitu.load(target).id == A


def test_runs_named_by_the_user_are_merged_into_one(parts: Path, target: Path) -> None:
    write(parts, 0, range(3), run=A)
    write(parts, 1, range(3), run=B)
    assert merge_journals(parts, target, runs=[A, B]) == [] and not parts.exists()
    with insitu.load(target) as run:
        assert run.id == A and run.ranks == [0, 1] and len(run["x"]) == 6
    write(parts, 0, range(3), run=A)
    write(parts, 0, range(3), run=B)
    with pytest.raises(StoreError, match="rank 0 is in several of the runs"):
        merge_journals(parts, target, runs=[A, B], overwrite=True)


def test_older_run_is_removed_unless_a_process_writes_it(parts: Path, target: Path) -> None:
    old = JournalWriter(parts, 1, {"world_size": 2}, run=A)
    write(parts, 0, range(3), run=A)
    write(parts, 0, range(3), run=B, ranks=1)
    merge_journals(parts, target, runs=[B], overwrite=True, replace_older=True)
    assert list(runs_in(parts)) == [A] and len(list(parts.rglob("*.journal"))) == 2
    old.close()
    write(parts, 0, range(3), run="c" * 32, ranks=1)
    merge_journals(parts, target, runs=["c" * 32], overwrite=True, replace_older=True)
    assert not parts.exists() and insitu.load(target).id == "c" * 32


def test_journal_damaged_after_merge_does_not_replace_merged_steps(parts: Path, target: Path) -> None:
    write(parts, 0, range(5))
    assert merge_journals(parts, target) == ["rank 1 left no journal"]
    (path,) = parts.rglob("*.journal")
    spoiled = bytearray(path.read_bytes())
    spoiled[len(spoiled) // 2 : len(spoiled) // 2 + 40] = bytes(40)
    path.write_bytes(spoiled[:-7])
    write(parts, 1, range(2))
    both = expected((0, range(5), 0), (1, range(2), 0))
    with insitu.load(target) as run:
        assert rows(run) == both and "is damaged now" in run.missing[0]
    merge_journals(parts, target)
    assert rows(insitu.load(target)) == both and len(list(parts.rglob("*.journal"))) == 2


def test_only_one_process_merges_at_a_time(parts: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("insitu.store.run.merge_lock.PATIENCE", 0.1)
    write(parts, 0, range(3), ranks=1)
    busy = pytest.raises(StoreError, match=rf"being merged by process {os.getpid()} on .*remove 'merging-")
    with merge_lock(parts), busy:
        merge_journals(parts, target)
    assert rows(insitu.load(target)) == expected((0, range(3), 0))
    (parts / f"merging-{'0' * 16}.json").write_text('["elsewhere", "", "", 7, 0]')  # it cannot be known
    with pytest.raises(StoreError, match="being merged by process 7 on elsewhere"):
        merge_journals(parts, target)
    dead = Process(*Process.current().to_json()[:3], 2**22 - 1, 1)
    (parts / f"merging-{'0' * 16}.json").write_text(str(dead.to_json()).replace("'", '"'))
    assert merge_journals(parts, target) == [] and not parts.exists()


def test_nothing_is_written_through_a_symbolic_link(tmp_path: Path, parts: Path, target: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    parts.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is a symbolic link"):
        JournalWriter(parts, 0, run=A)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    write(tmp_path / "elsewhere", 0, range(3), ranks=1)
    assert rows(insitu.load(target)) == expected((0, range(3), 0))
    with pytest.raises(StoreError, match="is a symbolic link"):
        merge_journals(parts, target)


def test_deleted_journal_is_reported_at_the_next_step(parts: Path, target: Path) -> None:
    journal = JournalWriter(parts, 0, {"world_size": 1}, run=A)
    for step in range(3):
        journal.step(step, 0.5, [tensor("x", 0, np.array([10, 0, 0, step]))])
    shutil.rmtree(parts)
    with pytest.warns(insitu.InsituWarning, match="was deleted while it is written: all up to step 2 is gone"):
        journal.step(3, 0.5, [tensor("x", 0, np.array([10, 0, 0, 3]))])
    journal.step(4, 0.5, [tensor("x", 0, np.array([10, 0, 0, 4]))])
    journal.close()
    with insitu.load(target) as run:
        assert rows(run) == expected((0, range(3, 5), 0)) and not run.complete
        assert any("frames are missing" in text for text in run.missing)
        assert any("was deleted" in event.text for event in run.events)


class TestWithoutLocks:
    """A file system that has no locks: only an END frame, or a process that is known to be dead, says anything."""

    @pytest.fixture(autouse=True)
    def no_locks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def flock(file: int, how: int) -> None:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

        monkeypatch.setattr("insitu.operating_system.fcntl.flock", flock)

    def test_a_journal_that_is_written_is_not_taken_for_ended(self, parts: Path, target: Path) -> None:
        write(parts, 0, range(3))
        journal = JournalWriter(parts, 1, {"world_size": 2}, run=A)
        journal.step(0, 0.5, [tensor("x", 0, np.array([10, 1, 0, 0]))])
        with insitu.load(target) as run:
            assert run.running and run.missing == ["rank 1 still runs: the last step written is 0"]
        merge_journals(parts, target)
        journal.step(1, 0.5, [tensor("x", 0, np.array([10, 1, 0, 1]))])
        journal.close()
        assert rows(insitu.load(target)) == expected((0, range(3), 0), (1, range(2), 0))

    def test_of_a_process_on_another_machine_nothing_is_known(
        self, parts: Path, target: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elsewhere = Process("far", "0-0", "pid:[1]", 1, 1)
        monkeypatch.setattr(journal_writer.Process, "current", classmethod(lambda cls: elsewhere))
        journal: Any = JournalWriter(parts, 0, {"world_size": 1}, run=A)
        journal.step(0, 0.5, [tensor("x", 0, np.array([10, 0, 0, 0]))])
        monkeypatch.undo()
        with insitu.load(target) as run:
            text = "rank 0 did not end: it was killed, or still runs on far: the last step written is 0"
            assert run.missing == [text] and not run.running
        merge_journals(parts, target)
        write(parts, 0, range(2), run=B, ranks=1)
        merge_journals(parts, target, runs=[B], overwrite=True, replace_older=True)
        assert list(runs_in(parts)) == [A]  # nobody may have ended it
        journal.close()


def test_folder_that_only_looks_like_a_journal_is_not_removed(parts: Path, target: Path) -> None:
    write(parts, 0, range(2), ranks=1)
    (parts / f"rank00000-{'A' * 32}-000").mkdir()
    (parts / "rank00001-..-000").mkdir()
    assert rows(insitu.load(target)) == expected((0, range(2), 0))
    with pytest.raises(StoreError, match="is not the id of a run"):
        place_of(parts, 0, "../../x" + "0" * 25)


def test_state_of_process_on_another_machine_is_unknown() -> None:
    here = Process.current()
    assert here.is_alive() is True and Process.from_json(here.to_json()) == here
    assert Process(here.host, "another", here.space, here.pid, here.began).is_alive() is None
    assert Process(here.host, here.kernel, here.space, here.pid, here.began + 1).is_alive() is False
    assert Process.from_json(["a", 1]) is None and sys.platform == "linux"
