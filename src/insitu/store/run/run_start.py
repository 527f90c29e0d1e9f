"""Decides which run a process belongs to, and which attempt of it: the same on all ranks, without a collective.

The first rank that begins to record chooses an id, and the others find it:

1. Under `torchrun`, in the store of its agents, which outlives restarts; each restart is a new attempt of the same run.
   Without `torchrun`, in the TCP store of the process group, if that is initialized. Machines need no common file
   system for this.
2. Else in `run.h5.parts`, where ranks with the same parent process find each other (`journal/claims.py`).
3. `INSITU_RUN_ID` names the run if neither works: ranks with the same id and the same file name are one run.

Ids are random, so no job gets the id of a killed one by accident; `TORCHELASTIC_RUN_ID` is not used, because it is
often "none". With `resume=True` the id is that of the existing run. A rank that finds no other is a run of its own:
nothing of it is lost, and `insitu recover --run` joins runs that a person knows to be one.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

from xxhash import xxh3_128_hexdigest

from insitu.errors import StoreError
from insitu.store.files import PARTS, check_free
from insitu.store.journal.claims import Board, Start
from insitu.store.journal.journal_state import state_of
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.journal.journaled_runs import runs_in
from insitu.store.journal.parts import JournalPlace, place_of, places
from insitu.store.journal.segment_limits import KEPT, SegmentLimits
from insitu.store.journal.shard_facts import started_of

CONNECTING = 5.0  # seconds in which the store must answer
KNOWING = 5.0  # seconds for which a rank without a file waits for the rank that knows which run is resumed
_MOST_ATTEMPTS = 10_000
_recordings: dict[str, int] = {}  # how many recordings this process has started, by the name of the file


def open_journal(
    parts: Path,
    target: Path,
    about: Mapping[str, Any],
    *,
    rank: int,
    ranks: int,
    overwrite: bool,
    resume: bool,
    limits: SegmentLimits = KEPT,
) -> tuple[JournalWriter, Start]:
    """Open the journal of this process, in the run and the attempt that it belongs to."""
    process = _RankStart(parts, target, rank, ranks, overwrite, resume)
    start = process.start()
    process.check_free(start)
    for attempt in range(start.attempt, _MOST_ATTEMPTS):
        place = place_of(parts, rank, start.run, attempt)
        if not place.path.exists():
            journal = JournalWriter(
                parts, rank, about, run=start.run, attempt=attempt, roll=limits.size, roll_steps=limits.steps
            )
            _recordings[target.name] = _recordings.get(target.name, 0) + 1
            return journal, Start(start.run, attempt)
        _check_over(place)
    raise StoreError(f"{str(parts)!r} has {_MOST_ATTEMPTS} attempts of one run")


def _check_over(place: JournalPlace) -> None:
    if state_of(place) == "running":
        parts = str(place.path.parent)
        raise StoreError(f"another run is writing to {parts!r}: give this one a file of its own")


@dataclass(frozen=True, slots=True)
class _RankStart:
    """One rank that begins to record."""

    parts: Path
    target: Path
    rank: int
    ranks: int
    overwrite: bool
    resume: bool

    def start(self) -> Start:
        """The run and the attempt that this rank belongs to."""
        if given := os.environ.get("INSITU_RUN_ID"):
            return self._named_start(given)
        if self.ranks == 1 and not is_elastic():
            return self._propose(None)
        return self._start_in_store() or self._start_in_folder()

    def check_free(self, start: Start) -> None:
        """Raise if another run is in the way: one that still runs, or one that is not to be replaced."""
        for place in self._own_places():
            if restarts() == 0:  # at a restart the launcher has ended all processes
                _check_over(place)
            if place.run != start.run and not (self.overwrite or self.resume):
                raise StoreError(
                    f"{str(place.path)!r} is there already, from a run that was killed or still goes on:"
                    f" `insitu recover {str(self.parts).removesuffix(PARTS)}` makes its file; or give another name, or"
                    " overwrite=True, or resume=True to go on with that run"
                )
        if self.rank == 0 and not self.overwrite and run_in(self.target) != start.run:
            check_free(self.target, overwrite=False)

    def _own_places(self) -> list[JournalPlace]:
        """The journals of this rank, of any run."""
        if self.parts.is_dir():
            return [place for place in places(self.parts) if place.rank == self.rank]
        return []

    def _named_start(self, name: str) -> Start:
        """The next attempt of this rank in the run that a person has named."""
        run = xxh3_128_hexdigest(f"{name}\0{self.target.name}".encode())
        attempts = [place.attempt for place in self._own_places() if place.run == run]
        in_file = _attempts_in_file(self.target).get(run)
        if in_file is not None:
            attempts.append(in_file.last)
        return Start(run, max(attempts, default=-1) + 1)

    def _start_in_store(self) -> Start | None:
        """The start that the ranks agree on in a TCP store; None if no store answers."""
        does_not_know = self.resume and self.rank != 0 and _earlier(self.parts, self.target) is None
        try:
            store = _store()
            if store is None:
                return None
            patience = KNOWING if does_not_know else 0.0
            return _agree(store, self.target.name, restarts(), self._number, self._propose, patience)
        except (RuntimeError, ValueError, OSError):
            return None

    def _start_in_folder(self) -> Start:
        board = Board(self.parts, self.rank, self.ranks, is_elastic())
        return board.agree(restarts(), self._number, self._propose)

    @property
    def _number(self) -> int:
        """How many recordings to a file of this name the process began before this one."""
        return _recordings.get(self.target.name, 0)

    def _propose(self, latest: Start | None) -> Start:
        """The start that this rank proposes; `latest` is the last start of the same job."""
        is_restart = restarts() > 0 and self._number == 0
        if is_restart and latest is not None:
            return Start(latest.run, latest.attempt + 1)
        earlier = _earlier(self.parts, self.target) if self.resume else None
        return earlier or Start.new()


def run_in(target: Path) -> str | None:
    """The id of the run in a file; None if there is none."""
    from insitu.store.hdf5 import holds_run
    from insitu.store.run.run_file_reader import RunFileReader

    if not os.path.isfile(target) or not holds_run(target):
        return None
    file = RunFileReader(target)
    file.close()
    run_id: str = file.run_id
    return run_id


def is_elastic() -> bool:
    """Whether `torchrun` started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def restarts() -> int:
    """How often `torchrun` has restarted the job that this process belongs to."""
    text = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    if text.isdigit():
        return int(text)
    return 0


