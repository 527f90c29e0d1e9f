"""`record_run` with an address: the values get there, and the program never fails because of it."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.store.addresses import faulty
from torch import nn

import insitu
from insitu.errors import ChoiceError, InsituWarning, MissingError


def train(model: nn.Module, steps: int) -> None:
    for step in range(steps):
        model(torch.full((2, 3), float(step)))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: Any) -> nn.Module:
    monkeypatch.chdir(tmp_path)
    return nn.Linear(3, 2)


def test_a_run_is_at_its_address(model: nn.Module, tmp_path: Path) -> None:
    faulty()
    with insitu.record_run(model, only="forward.input", to="faulty://bucket/run", segment=2) as live:
        train(model, 5)
        assert live["forward.input"].steps.tolist() == [0, 1, 2, 3, 4]
    assert live["forward.input"].values[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    with insitu.load("faulty://bucket/run") as run:
        assert run.complete and run["forward.input"].values[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert list(tmp_path.iterdir()) == []


def test_segments_wait_in_the_spool(model: nn.Module, tmp_path: Path) -> None:
    files = faulty(is_dead=True)
    (tmp_path / "scratch").mkdir()
    with pytest.warns(InsituWarning) as told:
        options = {"to": "faulty://bucket/run", "spool": tmp_path / "scratch", "segment": 2}
        with insitu.record_run(model, only="forward.input", **options) as live:
            train(model, 5)
        assert live["forward.input"].steps.tolist() == [0, 1, 2, 3, 4]
    texts = [str(warning.message) for warning in told]
    assert any("segments of rank 0 are not at faulty://bucket/run yet: `insitu recover " in text for text in texts)
    files.is_dead = False
    with insitu.record_run(model, only="forward.input", **options):  # another run: it sends what the first one left
        train(model, 1)
    assert not (tmp_path / "scratch" / "run.h5.parts").exists()
    with pytest.raises(insitu.InsituError, match="these shards belong to 2 runs"):
        insitu.load("faulty://bucket/run")
    with insitu.load("faulty://bucket/run", run=live.run.id) as run:
        assert run.complete and len(run["forward.input"]) == 5


def test_recover_sends_what_is_left(model: nn.Module, tmp_path: Path) -> None:
    address = f"file://{tmp_path}/remote/run"
    (tmp_path / "remote").write_text("a file where the folder should be")
    with (
        pytest.warns(InsituWarning) as told,
        insitu.record_run(model, only="forward.input", to=address, segment=2),
    ):
        train(model, 5)
    assert any("does not accept segments" in str(warning.message) for warning in told)
    for thread in threading.enumerate():
        if thread.name == "insitu-send":
            thread.join(20.0)
    (tmp_path / "remote").unlink()
    command = [sys.executable, "-m", "insitu", "recover", "run.h5", "--to", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{address}: 3 segments sent\n"
    with insitu.load(address) as run:
        assert run.complete and len(run["forward.input"]) == 5
    assert not (tmp_path / "run.h5.parts").exists()


def test_journals_stay_without_a_merge(model: nn.Module, tmp_path: Path) -> None:
    with insitu.record_run(model, only="forward.input", to="run.h5.parts") as live:
        train(model, 3)
    assert not (tmp_path / "run.h5").exists() and len(live["forward.input"]) == 3
    with insitu.load("run.h5.parts") as run:
        assert run.complete and len(run["forward.input"]) == 3


def test_options_that_do_not_fit_are_refused(model: nn.Module) -> None:
    def refused(error: type[Exception], match: str, **options: Any) -> None:
        with pytest.raises(error, match=match):
            insitu.record_run(model, **options)

    refused(ChoiceError, "is not an address that fsspec knows", to="nonsense://bucket/run")
    refused(MissingError, "needs a package that is not installed", to="s3://bucket/run")
    refused(ChoiceError, "spool is where segments wait", to="run.h5", spool=".")
    refused(ChoiceError, "is not a folder: make it first", to="memory://bucket/run", spool="nowhere")
    refused(ChoiceError, r"segment=0 is neither a size", to="run.h5", segment=0)
    refused(ChoiceError, r"segment='many' is not an amount", to="run.h5", segment="many")
    refused(ChoiceError, "resume=True continues the run in a file", to="memory://bucket/run", resume=True)


RANK = """
import sys, torch, insitu
from torch import distributed, nn
rank, ranks, address, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{store}", rank=rank, world_size=ranks)
model = nn.Linear(3, 2)
with insitu.record_run(model, only="forward.input", to=address, segment=2):
    for step in range(5):
        model(torch.full((2, 3), 10.0 * rank + step))
distributed.barrier()
distributed.destroy_process_group()
"""


def test_ranks_without_a_common_disk_meet_at_the_address(tmp_path: Path) -> None:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address, processes = f"file://{tmp_path}/remote/run", []
    for rank in range(2):
        (tmp_path / f"machine{rank}").mkdir()
        command = [sys.executable, "-c", RANK, str(rank), "2", address, str(port)]
        processes.append(subprocess.Popen(command, cwd=tmp_path / f"machine{rank}", stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
    with insitu.load(address) as run:
        assert run.complete and run.world_size == 2
        assert run["forward.input"].rank(1).values[:, 0, 0].tolist() == [10, 11, 12, 13, 14]
        assert run["forward.input"].to_xarray().sel(step=3).mean(("forward.input_dim_0",))[0, 0] == 3
