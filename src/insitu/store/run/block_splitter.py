"""The values of a run on their way from the journals to their datasets: each is checked, and the order is kept."""

from __future__ import annotations

import numpy as np

from insitu.store.journal.entry_table import Cut
from insitu.store.run.file_builder import DatasetWriter
from insitu.store.stored_type import Array

_PENDING = 2**26
_BATCH = 2**22
_SMALL = 2**13  # the mean size of values from which on it no longer pays to put steps together


class DamagedError(Exception):
    """A value is not what its digest says."""


class BlockSplitter:
    """Takes the blocks of the journals apart. Steps of the same form are put together first, for there are many."""

    def __init__(self, sinks: list[DatasetWriter], widths: list[int]) -> None:
        self._sinks, self._widths = sinks, widths
        self._form: tuple[bytes, list[Cut]] = b"", []
        self._owners: Array = np.empty(0, np.int64)
        self._batch: list[bytes] = []
        self._waiting = 0

    def add(self, owners: Array, block: bytes, cuts: list[Cut]) -> None:
        """The next block, and whose value each part of it is."""
        form = owners.tobytes(), cuts
        if form != self._form or len(self._batch) * len(block) > _BATCH:
            self._take_apart()
            self._form, self._owners = form, owners
        self._batch.append(block)
        self._waiting += len(block)
        if self._waiting > _PENDING:
            self.finish(last=False)

    def add_part(self, owner: int, piece: bytes) -> None:
        """The next part of one large value; nothing else may wait."""
        self._sinks[owner].add(piece)
        self._sinks[owner].flush()

    def finish(self, *, last: bool = True) -> None:
        """Write what waits."""
        self._take_apart()
        for sink in self._sinks:
            sink.flush(last=last)
        self._waiting = 0

    def _take_apart(self) -> None:
        batch, (_, cuts), owners = self._batch, self._form, self._owners.tolist()
        self._batch = []
        if not batch:
            return
        once = len(set(owners)) == len(owners)
        if len(batch) > 1 and once and len(batch[0]) < _SMALL * len(owners):
            table = np.frombuffer(b"".join(batch), np.uint8).reshape(len(batch), -1)
            for owner, (start, end) in zip(owners, cuts, strict=True):
                self._put_rows(owner, table[:, start:end])
            return
        for block in batch:
            view = memoryview(block)
            for owner, (start, end) in zip(owners, cuts, strict=True):
                width = self._widths[owner]
                self._sinks[owner].add(block[start:end].ljust(width, b"\0") if width else view[start:end])

    def _put_rows(self, owner: int, rows: Array) -> None:
        if width := self._widths[owner]:
            wide = np.zeros((len(rows), width), np.uint8)
            wide[:, : rows.shape[1]] = rows
            rows = wide
        self._sinks[owner].add(rows.tobytes())
