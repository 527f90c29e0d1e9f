from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import insitu

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(("framework", "loss"), [("huggingface", "forward.loss"), ("lightning", "training_step.loss")])
def test_every_rank_writes_its_own_values(framework: str, loss: str, tmp_path: Path) -> None:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    words = ["-m", "tests.integrations.ranks", framework, str(tmp_path)]
    done = subprocess.run([*launch, *words], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    with insitu.load(tmp_path / "run.h5") as run:
        assert run.complete and (run.ranks, run.world_size, run.steps.tolist()) == ([0, 1], 2, [0, 1, 2, 3])
        zero, one = (run["fc.weight"].rank(rank).values for rank in range(2))
        assert np.array_equal(zero, one)  # the weights are the same on all ranks, the losses are not
        zero, one = (run[loss].rank(rank).values for rank in range(2))
        assert len(zero) == len(one) == 4 and not np.array_equal(zero, one)
