"""What differs between operating systems: Linux has all of it, macOS most, Windows the least.

Nothing outside this file names a call that one of the three lacks. Where a system lacks a call, a slower one with the
same effect takes its place, or the answer is that nothing is known. The tests take the POSIX calls away and run on
Linux; macOS and Windows themselves were never tried.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


def _flags(*names: str) -> int:
    """The flags of `os.open` with these names that this system has."""
    found = 0
    for name in names:
        found |= getattr(os, name, 0)
    return found


# A child process gets none of these files. Without O_BINARY, Windows changes the ends of lines.
_ALWAYS = ("O_CLOEXEC", "O_NOINHERIT", "O_BINARY")
READ = _flags("O_RDONLY", *_ALWAYS)
READ_NO_LINK = _flags("O_RDONLY", "O_NOFOLLOW", *_ALWAYS)
READ_WITHOUT_WAITING = _flags("O_RDONLY", "O_NONBLOCK", *_ALWAYS)  # what is there may be a pipe
CREATE = _flags("O_WRONLY", "O_CREAT", "O_EXCL", *_ALWAYS)
CREATE_TO_APPEND = _flags("O_WRONLY", "O_CREAT", "O_EXCL", "O_APPEND", *_ALWAYS)
CREATE_TO_CHANGE = _flags("O_RDWR", "O_CREAT", "O_EXCL", *_ALWAYS)


def at_fork(**callbacks: Callable[[], object]) -> None:
    """Register callbacks like `os.register_at_fork`; a system that cannot fork never needs them."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(**callbacks)


# --- Reading and writing at a place -----------------------------------------------------------------------------------


def read_at(file: int, length: int, start: int) -> bytes:
    """Some bytes of a file; fewer if it ends before."""
    if hasattr(os, "pread"):
        return os.pread(file, length, start)
    os.lseek(file, start, os.SEEK_SET)
    return os.read(file, length)


def write_several(file: int, buffers: Sequence[Any]) -> int:
    """Write buffers, or the first of them; return how many bytes were written. The caller asks again for the rest."""
    if hasattr(os, "writev"):
        return os.writev(file, buffers)
    for buffer in buffers:
        if memoryview(buffer).nbytes:
            return os.write(file, buffer)
    return 0


def write_several_at(file: int, buffers: Sequence[Any], start: int) -> int:
    """Write buffers to a place in a file, like `write_several`."""
    if hasattr(os, "pwritev"):
        return os.pwritev(file, buffers, start)
    os.lseek(file, start, os.SEEK_SET)
    return write_several(file, buffers)


def sync_data(file: int) -> None:
    """Wait until the bytes of a file are on the disk."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:
        os.fsync(file)


# --- Room on the disk -------------------------------------------------------------------------------------------------


def reserve(file: int, size: int) -> None:
    """Take room on the disk for a file now: an error here is better than one in the middle of writing it."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, size)


def free_bytes(folder: Path) -> int:
    """The bytes that may be written to the disk of a folder."""
    return shutil.disk_usage(folder).free


# --- Locks ------------------------------------------------------------------------------------------------------------


def lock_file(file: int) -> bool:
    """Lock a file as long as it is open; return whether that worked."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_file_locked(file: int) -> bool | None:
    """Whether another process has locked this file; None if that cannot be known."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False
