"""An environment for each pair, at 1.5 GB: its own torch, and everything else from one environment for each Python."""

from __future__ import annotations

import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.versions.pairs import Pair
from tests.versions.wheel import Wheel, cuda_folder, wheel, without_large_packages

ROOT = Path(__file__).parents[2]
_READY = "ready"  # a file that says that an environment is complete


@dataclass(frozen=True)
class Environment:
    """A folder with a Python that has a torch and all that the tests need."""

    folder: Path
    python_version: str

    @property
    def python(self) -> Path:
        """The Python of this environment."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """Where the packages of this environment are."""
        return self.folder / "lib" / f"python{self.python_version}" / "site-packages"

    @property
    def is_ready(self) -> bool:
        """Whether everything is installed."""
        return (self.folder / _READY).exists()

    def finish(self) -> None:
        """Everything is installed."""
        (self.folder / _READY).touch()


@dataclass(frozen=True)
class Workshop:
    """Where environments are made, and where downloads are kept."""

    folder: Path
    downloads: Path

    def environment(self, pair: Pair, python: str) -> Environment:
        """The environment of a pair, complete."""
        self.downloads.mkdir(parents=True, exist_ok=True)
        torch = wheel(pair, python, self.downloads)
        result = Environment(self.folder / f"torch-{torch.version}-python-{pair.python}", pair.python)
        if not result.is_ready:
            base = self._base(torch, python, pair.python)
            _run(python, "-m", "venv", "--clear", "--without-pip", result.folder)
            _unpack(torch, result.packages)
            _link_cuda(cuda_folder(torch, python, self.downloads), result.packages)
            _add_packages(base, result)
            result.finish()
        return result

    def _base(self, torch: Wheel, python: str, python_version: str) -> Environment:
        """The environment of a Python that has everything but torch."""
        result = Environment(self.folder / f"python-{python_version}", python_version)
        if not result.is_ready:
            _run(python, "-m", "venv", "--clear", result.folder)
            stand_in = _stand_in(torch, result.packages)
            pins = result.folder / "constraints.txt"
            pins.write_text(_pins_without_torch(), encoding="utf-8")
            install = (result.python, "-m", "pip", "install", "--quiet", "--constraint", pins)
            _run(*install, "--editable", f"{ROOT}[dev]", "--editable", ROOT / "dropins")
            for file in stand_in.iterdir():
                file.unlink()
            stand_in.rmdir()
            result.finish()
        return result


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


def _pins_without_torch() -> str:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("torch=="))


def _stand_in(torch: Wheel, packages: Path) -> Path:
    """Make pip believe that torch is installed: packages that depend on torch must not bring another one.

    The packages that this torch wants in one version only are for all torches of this Python.
    """
    folder = packages / f"torch-{torch.version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(without_large_packages(torch.metadata()).replace("==", ">="), encoding="utf-8")
    (folder / "INSTALLER").write_text("pip\n", encoding="utf-8")
    return folder


def _unpack(torch: Wheel, packages: Path) -> None:
    with zipfile.ZipFile(torch.path) as archive:
        archive.extractall(packages)
    for metadata in packages.glob("torch-*.dist-info/METADATA"):
        metadata.write_text(without_large_packages(torch.metadata()), encoding="utf-8")
    for program in (packages / "torch" / "bin").glob("*"):
        program.chmod(0o755)


def _link_cuda(folder: Path | None, packages: Path) -> None:
    """Put the CUDA packages next to torch, where its libraries look for them."""
    if folder is None:
        return
    sparse = "cusparselt"  # the packages of some versions have it in `nvidia`, and torch up to 2.7 looks for it outside
    for package in (folder / "nvidia", folder / "nvidia" / sparse, folder / sparse):
        link = packages / package.name
        if package.exists() and not link.exists():
            link.symlink_to(package.resolve(), target_is_directory=True)


def _add_packages(base: Environment, result: Environment) -> None:
    """Let an environment see the packages and the programs of another one."""
    line = f"import site; site.addsitedir({str(base.packages)!r})\n"
    (result.packages / "base.pth").write_text(line, encoding="utf-8")
    for program in (base.folder / "bin").iterdir():
        own = result.folder / "bin" / program.name
        if not own.exists() and _is_script(program):
            text = program.read_text(encoding="utf-8")
            own.write_text(text.replace(str(base.folder), str(result.folder)), encoding="utf-8")
            own.chmod(0o755)


def _is_script(program: Path) -> bool:
    """Whether a program is a script that names the Python which runs it."""
    if program.is_symlink() or not program.is_file():
        return False
    return program.read_bytes().startswith(b"#!")
