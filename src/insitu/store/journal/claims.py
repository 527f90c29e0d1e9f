"""How the ranks of a job agree on a run where nothing but a folder connects them: the first one leaves a claim there.

A claim names the run, the process that made it and its parent. A rank joins it if both processes were started by the
same parent and the one that made the claim still runs, so that what a killed job left is never joined. The parent alone
is enough under `torchrun`, which starts the processes of one job only.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from insitu.errors import StoreError
from insitu.store.journal.parts import RUN_ID, check_not_link, place_of, places
from insitu.store.journal.process import Process

_CLAIM = re.compile(r"claim-(\d{1,9})-(\d{1,9})-(\d{1,9})\.json")
_TRIES = 50


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job: the id of its run, and which attempt of it this is.

    >>> Start.parse(str(Start("0" * 32, 2)))
    Start(run='00000000000000000000000000000000', attempt=2)
    """

    run: str
    attempt: int

    @classmethod
    def new(cls) -> Start:
        """The first attempt of a run that nobody knows yet."""
        return cls(os.urandom(16).hex(), 0)

    @classmethod
    def parse(cls, text: str) -> Start:
        """What a start is as text."""
        run, _, attempt = text.partition(":")
        if not RUN_ID.fullmatch(run) or not attempt.isdigit():
            raise StoreError(f"{text!r:.80} does not name a run")
        return cls(run, int(attempt))

    def __str__(self) -> str:
        return f"{self.run}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class Board:
    """The claims in a folder, as one rank sees them. `is_launcher` says that the parent starts one job only."""

    parts: Path
    rank: int
    ranks: int
    is_launcher: bool

    def agree(self, restart: int, number: int, propose: Callable[[Start | None], Start]) -> Start:
        """The start that the ranks agree on; `propose` makes one from the last that this parent claimed."""
        check_not_link(self.parts)
        os.makedirs(self.parts, mode=0o700, exist_ok=True)
        while True:
            claims = [(claim, path) for claim, path in _claims(self.parts) if claim[:2] == (restart, number)]
            newest = max(claims, default=None)
            joined = self._joined(newest[1]) if newest is not None else None
            if joined is not None:
                return joined
            start = propose(self._latest())
            generation = newest[0][2] + 1 if newest is not None else 0
            with suppress(FileExistsError):  # another rank was first: see whether it can be joined
                self._write(self.parts / f"claim-{restart}-{number}-{generation}.json", start)
                return start

    def _write(self, path: Path, start: Start) -> None:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        own = {"start": str(start), "ranks": self.ranks, "time": time.time()}
        try:
            processes = {"process": Process.current().to_json(), "parent": Process.parent().to_json()}
            os.write(file, json.dumps({**own, **processes}).encode())
        finally:
            os.close(file)

    def _joined(self, path: Path) -> Start | None:
        """The start that a claim names, if this rank belongs to it."""
        for _ in range(_TRIES):
            said = _read(path)
            if said is not None:
                return self._start(said)
            time.sleep(0.01)  # it is being written
        return None

    def _start(self, said: dict[str, Any]) -> Start | None:
        start = Start.parse(said["start"])
        process = Process.from_json(said["process"])
        is_of_this_job = said["parent"] == Process.parent().to_json() and said["ranks"] == self.ranks
        is_alive = self.is_launcher or (process is not None and process.is_alive() is True)
        is_free = not place_of(self.parts, self.rank, start.run, start.attempt).path.exists()
        return start if is_of_this_job and is_alive and is_free else None

    def _latest(self) -> Start | None:
        """The last start that the same launcher claimed."""
        if not self.is_launcher:
            return None
        every = [said for _, path in _claims(self.parts) if (said := _read(path)) is not None]
        own = [said for said in every if said["parent"] == Process.parent().to_json()]
        return Start.parse(max(own, key=lambda said: said["time"])["start"]) if own else None


def _claims(parts: Path) -> list[tuple[tuple[int, int, int], Path]]:
    """The restart, number and generation of each claim, and its file."""
    found = []
    for entry in os.scandir(parts):
        if match := _CLAIM.fullmatch(entry.name):
            found.append(((int(match[1]), int(match[2]), int(match[3])), Path(entry.path)))
    return found


def _read(path: Path) -> dict[str, Any] | None:
    """What a claim says; None if that cannot be read."""
    with suppress(OSError, ValueError, TypeError, KeyError, StoreError):
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            said: dict[str, Any] = json.loads(os.read(file, 4096))
        finally:
            os.close(file)
        Start.parse(said["start"])
        return {**said, "process": said["process"], "parent": said["parent"], "time": float(said["time"])}
    return None


def remove_claims(parts: Path, run: str) -> None:
    """Remove the claims of a run that is merged, and those that nobody can join any more."""
    with suppress(OSError):
        there = {place.run for place in places(parts)}
        for _, path in _claims(parts):
            said = _read(path)
            if said is None:
                continue
            claimed, process = Start.parse(said["start"]).run, Process.from_json(said["process"])
            is_dead = process is not None and process.is_alive() is False
            if claimed not in there and (claimed == run or is_dead):
                path.unlink()
