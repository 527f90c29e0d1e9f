"""A run that was not closed, still goes on or was killed: read from its journals as if it were a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_128_digest

from insitu.errors import StoreError
from insitu.store.journal.journal_reader import read_shard
from insitu.store.journal.journaled_runs import JournaledRun, newest_run, others_in
from insitu.store.run.series import Columns
from insitu.store.run.shard_index import Found, ShardIndex
from insitu.store.stored_type import JSON, Array


class RunJournals:
    """What the journals of a run hold at this moment; every value of it has been checked."""

    def __init__(self, parts: Path, run: JournaledRun | None = None) -> None:
        self.path = parts
        found = run or newest_run(parts)
        catalog = self._catalog = ShardIndex([read_shard(place) for place in found.places])
        self.run_id, self.about, self.running = found.id, catalog.about, catalog.live
        self.shards, self.left_out = catalog.shard_facts(), catalog.left_out
        self.others = [str(other) for other in others_in(parts, [found.id])]
        self.steps = catalog.step, catalog.rank
        self.events = catalog.events
        self.variables = [JournalVariable(catalog, found) for found in catalog.variables]

    def close(self) -> None:
        """Close the files."""
        self._catalog.files.close()


class JournalVariable:
    """A variable in journals."""

    def __init__(self, catalog: ShardIndex, found: Found) -> None:
        self._catalog, self._found = catalog, found
        self.name, self.path, self.kind = found.name, found.path, found.kind
        shapes = [catalog.shapes[number] for number in np.unique(found.layouts).tolist()]
        self.shape = shapes[0] if len(shapes) == 1 and found.kind.name != JSON else None
        self.rows = len(found)
        self.facts: dict[str, Any] = catalog.facts(found.path)

    def columns(self) -> Columns:
        """When and where it was seen."""
        found = self._found
        return Columns(found.steps, found.ranks, found.attempts, found.calls, found.times, found.index)

    def shapes(self, slots: Array) -> list[tuple[int, ...]]:
        """The shapes of stored values."""
        return [self._catalog.shapes[number] for number in self._found.layouts[slots].tolist()]

    def pieces(self, slots: Array) -> Iterator[Any]:
        """The bytes of stored values."""
        digests = self._found.digests[slots].tolist()
        for data, digest in zip(self._catalog.data(self._found.entries[slots]), digests, strict=True):
            if xxh3_128_digest(data) != digest:  # it was whole when the journals were opened
                raise StoreError(f"a value of {self.name!r} was changed while it was read")
            yield data
