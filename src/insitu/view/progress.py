"""A word on stderr about work that takes longer than a second, and how far it has come."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic

from insitu.trace.counter import progress

PATIENCE = 1.0
TICK = 0.25
CLEAR = "\r\x1b[K"


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done if it takes long, and how long it took; a terminal also shows how far it has come.

    >>> with working("counting"):
    ...     sum(range(10))
    45
    """
    began, over = monotonic(), Event()
    thread = Thread(target=_show, args=(what, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if monotonic() - began > PATIENCE:
        _write(f"insitu: {what} took {monotonic() - began:.1f} s\n")


def _show(what: str, over: Event) -> None:
    if over.wait(PATIENCE):
        return
    if not _is_terminal():
        _write(f"insitu: {what} …\n")
        return
    while not over.is_set():
        _write(f"{CLEAR}insitu: {what} …{_share()}")
        over.wait(TICK)
    _write(CLEAR)


def _share() -> str:
    """How much of the work is done, as far as somebody counts."""
    total, done, what = progress.total, progress.done, progress.what
    if total:
        return f" {what} {min(done, total) * 100 // total} %"
    return ""


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # a program may have closed it
        return False


def _write(text: str) -> None:
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)
        sys.stderr.flush()
