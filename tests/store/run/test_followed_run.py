"""A run that is followed while it is recorded: the same curves as if it were read whole, and its end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import insitu
from insitu.errors import ChoiceError, StoreError
from insitu.store.journal import frames
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run.curves import RunVariables
from insitu.store.run.followed_run import FollowedRun
from insitu.store.run.merge import merge_journals
from insitu.trace.event import STATISTICS
from insitu.trace.trace import Trace

RUN = "0" * 32


def entry(path: str, value: Any) -> Any:
    return (path, 0, None, (), value)


def tensor(path: str, *values: float) -> Any:
    array: Any = np.array(values, np.float32)
    return (path, 0, "float32", array.shape, array.view(np.uint8))


def statistics(path: str, scale: float) -> list[Any]:
    numbers = {"count": 4, "min": -scale, "max": scale, "mean": 0.0, "std": scale, "nan": 0, "inf": 0, "zeros": 0}
    return [entry(f"{path}.{row.name}", numbers[row.name]) for row in STATISTICS]


def entries(step: int) -> list[Any]:
    """The values of a step: some change, some do not."""
    phase = "warmup" if step < 5 else "train"
    return [
        *(entry("loss", 1.0 / (step + 1)), entry("lr", 0.1 if step < 7 else 0.01), entry("phase", phase)),
        *(tensor("x", step, step + 1.0), tensor("fixed", 1.0, 2.0), *statistics("w.grad", 1.0 + step)),
    ]


def check_whole(followed: FollowedRun, path: Path, *, names: int = 6) -> None:
    """Compare what was followed with the run as it is read whole."""
    with insitu.load(path) as run:
        variables = RunVariables(run)
        assert list(followed.variables) == variables.names and len(variables.names) == names
        for name in variables.names:
            mine, whole = followed.variables[name], variables[name]
            assert mine.bands == whole.bands and len(mine.curves) == len(whole.curves), name
            for one, other in zip(mine.curves, whole.curves, strict=True):
                assert one.common_points(other) == len(one) == len(other) and one.rank == other.rank, name
                assert (one.odd_steps, one.last_step) == (other.odd_steps, other.last_step), name


def test_new_steps_are_added_and_nothing_is_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step in range(3):
            journal.step(step, 0.0, entries(step))
        followed = FollowedRun(tmp_path / "run.h5")
        assert followed.state == "running" and followed.condition.missing == ()
        check_whole(followed, tmp_path / "run.h5")
        with monkeypatch.context() as patched:
            patched.setattr("insitu.store.run.followed_run.load", lambda path: pytest.fail("the run was read again"))
            for step in range(3, 12):
                journal.step(step, 0.0, entries(step))
                followed.poll()
                assert followed.variables["loss"].curves[0].steps.tolist() == list(range(step + 1))
            followed.poll()
        check_whole(followed, tmp_path / "run.h5")


def test_a_step_in_several_frames_has_its_last_values(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [entry("a", 1.0), entry("b", 1.0)])
        followed = FollowedRun(tmp_path / "run.h5")
        journal.step(1, 0.0, [entry("a", 2.0)], flags=frames.OPEN)
        followed.poll()
        assert followed.variables["a"].curves[0].mean.tolist() == [1.0, 2.0]
        journal.step(1, 0.0, [entry("b", 3.0), entry("a", 9.0)], flags=frames.MORE | frames.AGAIN)
        followed.poll()
        assert followed.variables["a"].curves[0].mean.tolist() == [1.0, 9.0]
        journal.step(2, 0.0, [entry("a", 9.0), entry("b", 3.0)])
        followed.poll()
        assert followed.variables["a"].curves[0].mean.tolist() == [1.0, 9.0, 9.0]
        assert followed.variables["b"].curves[0].mean.tolist() == [1.0, 3.0, 3.0]
        check_whole(followed, tmp_path / "run.h5", names=2)


def test_a_variable_that_appears_later_is_followed(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [entry("a", 1.0)])
        followed = FollowedRun(tmp_path / "run.h5")
        journal.step(1, 0.0, [entry("a", 1.0), entry("b", 2.0)])
        followed.poll()
        assert list(followed.variables) == ["a", "b"]
        journal.step(2, 0.0, [entry("a", "text")])
        followed.poll()
        check_whole(followed, tmp_path / "run.h5", names=2)


def test_steps_that_go_back_are_read_again(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step in (0, 1, 2, 3, 1, 2):
            journal.step(step, 0.0, [entry("a", float(step))])
            if step == 3:
                followed = FollowedRun(tmp_path / "run.h5")
        followed.poll()
        assert followed.variables["a"].curves[0].steps.tolist()[:2] == [0, 1]


def test_each_rank_is_followed(tmp_path: Path) -> None:
    writers = [JournalWriter(tmp_path / "run.h5.parts", rank, {"world_size": 2}) for rank in range(2)]
    for writer in writers:
        writer.step(0, 0.0, entries(0))
    followed = FollowedRun(tmp_path / "run.h5")
    for step in range(1, 6):
        writers[0].step(step, 0.0, entries(step))
        if step < 4:
            writers[1].step(step, 0.0, entries(step + 1))
        followed.poll()
    assert [curve.last_step for curve in followed.variables["loss"].curves] == [5, 3]
    for writer in writers:
        writer.close()
    followed.poll()
    assert followed.state == "ended"
    check_whole(followed, tmp_path / "run.h5")


def test_the_end_of_a_run_and_its_file_are_noticed(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, entries(0))
        followed = FollowedRun(tmp_path / "run.h5")
        journal.step(1, 0.0, entries(1))
    followed.poll()
    assert followed.state == "ended" and followed.variables["loss"].curves[0].last_step == 1
    assert merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5") == []
    followed.poll()
    assert followed.state == "ended" and not (tmp_path / "run.h5.parts").exists()
    check_whole(followed, tmp_path / "run.h5")
    followed.close()


def test_a_run_that_could_not_be_read_for_a_moment_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> None:
        raise StoreError("not now")

    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, entries(0))
        followed = FollowedRun(tmp_path / "run.h5")
        journal.step(1, 0.0, entries(1))
    with monkeypatch.context() as patched:
        patched.setattr("insitu.store.run.followed_run.load", refuse)
        with pytest.raises(StoreError):
            followed.poll()
    followed.poll()
    assert followed.state == "ended"
    check_whole(followed, tmp_path / "run.h5")
    followed.close()


def test_a_new_attempt_replaces_the_steps_from_its_first_on(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts, 0, run=RUN) as journal:
        for step in range(6):
            journal.step(step, 0.0, [entry("a", 1.0)])
    followed = FollowedRun(tmp_path / "run.h5")
    with JournalWriter(parts, 0, run=RUN, attempt=1) as journal:
        for step in (3, 4):
            journal.step(step, 0.0, [entry("a", 2.0)])
            followed.poll()
        assert followed.state == "running"
        assert followed.variables["a"].curves[0].mean.tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]
        journal.step(5, 0.0, [entry("a", 2.0)])
        followed.poll()
        assert followed.variables["a"].curves[0].mean.tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]


PROGRAM = """
import sys, time
from insitu.store.journal.journal_writer import JournalWriter
journal = JournalWriter(sys.argv[1])
for step in range(5):
    journal.step(step, 0.0, [("a", 0, None, (), float(step))])
