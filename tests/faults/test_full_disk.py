"""A full disk and a limit on the size of files, in the journal and while the file of a run is made."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SIZE = 1_000_000  # a step takes 40,000 bytes


def in_small_disk(folder: Path, command: list[str]) -> list[str]:
    """The command, in a name space of its own in which the folder is a disk of one megabyte."""
    mount = f'mount -t tmpfs -o size={SIZE} tmpfs {folder} && exec "$@"'
    return ["unshare", "-Urm", "sh", "-c", mount, "sh", *command]


def can_mount() -> bool:
    """Whether a small disk can be had here; if not, the limit on files is all that is tried."""
    if shutil.which("unshare") is None:
        return False
    done = subprocess.run(in_small_disk(Path("/mnt"), ["true"]), capture_output=True, check=False)
    return done.returncode == 0


DISKS = ["limit", *(["tmpfs"] if can_mount() else [])]
REASONS = {"limit": "File too large", "tmpfs": "No space left on device"}


def on_full_disk(folder: Path, disk: str, what: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.faults.full", str(folder), what, str(SIZE // 2 if disk == "limit" else 0)]
    if disk == "tmpfs":
        command = in_small_disk(folder, command)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("disk", DISKS)
def test_the_run_goes_on_and_nothing_committed_is_lost(tmp_path: Path, disk: str) -> None:
    found = on_full_disk(tmp_path, disk, "journal")
    assert found["seen"] == found["written"] == list(range(len(found["written"])))
    assert 5 < len(found["written"]) < 60
    (error,) = found["errors"]
    assert REASONS[disk] in error and f"all up to step {found['written'][-1]} is kept" in error
    assert found["dropped"] == 60 - len(found["written"])


@pytest.mark.slow
@pytest.mark.parametrize("disk", DISKS)
def test_a_file_that_cannot_be_made_leaves_the_journals(tmp_path: Path, disk: str) -> None:
    found = on_full_disk(tmp_path, disk, "compaction")
    assert len(found["errors"]) == 3 and found["left"] == []
    assert all(REASONS[disk] in error and "all that was recorded is in" in error for error in found["errors"])
    assert found["seen"] == list(range(15))
