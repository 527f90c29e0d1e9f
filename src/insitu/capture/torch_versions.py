"""The versions of torch that insitu was tried with. docs/versions.md has the table of what was run, and when."""

from __future__ import annotations

import re

from insitu.errors import tell

OLDEST = "2.6"
NEWEST = "2.15"
_reported: set[str] = set()


def release(version: str) -> tuple[int, int]:
    """The release that a version of torch belongs to; (0, 0) if the text does not say so.

    >>> release("2.13.0+cpu"), release("2.16.0a0+git1234"), release("unknown")
    ((2, 13), (2, 16), (0, 0))
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        return 0, 0
    return int(found[1]), int(found[2])


def is_tried(version: str) -> bool:
    """Whether a version of torch is between the oldest and the newest one that were tried.

    >>> is_tried("2.8.1"), is_tried("2.16.0"), is_tried("3.0.0")
    (True, False, False)
    """
    return release(OLDEST) <= release(version) <= release(NEWEST)


def report_untried(version: str) -> None:
    """Warn once about a torch that is older or newer than all that were tried."""
    if version in _reported or is_tried(version):
        return
    _reported.add(version)
    tell(
        f"insitu was tried with torch {OLDEST} to {NEWEST}, and never with torch {version}: a result may be wrong or "
        "missing. docs/versions.md has the table of what was tried"
    )
