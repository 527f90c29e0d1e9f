"""A process that makes mutants and uses them: `python -m tests.faults.fuzz.worker FORM FOLDER FIRST HOW=FROM:TO…`.

A line before each mutant and one after it, so that who started it knows which one killed it. Memory is limited, and no
file may be opened but those in the folder, the ones of Python and of the packages.
"""

from __future__ import annotations

import faulthandler
import os
import random
import re
import resource
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.faults.fuzz.forge import MAKERS
from tests.faults.fuzz.seeds import Seed, seed
from tests.faults.fuzz.use import use

MEMORY = 2**31
_NEVER = ("subprocess.", "os.system", "os.exec", "os.spawn", "os.posix_spawn", "pickle.", "socket.connect", "ctypes.")


def mutants(ranges: list[str]) -> list[tuple[str, int]]:
    """The way and the number of each mutant, from words such as `blind=0:100`."""
    split = [(how, *map(int, numbers.split(":"))) for how, _, numbers in (word.partition("=") for word in ranges)]
    return [(how, number) for how, first, last in split for number in range(first, last)]


def main(form: str, folder: Path, first: int, ranges: list[str]) -> None:
    """Use these mutants from the first on, one after the other."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    made = seed(form, folder)
    place = folder / "mutant"
    opened: list[str] = []
    _warm(made, folder)
    sys.addaudithook(lambda event, args: _audit(event, args, str(folder), opened))
    for index, (how, number) in enumerate(mutants(ranges)[first:], first):
        _say(f"{index} begins")
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        opened.clear()
        _say(f"{index} {_outcome(made, how, number, place, opened)}")


def _warm(made: Seed, folder: Path) -> None:
    """Use the seed, so that all is imported; what cannot stand the seed tells nothing of mutants."""
    out = folder / "out"
    out.mkdir(exist_ok=True)
    outcome = use(made.path, out)
    assert outcome == "loaded", outcome


def _outcome(made: Seed, how: str, number: int, place: Path, opened: list[str]) -> str:
    dice = random.Random(f"{made.form} {how} {number}")
    path = place / made.path.name
    try:
        trusted = MAKERS[how](made, path, dice, number)
        found = use(path, place, made.truth if trusted else None)
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)[-4:]
        where = " ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)
        return f"fault {type(error).__name__}: {str(error)[:300]!r} at {where}"
    return f"fault opened {opened[0]}" if opened else found


def _audit(event: str, args: Any, folder: str, opened: list[str]) -> None:
    if event.startswith(_NEVER):
        opened.append(f"{event} {args!r:.100}")
    if event == "open" and isinstance(args[0], (str, bytes, os.PathLike)):
        name = os.fsdecode(args[0])
        known = (folder, sys.prefix, sys.base_prefix, os.getcwd(), os.devnull)
        if os.path.isabs(name) and not name.startswith(known) and not _PROCESS.fullmatch(name):
            opened.append(name)


# Whether the process that wrote a journal still runs.
_PROCESS = re.compile(r"/proc/(sys/kernel/random/boot_id|[0-9]+/stat)")


def _say(text: str) -> None:
    os.write(1, f"{text}\n".encode("utf-8", "backslashreplace"))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
