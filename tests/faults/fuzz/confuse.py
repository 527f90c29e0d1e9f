"""HDF5 files in which one thing is of another kind: a dataset of another type, shape or form, an attribute, a link."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from tests.faults.fuzz.odd import NUMBERS
from tests.faults.fuzz.seeds import Seed

from insitu.store.trace import trace_file
from insitu.store.trace.schema import SCHEMA

_TYPES = (
    *("i1", "u1", "i2", ">i4", "i8", "u8", "f2", "f4", ">f8", "f8", "g", "c8", "c16", "?", "S1", "S7", "V3", "V16"),
    *(np.dtype([("a", "i4"), ("b", "f8")]), np.dtype([("r", "f4"), ("i", "f4")]), np.dtype(("i4", (2, 3)))),
    *(h5py.string_dtype(), h5py.vlen_dtype("i4"), h5py.ref_dtype, h5py.regionref_dtype),
    h5py.enum_dtype({"a": 1, "b": 2}, "i1"),
)


def make_confused(seed: Seed, path: Path, dice: random.Random, number: int) -> bool:
    """One object of the file is another. A pipe lies beside it, which would hang whoever opened it."""
    shutil.copyfile(seed.path, path)
    os.mkfifo(path.with_name("pipe.h5"))
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        dice.choice(_WAYS)(file, dice.choice(names), dice)
        forged = seed.form in ("trace", "packed") and dice.random() < 0.7
        if forged:
            _check(file)
    return not forged


def _retyped(file: h5py.File, name: str, dice: random.Random) -> None:
    shape = getattr(file[name], "shape", None) or (3,)
    del file[name]
    data = file.create_dataset(name, shape, dtype=dice.choice(_TYPES))
    if dice.random() < 0.5 and data.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            data[...] = np.array(dice.choice(NUMBERS)).astype(data.dtype)


def _cast(file: h5py.File, name: str, dice: random.Random) -> None:
    """The same values in another type."""
    if isinstance(file[name], h5py.Dataset) and file[name].dtype.kind in "iufc":
        values = file[name][()]
        del file[name]
        with np.errstate(all="ignore"):
            file[name] = values.astype(dice.choice(["i1", "u1", ">i4", "i8", "u8", ">f4", "f8", "?"]))


def _reshaped(file: h5py.File, name: str, dice: random.Random) -> None:
    kind = getattr(file[name], "dtype", "i4")
    shape = dice.choice([(), (0,), (1,), (2**20,), (2, 2), (1, 1, 1, 1), (2**31,), (2**62,), (3, 0)])
    del file[name]
    options = {"chunks": True} if shape and all(shape) else {}
    file.create_dataset(name, shape, dtype=kind, maxshape=tuple(None for _ in shape) if options else None, **options)


def _stored(file: h5py.File, name: str, dice: random.Random) -> None:
    """The same values in another form: compressed, with checksums, in large chunks, in a folder of its own."""
    if not isinstance(file[name], h5py.Dataset) or not file[name].size or not file[name].shape:
        return
    values, kind = file[name][()], file[name].dtype
    del file[name]
    options: Any = dice.choice(
        [
            {"compression": "gzip"},
            {"compression": "lzf"},
            {"fletcher32": True},
            {"scaleoffset": 0} if kind.kind in "iu" else {},
            {"maxshape": (None,) * values.ndim},
            {"compression": 32004, "allow_unknown_filter": True},
        ]
    )
    if "allow_unknown_filter" in options:
        file.create_dataset(name, values.shape, kind, chunks=True, **options)
    else:
        file.create_dataset(name, data=values, chunks=True, **options)


def _linked(file: h5py.File, name: str, dice: random.Random) -> None:
    to = dice.choice([h5py.SoftLink("/"), h5py.SoftLink(f"/{name}"), h5py.ExternalLink("pipe.h5", "/x"), file["/"]])
    others: list[str] = []
    file.visit(others.append)
    to = dice.choice([to, file[dice.choice(others)]])
    del file[name]
    file[name] = to


def _elsewhere(file: h5py.File, name: str, dice: random.Random) -> None:
    """The data are in another file."""
    if not isinstance(file[name], h5py.Dataset) or not file[name].shape:
        return
    shape, kind = file[name].shape, file[name].dtype
    folder = str(Path(file.filename).parent / "pipe.h5")
    del file[name]
    if dice.random() < 0.5:
        size = max(1, int(np.prod(shape)) * kind.itemsize)
        file.create_dataset(name, shape, kind, external=[(folder, 0, size)])
        return
    layout = h5py.VirtualLayout(shape=shape, dtype=kind)
    layout[...] = h5py.VirtualSource(dice.choice([folder, "."]), "data", shape=shape)
    file.create_virtual_dataset(name, layout)


def _emptied(file: h5py.File, name: str, dice: random.Random) -> None:
    del file[name]
    if dice.random() < 0.5:
        file[name] = dice.choice([h5py.Empty("i4"), np.float64(1.0), b"text", np.zeros((2, 0)), np.int8(3)])
    elif dice.random() < 0.5:
        file.create_group(name)


def _attribute(file: h5py.File, name: str, dice: random.Random) -> None:
    holder = dice.choice([file, file, file, file[name]])
    chosen = dice.choice([*holder.attrs, "format", "format_version", "checksum"])
    value = dice.choice(
        [
            0,
            1,
            2,
            -1,
            2**63 - 1,
            np.nan,
            "insitu trace",
            b"insitu run",
            np.bytes_(b"insitu run"),
            np.zeros(3),
            h5py.Empty("f"),
        ]
    )
    if chosen in holder.attrs:
        del holder.attrs[chosen]
    if dice.random() < 0.8:
        holder.attrs[chosen] = value


def _cycled(file: h5py.File, name: str, dice: random.Random) -> None:
    """Things that lead back to what they lie in, under names that nobody gives."""
    place = file if isinstance(file[name], h5py.Dataset) else file[name]
    for other in dice.sample([b"\xff\xfe", b"loop", b"x" * 5000, "é".encode("latin1")], 2):
        h5py.h5o.link(file.id, place.id, other)


_WAYS: tuple[Callable[[h5py.File, str, random.Random], None], ...] = (
    *(
        _retyped,
        _retyped,
        _cast,
        _cast,
        _reshaped,
        _stored,
        _linked,
        _elsewhere,
        _emptied,
        _attribute,
        _attribute,
        _cycled,
    ),
)


def _check(file: h5py.File) -> None:
    """Make the checksum right again, where all columns are still numbers; plain h5py would crash on some others."""
    with suppress(Exception):
        every = {table: {name: file[f"events/{table}/{name}"] for name in rules} for table, rules in SCHEMA.items()}
        trace_file._check_sizes([data for columns in every.values() for data in columns.values()])
        tables = {table: {name: data[:] for name, data in columns.items()} for table, columns in every.items()}
        file.attrs["checksum"] = trace_file._checksum(tables)
