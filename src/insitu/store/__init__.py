"""Traces and runs in files. `save` and `load` choose the form by the suffix of the name, and by what is there.

`trace/` and `text/` hold traces, `run/` and `journal/` hold recorded runs. The files of this folder are what several of
them share: HDF5, plain files, types of values, nested values as JSON, format versions. The store knows no view.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from insitu.errors import ChoiceError, StoreError, SubjectError
from insitu.store.address import Address, is_address
from insitu.store.files import PARTS
from insitu.trace.capacity import MEMORY, capacity
from insitu.trace.trace import Trace

TEXT = ".trace"
RUN_SUFFIXES = (".h5", ".hdf5")
SUFFIXES = (*RUN_SUFFIXES, TEXT)
EVENT = 1100  # bytes of memory for an event that is loaded

__all__ = ["PARTS", "RUN_SUFFIXES", "SUFFIXES", "check", "load", "save"]


def save(trace: Trace, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a trace to a file that only its owner can read; an existing file is kept unless `overwrite`.

    `run.h5` holds all of it. `run.trace` is text for people and version control: a line for each call, without what
    changes from run to run (times, lines, threads) and with statistics rounded.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Trace(), f"{folder}/run.h5")
    ...     load(f"{folder}/run.h5")
    <Trace: 0 events, 0 modules>
    """
    if not isinstance(trace, Trace):
        raise SubjectError(f"save() writes a Trace, not {trace!r:.80} ({type(trace).__name__}): save(trace, 'run.h5')")
    target = check(path, overwrite=overwrite)
    if target.suffix.lower() == TEXT:
        from insitu.store.files import write_whole
        from insitu.store.text.trace_text_writer import to_text

        write_whole(target, to_text(trace).encode(), overwrite=overwrite)
        return
    # h5py takes a tenth of a second to import: only those who use it wait for it.
    from insitu.store.trace.trace_file import write_trace

    write_trace(trace, target, overwrite=overwrite)


def load(path: str | os.PathLike[str], *, memory: int | str | None = None, run: str | None = None) -> Any:
    """Read a `Trace` or a recorded `Run`, without torch.

    Nothing in the file is executed: it may come from a stranger. A run that still runs or was killed has no file yet:
    it is read from its journals in `run.h5.parts`. Journals beside a file, such as those of a rank that ended late, are
    shown with it. Journals at an address, or in a folder that they were copied to, are read where they are.

    Args:
        path: A file that `insitu.save`, `insitu.record_run` or `insitu run` wrote; or the address or the folder with
            the journals of a run.
        memory: How much a trace may take ("4GB"); the default is 1 GiB. Of a trace that is longer, the last steps are
            read, and `trace.missing` says what is not there.
        run: The beginning of the id of a run, if an address or a folder has the journals of several.
    """
    if holds_shards(path):
        return _read_shards(path, run)
    if run is not None:
        raise ChoiceError(f"run={run!r} chooses among the runs at an address or in a folder, and {str(path)!r} is none")
    source = _known(path)
    room = (MEMORY if memory is None else capacity("memory", memory)) // EVENT
    try:
        return _read(source, room)
    except StoreError as error:
        raise type(error)(f"{str(source)!r} cannot be loaded: {error}") from None


def holds_shards(path: str | os.PathLike[str]) -> bool:
    """Whether a path is an address or a folder of journals; `run.h5.parts` belongs to a file, and is read with it."""
    return is_address(path) or (os.path.isdir(path) and not os.fspath(path).rstrip("/").endswith(PARTS))


def _read_shards(source: str | os.PathLike[str], run: str | None) -> Any:
    """The run at an address or in a folder."""
    from insitu.store.run.sharded_run import run_at, run_in_folder

    try:
        if is_address(source):
            return run_at(Address.parse(str(source)), run)
        return run_in_folder(Path(source), run)
    except StoreError as error:
        raise type(error)(f"{str(source)!r} cannot be loaded: {error}") from None


def _read(source: Path, room: int) -> Any:
    from insitu.store.files import check_plain

    if source.suffix.lower() == TEXT:
        check_plain(source)
        from insitu.store.text.trace_text_reader import read

        return read(source)
    # Not by the methods of Path, which raise if a folder may not be searched.
    if source.name.endswith(PARTS) and os.path.isdir(source):
        return _newest_run(source, source.with_name(source.name.removesuffix(PARTS)))
    parts = source.with_name(source.name + PARTS)
    run = None if os.path.isfile(source) else _unmerged_run(parts, source)
    if run is not None:
        return run
    check_plain(source)
    return _read_file(source, parts, room)


def _read_file(source: Path, parts: Path, room: int) -> Any:
    from insitu.store.hdf5 import holds_run

    if holds_run(source):
        from insitu.store.run.run import joined_run

        return joined_run(source, parts)
    from insitu.store.trace.trace_file import read_trace

    return read_trace(source, room)


def _newest_run(parts: Path, source: Path) -> Any:
    """The newest run in a folder of journals, joined with the file beside it if that is of the same run."""
    from insitu.store.journal.journaled_runs import newest_run
    from insitu.store.run.run import Run, joined_run

    try:
        run_id = newest_run(parts).id
        if run_id and os.path.isfile(source):
            return joined_run(source, parts, run_id)
        return Run.open(parts)
    except StoreError:
        # The run may have ended in the meantime: then its journals are removed, and the file is there.
        if os.path.isdir(parts) or not os.path.isfile(source):
            raise
        return Run.open(source)


def _unmerged_run(parts: Path, source: Path) -> Any:
    """The run in its journals; None if there are none, or it has ended in the meantime and has a file now."""
    if not os.path.isdir(parts):
        return None
    from insitu.store.run.run import Run

    try:
        run = Run.open(parts)
    except StoreError:
        if os.path.isfile(source):
            return None
        raise
    if os.path.isfile(source):
        run.close()
        return None
    return run


def check(path: str | os.PathLike[str], *, overwrite: bool = False, suffixes: tuple[str, ...] = SUFFIXES) -> Path:
    """The path, if a trace can be saved there; the error that `save` would raise, if not."""
    from insitu.store.files import check_free

    target = _known(path, is_read=False, suffixes=suffixes)
    check_free(target, overwrite=overwrite)
    return target


def _known(path: str | os.PathLike[str], *, is_read: bool = True, suffixes: tuple[str, ...] = SUFFIXES) -> Path:
    found = Path(path)
    name = found.name.removesuffix(PARTS if is_read else "").lower()
    if not name.lstrip(".").endswith(suffixes):
        raise ChoiceError(_unknown_format(found, suffixes, is_read=is_read))
    return found


def _unknown_format(path: Path, suffixes: tuple[str, ...], *, is_read: bool) -> str:
    """What is wrong with the name of a file, and which endings it may have."""
    *others, last = suffixes
    choices = f"{', '.join(others)} or {last}" if others else last
    kind = "file" if is_read else "output"
    what = f"unknown {kind} format {path.suffix!r}" if path.suffix else f"no {kind} format"
    return f"{what} in {str(path)!r}: choose {choices}"
