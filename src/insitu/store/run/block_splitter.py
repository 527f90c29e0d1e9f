"""Splits the blocks of bytes in the journals into the values of each variable, and hands them to their datasets."""

from __future__ import annotations

import numpy as np

from insitu.store.journal.entry_table import Bounds
from insitu.store.run.file_builder import DatasetWriter
from insitu.store.stored_type import Array

_PENDING = 2**26
_BATCH = 2**22
_SMALL = 2**13  # blocks with values of a larger mean size are split one by one


class DamagedError(Exception):
    """The bytes of a value do not have its digest."""


class BlockSplitter:
    """Splits blocks into values. Blocks of the same form are joined first, because there are many of them.

    `widths` are the bytes of each text of a variable; 0 for variables of other forms.
    """

    def __init__(self, writers: list[DatasetWriter], widths: list[int]) -> None:
        self._writers, self._widths = writers, widths
        self._form: tuple[bytes, list[Bounds]] = b"", []
        self._owners: Array = np.empty(0, np.int64)
        self._batch: list[bytes] = []
        self._waiting = 0

    def add(self, owners: Array, block: bytes, bounds: list[Bounds]) -> None:
        """Take the next block; `owners` are the writers of the values in it."""
        form = owners.tobytes(), bounds
        if form != self._form or len(self._batch) * len(block) > _BATCH:
            self._split_batch()
            self._form, self._owners = form, owners
        self._batch.append(block)
        self._waiting += len(block)
        if self._waiting > _PENDING:
            self.flush(is_last=False)

    def add_piece(self, owner: int, piece: bytes) -> None:
        """Take the next piece of one large value; the caller has flushed everything before it."""
        self._writers[owner].add(piece)
        self._writers[owner].flush()

    def flush(self, *, is_last: bool = True) -> None:
        """Write the values that wait."""
        self._split_batch()
        for writer in self._writers:
            writer.flush(is_last=is_last)
        self._waiting = 0

    def _split_batch(self) -> None:
        batch, self._batch = self._batch, []
        if not batch:
            return
        owners = self._owners.tolist()
        has_one_value_each = len(set(owners)) == len(owners)
        is_small = len(batch[0]) < _SMALL * len(owners)
        if len(batch) > 1 and has_one_value_each and is_small:
            self._split_together(batch, owners)
        else:
            self._split_one_by_one(batch, owners)

    def _split_together(self, batch: list[bytes], owners: list[int]) -> None:
        _, bounds = self._form
        table = np.frombuffer(b"".join(batch), np.uint8).reshape(len(batch), -1)
        for owner, (start, end) in zip(owners, bounds, strict=True):
            self._add_rows(owner, table[:, start:end])

    def _split_one_by_one(self, batch: list[bytes], owners: list[int]) -> None:
        _, bounds = self._form
        for block in batch:
            view = memoryview(block)
            for owner, (start, end) in zip(owners, bounds, strict=True):
                width = self._widths[owner]
                self._writers[owner].add(block[start:end].ljust(width, b"\0") if width else view[start:end])

    def _add_rows(self, owner: int, rows: Array) -> None:
        if width := self._widths[owner]:
            padded = np.zeros((len(rows), width), np.uint8)
            padded[:, : rows.shape[1]] = rows
            rows = padded
        self._writers[owner].add(rows.tobytes())
