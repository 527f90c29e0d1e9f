"""The entries of a stretch of a journal, grouped by variable: what a reader needs to find the values of one variable.

A stretch is one segment, or several if a step goes over the border between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from insitu.store.journal.entry_table import EntryTable, equal_ranges
from insitu.store.stored_type import Array


@dataclass(frozen=True, slots=True)
class SeenRows:
    """A row for each time a variable was seen. `slot` is the number of its stored value in the stretch."""

    step: Array
    time: Array
    call: Array
    slot: Array

    @classmethod
    def joined(cls, parts: Sequence[SeenRows]) -> SeenRows:
        """The rows of several parts."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    @property
    def size(self) -> int:
        """The bytes of memory that the columns take."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))


@dataclass(frozen=True, slots=True)
class StoredRows:
    """A row for each stored value of a variable: where its bytes are, their digest, and the number of its layout."""

    file: Array
    begin: Array
    layout: Array
    digest: Array

    @classmethod
    def joined(cls, parts: Sequence[StoredRows]) -> StoredRows:
        """The rows of several parts."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    @property
    def size(self) -> int:
        """The bytes of memory that the columns take."""
        return sum(getattr(self, field.name).nbytes for field in fields(self))


@dataclass(frozen=True, slots=True)
class VariableRows:
    """The rows of one variable in a stretch."""

    seen: SeenRows
    stored: StoredRows

    @property
    def size(self) -> int:
        """The bytes of memory that the columns take."""
        return self.seen.size + self.stored.size


class SegmentTable:
    """The entries of a stretch by variable."""

    def __init__(self, tables: Iterable[EntryTable]) -> None:
        """`tables` are the entries of the stretch in order, with their slots."""
        parts: dict[int, list[VariableRows]] = {}
        for table in tables:
            for number, rows in _by_variable(table):
                parts.setdefault(number, []).append(rows)
        self._rows = {number: _joined(every) for number, every in parts.items()}
        self.size = sum(rows.size for rows in self._rows.values())

    @property
    def numbers(self) -> list[int]:
        """The variables that have a value in the stretch."""
        return list(self._rows)

    def get(self, number: int) -> VariableRows | None:
        """The rows of a variable; None if it has none here."""
        return self._rows.get(number)


def _by_variable(table: EntryTable) -> Iterable[tuple[int, VariableRows]]:
    whole = np.flatnonzero(table.is_whole)
    whole = whole[np.argsort(table.variable[whole], kind="stable")]
    for number, here in equal_ranges(table.variable[whole]):
        entries = whole[here]
        stored = entries[table.is_stored[entries]]
        frame = table.frame[entries]
        yield (
            number,
            VariableRows(
                SeenRows(
                    step=table.frames.step[frame],
                    time=table.frames.time[frame],
                    call=table.call[entries].astype(np.int32),
                    slot=table.slots[entries].astype(np.int32),
                ),
                StoredRows(
                    file=table.frames.file[table.frame[stored]].astype(np.int32),
                    begin=table.begin[stored],
                    layout=table.layout[stored].astype(np.int32),
                    digest=table.digest[stored],
                ),
            ),
        )


def _joined(parts: list[VariableRows]) -> VariableRows:
    if len(parts) == 1:
        return parts[0]
    return VariableRows(
        SeenRows.joined([part.seen for part in parts]), StoredRows.joined([part.stored for part in parts])
    )
