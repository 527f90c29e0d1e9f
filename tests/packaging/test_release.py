"""`packaging/release.py` in a small repository of its own. What it builds is checked by `make package`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def git(folder: Path, *arguments: str) -> str:
    """What git prints in a repository."""
    people = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **people}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that is ready for the release of 0.2.0; its package takes no time to build."""
    (tmp_path / "packaging").mkdir()
    shutil.copy(ROOT / "packaging" / "release.py", tmp_path / "packaging")
    (tmp_path / "src" / "insitu").mkdir(parents=True)
    (tmp_path / "src" / "insitu" / "__init__.py").write_text('"""A package."""\n\n__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [0.2.0] - unreleased\n\n- A change.\n")
    (tmp_path / "Makefile").write_text("package:\n\t@echo the package is built\n")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "config", "user.name", "test")
    git(tmp_path, "config", "user.email", "test")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    return tmp_path


def release(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(folder / "packaging" / "release.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_release_is_written_committed_and_tagged(repository: Path) -> None:
    done = release(repository, "0.2.0")
    assert done.returncode == 0, done.stderr
    assert '__version__ = "0.2.0"' in git(repository, "show", "v0.2.0:src/insitu/__init__.py")
    assert f"## [0.2.0] - {date.today().isoformat()}" in git(repository, "show", "v0.2.0:CHANGELOG.md")
    assert git(repository, "status", "--porcelain") == ""
    assert "the package is built" in done.stdout
    assert "git push origin main v0.2.0" in done.stdout


def test_a_package_that_cannot_be_built_is_not_tagged(repository: Path) -> None:
    (repository / "Makefile").write_text("package:\n\t@false\n")
    git(repository, "commit", "--quiet", "--all", "--message", "Break")
    done = release(repository, "0.2.0")
    assert done.returncode == 1 and "make package EXTRAS=--extras failed" in done.stderr
    assert git(repository, "tag", "--list") == ""


@pytest.mark.parametrize("arguments", [(), ("2",), ("v0.2.0",), ("0.2.0", "0.3.0")], ids=str)
def test_a_version_that_is_none_is_refused(repository: Path, arguments: tuple[str, ...]) -> None:
    done = release(repository, *arguments)
    assert done.returncode == 1 and "give one version such as 0.2.0" in done.stderr


def test_changes_that_are_not_committed_are_refused(repository: Path) -> None:
    (repository / "new.txt").write_text("new")
    assert "not committed" in release(repository, "0.2.0").stderr


def test_another_branch_is_refused(repository: Path) -> None:
    git(repository, "switch", "--quiet", "--create", "feature")
    assert "feature is checked out" in release(repository, "0.2.0").stderr


def test_a_version_that_is_released_is_refused(repository: Path) -> None:
    git(repository, "tag", "v0.2.0")
    assert "v0.2.0 is released already" in release(repository, "0.2.0").stderr


def test_a_version_without_changes_is_refused(repository: Path) -> None:
    assert "CHANGELOG.md has no section '## [0.3.0] - unreleased'" in release(repository, "0.3.0").stderr
