"""How the ranks of a job agree on a run if they share nothing but a folder: the first one leaves a claim there.

A claim names the run, the process that made it and the parent of that process. A rank joins the claim if both processes
have the same parent and the process that made it still runs, so nobody joins a claim that a killed job left. The parent
alone is enough under `torchrun`, which starts the processes of one job only.
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

from insitu.errors import StoreError
from insitu.operating_system import CREATE, READ_NO_LINK
from insitu.store.journal.parts import RUN_ID, check_not_link, place_of, places
from insitu.store.journal.process import Process

_CLAIM = re.compile(r"claim-(\d{1,9})-(\d{1,9})-(\d{1,9})\.json")
_TRIES = 50


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a job: the id of its run, and the number of the attempt.

    >>> Start.parse(str(Start("0" * 32, 2)))
    Start(run='00000000000000000000000000000000', attempt=2)
    """

    run: str
    attempt: int

    @classmethod
    def new(cls) -> Start:
        """The first attempt of a new run."""
        return cls(os.urandom(16).hex(), 0)

    @classmethod
    def parse(cls, text: str) -> Start:
        """The start that `str` wrote."""
        run, _, attempt = text.partition(":")
        if not RUN_ID.fullmatch(run) or not attempt.isdigit():
            raise StoreError(f"{text!r:.80} does not name a run")
        return cls(run, int(attempt))

    def __str__(self) -> str:
        return f"{self.run}:{self.attempt}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What the file of a claim says."""

    start: Start
    ranks: int
    time: float
    process: Process | None
    parent: Process | None

    @classmethod
    def read(cls, path: Path) -> Claim | None:
        """The claim in a file; None if it cannot be read."""
        with suppress(OSError, ValueError, TypeError, KeyError, StoreError):
            file = os.open(path, READ_NO_LINK)
            try:
                data = json.loads(os.read(file, 4096))
            finally:
                os.close(file)
            return cls(
                start=Start.parse(data["start"]),
                ranks=data["ranks"],
                time=float(data["time"]),
                process=Process.from_json(data["process"]),
                parent=Process.from_json(data["parent"]),
            )
        return None


@dataclass(frozen=True, slots=True)
class Board:
    """The claims in a folder, as one rank sees them. `is_launcher` says that the parent starts one job only."""

    parts: Path
    rank: int
    ranks: int
    is_launcher: bool

    def agree(self, restart: int, number: int, propose: Callable[[Start | None], Start]) -> Start:
        """The start that the ranks agree on; `propose` makes one from the last start that this parent claimed."""
        check_not_link(self.parts)
        os.makedirs(self.parts, mode=0o700, exist_ok=True)
        while True:
            generations = {key[2]: path for key, path in _claim_files(self.parts) if key[:2] == (restart, number)}
            newest = max(generations, default=-1)
            joined = self._joined_start(generations[newest]) if generations else None
            if joined is not None:
                return joined
            start = propose(self._latest())
            with suppress(FileExistsError):  # another rank was first: see whether it can be joined
                self._write(self.parts / f"claim-{restart}-{number}-{newest + 1}.json", start)
                return start

    def _write(self, path: Path, start: Start) -> None:
        claim = {"start": str(start), "ranks": self.ranks, "time": time.time()}
        file = os.open(path, CREATE, 0o600)
        try:
            processes = {"process": Process.current().to_json(), "parent": Process.parent().to_json()}
            os.write(file, json.dumps({**claim, **processes}).encode())
        finally:
            os.close(file)

    def _joined_start(self, path: Path) -> Start | None:
        """The start that a claim names, if this rank belongs to it."""
        for _ in range(_TRIES):
            claim = Claim.read(path)
            if claim is not None:
                if self._belongs_to(claim):
                    return claim.start
                return None
            time.sleep(0.01)  # it is being written
        return None

    def _belongs_to(self, claim: Claim) -> bool:
        is_same_job = claim.parent == Process.parent() and claim.ranks == self.ranks
        is_alive = self.is_launcher or (claim.process is not None and claim.process.is_alive() is True)
        is_free = not place_of(self.parts, self.rank, claim.start.run, claim.start.attempt).path.exists()
        return is_same_job and is_alive and is_free

    def _latest(self) -> Start | None:
        """The last start that the same launcher claimed."""
        if not self.is_launcher:
            return None
        claims = filter(None, (Claim.read(path) for _, path in _claim_files(self.parts)))
        own = [claim for claim in claims if claim.parent == Process.parent()]
        if own:
            return max(own, key=lambda claim: claim.time).start
        return None


def _claim_files(parts: Path) -> list[tuple[tuple[int, int, int], Path]]:
    """The restart, number and generation of each claim, and its file."""
    found = []
    for entry in os.scandir(parts):
        if match := _CLAIM.fullmatch(entry.name):
            found.append(((int(match[1]), int(match[2]), int(match[3])), Path(entry.path)))
    return found


def remove_claims(parts: Path, run: str) -> None:
    """Remove the claims of a run that is merged, and those that nobody can join any more."""
    with suppress(OSError):
        runs = {place.run for place in places(parts)}
        for _, path in _claim_files(parts):
            claim = Claim.read(path)
            if claim is None or claim.start.run in runs:
                continue
            is_dead = claim.process is not None and claim.process.is_alive() is False
            if claim.start.run == run or is_dead:
                path.unlink()
