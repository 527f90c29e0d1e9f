"""Plain files: written whole or not at all, and checked before they are read or written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from insitu.errors import StoreError
from insitu.operating_system import CREATE, READ, READ_WITHOUT_WAITING, write_several, write_several_at

PARTS = ".parts"  # at the end of the name of the folder in which the journals of a run are
_MOST = 512  # buffers in one call; Linux takes 1024
_SMALL = 2**14  # buffers that are smaller, on average, are copied together: a vector of many costs more than that


def check_free(path: Path, *, overwrite: bool) -> None:
    """Raise if a file cannot be written there: better before a long run than after it."""
    if os.path.isdir(path):
        raise StoreError(f"{str(path)!r} is a directory: give the name of a file")
    if not overwrite and os.path.lexists(path):
        raise StoreError(f"{str(path)!r} is there already: give another name, or overwrite=True (--overwrite)")
    if not os.path.isdir(path.parent):
        raise StoreError(f"the directory {str(path.parent)!r} does not exist: make it before you write {path.name!r}")


def check_writable(path: Path) -> None:
    """Raise if no file can be created in the folder of this one; only trying shows that."""
    unfinished = unfinished_name(path)
    try:
        os.close(os.open(unfinished, CREATE, 0o600))
        unfinished.unlink()
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None


def unfinished_name(path: Path) -> Path:
    """The name of a file until it is complete."""
    return path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.part")


def check_plain(path: Path) -> None:
    """Raise if the path is not that of a plain file: reading a pipe or a device would block, or never end."""
    try:
        file = os.open(path, READ_WITHOUT_WAITING)
    except FileNotFoundError:
        raise StoreError("the file does not exist") from None
    except (OSError, ValueError) as error:  # a ValueError for NUL in the name
        raise StoreError(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        mode = os.fstat(file).st_mode
    finally:
        os.close(file)
    if stat.S_ISDIR(mode):
        raise StoreError("it is a directory: give the name of a file")
    if not stat.S_ISREG(mode):
        raise StoreError("it is a pipe, a socket or a device, and only files are read: copy it into one first")


def write_whole(path: Path, content: bytes | Iterable[bytes], *, overwrite: bool) -> None:
    """Write a file that only its owner can read, under another name first: neither a reader nor a crash sees a part.

    The content may be an iterable of pieces, which are written one by one.
    """
    check_free(path, overwrite=overwrite)
    unfinished = unfinished_name(path)
    try:
        _write_synced(unfinished, [content] if isinstance(content, bytes) else content)
        rename(unfinished, path, overwrite=overwrite)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _write_synced(path: Path, pieces: Iterable[bytes]) -> None:
    descriptor = os.open(path, CREATE, 0o600)
    with open(descriptor, "wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


def rename(unfinished: Path, path: Path, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(unfinished, path)
    else:
        try:
            # Unlike a rename, a link never replaces a file that was created in the meantime.
            os.link(unfinished, path)
        except FileExistsError:
            check_free(path, overwrite=False)
        except OSError:  # a file system without hard links
            os.rename(unfinished, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    with suppress(OSError):  # not every system opens a directory; the file itself is synced
        descriptor = os.open(path, READ)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_all(file: int, buffers: Sequence[Any], size: int) -> None:
    """Append the buffers, of `size` bytes in all, to a file."""
    if size <= len(buffers) * _SMALL:
        buffers = (b"".join(buffers),)
    for start in range(0, len(buffers), _MOST):
        _write_some(buffers[start : start + _MOST], lambda left: write_several(file, left))


def write_at(file: int, buffers: Sequence[Any], position: int) -> int:
    """Write the buffers to a place in a file, and return the place after them."""

    def write(left: Sequence[Any]) -> int:
        nonlocal position
        written = write_several_at(file, left, position)
        position += written
        return written

    for start in range(0, len(buffers), _MOST):
        _write_some(buffers[start : start + _MOST], write)
    return position


def _write_some(buffers: Sequence[Any], write: Callable[[Sequence[Any]], int]) -> None:
    written = write(buffers)
    left: list[Any] = [view for buffer in buffers if (view := memoryview(buffer)).nbytes]
    while True:
        while left and written >= left[0].nbytes:
            written -= left.pop(0).nbytes
        if not left:
            return
        left[0] = left[0].cast("B")[written:]
        written = write(left)
