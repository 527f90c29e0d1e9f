"""Ranks that begin, write, end, are killed, come late, are merged, copied, resumed and replaced, in every order.

A model knows what was committed. After each act the files must hold that and nothing else, or say what is missing; and
a journal may be gone only where the rules say so. Once in this process, on two machines that copy to each other, and
once with real processes that are killed; each with locks of files and without.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from tests.faults.amount import amount
from tests.forking import Forking

from insitu.errors import StoreError
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.parts import places
from insitu.store.run.merge import merge_journals
from insitu.store.run.run import Run, joined_run

Key = tuple[str, int, int]  # run, rank, attempt


@dataclass
class Written:
    """A journal, and what was committed to it."""

    key: Key
    machine: int
    journal: JournalWriter
    steps: list[int] = field(default_factory=list)
    state: str = "open"


@dataclass(frozen=True)
class Copy:
    """What a machine has of a journal."""

    steps: tuple[int, ...]
    has_ended: bool


@dataclass
class Job:
    """A run: how many ranks it has, and which attempt goes on."""

    id: str
    ranks: int
    attempt: int = 0


def mark(run: str) -> int:
    return int(run[:8], 16)


class Model:
    """Two machines, each with a file and a folder of journals, and what must be in them."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.dice = dice
        self.folders = [folder / f"machine{number}" for number in range(2)]
        for each in self.folders:
            each.mkdir()
        self.jobs: list[Job] = []
        self.written: dict[Key, Written] = {}
        self.known: list[dict[Key, Copy]] = [{}, {}]
        self.in_file: list[str | None] = [None, None]
        self.acts: list[str] = []

    def paths(self, machine: int) -> tuple[Path, Path]:
        return self.folders[machine] / "run.h5.parts", self.folders[machine] / "run.h5"

    def act(self) -> None:
        """Do one thing, and look at the machines that it was done on."""
        acts: list[tuple[Callable[[], set[int]], int]] = [
            *((self.begin, 5), (self.write, 5), (self.end, 5), (self.kill, 1), (self.restart, 2)),
            *((self.merge, 5), (self.recover, 1), (self.copy, 2)),
        ]
        (chosen,) = self.dice.choices([act for act, _ in acts], [weight for _, weight in acts])
        for machine in chosen():
            self.check(machine)

    def note(self, text: str) -> None:
        self.acts.append(text)

    def open(self) -> list[Written]:
        return [each for each in self.written.values() if each.state == "open"]

    def begin(self) -> set[int]:
        if not self.jobs or self.dice.random() < 0.3:
            self.jobs.append(Job(self.dice.randbytes(16).hex(), self.dice.choice([1, 2, 2, 3])))
        job = self.dice.choice(self.jobs[-3:])
        rank = self.dice.randrange(job.ranks)
        key = job.id, rank, job.attempt
        if key in self.written:
            return set()
        machine = rank % 2 if job.ranks > 1 else 0
        journal = JournalWriter(
            self.paths(machine)[0], rank, {"world_size": job.ranks}, run=job.id, attempt=job.attempt
        )
        self.written[key] = Written(key, machine, journal)
        return self.keep(self.written[key])

    def keep(self, each: Written) -> set[int]:
        """A journal has changed on its machine."""
        self.known[each.machine][each.key] = Copy(tuple(each.steps), each.state == "ended")
        self.note(f"{each.key} has {each.steps}, {each.state}")
        return {each.machine}

    def write(self) -> set[int]:
        if not (found := self.open()):
            return set()
        each = self.dice.choice(found)
        for _ in range(self.dice.randrange(1, 4)):
            step = each.steps[-1] + 1 if each.steps else 3 * each.key[2]
            value = np.array([mark(each.key[0]), each.key[1], each.key[2], step])
            each.journal.step(step, 0.0, [("x", 0, "int64", (4,), value.view(np.uint8))])
            each.steps.append(step)
        return self.keep(each)

    def end(self) -> set[int]:
        if not (found := self.open()):
            return set()
        each = self.dice.choice(found)
        each.journal.close()
        each.state = "ended"
        return self.keep(each)

    def kill(self) -> set[int]:
        """As SIGKILL does: nothing more is written, perhaps a part of a frame."""
        if not (found := self.open()):
            return set()
        each = self.dice.choice(found)
        self._kill(each)
        return self.keep(each)

    def _kill(self, each: Written) -> None:
        if self.dice.random() < 0.3:
            os.write(each.journal._file, self.dice.randbytes(30))
        each.journal._sync_thread.stop()
        each.journal._close_files()
        each.state = "killed"

    def restart(self) -> set[int]:
        if not self.jobs:
            return set()
        job = self.dice.choice(self.jobs[-2:])
        for each in self.open():
            if each.key[0] == job.id:
                self._kill(each)
        job.attempt += 1
        self.note(f"{job.id} is restarted as attempt {job.attempt}")
        return {0, 1}

    def merge(self) -> set[int]:
        """As rank 0 does in the end; what is replaced is older than the run that replaces it, mostly."""
        machine = self.dice.randrange(2)
        there = {run for run, *_ in self.on_disk(machine)}
        runs = [job.id for job in self.jobs if job.id in there]
        if not runs:
            return set()
        overwrite = self.dice.random() < 0.4
        return self.merge_journals(machine, [runs[-1] if overwrite else self.dice.choice(runs)], overwrite)

    def recover(self) -> set[int]:
        machine = self.dice.randrange(2)
        return self.merge_journals(machine, [], False) if self.on_disk(machine) else set()

    def on_disk(self, machine: int) -> set[Key]:
        """The journals in the folder of a machine."""
        parts, _ = self.paths(machine)
        return {(place.run, place.rank, place.attempt) for place in places(parts)} if parts.is_dir() else set()

    def merge_journals(self, machine: int, runs: list[str], overwrite: bool) -> set[int]:
        parts, target = self.paths(machine)
        before, holds = self.on_disk(machine), self.in_file[machine]
        try:
            merge_journals(parts, target, runs=runs, overwrite=overwrite, replace_older=overwrite)
        except StoreError as error:
            assert "is there already" in str(error) and holds is not None and not overwrite
            assert holds not in (runs or {run for run, *_ in before}), f"{holds} was not added to"
            assert self.on_disk(machine) == before
            self.note(f"merging {runs} on machine {machine} was refused")
            return {machine}
        with Run.open(target) as run:
            merged = self.in_file[machine] = run.id
        assert not runs or runs == [merged]
        gone = before - self.on_disk(machine)
        for key in gone:
            if key[0] == merged:
                assert self.is_whole(machine, merged), f"{key} was deleted"
            else:
                others = [other for other in before if other[0] == key[0]]
                is_over = all(self.known[machine][other].has_ended for other in others)  # this process is not dead
                has_first = any(rank == 0 for _, rank, _ in others)
                assert overwrite and is_over and has_first, f"{key} of another run was deleted"
        if holds not in (None, merged):  # the file that was there is replaced, as was asked for
            assert overwrite
        kept = self.on_disk(machine)
        known = self.known[machine]
        self.known[machine] = {key: copy for key, copy in known.items() if key[0] == merged or key in kept}
        self.note(f"merged {merged} on machine {machine}, overwrite={overwrite}, gone: {sorted(gone)}")
        return {machine}

    def is_whole(self, machine: int, run: str) -> bool:
        """Whether nothing of a run can be missing on a machine: all ranks of all attempts are there, and have ended."""
        found = {key: copy for key, copy in self.known[machine].items() if key[0] == run}
        job = next(job for job in self.jobs if job.id == run)
        attempts = {attempt for _, _, attempt in found}
        are_there = all((run, rank, attempt) in found for attempt in attempts for rank in range(job.ranks))
        return are_there and all(copy.has_ended for copy in found.values())

    def copy(self) -> set[int]:
        """Copy the journals of the second machine to the first."""
        theirs, ours = self.paths(1)[0], self.paths(0)[0]
        if not theirs.is_dir():
            return set()
        shutil.copytree(theirs, ours, dirs_exist_ok=True)
        for key in self.on_disk(1):
            self.known[0][key] = self.known[1][key]
        self.note("copied to machine 0")
        return {0}

    def check(self, machine: int) -> None:
        """What a machine has of each run is what was committed there, and it says what is missing."""
        parts, target = self.paths(machine)
        there = {run for run, *_ in self.on_disk(machine)} | {self.in_file[machine]} - {None}
        assert there == {run for run, *_ in self.known[machine]}
        for run_id in there:
            with joined_run(target, parts, run_id) as run:
                self.check_rows(machine, run)
                self.check_missing(machine, run)

    def check_rows(self, machine: int, run: Run) -> None:
        found = run["x"].values.tolist() if "x" in run else []
        wanted = [
            [mark(key[0]), key[1], key[2], step]
            for key, copy in self.known[machine].items()
            if key[0] == run.id
            for step in copy.steps
        ]
        assert found == sorted(wanted, key=lambda row: (row[3], row[1], row[2]))

    def check_missing(self, machine: int, run: Run) -> None:
        assert run.complete == self.is_whole(machine, run.id), run.missing
        ranks = next(job.ranks for job in self.jobs if job.id == run.id)
        known = {key: copy for key, copy in self.known[machine].items() if key[0] == run.id}
        for attempt in {attempt for _, _, attempt in known}:
            for rank in range(ranks):
                copy = known.get((run.id, rank, attempt))
                text = "left no journal" if copy is None else "did not end" if not copy.has_ended else ""
                told = [each for each in run.missing if f"rank {rank} " in each and self._is_of(each, attempt, run)]
                assert bool(told) == bool(text), run.missing
                assert text in told[0] or "still r" in told[0] if text else True, run.missing

    def _is_of(self, text: str, attempt: int, run: Run) -> bool:
        return len(run.attempts) == 1 or text.startswith(f"attempt {attempt}:")

    def close(self) -> None:
        for each in self.open():
            each.journal.close()


