"""An archive: the events of a trace for which there was no memory, in a folder until the trace is saved."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from shutil import rmtree

from insitu.trace.event import Event


class Archive:
    """Files of events, oldest first, in a folder that is removed with the archive.

    Writing happens within a `shield`, in which signals wait: HDF5 may swallow an exception that is raised inside of it.
    """

    def __init__(
        self, folder: str | None = None, *, shield: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> None:
        self._where, self._shield = folder, shield
        self._folder: Path | None = None
        self.files: list[Path] = []

    def add(self, events: list[Event]) -> None:
        """Keep these events, which are the next ones."""
        # h5py takes a tenth of a second to import: only those who use it wait for it.
        from insitu.store.trace import trace_file
        from insitu.store.trace.trace_encoder import TraceEncoder
        from insitu.trace.collector import pause_collector

        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=".insitu-", dir=self._where))
            weakref.finalize(self, _remove, self._folder, os.getpid())
        path = self._folder / f"{len(self.files)}.h5"
        with self._shield(), pause_collector():
            path.write_bytes(trace_file.image(TraceEncoder().tables(events, {}), {}))
        self.files.append(path)


def _remove(folder: Path, process: int) -> None:
    """Remove the folder, unless this is the child of a fork: it is the parent's."""
    if os.getpid() == process:
        rmtree(folder, ignore_errors=True)
