"""Real processes that record to one file: which run they belong to, restarts, resumed jobs, and who waits for whom."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.forking import Forked, Forking
from torch import nn

import insitu
from insitu import cli
from insitu.errors import ChoiceError, StoreError
from insitu.store.journal.claims import Board, Start
from insitu.store.journal.journaled_runs import runs_in
from insitu.store.run import run_start

# Each value says which rank and attempt it is from. `wait` is for a file, so that the order is what the test says.
PROGRAM = """
import os, sys, time, torch, insitu
rank = int(os.environ.get("RANK", 0))
restart = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", os.environ.get("ATTEMPT", 0)))
class Net(torch.nn.Module):
    def forward(self, x):
        return x
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.01)
net, options = Net(), {}
exec(sys.argv[2])
with insitu.record_run(net, only="forward", keep="values", to=sys.argv[1], **options) as recorded:
    exec(sys.argv[3])
"""
STEPS = "for step in range({}, {}): recorded.step(step); net(torch.tensor([rank, restart, step])); recorded.end_step()"
# Without a launcher, ranks find each other only while the one that came first still lives.
TOGETHER = "open(f'here{rank}-{restart}', 'w'); wait(f'here0-{restart}'); wait(f'here1-{restart}')\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Forking]:
    found = Forking("insitu.session.run_entry", "insitu.session.record", "insitu.store.run.run")
    yield found
    found.close()


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run_start, "_recordings", {})
    for name in ("RANK", "WORLD_SIZE", "INSITU_RUN_ID", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"):
        monkeypatch.delenv(name, raising=False)


class Job:
    """Begins ranks that no launcher started: they know their number, and nothing else."""

    def __init__(self, server: Forking, folder: Path) -> None:
        self._server, self._folder = server, folder

    def begin(self, rank: int, body: str, *, before: str = "", ranks: int = 2, attempt: int = 0) -> Forked:
        environment = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "ATTEMPT": str(attempt)}
        return self._server.begin(PROGRAM, self._folder, "run.h5", before, body, **environment)


@pytest.fixture
def job(server: Forking, tmp_path: Path) -> Job:
    return Job(server, tmp_path)


def ended(*children: Forked) -> None:
    for child in children:
        assert child.wait() == 0, child.said


def appear(*names: str) -> None:
    """Wait until the processes have made these files."""
    deadline = time.monotonic() + 60
    while not all(map(os.path.exists, names)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def rows(run: Any) -> set[tuple[int, ...]]:
    """Rank, attempt and step of each value, which must be what it was recorded with."""
    series = run["forward"]
    found = {tuple(value) for value in series.values.tolist()}
    assert len(found) == len(series)
    assert found == set(zip(series.ranks.tolist(), series.attempts.tolist(), series.steps.tolist(), strict=True))
    return found


def made(rank: int, attempt: int, steps: range) -> set[tuple[int, ...]]:
    return {(rank, attempt, step) for step in steps}


def test_a_rank_that_begins_after_rank_0_has_ended_belongs_to_its_run(job: Job) -> None:
    late = job.begin(1, STEPS.format(0, 5), before="wait('ended')")
    first = job.begin(0, STEPS.format(0, 3) + "\nopen('ended', 'w')")
    ended(first, late)
    with insitu.load("run.h5") as run:
        assert rows(run) == made(0, 0, range(3)) | made(1, 0, range(5)) and run.complete


def test_new_job_does_not_join_a_killed_one(job: Job) -> None:
    body = STEPS.format(0, 3) + "\nopen(f'begun{rank}', 'w'); time.sleep(100)"
    old = [job.begin(rank, body, ranks=3) for rank in range(3)]
    appear("begun0", "begun1", "begun2")
    for child in old:
        child.send(signal.SIGKILL)
        child.wait()
    (run,) = runs_in(Path("run.h5.parts"))
    new = [job.begin(rank, TOGETHER + STEPS.format(0, 2), before="options = {'overwrite': True}") for rank in range(2)]
    ended(*new)
    with insitu.load("run.h5") as found:
        assert found.id != run and rows(found) == made(0, 0, range(2)) | made(1, 0, range(2)) and found.complete
    assert not os.path.exists("run.h5.parts")  # what was killed on this machine is replaced


def test_exception_on_rank_0_does_not_wait_for_other_ranks(job: Job) -> None:
    other = job.begin(1, "open('begun', 'w'); wait('left')\n" + STEPS.format(0, 4))
    first = job.begin(0, "wait('begun')\n" + STEPS.format(0, 3) + "\nraise ValueError('mine')")
    assert first.wait(50) == 1  # the other waits for it, and PATIENCE is 60 s
    assert "ValueError: mine" in first.said and "is not written yet: rank 1 has not ended" in first.said
    with insitu.load("run.h5") as run:
        assert rows(run) == made(0, 0, range(3)) and run.missing == ["rank 1 still runs: no step was written yet"]
    Path("left").touch()
    ended(other)
    with insitu.load("run.h5") as run:
        assert rows(run) == made(0, 0, range(3)) | made(1, 0, range(4)) and run.complete


def test_sigterm_on_rank_0_does_not_wait_for_the_others(job: Job) -> None:
    body = STEPS.format(0, 2) + "\nopen(f'begun{rank}', 'w'); wait('over')"
    first, other = (job.begin(rank, body) for rank in range(2))
    appear("begun0", "begun1")
    first.send(signal.SIGTERM)
    assert first.wait(50) == -signal.SIGTERM
    Path("over").touch()
    ended(other)
    with insitu.load("run.h5") as run:
        assert rows(run) == made(0, 0, range(2)) | made(1, 0, range(2)) and run.complete


def test_overwrite_while_another_process_merges_destroys_nothing(job: Job) -> None:
    body = STEPS.format(0, 3) + "\nfrom insitu.store.run import file_builder\nreal = file_builder._empty_file\n"
    body += "file_builder._empty_file = lambda: (open('merging', 'w'), wait('over'), real())[2]"
    first = job.begin(0, body, ranks=1, before="options = {'overwrite': True}")
    appear("merging")
    second = job.begin(0, STEPS.format(0, 5) + "\nopen('ended', 'w')", ranks=1, before="options = {'overwrite': True}")
    appear("ended")
    with insitu.load("run.h5.parts") as run:  # the newest
        assert rows(run) == made(0, 0, range(5)) and len(run.others) == 1
    Path("over").touch()
    ended(first, second)
    with insitu.load("run.h5") as run:
        assert rows(run) == made(0, 0, range(5)) and run.complete


def test_two_jobs_do_not_write_to_one_file(job: Job) -> None:
    first = job.begin(0, "open('begun', 'w'); wait('over')\n" + STEPS.format(0, 3), ranks=1)
    appear("begun")
    for options in ("{}", "{'overwrite': True}", "{'resume': True}"):
        second = job.begin(0, STEPS.format(0, 3), ranks=1, before=f"options = {options}")
        assert second.wait() == 1 and "another run is writing to" in second.said
    Path("over").touch()
    ended(first)
    assert rows(insitu.load("run.h5")) == made(0, 0, range(3))


@pytest.mark.parametrize("fate", ["merged", "killed", "recovered"])
def test_job_is_resumed_with_resume(job: Job, fate: str) -> None:
    body = TOGETHER + STEPS.format(0, 5) + "\nos.kill(os.getpid(), 9)" * (fate != "merged")
    first = [job.begin(rank, body) for rank in range(2)]
    assert {child.wait() for child in first} == {0 if fate == "merged" else -signal.SIGKILL}
    if fate == "recovered":
        assert cli.main(["recover", "run.h5"]) == 1
        shutil.rmtree("run.h5.parts")
    assert os.path.exists("run.h5") == (fate != "killed")
    before = insitu.load("run.h5").id
    again = {"before": "options = {'resume': True}", "attempt": 1}
    ended(*[job.begin(rank, TOGETHER + STEPS.format(3, 8), **again) for rank in range(2)])
    with insitu.load("run.h5") as run:
        every = [made(rank, attempt, range(3 * attempt, 5 + 3 * attempt)) for rank in (0, 1) for attempt in (0, 1)]
        assert run.id == before and rows(run) == set.union(*every)
        assert [attempt.number for attempt in run.attempts] == [0, 1] and run.complete == (fate == "merged")
        assert run["forward"].latest().rank(1).attempts.tolist() == [0] * 3 + [1] * 5


def test_resume_starts_a_run_or_adds_an_attempt(tmp_path: Path) -> None:
    net = nn.Linear(2, 1)
    for attempt in range(3):
        with insitu.record_run(net, only="forward.input", to="run.h5", resume=True) as recorded:
            recorded.step(attempt)
            net(torch.full((1, 2), float(attempt)))
        assert recorded["forward.input"].attempts.tolist() == list(range(attempt + 1))
    with insitu.load("run.h5") as run:
        assert run["forward.input"].values[:, 0, 0].tolist() == [0.0, 1.0, 2.0] and run.complete
        assert len(run.attempts) == 3


def test_resume_rejects_overwrite_and_files_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match="pass one of them"):
        insitu.record_run(nn.Linear(2, 1), to="run.h5", resume=True, overwrite=True)
    with pytest.raises(ChoiceError, match="name the file, as in to="):
        insitu.record_run(nn.Linear(2, 1), keep="values", resume=True)
    insitu.save(insitu.Trace(), "run.h5")
    with (
        pytest.raises(StoreError, match="does not hold a recorded run"),
        insitu.record_run(nn.Linear(2, 1), only="weight", to="run.h5", resume=True),
    ):
        pass


RESTARTED = """
import os, sys, time, torch, insitu
rank, restart = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
class Net(torch.nn.Module):
    def forward(self, x):
        return x
