"""The wheels of torch, and the packages of CUDA that the larger ones cannot be imported without.

A torch from the index brings five gigabytes of CUDA packages. `import torch` loads their libraries, and nothing else
here uses them. So all torches of one CUDA share one folder with them.
"""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.versions.pairs import NEWEST, Pair

_REQUIREMENT = re.compile(r"^Requires-Dist: (.+?)(?:\s*;.*)?$")
_LARGE = re.compile(r"Requires-Dist: (?:nvidia|cuda|triton)")
_TOOLKIT = re.compile(r"Requires-Dist: (?:nvidia|cuda-toolkit)")


@dataclass(frozen=True)
class Wheel:
    """A wheel of torch on disk."""

    path: Path

    @property
    def version(self) -> str:
        """The version of torch, without the part that names a build: 2.13.0 of 2.13.0+cpu."""
        return self.path.name.split("-")[1].partition("+")[0]

    def metadata(self) -> str:
        """The metadata of the wheel."""
        with zipfile.ZipFile(self.path) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            return archive.read(name).decode("utf-8")

    def cuda_packages(self) -> list[str]:
        """The CUDA packages that the wheel requires; none for a wheel that is for the CPU only."""
        lines = filter(_TOOLKIT.match, self.metadata().splitlines())
        return [found[1] for line in lines if (found := _REQUIREMENT.match(line))]

    def cuda(self) -> str | None:
        """The CUDA that the wheel was made for, as "12" or "13"; None for a wheel that is for the CPU only."""
        for package in self.cuda_packages():
            if found := re.match(r"nvidia-cudnn-cu(\d+)", package):
                return found[1]
        return None


def without_large_packages(metadata: str) -> str:
    """The metadata of a torch that does not require the packages which are linked instead, or not needed."""
    lines = metadata.splitlines(keepends=True)
    return "".join(line for line in lines if not _LARGE.match(line))


def newest_version(python: str) -> str:
    """The newest torch of the index for a Python."""
    command = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--no-deps", "--ignore-installed"]
    done = subprocess.run([*command, "--report", "-", "torch<3"], capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    return str(report["install"][0]["metadata"]["version"])


def wheel(pair: Pair, python: str, downloads: Path) -> Wheel:
    """The wheel of a pair, from the folder of downloads or from the index."""
    version = newest_version(python) if pair.torch == NEWEST else pair.torch
    found = _on_disk(version, pair.python, downloads)
    if found is None:
        command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(downloads)]
        subprocess.run([*command, f"torch=={version}"], check=True)
        found = _on_disk(version, pair.python, downloads)
    if found is None:
        raise FileNotFoundError(f"pip downloaded torch {version} to {downloads}, but not for Python {pair.python}")
    return found


def _on_disk(version: str, python: str, downloads: Path) -> Wheel | None:
    tag = "cp" + python.replace(".", "")
    paths = sorted(downloads.glob(f"torch-*-{tag}-{tag}-*.whl"))
    return next((each for each in map(Wheel, paths) if each.version == version), None)


def cuda_folder(wheel: Wheel, python: str, downloads: Path) -> Path | None:
    """The folder with the CUDA packages for a wheel, filled if it is not there; None for a wheel that needs none."""
    cuda = wheel.cuda()
    if cuda is None:
        return None
    folder = downloads / f"cuda{cuda}"
    if not folder.exists():
        unfinished = folder.with_suffix(".part")
        command = [python, "-m", "pip", "install", "--quiet", "--target", str(unfinished), *wheel.cuda_packages()]
        subprocess.run(command, check=True)
        unfinished.rename(folder)
    return folder