print("written", flush=True)
time.sleep(100)
"""


def test_a_killed_process_is_noticed(tmp_path: Path) -> None:
    words = [sys.executable, "-c", PROGRAM, str(tmp_path / "run.h5.parts")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "written\n"
        followed = FollowedRun(tmp_path / "run.h5")
        assert followed.state == "running" and followed.variables["a"].curves[0].last_step == 4
        process.send_signal(signal.SIGKILL)
        process.wait(10)
    followed.poll()
    assert followed.state == "killed" and "killed" in followed.condition.missing[0]
    assert followed.variables["a"].curves[0].last_step == 4


def test_many_steps_have_few_points_while_they_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("insitu.store.run.followed_run.points_for", lambda lines: 50)
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [entry("a", 0.0)])
        followed = FollowedRun(tmp_path / "run.h5")
        for step in range(1, 500):
            journal.step(step, 0.0, [entry("a", float(step))])
            if step % 37 == 0:
                followed.poll()
        followed.poll()
        (curve,) = followed.variables["a"].curves
    assert len(curve) <= 50 and curve.weight.sum() == 500 and (curve.low.min(), curve.high.max()) == (0.0, 499.0)


def test_a_damaged_value_is_left_out(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [entry("a", 1.0)])
        followed = FollowedRun(tmp_path / "run.h5")
        journal.step(1, 0.0, [entry("a", 1234.5)])
        (file,) = (tmp_path / "run.h5.parts").rglob("*.journal")
        file.write_bytes(file.read_bytes().replace(b"1234.5", b"9999.5"))
        followed.poll()
        assert followed.variables["a"].curves[0].mean.tolist() == [1.0]


def test_a_trace_cannot_be_followed(tmp_path: Path) -> None:
    insitu.save(Trace(), tmp_path / "step.h5")
    with pytest.raises(ChoiceError, match="is a trace, and a trace is complete: leave out --follow"):
        FollowedRun(tmp_path / "step.h5")
    with pytest.raises(StoreError, match="does not exist"):
        FollowedRun(tmp_path / "nowhere.h5")
