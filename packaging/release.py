"""Make a release: `python packaging/release.py 0.2.0`. docs/releasing.md describes it.

Everything is checked before anything is changed. The upload is the last step, and a person does it: the script prints
the two commands.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION_FILE = ROOT / "src" / "insitu" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
VERSION = re.compile(r"\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?")


def main(arguments: list[str]) -> None:
    """Check, write the version and the date, build, commit and tag."""
    if len(arguments) != 1 or not VERSION.fullmatch(arguments[0]):
        sys.exit(f"give one version such as 0.2.0 or 0.2.0rc1, not {' '.join(arguments)!r}")
    version = arguments[0]
    check_repository(version)
    write_version(version)
    write_date(version)
    run("make", "package", "EXTRAS=--extras")
    run("git", "commit", "--quiet", "--all", "--message", f"Release {version}")
    run("git", "tag", "--annotate", f"v{version}", "--message", f"insitu {version}")
    print(f"\ninsitu {version} is committed and tagged here. To publish it:")
    print(f"  git push origin main v{version}")
    print("  .venv/bin/python -m twine upload dist/*")


def check_repository(version: str) -> None:
    """Exit unless main is checked out, nothing is changed, the version is new and CHANGELOG.md has its section."""
    branch = output("git", "branch", "--show-current")
    if branch != "main":
        sys.exit(f"a release is made from main, and {branch or 'no branch'} is checked out: git switch main")
    if output("git", "status", "--porcelain"):
        sys.exit("there are changes that are not committed: commit or stash them first")
    if output("git", "tag", "--list", f"v{version}"):
        sys.exit(f"v{version} is released already: choose a higher version")
    if f"## [{version}] - unreleased" not in CHANGELOG.read_text(encoding="utf-8"):
        sys.exit(f"CHANGELOG.md has no section '## [{version}] - unreleased': write one first")


def write_version(version: str) -> None:
    """Put the version into the package."""
    source = VERSION_FILE.read_text(encoding="utf-8")
    changed, count = re.subn(r'^__version__ = ".*"$', f'__version__ = "{version}"', source, flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"{VERSION_FILE} has {count} lines with __version__, and one is expected")
    VERSION_FILE.write_text(changed, encoding="utf-8")


def write_date(version: str) -> None:
    """Put today's date beside the version in CHANGELOG.md."""
    text = CHANGELOG.read_text(encoding="utf-8")
    heading = f"## [{version}] - "
    CHANGELOG.write_text(text.replace(f"{heading}unreleased", heading + date.today().isoformat()), encoding="utf-8")


def run(*command: str) -> None:
    """Run a command and show what it prints; exit if it fails."""
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with exit code {done.returncode}: the release stops here")


def output(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main(sys.argv[1:])
