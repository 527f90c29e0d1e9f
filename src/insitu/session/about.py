"""Where a trace or a recorded run comes from: versions, command, commit, model."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from itertools import islice
from typing import Any

import torch
from torch import nn

from insitu.capture.names import count, innermost_module, tensor_names
from insitu.session import dist

MOST_MODULES = 20_000  # that a run names, for the order of its layers


def about_trace(subject: nn.Module | None, level: str) -> dict[str, Any]:
    """What a trace says of itself."""
    about = {**_versions(), "subject": name_of(subject), "level": level}
    ranks = dist.world_size()
    if ranks > 1:
        about["world_size"] = ranks
    return about


def about_run(model: nn.Module | None, *, patterns: Iterable[str], every: int, when: str | None) -> dict[str, Any]:
    """What a recorded run says of itself."""
    return {
        **_versions(),
        "command": " ".join(sys.argv)[:500],
        "git": git_commit(),
        "patterns": list(patterns),
        "settings": {"every": every, "when": when},
        "model": name_of(model),
        "parameters": parameter_count(model),
        "modules": _module_names(model),
        "world_size": dist.world_size(),
    }


def parameter_count(model: nn.Module | None) -> int | None:
    """How many numbers the parameters of a model hold; None without a model."""
    if model is None:
        return None
    return sum(map(count, innermost_module(model).parameters()))


def _module_names(model: nn.Module | None) -> dict[str, Any]:
    """The modules in the order in which the model holds them; none without a model."""
    if model is None:
        return {}
    return dict(islice(tensor_names(model).items(), MOST_MODULES))


def name_of(subject: object) -> str | None:
    """The class of the model inside all wrappers."""
    if isinstance(subject, nn.Module):
        return type(innermost_module(subject)).__name__
    return None


def _versions() -> dict[str, Any]:
    from insitu import __version__

    return {
        "insitu": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def git_commit() -> str | None:
    """The commit of the folder the program runs in, if it is one of git."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() or None
