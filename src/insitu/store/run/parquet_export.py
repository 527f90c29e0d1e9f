"""The statistics of a run as a Parquet file for DuckDB, Spark or Polars: a row for each value, written in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from insitu.errors import StoreError
from insitu.operating_system import CREATE
from insitu.store.address import Address, is_address
from insitu.store.files import check_free, rename, unfinished_name
from insitu.store.run.conversion import need
from insitu.store.run.curves import common_rows
from insitu.store.run.value_numbers import SeriesTexts, statistic_of, values_of
from insitu.store.stored_type import Array
from insitu.trace.curve import Numbers
from insitu.trace.variable_curves import joined_statistics

if TYPE_CHECKING:
    from insitu.store.run.run import Run
    from insitu.store.run.series import Series

_ROWS = 2**16  # of a block
_NUMBERS = {"min": "low", "max": "high", "mean": "mean", "std": "std", "norm": "norm"}
_COUNTS = ("count", "nan", "inf", "zeros")


def to_parquet(run: Run, path: str | os.PathLike[str], names: Sequence[str], *, overwrite: bool) -> int:
    """Write the statistics of these variables; return the number of rows.

    The columns are path, dtype, step, rank, attempt, call, time, count (of finite elements), min, max, mean, std, norm,
    nan, inf, zeros, and text for a value that is not a number.
    """
    arrow, parquet = need("pyarrow", "to_parquet()", extra="parquet"), need("pyarrow.parquet", "to_parquet()")
    schema = _schema(arrow)
    count = 0
    with _target(path, overwrite=overwrite) as file, parquet.ParquetWriter(file, schema) as writer:
        for columns in _blocks(run, names):
            writer.write_table(arrow.Table.from_pydict(columns, schema=schema))
            count += len(columns["step"])
    return count


def _schema(arrow: Any) -> Any:
    label = arrow.dictionary(arrow.int32(), arrow.string())
    fields = {"path": label, "dtype": label, "step": arrow.int64()}
    fields |= dict.fromkeys(("rank", "attempt", "call"), arrow.int32())
    fields |= {"time": arrow.float64()}
    fields |= dict.fromkeys(_COUNTS, arrow.int64()) | dict.fromkeys(_NUMBERS, arrow.float64())
    return arrow.schema({**fields, "text": arrow.string()})


def _target(path: str | os.PathLike[str], *, overwrite: bool) -> AbstractContextManager[Any]:
    """The file to write: a new one on this machine, which is complete or not there, or one at an address."""
    if is_address(path):
        return _remote_file(str(path), overwrite=overwrite)
    return _local_file(Path(path), overwrite=overwrite)


@contextmanager
def _local_file(path: Path, *, overwrite: bool) -> Iterator[Any]:
    check_free(path, overwrite=overwrite)
    unfinished = unfinished_name(path)
    try:
        with open(os.open(unfinished, CREATE, 0o600), "wb") as file:
            yield file
        rename(unfinished, path, overwrite=overwrite)
    finally:
        with suppress(OSError):
            unfinished.unlink()


@contextmanager
def _remote_file(text: str, *, overwrite: bool) -> Iterator[Any]:
    folder, _, name = text.rpartition("/")
    address = Address.parse(folder)
    if not overwrite and address.facts(name) is not None:
        raise StoreError(f"{text!r} is there already: give another name, or overwrite=True")
    with address.open_for_writing(name) as file:
        yield file


def _blocks(run: Run, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The columns of some rows at a time."""
    statistics = joined_statistics(list(names))
    of_statistics = {path for named in statistics.values() for path in named.values()}
    for base, named in statistics.items():
        yield from _blocks_of_statistics(base, {name: run[path] for name, path in named.items()})
    for name in names:
        if name not in of_statistics:
            yield from _blocks_of_values(run[name])


def _blocks_of_statistics(base: str, every: dict[str, Series]) -> Iterator[dict[str, Any]]:
    rows = common_rows(list(every.values()))
    first = next(iter(every.values()))
    for start in range(0, len(rows[0]), _ROWS):
        here = slice(start, start + _ROWS)
        parts = {name: series.take(own[here]) for (name, series), own in zip(every.items(), rows, strict=True)}
        numbers = Numbers.of_statistics({name: statistic_of(part).numbers for name, part in parts.items()})
        yield _columns(base, "statistics", first.take(rows[0][here]), numbers, None)


def _blocks_of_values(series: Series) -> Iterator[dict[str, Any]]:
    for start in range(0, len(series), _ROWS):
        block = series.take(np.arange(start, min(start + _ROWS, len(series))))
        found = values_of(block)
        if isinstance(found, SeriesTexts):
            yield _columns(series.name, series.dtype, block, None, found.texts)
        else:
            yield _columns(series.name, series.dtype, block.take(found.rows), found.numbers, None)


def _columns(path: str, dtype: str, series: Series, numbers: Numbers | None, texts: list[str] | None) -> dict[str, Any]:
    """The columns of a block; without numbers or without texts, those columns are empty."""
    count = len(series)
    nothing: list[None] = [None] * count
    columns: dict[str, Any] = {"path": [path] * count, "dtype": [dtype] * count, "step": series.steps}
    columns |= {"rank": series.ranks, "attempt": series.attempts, "call": series.calls, "time": series.times}
    columns |= {name: nothing if numbers is None else getattr(numbers, name) for name in _COUNTS}
    columns |= {name: nothing if numbers is None else _known(getattr(numbers, of)) for name, of in _NUMBERS.items()}
    return {**columns, "text": nothing if texts is None else texts}


def _known(column: Array) -> list[float | None]:
    """Numbers with None in place of NaN, which says here that there was no finite element."""
    return [None if number != number else number for number in column.tolist()]
