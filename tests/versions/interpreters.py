"""The Pythons of this machine, by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

_QUESTION = "import sys; print(sys.executable)"
_CAPTURED = {"capture_output": True, "text": True, "check": False, "timeout": 60}


def interpreter(name: str) -> str | None:
    """The path of a Python that runs, by its name, such as `python3.12`; None if there is none."""
    found = shutil.which(name)
    if found is None:
        return None
    for environment in (dict(os.environ), *_pyenv_environments(name)):
        answer = subprocess.run([found, "-c", _QUESTION], env=environment, **_CAPTURED)
        if answer.returncode == 0:
            return answer.stdout.strip()
    return None


def other_interpreters() -> list[str]:
    """The paths of all Pythons from 3.11 on that run, but for the version that runs this."""
    names = [f"python3.{minor}" for minor in range(11, 20) if minor != sys.version_info.minor]
    return [path for name in names if (path := interpreter(name)) is not None]


def _pyenv_environments(name: str) -> Iterator[dict[str, str]]:
    """pyenv puts a `python3.12` on the path that runs only when the version is chosen."""
    if shutil.which("pyenv"):
        for version in subprocess.run(["pyenv", "whence", name], **_CAPTURED).stdout.split():
            yield {**os.environ, "PYENV_VERSION": version}
