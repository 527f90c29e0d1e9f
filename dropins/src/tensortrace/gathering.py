"""What all ranks have traced comes to rank 0, group by group, and no rank waits for another while it runs."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from tensortrace.mail import Mail
from tensortrace.telling import tell

# Of each name: the iterations, and the values that it changed to in them.
Local = dict[str, tuple[list[int], list[Any]]]

MOST_UNREAD = 256 << 20  # bytes that a rank leaves in the store unread, before it keeps the rest to itself
PATIENCE_WITH_STRANGERS = 2.0  # seconds for ranks that never entered: tracing on one rank alone is no error
POLL = 0.01


class ResultEntry(NamedTuple):
    """What was traced of one variable: when, in which process, and what."""

    iterations: list[Any]
    ranks: list[Any]
    values: list[Any]


Merged = dict[str, ResultEntry]


def merge(parts: dict[int, Local]) -> Merged:
    """The values of several ranks in one entry for each name, rank by rank.

    >>> merge({1: {"x": ([1, 2], ["c", "d"])}, 0: {"x": ([1, 2], ["a", "b"])}})
    {'x': ResultEntry(iterations=[1, 2, 1, 2], ranks=[0, 0, 1, 1], values=['a', 'b', 'c', 'd'])}
    """
    merged: Merged = {}
    for rank, local in sorted(parts.items()):
        for name, (iterations, values) in local.items():
            entry = merged.setdefault(name, ResultEntry([], [], []))
            entry.iterations.extend(iterations)
            entry.ranks.extend(rank for _ in iterations)
            entry.values.extend(values)
    return merged


class Alone:
    """One process: what is handed in comes out."""

    def hand_in(self, group: int, local: Local) -> Iterator[Merged]:
        """Take a group of this rank; give the groups that are complete."""
        yield merge({0: local})

    def finish(self, patience: float) -> Iterator[Merged]:
        """Give what is left."""
        yield from ()


class Sending:
    """A rank that sends its groups to rank 0, and keeps what cannot be sent."""

    def __init__(self, mail: Mail, rank: int) -> None:
        self._mail, self._rank = mail, rank
        self._number = 0
        self._unread: deque[tuple[int, int, Local]] = deque()
        self._kept: list[Local] = []
        self._is_lost = False
        self._say("entered", {})

    def hand_in(self, group: int, local: Local) -> Iterator[Merged]:
        """Send a group."""
        self._say(group, local)
        yield from ()

    def finish(self, patience: float) -> Iterator[Merged]:
        """Send that this was the last one; give what rank 0 has not taken and will not take."""
        self._say("left", {})
        try:
            if not self._is_lost and self._mail.is_closed:
                self._kept = [local for number, _, local in self._unread if self._take_back(number)] + self._kept
                tell(f"rank 0 has ended before rank {self._rank}: the last values are in the results of this rank")
        except Exception as error:
            self._lose(error)
        yield from (merge({self._rank: local}) for local in self._kept if local)

    def _say(self, what: int | str, local: Local) -> None:
        try:
            self._forget_read()
            if self._is_lost or sum(size for _, size, _ in self._unread) > MOST_UNREAD:
                self._keep(local)
                return
            size = self._mail.send(self._rank, self._number, (what, local))
            self._unread.append((self._number, size, local))
            self._number += 1
        except Exception as error:
            self._kept.append(local)
            self._lose(error)

    def _forget_read(self) -> None:
        while not self._is_lost and self._unread and not self._mail.is_there(self._rank, self._unread[0][0]):
            self._unread.popleft()

    def _keep(self, local: Local) -> None:
        self._kept.append(local)
        if not self._is_lost:
            self._is_lost = True
            tell(f"rank 0 does not take what is traced: from now on rank {self._rank} keeps its own values")

    def _take_back(self, number: int) -> bool:
        return self._mail.take(self._rank, number) is not None

    def _lose(self, error: Exception) -> None:
        if not self._is_lost:
            self._is_lost = True
            tell(f"rank {self._rank} cannot reach rank 0 and keeps its own values: {type(error).__name__}: {error}")


class Receiving:
    """Rank 0: a group is complete once each rank has sent it, or a later one, or has left."""

    def __init__(self, mail: Mail, world: int, patience: Callable[[], float]) -> None:
        self._mail, self._patience = mail, patience
        self._others = list(range(1, world))
        self._next = dict.fromkeys(self._others, 0)
        self._newest = dict.fromkeys(range(world), -1)
        self._here: set[int] = set()
        self._left: set[int] = set()
        self._groups: dict[int, dict[int, Local]] = {}
        self._since: dict[int, float] = {}
        self._is_lost = self._is_told = False

    def hand_in(self, group: int, local: Local) -> Iterator[Merged]:
        """Take a group of this rank; give the groups that are complete, or have waited for too long."""
        self._newest[0] = group
        self._add(group, 0, local)
        self._poll()
        yield from self._complete()

    def finish(self, patience: float) -> Iterator[Merged]:
        """Wait for the others as long as they send something; give all that is left."""
        last = time.monotonic()
        while not self._is_lost and (waiting := set(self._others) - self._left):
            limit = patience if waiting & self._here else min(patience, PATIENCE_WITH_STRANGERS)
            if self._poll():
                last = time.monotonic()
            elif time.monotonic() - last >= limit:
                self._tell_of(waiting)
                break
            else:
                time.sleep(POLL)
        self._close()
        for group in sorted(self._groups):
            yield self._pop(group)

    def _close(self) -> None:
        try:
            if not self._is_lost:
                self._mail.close()
        except Exception as error:
            self._lose(error)
        self._poll()  # what came before a rank could see that it is closed

    def _poll(self) -> bool:
        """Take what lies there; whether there was anything."""
        try:
            waiting = [rank for rank in self._others if rank not in self._left and not self._is_lost]
            return sum(map(self._poll_rank, waiting)) > 0
        except Exception as error:
            self._lose(error)
            return False

    def _poll_rank(self, rank: int) -> bool:
        came = False
        while (data := self._mail.take(rank, self._next[rank])) is not None:
            self._next[rank] += 1
            self._here.add(rank)
            came = True
            what, local = pickle.loads(data)
            if what == "left":
                self._left.add(rank)
            elif what != "entered":
                self._newest[rank] = what
                self._add(what, rank, local)
        return came

    def _add(self, group: int, rank: int, local: Local) -> None:
        self._groups.setdefault(group, {})[rank] = local
        self._since.setdefault(group, time.monotonic())

    def _complete(self) -> Iterator[Merged]:
        for group in sorted(group for group in self._groups if group <= self._newest[0]):
            missing = {rank for rank in self._others if self._newest[rank] < group} - self._left
            if missing and not self._is_lost:
                if time.monotonic() - self._since[group] < self._patience():
                    return
                self._tell_of(missing)
            yield self._pop(group)

    def _pop(self, group: int) -> Merged:
        del self._since[group]
        return merge(self._groups.pop(group))

    def _tell_of(self, missing: set[int]) -> None:
        if not self._is_told:
            self._is_told = True
            ranks = ", ".join(map(str, sorted(missing)))
            tell(f"nothing more came from rank {ranks}: the results go on without, and have what had come before")

    def _lose(self, error: Exception) -> None:
        self._is_lost = True
        tell(f"rank 0 cannot hear the other ranks and goes on with its own values: {type(error).__name__}: {error}")


Gathering = Alone | Sending | Receiving


def gathering(session: str, patience: Callable[[], float]) -> Gathering:
    """How this process gathers: alone, or with the others of the default group of torch.distributed."""
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return Alone()
    try:
        mail, rank = Mail(session), distributed.get_rank()
    except Exception as error:
        tell(f"the ranks cannot be gathered, each keeps its own values: {type(error).__name__}: {error}")
        return Alone()
    return Sending(mail, rank) if rank else Receiving(mail, distributed.get_world_size(), patience)