def _agree(
    store: Any, name: str, restart: int, number: int, propose: Callable[[Start | None], Start], patience: float
) -> Start:
    """The start that all ranks find in the store: the one that the first rank proposed."""
    key, latest = f"insitu/{name}/{restart}/{number}", f"insitu/{name}/latest"
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and not store.check([key]):
        time.sleep(0.05)
    before = None
    if store.check([latest]):
        before = Start.parse(_text(store.get(latest)).partition(" ")[0])
    proposal = f"{propose(before)} {os.urandom(8).hex()}"  # unique, so that a rank knows whether its own proposal won
    found = _text(store.compare_set(key, "", proposal))
    if found == proposal:
        store.set(latest, proposal)
    return Start.parse(found.partition(" ")[0])


def _text(value: bytes | str) -> str:
    if isinstance(value, str):
        return value
    return value.decode("ascii")


def _store() -> Any:
    """A connection to the store that all ranks share; None if they have none.

    It is a new connection, because another thread may be waiting in that of the process group.
    """
    address = _agent_address() or _group_address()
    if address is None:
        return None
    with socket.create_connection(address, CONNECTING):  # without an answer, torch prints many lines before it raises
        pass
    dist: Any = import_module("torch.distributed")
    timeout = timedelta(seconds=CONNECTING)
    return dist.TCPStore(*address, is_master=False, wait_for_workers=False, timeout=timeout)


def _agent_address() -> tuple[str, int] | None:
    """The address of the store of the agents of `torchrun`."""
    host, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "")
    is_there = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if is_there and host and port.isdigit():
        return (host, int(port))
    return None


def _group_address() -> tuple[str, int] | None:
    """The address of the process group's TCP store; a file store is not used, it may be from an older job."""
    dist: Any = sys.modules.get("torch.distributed")  # a process group needs this module
    if dist is None or not (dist.is_available() and dist.is_initialized()):
        return None
    get_store = getattr(dist.group.WORLD, "get_group_store", None)
    store: Any = get_store() if get_store is not None else None
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    if isinstance(store, dist.TCPStore):
        return (store.host, store.port)
    return None


@dataclass(frozen=True, slots=True)
class _Attempts:
    """When a run began, and the number of its last attempt."""

    began: float
    last: int


def _earlier(parts: Path, target: Path) -> Start | None:
    """The next attempt of the existing run, in the file, in journals or in both; of the newest if there are two."""
    found = _attempts_in_file(target)
    journaled = runs_in(parts) if parts.is_dir() else {}
    for run in journaled.values():
        before = found.get(run.id, _Attempts(run.began, 0))
        found[run.id] = _Attempts(min(before.began, run.began), max(before.last, *run.attempts))
    named = [run for run in found if run]
    if not named:
        return None
    newest = max(named, key=lambda run: found[run].began)
    return Start(newest, found[newest].last + 1)


def _attempts_in_file(target: Path) -> dict[str, _Attempts]:
    """The attempts of the run in a file, by its id; an error if the file holds something else."""
    if not os.path.isfile(target):
        return {}
    from insitu.store.hdf5 import holds_run
    from insitu.store.run.run_file_reader import RunFileReader

    if not holds_run(target):
        raise StoreError(f"{str(target)!r} does not hold a recorded run: it cannot be resumed")
    file = RunFileReader(target)
    file.close()
    last = max((facts.attempt for facts in file.shards), default=-1)
    return {file.run_id: _Attempts(started_of(file.shards) or 0.0, last)}
