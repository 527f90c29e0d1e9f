"""Traces in files: `save` and `load` choose the form by the suffix of the name."""

from __future__ import annotations

import os
from pathlib import Path

from insitu.errors import ChoiceError, StoreError, SubjectError
from insitu.trace.trace import Trace

SUFFIXES = (".h5", ".hdf5")

__all__ = ["SUFFIXES", "check", "load", "save"]


def save(trace: Trace, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a trace to a file, which only its owner may read; one that is there already is kept unless `overwrite`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Trace(), f"{folder}/run.h5")
    ...     load(f"{folder}/run.h5")
    <Trace: 0 events, 0 modules>
    """
    if not isinstance(trace, Trace):
        raise SubjectError(f"save() writes a Trace, not {trace!r:.80} ({type(trace).__name__}): save(trace, 'run.h5')")
    target = check(path, overwrite=overwrite)
    # h5py takes a tenth of a second to import: only those who use it wait for it.
    from insitu.store import codec, hdf5

    hdf5.write(codec.encode(trace), trace.about, target, overwrite=overwrite)


def load(path: str | os.PathLike[str]) -> Trace:
    """Read a trace from a file, without torch. Nothing in the file is run: one from a stranger can be opened."""
    source = _known(path)
    from insitu.store import codec, hdf5

    try:
        return codec.decode(hdf5.read(source))
    except StoreError as error:
        raise StoreError(f"{str(source)!r} cannot be loaded: {error}") from None


def check(path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """The path, if a trace can be saved there; the error that `save` would raise, if not."""
    from insitu.store.files import check_free

    target = _known(path)
    check_free(target, overwrite=overwrite)
    return target


def _known(path: str | os.PathLike[str]) -> Path:
    found = Path(path)
    if found.suffix.lower() not in SUFFIXES:
        raise ChoiceError(
            f"{str(found)!r} does not end in one of {', '.join(map(repr, SUFFIXES))}, as files of traces do"
        )
    return found
