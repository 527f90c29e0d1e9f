"""Which process wrote something, and whether it still runs: known for sure only on the same machine."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Process:
    """A process that cannot be confused with a later one of the same number.

    `kernel` is the boot id of the machine, `space` the namespace that the number belongs to, `began` the start of the
    process in clock ticks since boot. They are empty on systems without `/proc`: then nothing is known of a process.

    >>> Process.current().is_alive()
    True
    >>> Process("elsewhere", "", "", 1, 0).is_alive() is None
    True
    """

    host: str
    kernel: str
    space: str
    pid: int
    began: int

    @classmethod
    def of(cls, pid: int) -> Process:
        """The process that has this number now."""
        return cls(socket.gethostname(), _kernel(), _space(), pid, _began(pid) or 0)

    @classmethod
    def current(cls) -> Process:
        """The process that calls this."""
        return cls.of(os.getpid())

    @classmethod
    def parent(cls) -> Process:
        """The process that started the one that calls this."""
        return cls.of(os.getppid())

    @classmethod
    def from_json(cls, said: Any) -> Process | None:
        """The process that `to_json` wrote; None if the file is damaged or forged."""
        match said:
            case [str(host), str(kernel), str(space), int(pid), int(began)]:
                return cls(host, kernel, space, pid, began)
        return None

    def to_json(self) -> list[Any]:
        """Plain data for a file."""
        return [self.host, self.kernel, self.space, self.pid, self.began]

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the same kernel runs it: locks of files are exact there."""
        return bool(self.kernel) and self.kernel == _kernel()

    def is_alive(self) -> bool | None:
        """Whether it still runs; None if that cannot be known, as of a process on another machine."""
        if not (self.is_on_this_machine and self.space and self.space == _space() and self.began):
            return None
        return _began(self.pid) == self.began

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@cache
def _kernel() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return ""


def _space() -> str:
    with suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def _began(pid: int) -> int | None:
    """When a process started; None if there is none, or it is dead and only waits to be collected."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()  # the name before it may hold anything
        if fields[0] in (b"Z", b"X"):
            return None
        return int(fields[19])
    except (OSError, IndexError, ValueError):
        return None
