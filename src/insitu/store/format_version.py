"""The version of each file format, and the error for a file that a newer version of insitu wrote."""

from __future__ import annotations

from insitu.errors import NewerVersionError, StoreError

TRACE_VERSION = 1  # a trace in HDF5
RUN_VERSION = 1  # a run in HDF5
JOURNAL_VERSION = 1  # the journal of a rank
TEXT_VERSION = 1  # a trace as text


def check_version(form: str, found: object, known: int) -> None:
    """Raise if a file has another version than the one that is known here; a newer one has an error of its own.

    >>> check_version("trace", 3, 1)
    Traceback (most recent call last):
    insitu.errors.NewerVersionError: a newer insitu wrote it: it is a trace of format version 3, and this insitu reads \
version 1: update insitu (pip install --upgrade insitu) to read it
    """
    if not isinstance(found, int) or found < 1:
        raise StoreError(f"it is damaged: it has format version {found!r:.40}, and this insitu reads version {known}")
    if found > known:
        raise NewerVersionError(
            f"a newer insitu wrote it: it is a {form} of format version {found}, and this insitu reads version {known}:"
            " update insitu (pip install --upgrade insitu) to read it"
        )
