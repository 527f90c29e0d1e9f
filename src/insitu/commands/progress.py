"""A word on stderr about work that takes longer than a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from time import monotonic

PATIENCE = 1.0


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say what is being done if it takes long, and how long it took.

    >>> with working("counting"):
    ...     sum(range(10))
    45
    """
    began = monotonic()
    timer = Timer(PATIENCE, lambda: print(f"insitu: {what} …", file=sys.stderr))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if monotonic() - began > PATIENCE:
        print(f"insitu: {what} took {monotonic() - began:.1f} s", file=sys.stderr)