def no_flock(file: int, how: int) -> None:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


@pytest.mark.slow
@pytest.mark.parametrize("has_locks", [True, False])
@pytest.mark.parametrize("seed", range(amount(4, 100)))
def test_any_order_of_process_actions_loses_and_mixes_nothing(
    seed: int, has_locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_locks:
        monkeypatch.setattr("insitu.operating_system.fcntl.flock", no_flock)
    model = Model(tmp_path, random.Random(seed))
    try:
        for _ in range(70):
            model.act()
    except BaseException:
        print(*model.acts, sep="\n")
        raise
    finally:
        model.close()


# A rank among real processes: it begins when it likes, writes, and ends, is killed, or merges and is killed in that.
RANK = """
import json, os, random, signal, sys, time
import numpy as np
from pathlib import Path
from insitu.errors import StoreError
from insitu.store.run.run_start import open_journal
from insitu.store.journal import rank_ends
from insitu.store.run.merge import merge_journals
from tests.faults.writer import CALLS, kill_at
seed, launch, rank, count, has_locks, options = json.loads(sys.argv[1])
dice = random.Random(f"{seed} {launch} {rank}")
rank_ends.LATEST = 0.1
if not has_locks:
    import fcntl
    from tests.faults.test_orders import no_flock
    fcntl.flock = no_flock
parts, target = Path("run.h5.parts"), Path("run.h5")
time.sleep(dice.choice([0, 0, 0.02, 0.1]))
if dice.random() < 0.1:
    os._exit(0)
try:
    journal, start = open_journal(parts, target, {"world_size": count}, rank=rank, ranks=count, **options)
except StoreError as error:
    assert "is there already" in str(error) or "another run is writing" in str(error), error
    os._exit(0)
notes = os.open("acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
if dice.random() < 0.2:
    kill_at(("writev",), dice.randrange(1, 12), dice)
for step in range(dice.randrange(1, 9)):
    value = np.array([int(start.run[:8], 16), rank, start.attempt, step])
    journal.step(step, 0.0, [("x", 0, "int64", (4,), value.view(np.uint8))])
    os.write(notes, f"{launch} {start.run} {rank} {start.attempt} {step}\\n".encode())
    time.sleep(dice.choice([0, 0, 0.01]))
if dice.random() < 0.15:
    os.kill(os.getpid(), signal.SIGKILL)
journal.close()
os.write(notes, f"{launch} {start.run} {rank} {start.attempt} ended\\n".encode())
if rank == 0:
    rank_ends.wait_for_ranks(parts, start, count, patience=dice.choice([0.0, 0.3, 5.0]))
    if dice.random() < 0.4:
        kill_at(CALLS["compact"] + ("rename", "replace"), dice.randrange(1, 60), dice)
    try:
        replace = options["overwrite"]
        merge_journals(parts, target, runs=[start.run], overwrite=replace, replace_older=replace)
    except StoreError as error:
        assert "is there already" in str(error), error
"""
CHOICES = (
    {"overwrite": False, "resume": False},
    {"overwrite": False, "resume": True},
    {"overwrite": True, "resume": False},
)
Row = tuple[int, int, int, int]


@pytest.fixture(scope="module")
def server() -> Iterator[Forking]:
    found = Forking(
        "insitu.store.run.run_start",
        "insitu.store.journal.rank_ends",
        "tests.faults.writer",
        "tests.faults.test_orders",
    )
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.parametrize("has_locks", [True, False])
def test_real_processes_lose_and_mix_nothing(server: Forking, has_locks: bool, tmp_path: Path) -> None:
    for seed in range(amount(6, 150)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        dice = random.Random(seed)
        replacing = launched(server, folder, dice, seed, has_locks)
        check_processes(folder, replacing)
        with suppress(StoreError):  # an older run may be in the file
            merge_journals(folder / "run.h5.parts", folder / "run.h5")
        check_processes(folder, replacing)


def launched(server: Forking, folder: Path, dice: random.Random, seed: int, has_locks: bool) -> set[int]:
    """Start a job a few times over; given back are the starts that were to replace what was there."""
    replacing = set()
    for launch in range(dice.randrange(1, 4)):
        count, options = dice.choice([1, 2, 3]), dice.choice(CHOICES)
        if options["overwrite"]:
            replacing.add(launch)
        children = [
            server.begin(RANK, folder, json.dumps([seed, launch, rank, count, has_locks, options]))
            for rank in range(count)
        ]
        for child in children:
            assert child.wait() in (0, -signal.SIGKILL), child.said
    return replacing


def acknowledged(folder: Path) -> dict[str, tuple[int, set[Row], set[tuple[int, int]]]]:
    """For each run: the last start that wrote to it, the rows that were committed, and the journals that ended."""
    found: dict[str, tuple[int, set[Row], set[tuple[int, int]]]] = {}
    path = folder / "acknowledged"
    for line in path.read_text().splitlines() if path.exists() else ():
        launch, run, rank, attempt, step = line.split()
        last, rows, ended = found.get(run, (0, set(), set()))
        found[run] = max(last, int(launch)), rows, ended
        if step == "ended":
            ended.add((int(rank), int(attempt)))
        else:
            rows.add((mark(run), int(rank), int(attempt), int(step)))
    return found


def check_processes(folder: Path, replacing: set[int]) -> None:
    """Every row that was acknowledged is there, unless a later start was to replace its run; and no other row is."""
    parts, target = folder / "run.h5.parts", folder / "run.h5"
    runs = acknowledged(folder)
    there = {place.run for place in places(parts)} if parts.is_dir() else set()
    if target.exists():
        with Run.open(target) as run:
            there.add(run.id)
    for run_id, (last, rows, ended) in runs.items():
        if run_id not in there:
            assert any(launch > last for launch in replacing), f"run {run_id} is lost"
            continue
        with joined_run(target, parts, run_id) as run:
            found = {tuple(row) for row in run["x"].values.tolist()} if "x" in run else set()
            may_be_replaced = any(launch > last for launch in replacing)
            assert rows <= found or (may_be_replaced and not run.complete), (run_id, rows - found)
            for row in found - rows:  # the last step before a kill may be written and not acknowledged
                earlier = {(mark(run_id), *row[1:3], step) for step in range(row[3])}
                assert row[0] == mark(run_id) and earlier <= found, row
            assert run.complete <= ({(row[1], row[2]) for row in found} <= ended), run.missing
