"""Segments: when they end, and that each can be read without the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from insitu.store.journal import frames
from insitu.store.journal.heads import HeadScan, heads_of
from insitu.store.journal.journal_state import open_for_reading
from insitu.store.journal.journal_writer import Entry, JournalWriter
from insitu.store.journal.parts import journal_files
from insitu.store.run.run import Run


def tensor(path: str, value: Any, size: int = 10) -> Entry:
    array = np.full(size, value, np.float32)
    return path, 0, "float32", array.shape, array.view(np.uint8)


def segments(parts: Path) -> list[Path]:
    return [path for path, _ in journal_files(parts / "rank00000")]


def test_a_segment_ends_after_so_many_steps(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts, roll_steps=3) as journal:
        for step in range(8):
            journal.step(step, 0.0, [tensor("x", step)])
    assert len(segments(parts)) == 3
    with Run.open(parts) as run:
        assert run.complete and run["x"].values[:, 0].tolist() == list(range(8))


def test_a_segment_ends_after_so_many_bytes(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts, roll=2000) as journal:
        for step in range(20):
            journal.step(step, 0.0, [tensor("x", step, 100)])
    sizes = [path.stat().st_size for path in segments(parts)]
    assert len(sizes) > 3 and max(sizes) < 4000


def test_the_frames_of_a_step_are_in_one_segment(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts, roll=1, roll_steps=1) as journal:
        for step in range(3):
            journal.step(step, 0.0, [tensor("x", step)], flags=frames.OPEN)
            journal.step(step, 0.0, [tensor("y", step)], flags=frames.MORE)
    assert len(segments(parts)) == 3
    for path in segments(parts)[:-1]:
        path.unlink()
    with Run.open(parts) as run:
        assert run["x"].steps.tolist() == [2] and run["y"].steps.tolist() == [2]


def test_a_segment_is_read_without_the_others(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts, roll_steps=2) as journal:
        for step in range(6):
            journal.step(step, 0.0, [tensor("x", step), tensor("same", 7)])
    for path in segments(parts)[:2]:
        path.unlink()
    with Run.open(parts) as run:
        assert run["same"].steps.tolist() == [4, 5] and (run["same"].values == 7).all()
        (missing,) = run.missing
        assert missing.endswith("the segments 0 to 1 are missing")


def test_unchanged_values_are_at_most_half_of_a_segment(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts, roll_steps=2) as journal:
        for step in range(100):
            journal.step(step, 0.0, [tensor("frozen", 7, 10_000), tensor("x", step)])
    assert len(segments(parts)) == 1
    with Run.open(parts) as run:
        assert len(run["frozen"]) == 100


def test_heads_are_the_frames_of_a_segment(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts) as journal:
        for step in range(5):
            journal.step(step, 0.0, [tensor("x", step)])
    ((path, tag),) = journal_files(parts / "rank00000")
    with open_for_reading(path) as file:
        source = frames.OpenFile(file)
        heads = heads_of(source, tag)
        assert HeadScan.fits(heads, tag, source.size)
        assert list(HeadScan(heads, source, tag).frames()) == list(frames.FrameScan(source, tag).frames())
    damaged = bytearray(heads)
    damaged[40] ^= 1
    assert not HeadScan.fits(bytes(damaged), tag, source.size)
    assert not HeadScan.fits(heads, tag, source.size + 1)


def test_a_damaged_segment_has_no_heads(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts) as journal:
        for step in range(5):
            journal.step(step, 0.0, [tensor("x", step)])
    ((path, tag),) = journal_files(parts / "rank00000")
    content = bytearray(path.read_bytes())
    content[content.index(tag, 600) + 8] ^= 1
    path.write_bytes(content)
    with open_for_reading(path) as file:
        assert heads_of(frames.OpenFile(file), tag) == b""
