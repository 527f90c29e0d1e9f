"""The values that all ranks traced come to rank 0, group by group, and no rank waits for another while it runs."""

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
PATIENCE_WITH_STRANGERS = 2.0  # seconds to wait for ranks that never entered: one rank alone may trace
POLL = 0.01


class ResultEntry(NamedTuple):
    """The traced values of one variable, with their iterations and processes."""

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
        self._is_lost = self._is_told = False
        self._say("entered", {})

    def hand_in(self, group: int, local: Local) -> Iterator[Merged]:
        """Send a group."""
        self._say(group, local)
        yield from ()

    def finish(self, patience: float) -> Iterator[Merged]:
        """Send that this was the last one; give what rank 0 has not taken and will not take."""
        try:
            if not self._is_lost:
                self._leave()
        except Exception as error:
            self._lose(error)
        yield from (merge({self._rank: local}) for local in self._kept if local)

    def _leave(self) -> None:
        """Say that nothing more comes, and take back what rank 0 will not take.

        Rank 0 waits for that word, and its process may end once it has heard it: what is asked is asked before.
        """
        is_awaited = self._is_awaited()
        self._mail.say(f"left/{self._rank}")
        if is_awaited:  # rank 0 looks once more after it says that it has ended
            return
        back = [local for number, _, local in self._unread if local and self._mail.take(self._rank, number)]
        self._kept = back + self._kept
        if back:  # else it has ended just now, after it took all
            self._tell("rank 0 does not trace, or has ended before")

    def _is_awaited(self) -> bool:
        """Whether rank 0 has entered and not yet ended."""
        end = time.monotonic() + PATIENCE_WITH_STRANGERS
        while not (is_open := self._mail.was_said("open")) and time.monotonic() < end:
            time.sleep(POLL)
        return is_open and not self._mail.was_said("closed")

    def _say(self, what: int | str, local: Local) -> None:
        try:
            self._forget_read()
            unread = sum(size for _, size, _ in self._unread)
            if self._is_lost or (unread > MOST_UNREAD and local):
                self._kept.append(local)
                self._tell(f"rank 0 has left {unread >> 20} MiB unread")
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

    def _lose(self, error: Exception) -> None:
        if not self._is_lost:
            self._is_lost = True
            # What may not have been read before rank 0 was lost stays here too.
            self._kept = [local for _, _, local in self._unread] + self._kept
            self._tell(f"rank 0 cannot be reached ({type(error).__name__}: {error})")

    def _tell(self, why: str) -> None:
        if not self._is_told:
            self._is_told = True
            tell(f"{why}: rank {self._rank} keeps its values in its own results")


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
        self._heard = dict.fromkeys(self._others, 0.0)
        self._is_lost = self._is_told = False
        self._say("open")

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
        self._say("closed")
        self._poll()  # what came before a rank could see that it is closed
        for group in sorted(self._groups):
            yield self._pop(group)

    def _say(self, word: str) -> None:
        try:
            if not self._is_lost:
                self._mail.say(word)
        except Exception as error:
            self._lose(error)

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
        has_left = self._mail.was_said(f"left/{rank}")  # asked before: what it has sent is there then
        while (data := self._mail.take(rank, self._next[rank])) is not None:
            self._next[rank] += 1
            self._here.add(rank)
            self._heard[rank] = time.monotonic()
            came = True
            what, local = pickle.loads(data)
            if what != "entered":
                self._newest[rank] = what
                self._add(what, rank, local)
        if has_left:
            self._left.add(rank)
        return came

    def _add(self, group: int, rank: int, local: Local) -> None:
        self._groups.setdefault(group, {})[rank] = local
        self._since.setdefault(group, time.monotonic())

    def _complete(self) -> Iterator[Merged]:
        for group in sorted(group for group in self._groups if group <= self._newest[0]):
            missing = {rank for rank in self._others if self._newest[rank] < group} - self._left
            if missing and not self._is_lost:
                last = max(self._since[group], *(self._heard[rank] for rank in missing))
                if time.monotonic() - last < self._patience():
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


def current_rank() -> int:
    """The rank of this process in the default group."""
    from torch import distributed

    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return 0


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
    if rank:
        return Sending(mail, rank)
    return Receiving(mail, distributed.get_world_size(), patience)