net, options = Net(), {"only": "forward", "keep": "values"}
with (
    insitu.record_run(net, to="run.h5", **options) as one,
    insitu.record_run(net, to="replaced.h5", overwrite=True, **options) as two,
):
    for step in range(3 * restart, 3 * restart + 5):
        one.step(step), two.step(step)
        net(torch.tensor([rank, restart, step]))
        one.end_step(), two.end_step()
    open(f"{rank}-{restart}", "w").close()
    if restart == 0:
        while not all(os.path.exists(f"{other}-0") for other in range(2)):
            time.sleep(0.01)
        if rank == 1:
            os._exit(3)
        time.sleep(100)
"""


@pytest.mark.slow
def test_a_restart_is_a_new_attempt_of_the_same_run() -> None:
    Path("restarted.py").write_text(RESTARTED)
    launch = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--max-restarts", "1", "--standalone"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launch, "restarted.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    every = [made(rank, attempt, range(3 * attempt, 5 + 3 * attempt)) for rank in (0, 1) for attempt in (0, 1)]
    for name in ("run.h5", "replaced.h5"):
        with insitu.load(name) as run:
            assert rows(run) == set.union(*every) and [attempt.world_size for attempt in run.attempts] == [2, 2]
            assert run.missing[-1] == "attempt 0: rank 1 did not end properly (killed?): the last step written is 4"
            assert not any("attempt 1" in text for text in run.missing)


def test_ranks_agree_through_the_store_of_the_group(tmp_path: Path) -> None:
    """Two machines: nothing in common but a store, and files of the same name."""
    server = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    clients = [
        torch.distributed.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False) for _ in range(2)
    ]

    def agree(client: Any, restart: int = 0, number: int = 0, wait: float = 0.0, earlier: Start | None = None) -> Start:
        def propose(latest: Start | None) -> Start:
            again = Start(latest.run, latest.attempt + 1) if latest is not None and restart and not number else None
            return again or earlier or Start.new()

        return run_start._agree(client, "run.h5", restart, number, propose, wait)

    first = agree(clients[0])
    assert agree(clients[1]) == first and first.attempt == 0
    second = agree(clients[1], number=1)  # a second recording of the same processes
    assert agree(clients[0], number=1) == second and second.run != first.run
    assert agree(clients[0], restart=1) == Start(second.run, 1) == agree(clients[1], restart=1)
    known = Start("c" * 32, 4)
    assert agree(clients[0], number=7, earlier=known) == known
    assert agree(clients[1], number=7, wait=1.0) == known  # this machine has no file of it


def test_ranks_agree_in_the_folder_if_the_group_store_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_start, "CONNECTING", 0.2)
    for name, value in {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    parts = tmp_path / "run.h5.parts"
    begin: dict[str, Any] = {"ranks": 2, "overwrite": False, "resume": False}
    zero, first = run_start.open_journal(parts, tmp_path / "run.h5", {}, rank=0, **begin)
    monkeypatch.setitem(run_start._recordings, "run.h5", 0)
    one, second = run_start.open_journal(parts, tmp_path / "run.h5", {}, rank=1, **begin)
    zero.close()
    one.close()
    assert first == second
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    monkeypatch.setitem(run_start._recordings, "run.h5", 0)
    again, third = run_start.open_journal(parts, tmp_path / "run.h5", {}, rank=1, **begin)
    again.close()
    assert third == Start(first.run, 1)


def test_claim_of_a_dead_process_is_not_joined(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    boards = [Board(parts, rank, 2, False) for rank in range(2)]

    def new(_: Start | None) -> Start:
        return Start.new()

    first = boards[0].agree(0, 0, new)
    assert boards[1].agree(0, 0, new) == first and Board(parts, 1, 3, False).agree(0, 0, new) != first
    (parts / "claim-0-5-0.json").write_text((parts / "claim-0-0-0.json").read_text().replace(str(os.getpid()), "1"))
    assert boards[1].agree(0, 5, new) != first  # another process has that number now
    (parts / "claim-0-6-0.json").write_text("{}")
    assert boards[1].agree(0, 6, new).attempt == 0


def test_run_id_given_by_the_user_joins_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSITU_RUN_ID", "job 7")
    here: dict[str, Any] = {"ranks": 2, "overwrite": False, "resume": False}
    for rank in range(2):
        folder = tmp_path / f"node{rank}"
        folder.mkdir()
        journal, begin = run_start.open_journal(folder / "run.h5.parts", folder / "run.h5", {}, rank=rank, **here)
        journal.close()
        assert begin.attempt == 0
    shutil.copytree(tmp_path / "node1" / "run.h5.parts", tmp_path / "node0" / "run.h5.parts", dirs_exist_ok=True)
    (run,) = runs_in(tmp_path / "node0" / "run.h5.parts").values()
    assert [place.rank for place in run.places] == [0, 1]
    journal, begin = run_start.open_journal(
        tmp_path / "node0" / "run.h5.parts", tmp_path / "node0" / "run.h5", {}, rank=0, **here
    )
    journal.close()
    assert begin == Start(run.id, 1)
