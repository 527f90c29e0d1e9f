"""Build the sdist and the wheel, and try the wheel in an empty environment: `make package`.

With `--extras` (`make package EXTRAS=--extras`, which a release does) it also sees whether all extras can be installed
together. That takes minutes.

The wheel is built from the sdist, so a file that the sdist lacks is noticed. The empty environment gets the pinned
torch, and then the wheel with what it depends on, and nothing else. `insitu demo` runs there, outside of the checkout.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
CONSTRAINTS = ["--constraint", str(ROOT / "constraints.txt")]
QUIET = ["--quiet", "--disable-pip-version-check"]


def main(arguments: list[str]) -> None:
    """Do all steps; the first that fails ends it."""
    if arguments not in ([], ["--extras"]):
        sys.exit(f"the only option is --extras, not {' '.join(arguments)}")
    shutil.rmtree(DIST, ignore_errors=True)
    step("build the sdist, and the wheel from it")
    call(sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT))
    step("check what the package index would show")
    call(sys.executable, "-m", "twine", "check", "--strict", *map(str, DIST.iterdir()))
    step("look into the wheel")
    wheel = next(DIST.glob("*.whl"))
    check_content(wheel)
    with tempfile.TemporaryDirectory() as folder:
        python = install_in_empty_environment(wheel, Path(folder))
        if arguments:
            resolve_extras(wheel, python)
        step("run insitu demo there")
        call(python, "-m", "insitu", "demo", cwd=Path(folder))
    print("the package is in order:", *sorted(path.name for path in DIST.iterdir()))


def check_content(wheel: Path) -> None:
    """Raise if the wheel lacks a file of the package, or holds one of something else."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = ROOT / "src" / "insitu"
    files = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    expected = {path.relative_to(package.parent).as_posix() for path in files}
    if names != expected:
        sys.exit(f"the wheel and src differ in {', '.join(sorted(names ^ expected))}")
    if "insitu/py.typed" not in names:
        sys.exit("the wheel has no py.typed: type checkers would not read its annotations")


def install_in_empty_environment(wheel: Path, folder: Path) -> str:
    """Install the wheel where nothing else is; return the Python there."""
    step("install the wheel into an empty environment")
    venv.create(folder / "empty", with_pip=True)
    python = str(folder / "empty" / "bin" / "python")
    install = [python, "-m", "pip", "install", *QUIET, *CONSTRAINTS]
    call(*install, "torch")  # first: no resolver then has a reason to choose another one
    call(*install, str(wheel))
    call(python, "-m", "pip", "check", *QUIET)
    return python


def resolve_extras(wheel: Path, python: str) -> None:
    """Raise unless all extras can be installed together, in any versions that fit the torch that is there."""
    step("resolve every extra")
    extras = ",".join(extra_names())
    call(python, "-m", "pip", "install", *QUIET, "--dry-run", f"{wheel}[{extras}]")


def extra_names() -> list[str]:
    """The extras that users install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name != "dev"]


def step(title: str) -> None:
    """Say what comes next."""
    print(f"— {title}", flush=True)


def call(*command: str, cwd: Path = ROOT) -> None:
    """Run a command; show what it printed only if it fails."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with exit code {done.returncode}:\n{done.stdout}")


if __name__ == "__main__":
    main(sys.argv[1:])
