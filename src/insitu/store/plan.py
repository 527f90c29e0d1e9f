"""How each variable is stored in the file of a run."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from insitu.store.building import Building, Sink
from insitu.store.catalog import Catalog, Found
from insitu.store.dtypes import JSON
from insitu.store.h5types import h5type_of, numpy_type, text_type
from insitu.store.names import escaped
from insitu.store.value import Array

WIDEST_TEXT = 2**12  # a longer one is bytes among others, instead of widening all of them


@dataclass(frozen=True, slots=True)
class Plan:
    """How one variable is stored. `form` is "dense", "ragged" or "text"; `width` the bytes of a text."""

    found: Found
    form: str
    shapes: list[tuple[int, ...]]
    which: Array  # the shape of each stored value, as its place among the shapes
    width: int
    size: int
    facts: dict[str, Any]

    @classmethod
    def of(cls, found: Found, catalog: Catalog) -> Plan:
        """The plan for a variable."""
        layouts, which = np.unique(found.layouts, return_inverse=True)
        shapes = [catalog.shapes[number] for number in layouts.tolist()]
        sizes = catalog.size[found.entries]
        width = int(sizes.max())
        text = found.kind.name == JSON and width <= WIDEST_TEXT
        form = "text" if text else "dense" if len(shapes) == 1 and found.kind.name != JSON else "ragged"
        size = width * len(sizes) if text else int(sizes.sum())
        return cls(found, form, shapes, which, width, size, catalog.facts(found.path))

    @property
    def dimensions(self) -> int:
        """The most that a value has."""
        return max(map(len, self.shapes))

    @property
    def payload(self) -> int:
        """The bytes it takes at most, without compression."""
        return self.size + 36 * len(self.found) + (32 + 8 * self.dimensions) * len(self.which) + 4096

    def declare(self, made: Building) -> tuple[dict[str, int], Sink]:
        """Write all but the values; the checksums of the columns, and the sink for the values."""
        found = self.found
        attributes = {"name": found.name, "torch_dtype": found.kind.name, "layout": self.form}
        if isinstance(source := self.facts.get("source"), str):
            attributes["source"] = source
        group = made.group(f"vars/{escaped(found.name)}", attributes)
        sums = {}
        for name, column in self.columns().items():
            made.column(group, name, column, numpy_type(column.dtype))
            sums[name] = xxh3_64_intdigest(column.tobytes())
        kind = text_type(self.width) if self.form == "text" else h5type_of(found.kind)
        return sums, made.dataset(group, "values", self.values_shape(), kind)

    def columns(self) -> dict[str, Array]:
        """The small datasets of the variable."""
        found = self.found
        columns = {"step": found.steps, "rank": found.ranks, "call": found.calls.astype(np.int32), "time": found.times}
        if found.attempts.any():
            columns["attempt"] = found.attempts
        if len(found.entries) != len(found) or (found.index != np.arange(len(found))).any():
            columns["index"] = found.index
        columns["digest"] = self._digests()
        if self.form == "ragged":
            counts = np.array([prod(shape) for shape in self.shapes], np.int64)
            columns["offset"] = np.concatenate([[0], np.cumsum(counts[self.which])]).astype(np.int64)
            filled = [(*shape, *(-1 for _ in range(self.dimensions - len(shape)))) for shape in self.shapes]
            columns["shape"] = np.array(filled, np.int64).reshape(len(filled), self.dimensions)[self.which]
        return columns

    def _digests(self) -> Array:
        return np.frombuffer(self.found.digests.tobytes(), np.uint8).reshape(-1, 16)

    def values_shape(self) -> tuple[int, ...]:
        """The shape of the dataset of the values."""
        count, inner = len(self.which), self.found.kind.inner
        if self.form == "text":
            return (count,)
        if self.form == "dense":
            return (count, *self.shapes[0], *inner)
        return (self.size // self.found.kind.itemsize, *inner)
