"""Segments are sent: nothing is removed before it is at the address, and nothing waits for the address."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import numpy as np
import pytest
from tests.store.addresses import faulty

import insitu
from insitu.errors import InsituWarning, StoreError
from insitu.store.address import Address
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.parts import journal_files, place_of
from insitu.store.journal.sender import SegmentSender, SendPace, send_folder

RUN = "a" * 32
QUICK = SendPace(poll=0.01, shortest=0.01, longest=0.05)


def write(journal: JournalWriter, steps: range) -> None:
    for step in steps:
        value = np.full(50, step, np.float32)
        journal.step(step, 0.0, [("x", 0, "float32", (50,), value.view(np.uint8))])


def journal_in(parts: Path, attempt: int = 0) -> JournalWriter:
    return JournalWriter(parts, 0, {"world_size": 1}, run=RUN, attempt=attempt, roll_steps=2)


def sender_of(parts: Path, attempt: int = 0) -> SegmentSender:
    return SegmentSender(place_of(parts, 0, RUN, attempt), Address.parse("faulty://bucket/run"), QUICK)


def wait_until(is_true: object, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not is_true():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.01)


def here(parts: Path, attempt: int = 0) -> int:
    return len(journal_files(place_of(parts, 0, RUN, attempt).path))


def steps_there() -> list[int]:
    with insitu.load("faulty://bucket/run") as run:
        return run["x"].values[:, 0].astype(int).tolist()  # type: ignore[no-any-return]


def test_full_segments_are_sent_while_the_run_goes_on(tmp_path: Path) -> None:
    faulty()
    parts = tmp_path / "run.h5.parts"
    with journal_in(parts) as journal:
        sender = sender_of(parts)
        write(journal, range(5))
        wait_until(lambda: here(parts) == 1)
        assert steps_there() == [0, 1, 2, 3]
        with insitu.load(parts) as run:  # what is here, and what was sent
            assert run["x"].values[:, 0].tolist() == [0, 1, 2, 3, 4] and run.running
    assert sender.close(patience=20.0) == []
    assert steps_there() == [0, 1, 2, 3, 4] and not parts.exists()


def test_a_segment_that_arrives_in_part_is_not_removed(tmp_path: Path) -> None:
    files = faulty(loses=1)
    parts = tmp_path / "run.h5.parts"
    with pytest.warns(InsituWarning, match="is not what was sent") as told:
        with journal_in(parts) as journal:
            sender = sender_of(parts)
            write(journal, range(5))
            wait_until(lambda: len(files.puts) > 3)
        assert here(parts) == 3
        files.loses = 0
        wait_until(lambda: here(parts) <= 1 and not sender.failures)
        assert sender.close(patience=20.0) == []
    assert len(told) == 1
    assert steps_there() == [0, 1, 2, 3, 4]


def test_a_wrong_checksum_keeps_the_segment(tmp_path: Path) -> None:
    files = faulty(md5="0" * 32)
    parts = tmp_path / "run.h5.parts"
    with pytest.warns(InsituWarning, match="is not what was sent"), journal_in(parts) as journal:
        sender = sender_of(parts)
        write(journal, range(3))
        wait_until(lambda: len(files.puts) > 1)
        sender.close(patience=0.0)
    assert here(parts) == 2


def test_an_etag_that_is_not_the_md5_is_checked_by_reading_back(tmp_path: Path) -> None:
    files = faulty(md5="0" * 32, md5_name="ETag")  # as S3 has it for a file that it encrypts by KMS
    parts = tmp_path / "run.h5.parts"
    with journal_in(parts) as journal:
        sender = sender_of(parts)
        write(journal, range(3))
        wait_until(lambda: here(parts) == 1)
    assert sender.close(patience=20.0) == []
    assert len(files.puts) == 2
    assert steps_there() == [0, 1, 2]


def test_a_dead_address_is_told_once_and_nothing_is_lost(tmp_path: Path) -> None:
    files = faulty(is_dead=True)
    parts = tmp_path / "run.h5.parts"
    with pytest.warns(InsituWarning, match=r"no route to the host.* the program goes on") as told:
        with journal_in(parts) as journal:
            sender = sender_of(parts)
            write(journal, range(5))
            wait_until(lambda: sender.failures > 2)
        began = time.monotonic()
        assert len(sender.close(patience=60.0)) == 3
        assert time.monotonic() - began < 30.0
    assert len(told) == 1
    sender._thread.join(20.0)
    files.is_dead = False
    assert send_folder(parts, Address.parse("faulty://bucket/run")) == 3
    assert steps_there() == [0, 1, 2, 3, 4]


def test_an_address_that_answers_again_gets_the_rest_at_the_end(tmp_path: Path) -> None:
    files = faulty(is_dead=True)
    parts = tmp_path / "run.h5.parts"
    address, patient = Address.parse("faulty://bucket/run"), SendPace(poll=0.01, shortest=60.0, longest=60.0)
    with pytest.warns(InsituWarning, match="does not accept segments"), journal_in(parts) as journal:
        sender = SegmentSender(place_of(parts, 0, RUN), address, patient)
        write(journal, range(3))
        wait_until(lambda: sender.failures)
    files.is_dead = False
    assert sender.close(patience=20.0) == []
    assert steps_there() == [0, 1, 2]


def test_a_step_does_not_wait_for_a_slow_address(tmp_path: Path) -> None:
    files = faulty(gate=Event())
    assert files.gate is not None
    parts = tmp_path / "run.h5.parts"
    with journal_in(parts) as journal:
        sender = sender_of(parts)
        write(journal, range(3))
        wait_until(lambda: files.puts != [])
        write(journal, range(3, 50))  # the first put has not returned
        assert len(files.puts) == 1 and journal.committed_step == 49
    assert len(sender.close(patience=0.1)) == 25
    files.gate.set()


def test_what_is_there_is_not_sent_again(tmp_path: Path) -> None:
    files = faulty()
    parts, address = tmp_path / "run.h5.parts", Address.parse("faulty://bucket/run")
    with journal_in(parts) as journal:
        write(journal, range(5))
    paths = [path for path, _ in journal_files(place_of(parts, 0, RUN).path)]
    first, second = (f"{path.parent.name}/{path.name}" for path in paths[:2])
    address.write(first, paths[0].read_bytes())
    address.write(second, paths[1].read_bytes()[:100])
    assert send_folder(parts, address) == 3
    assert sorted(files.puts) == [address.join(path.parent.name, path.name) for path in paths[1:]]
    assert steps_there() == [0, 1, 2, 3, 4]


def test_a_folder_has_one_address(tmp_path: Path) -> None:
    faulty()
    parts = tmp_path / "run.h5.parts"
    with journal_in(parts) as journal:
        write(journal, range(1))
        sender_of(parts)
        with pytest.raises(StoreError, match=r"are sent to 'faulty://bucket/run', not to 'memory://elsewhere/run'"):
            SegmentSender(place_of(parts, 0, RUN), Address.parse("memory://elsewhere/run"), QUICK)


def test_a_journal_that_is_still_written_is_not_sent_as_a_whole(tmp_path: Path) -> None:
    faulty()
    parts = tmp_path / "run.h5.parts"
    with journal_in(parts) as journal:
        write(journal, range(1))
        with pytest.raises(StoreError, match="is still written"):
            send_folder(parts, Address.parse("faulty://bucket/run"))


KILLED = """
import os, random, signal, sys
from pathlib import Path
import numpy as np
from insitu.store.address import Address
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.parts import place_of
from insitu.store.journal.sender import SegmentSender, SendPace

