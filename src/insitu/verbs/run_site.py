"""The place in the source of a recorded variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insitu.trace.event import Site

if TYPE_CHECKING:
    from insitu.store.run.series import Series


def run_site(series: Series) -> Site | None:
    """The file and line that a series names; None if it names none."""
    file, colon, line = (series.source or "").rpartition(":")
    if colon and line.isdigit():
        return Site(file, int(line), "")
    return None
