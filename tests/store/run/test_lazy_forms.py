"""Runs as Dask arrays, as labelled data and as Parquet files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pyarrow.parquet
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import insitu
from insitu.errors import ChoiceError, MissingError, NotRecordedError, StoreError
from insitu.store.journal.journal_writer import Entry, JournalWriter
from insitu.store.run.merge import merge_journals
from insitu.trace.event import STATISTICS

RUN = "a" * 32


def tensor(path: str, array: np.ndarray[Any, Any], call: int = 0) -> Entry:
    return path, call, str(array.dtype), array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def write(parts: Path, steps_of_rank: dict[int, range]) -> None:
    for rank, steps in steps_of_rank.items():
        with JournalWriter(parts, rank, {"world_size": 2}, run=RUN, roll_steps=2) as journal:
            for step in steps:
                weight = np.arange(6, dtype=np.float32).reshape(2, 3) + 100 * rank + 10 * step
                statistics = [(f"s.{row.name}", 0, None, (), float(step) + rank) for row in STATISTICS]
                entries = [tensor("weight", weight), tensor("count", np.array(step)), *statistics]
                entries += [tensor("ragged", np.zeros(step + 1)), ("mode", 0, None, (), "train")]
                journal.step(step, float(step), [*entries, ("loss", 0, None, (), None if step == 1 else step / 2)])


@pytest.fixture(params=["journals", "file"])
def run(request: Any, tmp_path: Path) -> Any:
    parts = tmp_path / "run.h5.parts"
    write(parts, {0: range(5), 1: range(5)})
    if request.param == "file":
        merge_journals(parts, tmp_path / "run.h5")
    with insitu.load(tmp_path / "run.h5") as run:
        yield run


def test_a_dask_array_has_the_values_of_the_series(run: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.run.lazy_array.CHUNK", 3 * 24)
    array = run["weight"].to_dask()
    assert array.chunks[0] == (3, 3, 3, 1) and array.dtype == np.float32
    assert (array.compute() == run["weight"].values).all()
    assert (run["weight"].rank(1)[2:4].to_dask().compute() == run["weight"].rank(1)[2:4].values).all()
    assert np.array_equal(run["loss"].to_dask().compute(), run["loss"].values, equal_nan=True)


def test_another_process_reads_a_dask_array(run: Any) -> None:
    with dask.config.set(scheduler="processes", num_workers=1):
        assert float(run["weight"].to_dask().sum().compute()) == float(run["weight"].values.sum())


def test_a_run_that_has_grown_is_not_read_by_another_process(tmp_path: Path) -> None:
    import cloudpickle

    parts = tmp_path / "run.h5.parts"
    write(parts, {0: range(3)})
    with insitu.load(parts) as run:
        array = cloudpickle.dumps(run["weight"].to_dask())
    write(parts, {1: range(3)})
    with pytest.raises(StoreError, match="has grown since the array was made"):
        cloudpickle.loads(array).compute()


def test_values_of_several_shapes_are_not_a_dask_array(run: Any) -> None:
    with pytest.raises(ChoiceError, match="'ragged' has values of several shapes"):
        run["ragged"].to_dask()
    with pytest.raises(ChoiceError, match="'mode' holds 'train', which is not a number"):
        run["mode"].to_dask().compute()


def test_labelled_data_have_steps_and_ranks(run: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.run.lazy_array.CHUNK", 100)
    data = run.to_xarray()
    assert data["weight"].dims == ("step", "rank", "weight_dim_0", "weight_dim_1")
    assert data["weight"].sel(step=3, rank=1).values.tolist() == run["weight"].at(3, rank=1).tolist()
    assert data["count"].dtype == np.int64 and data["count"].sel(rank=0).values.tolist() == [0, 1, 2, 3, 4]
    assert sorted(text.split("'")[1] for text in data.attrs["left_out"]) == ["mode", "ragged"]
    assert "ragged" not in data and list(run.to_xarray(only="s.m*")) == ["s.min", "s.max", "s.mean"]
    with pytest.raises(NotRecordedError, match=r"only='wieght' matches nothing"):
        run.to_xarray(only="wieght")


def test_steps_that_a_rank_lacks_are_nan(tmp_path: Path) -> None:
    parts = tmp_path / "run.h5.parts"
    write(parts, {0: range(4), 1: range(2)})
    with insitu.load(parts) as run:
        weight = run["weight"].to_xarray()
        assert np.isnan(weight.sel(step=3, rank=1).values).all() and (weight.sel(step=3, rank=0) >= 30).all()
        with pytest.raises(ChoiceError, match=r"'count' has no value at step 2 of rank 1, .* int64 has no NaN"):
            run["count"].to_xarray()
        assert run["count"][:2].to_xarray().shape == (2, 2)


def test_several_values_in_a_step_have_a_dimension(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts", run=RUN) as journal:
        for step in range(3):
            journal.step(step, 0.0, [tensor("x", np.array([10.0 * step + call]), call) for call in range(2)])
    with insitu.load(tmp_path / "run.h5") as run:
        data = run["x"].to_xarray()
        assert data.dims == ("step", "rank", "call", "x_dim_0")
        assert data.sel(step=2, rank=0, call=1).values.tolist() == [21.0]


def test_a_parquet_file_has_the_statistics(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.run.parquet_export._ROWS", 3)
    count = run.to_parquet(tmp_path / "run.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "run.parquet").to_pandas()
    assert len(table) == count == 2 * 5 * 6 - 2  # None is not a number
    weight = table[table.path == "weight"]
    assert weight["mean"].tolist() == pytest.approx(run["weight"].values.mean(axis=(1, 2)).tolist())
    assert weight["norm"].tolist() == pytest.approx(np.linalg.norm(run["weight"].values, axis=(1, 2)).tolist())
    assert weight["step"].tolist() == run["weight"].steps.tolist() and weight["rank"].tolist() == [0, 1] * 5
    statistics = table[table.path == "s"]
    assert statistics["max"].tolist() == [step + rank for step in range(5) for rank in range(2)]
    assert table[table.path == "mode"]["text"].unique().tolist() == ["train"]
    with pytest.raises(StoreError, match="is there already"):
        run.to_parquet(tmp_path / "run.parquet")
    assert run.to_parquet(tmp_path / "run.parquet", only="loss", overwrite=True) == 8


def test_a_parquet_file_goes_to_an_address(run: Any) -> None:
    run.to_parquet("memory://bucket/statistics/run.parquet", only="loss", overwrite=True)
    with MemoryFileSystem().open("/bucket/statistics/run.parquet", "rb") as file:
        assert pyarrow.parquet.read_table(file).num_rows == 8
    with pytest.raises(StoreError, match="is there already"):
        run.to_parquet("memory://bucket/statistics/run.parquet")


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("dask", "dask", lambda run: run["weight"].to_dask()),
        ("xarray", "xarray", lambda run: run.to_xarray()),
        ("pyarrow", "parquet", lambda run: run.to_parquet("never.parquet")),
    ],
)
def test_a_missing_package_names_its_extra(run: Any, monkeypatch: Any, package: str, extra: str, call: Any) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingError, match=rf"needs {package}: pip install 'insitu\[{extra}\]'"):
        call(run)
