"""From the journals of all ranks to the one file of a run. Needs no torch; a failure leaves the journals.

`/about` is JSON in bytes: all that is known of the run and its variables, with the checksum of every column. The
attributes say the same in short, for a reader with plain h5py. `/steps` and `/events/marks` are tables of columns.
`/vars/<escaped path>` is a variable: `step rank call time` with a row for each time it was seen, `values`, `digest`
with the xxh3_128 of each stored value, and, only where they are needed, `index` (the stored value of each row, where
one was stored once and seen often), `offset` and `shape` (where `values` is flat, since the shapes differ).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_64_intdigest

from insitu.errors import StoreError
from insitu.store.building import Building, building, check_compression, text_attribute
from insitu.store.catalog import Catalog
from insitu.store.copying import DamagedError, copy
from insitu.store.files import check_free, rename
from insitu.store.h5types import numpy_type, text_type
from insitu.store.journal import value_json
from insitu.store.parts import discard, passing_name
from insitu.store.plan import Plan
from insitu.store.safe import RUN_FORMAT, RUN_VERSION
from insitu.store.value import Array
from insitu.trace.collector import collector_paused

_ATTRIBUTES = ("insitu", "torch", "python", "run_id", "command", "git", "patterns", "settings")
_LONGEST_EVENT = 1000


def compact(
    parts: Path, target: Path, *, compression: str = "none", overwrite: bool = False, keep_parts: bool = False
) -> list[str]:
    """Make the file of a run from its journals, and remove them; what is missing in it is given back.

    The journals stay where one is still written to or is damaged, and whenever the file could not be made.
    """
    check_compression(compression)
    check_free(target, overwrite=overwrite)
    passing = passing_name(parts)
    try:
        try:
            catalog = _made(Catalog(parts, verify=False), passing, compression)
        except DamagedError:  # read them all first, to know which
            passing.unlink()
            catalog = _made(Catalog(parts), passing, compression)
        rename(passing, target, overwrite=overwrite)
    except OSError as error:
        if isinstance(error, StoreError):
            raise
        raise StoreError(
            f"{str(target)!r} cannot be written: {error.strerror or error}; all that was recorded is in {str(parts)!r}"
        ) from error
    finally:
        with suppress(OSError):
            passing.unlink()
    if not (keep_parts or catalog.live or catalog.troubles):
        discard(parts)
    return catalog.missing


def _made(catalog: Catalog, passing: Path, compression: str) -> Catalog:
    plans = [Plan.of(found, catalog) for found in catalog.variables]
    told = len(value_json(catalog.about)) + sum(map(len, catalog.missing)) + 2 * _LONGEST_EVENT * len(catalog.events)
    payload = sum(plan.payload for plan in plans) + 64 * len(catalog.step) + 2 * told
    with building(passing, payload, 9 * len(plans), compression) as made:
        checksums: list[dict[str, int]] = []
        sinks = []
        for plan in plans:
            sums, sink = plan.declare(made)
            checksums.append(sums)
            sinks.append(sink)
        about = describe(catalog, plans, checksums, _tables(made, catalog))
        _write_about(made, catalog, about)
        with collector_paused():  # it would look at every piece that waits, again and again
            copy(catalog, plans, sinks)
    return catalog


def _tables(made: Building, catalog: Catalog) -> dict[str, dict[str, int]]:
    """Write the steps and the events; the checksums of their columns."""
    order = catalog.step_rows()
    steps = {"step": catalog.step[order], "rank": catalog.rank[order], "time": catalog.time[order]}
    events = catalog.events
    marks: dict[str, Array] = {
        "step": np.array([-1 if event.step is None else event.step for event in events], np.int64),
        "rank": np.array([event.rank for event in events], np.int32),
        "time": np.array([event.time for event in events], np.float64),
        "kind": _texts([event.kind for event in events]),
        "text": _texts([event.text for event in events]),
    }
    return {"steps": _table(made, "steps", steps), "events/marks": _table(made, "events/marks", marks)}


def _texts(texts: list[str]) -> Array:
    short = [text.replace("\0", " ").encode("utf-8", "backslashreplace")[:_LONGEST_EVENT] for text in texts]
    return np.array(short, np.dtype(f"S{max(map(len, short), default=0) or 1}"))


def _table(made: Building, where: str, columns: Mapping[str, Array]) -> dict[str, int]:
    group = made.group(where, {})
    for name, column in columns.items():
        kind = text_type(column.itemsize) if column.dtype.kind == "S" else numpy_type(column.dtype)
        made.column(group, name, column, kind)
    return {name: xxh3_64_intdigest(column.tobytes()) for name, column in columns.items()}


def describe(
    catalog: Catalog, plans: list[Plan], checksums: list[dict[str, int]], tables: dict[str, dict[str, int]]
) -> dict[str, Any]:
    """All that is known of the run, as JSON."""
    events = catalog.events
    return {
        "about": value_json(catalog.about),
        "world_size": catalog.world_size,
        "missing_ranks": catalog.missing_ranks,
        "missing": catalog.missing,
        "last_committed": {str(shard.rank): shard.last_committed for shard in catalog.shards},
        "started": catalog.started,
        "ended": catalog.ended,
        "dropped": catalog.dropped,
        "steps": len(catalog.step_rows()),
        "events": [len(events), *(_texts([getattr(e, name) for e in events]).itemsize for name in ("kind", "text"))],
        "tables": tables,
        "variables": [_described(plan, sums) for plan, sums in zip(plans, checksums, strict=True)],
    }


def _described(plan: Plan, sums: dict[str, int]) -> dict[str, Any]:
    return {
        "name": plan.found.name,
        "dtype": plan.found.kind.name,
        "form": plan.form,
        "shape": list(plan.shapes[0]) if plan.form == "dense" else None,
        "rows": len(plan.found),
        "stored": len(plan.which),
        "width": plan.width if plan.form == "text" else None,
        "dimensions": plan.dimensions,
        "columns": sums,
        "facts": {name: value_json(fact) for name, fact in plan.facts.items()},
    }


def _write_about(made: Building, catalog: Catalog, about: dict[str, Any]) -> None:
    text = np.frombuffer(json.dumps(about, separators=(",", ":")).encode("ascii"), np.uint8)
    made.column(made.file, "about", text, numpy_type(text.dtype))
    attributes = made.file.attrs
    attributes["format"] = text_attribute(RUN_FORMAT)
    attributes["format_version"] = RUN_VERSION
    attributes["checksum"] = np.uint64(xxh3_64_intdigest(text.tobytes()))
    attributes["world_size"] = catalog.world_size
    attributes["complete"] = not catalog.missing
    attributes["missing_ranks"] = np.array(catalog.missing_ranks, np.int64)
    last = [-1 if shard.last_committed is None else shard.last_committed for shard in catalog.shards]
    attributes["ranks"] = np.array([shard.rank for shard in catalog.shards], np.int64)
    attributes["last_committed"] = np.array(last, np.int64)
    attributes["dropped"] = catalog.dropped
    attributes["start"], attributes["end"] = catalog.started or np.nan, catalog.ended or np.nan
    for name in _ATTRIBUTES:
        if name in catalog.about:
            attributes[name] = text_attribute(catalog.about[name])