parts, address, run, seed = Path(sys.argv[1]), Address.parse(sys.argv[2]), sys.argv[3], int(sys.argv[4])
dice = random.Random(seed)
left = dice.randrange(1, 40)

def deadly(name):
    real = getattr(Address, name)
    def call(self, *args):
        global left
        left -= 1
        if not left and name == "put":
            data = Path(args[0]).read_bytes()
            self.write(args[1], data[: dice.randrange(len(data) + 1)])
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(self, *args)
    setattr(Address, name, call)

for name in ("put", "write", "facts", "blocks"):
    deadly(name)
real_unlink = Path.unlink
def unlink(self, missing_ok=False):
    global left
    left -= self.suffix == ".journal"
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    real_unlink(self, missing_ok)
Path.unlink = unlink
journal = JournalWriter(parts, 0, {"world_size": 1}, run=run, roll_steps=2)
sender = SegmentSender(place_of(parts, 0, run), address, SendPace(0.001, 0.001, 0.01))
notes = os.open(parts.parent / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for step in range(40):
    value = np.full(50, step, np.float32)
    journal.step(step, 0.0, [("x", 0, "float32", (50,), value.view(np.uint8)), ("same", 0, None, (), "text")])
    os.write(notes, f"{step}\\n".encode())
journal.close()
sender.close(patience=60.0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_a_rank_that_is_killed_while_it_sends_loses_nothing(tmp_path: Path, seed: int) -> None:
    parts, address = tmp_path / "run.h5.parts", f"file://{tmp_path}/remote/run"
    command = [sys.executable, "-c", KILLED, str(parts), address, RUN, str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, -9), done.stderr
    acknowledged = [int(line) for line in (tmp_path / "acknowledged").read_text().split()]
    expected = (acknowledged, [*acknowledged, len(acknowledged)])
    if parts.exists() and list(parts.glob("rank*")):
        with insitu.load(parts) as run:
            assert run["x"].steps.tolist() in expected and (run["x"].values[:, 0] == run["x"].steps).all()
            assert not [text for text in run.missing if "damaged" in text or "frames" in text]
        send_folder(parts, Address.parse(address))
    with insitu.load(address) as run:
        assert run["x"].steps.tolist() in expected and (run["x"].values[:, 0] == run["x"].steps).all()
        assert run["same"].steps.tolist() == run["x"].steps.tolist()
    assert not os.path.exists(parts)


def test_the_next_process_sends_what_a_killed_one_left(tmp_path: Path) -> None:
    faulty()
    parts = tmp_path / "run.h5.parts"
    first = journal_in(parts)
    write(first, range(3))
    first.close()  # and nothing was sent: its process was killed before
    with journal_in(parts, attempt=1) as second:
        sender = sender_of(parts, attempt=1)
        write(second, range(3, 5))
    assert sender.close(patience=20.0) == []
    assert steps_there() == [0, 1, 2, 3, 4] and not parts.exists()
