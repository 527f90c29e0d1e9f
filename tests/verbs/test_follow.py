"""What a followed page is told: only what has changed since its revision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.store.run.test_followed_run import entries
from tests.view.test_html import Parts, unpacked

from insitu.store.journal.journal_writer import JournalWriter
from insitu.trace.curve import Curve, Numbers, curves_of
from insitu.verbs import follow
from insitu.verbs.follow import FollowedPage, LineHistory


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "LEAST_PAUSE", 0.0)


def steps_of(change: dict[str, Any], path: str) -> tuple[int, list[int]]:
    """The first point that is new in a variable, and the steps from there on."""
    (variable,) = [variable for variable in change["series"]["variables"] if variable["path"] == path]
    (line,) = variable["lines"]
    return line["start"], change[f"series.grid:{line['grid']}"]


def curve_of(count: int) -> Curve:
    """A curve with so many points."""
    steps = np.arange(count)
    zeros = np.zeros(count)
    (curve,) = curves_of(steps, zeros.astype(int), zeros, Numbers.of_numbers(steps.astype(float)))
    return curve


def test_only_new_points_are_told(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step in range(3):
            journal.step(step, 0.0, entries(step))
        followed = FollowedPage(tmp_path / "run.h5")
        parts = Parts(followed.text()).found
        data = unpacked(parts["data"])
        revision = data["series"]["revision"]
        assert "connect-src 'self'" in parts["policy"] and data["series"]["state"] == "running"
        nothing = unpacked(followed.update(revision))
        assert nothing["series"]["variables"] == [] and nothing["series"]["isOther"] is False
        journal.step(3, 0.0, entries(3))
        first = unpacked(followed.update(revision))
        assert steps_of(first, "loss") == (3, [3])
        journal.step(4, 0.0, entries(4))
        second = unpacked(followed.update(first["series"]["revision"]))
        assert steps_of(second, "loss") == (4, [4])
        assert steps_of(unpacked(followed.update(revision)), "loss") == (3, [3, 4])  # another tab, which is behind
        assert steps_of(unpacked(followed.update(0)), "loss") == (0, [0, 1, 2, 3, 4])
    ended = unpacked(followed.update(second["series"]["revision"]))
    assert ended["series"]["state"] == "ended"
    followed.close()


def test_texts_are_told_when_they_change(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, entries(0))
        followed = FollowedPage(tmp_path / "run.h5")
        revision = unpacked(followed.update(0))["series"]["revision"]
        journal.step(5, 0.0, entries(5))
        (phase,) = [
            variable
            for variable in unpacked(followed.update(revision))["series"]["variables"]
            if variable["path"] == "phase"
        ]
        (bands,) = phase["bands"]
        assert [bands["texts"][number] for number in bands["text"]] == ["warmup", "train"]


def test_a_page_that_is_not_followed_asks_nobody(tmp_path: Path) -> None:
    from insitu.view.html import page
    from insitu.view.page.series_pane import SeriesPane

    parts = Parts(page(series=SeriesPane())).found
    assert "connect-src" not in parts["policy"] and unpacked(parts["data"])["series"]["revision"] is None


def test_files_that_cannot_be_read_for_a_moment_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, entries(0))
        followed = FollowedPage(tmp_path / "run.h5")
        with monkeypatch.context() as patched:
            patched.setattr(followed._run, "poll", lambda: (_ for _ in ()).throw(OSError("gone")))
            assert unpacked(followed.update(0))["series"]["notes"] == ["the run cannot be read now: gone"]
        assert unpacked(followed.update(0))["series"]["notes"] == []


def test_another_run_at_the_same_place_makes_the_page_anew(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    with JournalWriter(parts, run="0" * 32) as journal:
        journal.step(0, 0.0, entries(0))
    followed = FollowedPage(tmp_path / "run.h5")
    with JournalWriter(parts, run="1" * 32) as journal:
        journal.step(0, 1.0, entries(1))
        assert unpacked(followed.update(0))["series"]["isOther"] is True


def test_a_curve_that_has_become_shorter_is_told() -> None:
    """A new attempt begins at an earlier step: the steps after it are gone."""
    long, short = (curve_of(number) for number in (5, 3))
    history = LineHistory(long, [1] * 5)
    history.replace(short, 2)
    assert history.start(after=1) == 2 and history.start(after=2) == 3
