from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tests.store.recorded import STEPS, check, record, tensor

import insitu
from insitu.errors import ChoiceError, MissingError, StoreError
from insitu.store.journal.journal_writer import JournalWriter
from insitu.store.run import file_builder
from insitu.store.run.merge import merge_journals
from insitu.store.run.run import Run
from insitu.store.run.series import NotRecordedError, Series
from insitu.trace.run import VariableSummary
from insitu.verbs.compare import run_trace

FORMS = ["journals", "none", "gzip", "lzf"]
try:
    import hdf5plugin  # noqa: F401

    FORMS.append("blosc2")
except ImportError:
    pass


@pytest.fixture(params=FORMS)
def run(request: Any, tmp_path: Path) -> Any:
    """The same run, read from its journals and from its file."""
    expected = record(tmp_path / "run.h5.parts")
    if request.param != "journals":
        assert merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5", compression=request.param) == []
    with insitu.load(tmp_path / "run.h5") as opened:
        opened.expected = expected
        yield opened


def test_recorded_values_are_read_back(run: Any) -> None:
    check(run, run.expected)
    assert run.complete and run.missing == [] and not run.running and run.dropped == 0
    assert run.steps.tolist() == list(range(STEPS)) and run.ranks == [0, 1] and run.world_size == 2
    assert run.last_committed == {0: STEPS - 1, 1: STEPS - 1} and run.missing_ranks == []
    assert run.about == {"world_size": 2, "run_id": "r1", "torch": "2.13.0"}
    assert [(event.kind, event.text, event.step, event.rank) for event in run.events] == [
        ("mark", "epoch 1", 2, 1),
        ("end", "", STEPS - 1, 0),
        ("end", "", STEPS - 1, 1),
    ]
    assert len(run) == len(list(run)) == len(run.paths) and "late" in run and "early" not in run


def test_a_path_that_was_not_recorded_names_the_nearest(run: Any) -> None:
    with pytest.raises(NotRecordedError, match=r"'forward.y' was not recorded in 'run.*did you mean 'forward.x'\?"):
        run["forward.y"]
    with pytest.raises(KeyError, match=r"there is 'forward.x', 'weight'"):
        run["zzz"]
    with pytest.raises(NotRecordedError, match=r"'forward' was not recorded in 'run.*\(forward\.\* is what is in it\)"):
        run["forward"]


def test_pattern_as_key_points_to_find(run: Any) -> None:
    with pytest.raises(NotRecordedError, match=r": it is a pattern, and run\.find\('\*\*\.x'\) has the 1 that"):
        run["**.x"]


def test_a_run_is_a_mapping_of_its_paths(run: Any) -> None:
    assert list(run.keys()) == list(run) and "late" in run.keys()  # noqa: SIM118
    assert {path: series.name for path, series in dict(run).items()} == {path: path for path in run}


def test_find_matches_patterns(run: Any) -> None:
    assert [series.name for series in run.find("forward.*")] == ["forward.x", "forward.x@uint16"]
    assert [series.name for series in run.find("**.late")] == ["late"]


def test_slice_selects_steps_and_ranks(run: Any) -> None:
    series = run["forward.x"]
    assert series[2:4].steps.tolist() == [2, 2, 3, 3] and series[4:].ranks.tolist() == [0, 1, 0, 1]
    assert series[::2].rank(1).steps.tolist() == [0, 2, 4] and series[1::3].rank(0).steps.tolist() == [1, 4]
    assert series.rank(1)[3:4].values.tolist() == [[[13.0] * 3] * 2]
    assert series[90:].rank(1).values.shape == (0, 2, 3) and len(series[90:]) == 0
    with pytest.raises(NotRecordedError, match=r"'forward.x' has no value of rank 7; there are ranks 0, 1"):
        series.rank(7)
    with pytest.raises(NotRecordedError, match=r"'late' has no value of rank 0; there is rank 1"):
        run["late"].rank(0)
    assert series.at(3, rank=1).tolist() == [[13.0] * 3] * 2
    assert run["weight"].rank(0)[5].tolist() == [1.0] * 4
    with pytest.raises(ChoiceError, match=r"'forward.x' has 2 values at step 3: say rank=… or call=…"):
        series[3]
    with pytest.raises(NotRecordedError, match=r"no value at step 9, rank 1; the nearest are 4 and 5"):
        series.at(9, rank=1)
    with pytest.raises(ChoiceError, match="goes forward"):
        series[::-1]
    for wrong in ("a", None, 1.5, slice("a", None), slice(0.5, 2)):
        with pytest.raises(ChoiceError, match=r"is not a step: series\[10\]"):
            series[wrong]


def test_dense_values_are_one_array_and_ragged_ones_are_padded_on_request_only(run: Any) -> None:
    assert run["forward.x"].values.shape == (12, 2, 3) and run["forward.x"].shape == (2, 3)
    ragged = run["ragged"].rank(0)
    assert run["ragged"].shape is None and ragged.shapes[:4] == [(0,), (2, 0), (1,), (2, 1)]
    flat = ragged.where(ragged.calls == 0)
    padded, lengths = flat.padded(fill=-1)
    assert lengths.tolist() == [[0], [1], [2], [3], [4], [5]]
    assert padded.tolist() == [[*range(step), *[-1] * (5 - step)] for step in range(6)]
    with pytest.raises(ChoiceError, match="several dimensions"):
        ragged.padded()
    with pytest.raises(ChoiceError, match=r"fill=nan is not a value of the type int64"):
        flat.padded(fill=float("nan"))
    with pytest.raises(ChoiceError, match="holds Python values"):
        run["note"].padded()


def test_series_are_concatenated(run: Any) -> None:
    series = run["forward.x"]
    both = series[:2].concat(series[4:])
    assert both.steps.tolist() == [0, 0, 1, 1, 4, 4, 5, 5] and both.values.shape == (8, 2, 3)
    assert both.rank(1)[1:5].values[:, 0, 0].tolist() == [11.0, 14.0]
    with pytest.raises(ChoiceError, match=r"'forward.x' is float32 and 'weight' is float64"):
        series.concat(run["weight"])


def test_iteration_reads_one_value_at_a_time(run: Any) -> None:
    assert [value.tolist() for value in run["weight"]] == run["weight"].values.tolist()
    assert list(run["note"]) == run["note"].values


def test_series_has_the_facts_of_its_variable(run: Any) -> None:
    assert run["forward.x"].source == "model.py:3" and run["weight"].source is None
    assert run["weight"].facts == {"shard": {"ranks": {0: 0, 1: 1}}}


def test_repr_of_run_and_series(run: Any) -> None:
    assert repr(run["forward.x"]) == "<Series 'forward.x': 12 × float32[2, 3], steps 0–5, 2 ranks>"
    assert repr(run["ragged"]).startswith("<Series 'ragged': 24 × int64[…]")
    assert "Python values" in repr(run["note"])
    assert repr(run).startswith("<Run 'run.h5") and repr(run).endswith(": 9 variables, steps 0–5, 2 ranks>")


def test_series_converts_to_pandas_and_torch(run: Any) -> None:
    frame = run["scalar"].to_pandas()
    assert list(frame) == ["step", "rank", "attempt", "call", "time", "value"]
    assert frame["value"].tolist()[-1] == 5 * 2**40 + 1
    assert run["forward.x"].to_pandas()["value"][3].tolist() == [[11.0] * 3] * 2
    tensors = run["ragged"].to_torch()
    assert [tuple(tensor.shape) for tensor in tensors] == run["ragged"].shapes and str(
        tensors[0].dtype
    ) == "torch.int64"
    assert run["forward.x"].to_torch().sum().item() == run["forward.x"].values.sum()
    with pytest.raises(ChoiceError, match="holds Python values"):
        run["note"].to_torch()


def series_of(folder: Path, values: list[Any]) -> Series:
    with JournalWriter(folder / "run.h5.parts") as journal:
        for step, value in enumerate(values):
            journal.step(step, 0.0, [("x", 0, None, (), value)])
    merge_journals(folder / "run.h5.parts", folder / "run.h5")
    return Run.open(folder / "run.h5")["x"]


@pytest.mark.parametrize(
    ("values", "dtype", "name"),
    [
        ([0.5, -0.0, float("inf"), float("nan")], "float64", "float"),
        ([1, -(2**63), 2**63 - 1], "int64", "int"),
        ([True, False], "bool", "bool"),
        ([None, 0.5, 2.0], "float64", "float"),
    ],
)
def test_python_numbers_are_an_array(tmp_path: Path, values: list[Any], dtype: str, name: str) -> None:
    series = series_of(tmp_path, values)
    expected = np.array(values, dtype)  # NaN for None
    assert series.values.dtype == dtype and series.values.tobytes() == expected.tobytes()
    assert (
        series.to_torch().numpy().tobytes() == expected.tobytes() and str(series.to_torch().dtype) == f"torch.{dtype}"
    )
    assert series.padded()[0].tobytes() == expected.tobytes() and series.to_pandas()["value"].dtype == dtype
    assert list(map(repr, series)) == list(map(repr, values)) and repr(series[1]) == repr(values[1])
    (summary,) = Run.open(tmp_path / "run.h5").summary().variables
    assert summary.dtype == name and summary.low is not None


def test_python_numbers_are_compared_as_what_they_were(tmp_path: Path) -> None:
    series_of(tmp_path, [None, 0.5])
    with Run.open(tmp_path / "run.h5") as run:
        assert [event.value for event in run_trace(run).events if isinstance(event, insitu.Variable)] == [None, 0.5]


@pytest.mark.parametrize(
    "values", [[2**63, 1], [1, 2.0], [True, 1], [None, 0.5, float("nan")], [None, 1], [None], ["1"]]
)
def test_python_values_that_an_array_would_change_are_a_list(tmp_path: Path, values: list[Any]) -> None:
    series = series_of(tmp_path, values)
    assert isinstance(series.values, list) and list(map(repr, series.values)) == list(map(repr, values))
    assert series.dtype == "json" and Run.open(tmp_path / "run.h5").summary().variables[0].dtype == "json"
    with pytest.raises(ChoiceError, match="holds Python values"):
        series.to_torch()


def test_an_unchanged_value_is_stored_once(tmp_path: Path) -> None:
    value = np.random.default_rng(0).random(100_000)
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step in range(50):
            journal.step(step, 0.0, [tensor("w", 0, value)])
    size = sum(path.stat().st_size for path in tmp_path.rglob("*.journal"))
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    assert max(size, (tmp_path / "run.h5").stat().st_size) < 900_000
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["w"].steps.tolist() == list(range(50)) and (run["w"].values == value).all()


def test_a_value_that_comes_back_is_seen_as_a_change(tmp_path: Path) -> None:
    states = [0, 1, 0, 0, -0.0, np.nan, np.nan, 0]
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step, state in enumerate(states):
            journal.step(step, 0.0, [tensor("x", 0, np.array([state], np.float32))])
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["x"].raw.tobytes() == np.array(states, np.float32).tobytes()


def test_h5py_reads_the_values_of_a_run(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts", world_size=3)
    assert merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5") == ["rank 2 left no journal"]
    assert len(list((tmp_path / "run.h5.parts").rglob("*.journal"))) == 2  # rank 2 may still come
    assert stat.S_IMODE((tmp_path / "run.h5").stat().st_mode) == 0o600
    with h5py.File(tmp_path / "run.h5") as file:
        attributes = dict(file.attrs)
        assert attributes["format"] == b"insitu run" and attributes["world_size"] == 3 and not attributes["complete"]
        assert attributes["missing_ranks"].tolist() == [2] and attributes["last_committed"].tolist() == [5, 5]
        group = file["vars/forward.x"]
        assert group.attrs["source"] == b"model.py:3" and group.attrs["torch_dtype"] == b"float32"
        assert group["values"].shape == (12, 2, 3) and group["values"][5, 0, 0] == 12.0
        weight = file["vars/weight"]
        assert (
            weight["values"].shape == (4, 4)
            and weight["values"][:][weight["index"][:]][:, 0].tolist() == [0] * 6 + [1] * 6
        )
        assert file["vars/note/values"][0] == b'"step 0 \\u00fc"'
        assert "a%2Fb%25%00%0A" in file["vars"] and "%" in file["vars"]
        assert file["steps/step"][:].tolist() == [step for step in range(6) for _ in range(2)]
        assert file["events/marks/text"][0] == b"epoch 1"


def test_running_run_can_be_read(tmp_path: Path) -> None:
    journal = JournalWriter(tmp_path / "run.h5.parts")
    with insitu.load(tmp_path / "run.h5") as run:
        assert run.missing == ["rank 0 still runs: no step was written yet"]
    journal.step(0, 0.0, [tensor("x", 0, np.arange(3))])
    with insitu.load(tmp_path / "run.h5") as run:
        assert run.running and not run.complete and run["x"].values.tolist() == [[0, 1, 2]]
        assert run.missing == ["rank 0 still runs: the last step written is 0"] and "running" in repr(run)
    journal.step(1, 0.0, [tensor("x", 0, np.arange(3))])
    assert merge_journals(tmp_path / "run.h5.parts", tmp_path / "copy.h5") == [
        "rank 0 still ran when the file was made: the last step written is 1"
    ]
    assert (tmp_path / "run.h5.parts").is_dir()  # somebody writes there
    journal.close()
    assert insitu.load(tmp_path / "run.h5.parts").complete
    assert insitu.load(tmp_path / "copy.h5")["x"].steps.tolist() == [0, 1]


def test_run_without_steps_can_be_read(tmp_path: Path) -> None:
    JournalWriter(tmp_path / "run.h5.parts").close()
    for _ in range(2):
        with insitu.load(tmp_path / "run.h5") as run:
            assert run.paths == [] and run.steps.tolist() == [] and run.complete
            with pytest.raises(KeyError, match="it is empty"):
                run["x"]
            assert "no step" in repr(run)
        if not (tmp_path / "run.h5").exists():
            merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")


def test_a_file_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "run.h5").write_text("mine")
    record(tmp_path / "run.h5.parts")
    with pytest.raises(StoreError, match="is there already"):
        merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    assert (tmp_path / "run.h5").read_text() == "mine" and (tmp_path / "run.h5.parts").is_dir()
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5", overwrite=True)
    assert insitu.load(tmp_path / "run.h5").complete


def test_an_unknown_compression_names_the_ones_there_are(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    with pytest.raises(ChoiceError, match=r"compression='gz' is not one of 'none', 'gzip', 'lzf', 'blosc2'; did you"):
        merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5", compression="gz")


def test_many_small_chunks_are_written_whole(tmp_path: Path, monkeypatch: Any) -> None:
    """Values that wait for a chunk to be full, and values of many chunks."""
    monkeypatch.setattr(file_builder, "CHUNK", 4096)
    monkeypatch.setattr("insitu.store.run.block_splitter._PENDING", 10_000)
    numbers = np.random.default_rng(0)
    rows = [numbers.integers(0, 9, 5000 + 10 * step).astype(np.int32) for step in range(20)]
    dense = [numbers.integers(0, 9, (40, 100)).astype(np.int32) for _ in rows]
    small = [numbers.integers(0, 9, 3) for _ in rows]
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step, found in enumerate(zip(rows, dense, small, strict=True)):
            journal.step(step, 0.0, [tensor(name, 0, value) for name, value in zip("rds", found, strict=True)])
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5", compression="gzip")
    with insitu.load(tmp_path / "run.h5") as run:
        assert run["d"].values.tobytes() == b"".join(value.tobytes() for value in dense)
        assert run["s"].values.tobytes() == b"".join(value.tobytes() for value in small)
        assert [value.tobytes() for value in run["r"].values] == [value.tobytes() for value in rows]
    with h5py.File(tmp_path / "run.h5") as file:
        assert file["vars/d/values"].chunks == (1, 10, 100) and file["vars/r/values"].chunks == (1024,)


def test_long_texts_are_kept_whole(tmp_path: Path) -> None:
    texts = ["x" * 10_000, "", "\0", "lone \ud800"]
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step, text in enumerate(texts):
            journal.step(step, 0.0, [("text", 0, None, (), text)])
    for _ in range(2):
        with insitu.load(tmp_path / "run.h5") as run:
            assert run["text"].values == texts
        if not (tmp_path / "run.h5").exists():
            merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")


@pytest.mark.parametrize("path", [".", "..", "a/../b", "/abs", "x" * 5000, "ü.\ud800", "%41", "a\0b", "a"])
def test_any_path_can_be_the_name_of_a_series(tmp_path: Path, path: str) -> None:
    names = [path, path + "/", "A"]
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [(name, 0, "uint8", (1,), bytes([number])) for number, name in enumerate(names)])
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    with insitu.load(tmp_path / "run.h5") as run:
        assert [run[name].values.tolist() for name in names] == [[[0]], [[1]], [[2]]]
    with h5py.File(tmp_path / "run.h5") as file:
        assert len(file["vars"]) == 3


def test_ranks_may_have_different_steps_and_types(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts", 0) as zero, JournalWriter(tmp_path / "run.h5.parts", 3) as three:
        for step in range(4):
            zero.step(step, 0.0, [tensor("x", 0, np.zeros(2, np.float32))])
        three.step(2, 0.0, [tensor("x", 0, np.ones(2)), tensor("y", 0, np.ones(1))])
    with insitu.load(tmp_path / "run.h5") as run:
        assert run.missing_ranks == [1, 2] and run["x@float64"].ranks.tolist() == [3] and run["y"].steps.tolist() == [2]


def test_a_type_that_numpy_lacks_says_what_to_install(tmp_path: Path, monkeypatch: Any) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        journal.step(0, 0.0, [("x", 0, "bfloat16", (2,), np.array([0x3F80, 0x7FC0], np.uint16).view(np.uint8))])
    with insitu.load(tmp_path / "run.h5") as run:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
        with pytest.raises(MissingError, match=r"NumPy has no bfloat16: pip install ml_dtypes .* \.raw gives the bits"):
            _ = run["x"].values
        assert run["x"].raw.tolist() == [[0x3F80, 0x7FC0]]
        assert [summary.low for summary in run.summary().variables] == [None]


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    program = (
        "import insitu, sys; run = insitu.load(sys.argv[1]); run['forward.x'].values; run.summary().variables;"
        "print([name for name in ('torch', 'pandas', 'hdf5plugin') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "run.h5")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_summary_of_each_variable(run: Any) -> None:
    found = {summary.path: summary for summary in run.summary(3).variables}
    x = found["forward.x"]
    assert (x.low, x.high, x.rows, x.steps, x.ranks, x.shapes) == (0.0, 15.0, 12, (0, 5), (0, 1), ((2, 3), (2, 3)))
    assert x.means == (5.5, 7.5, 9.5) and not x.sampled and x.source == "model.py:3"
    assert found["note"].means == () and found["note"].low is None and found["ragged"].shapes == ((0,), (2, 5))


def test_the_shapes_of_a_variable_are_the_bounds_of_each_dimension(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step, shape in enumerate([(4, 1), (2, 8), (3, 3)]):
            journal.step(step, 0.0, [tensor("x", 0, np.zeros(shape))])
    (summary,) = insitu.load(tmp_path / "run.h5").summary().variables
    assert summary.shapes == ((2, 1), (4, 8))


def record_spike(folder: Path) -> VariableSummary:
    """The summary of a variable that is too large for the memory, and of which one step is far from the others."""
    with JournalWriter(folder / "run.h5.parts") as journal:
        for step in range(100):
            value = np.full(50, 1.0 + 99 * (step == 37))
            journal.step(step, 0.0, [tensor("x", 0, value)])
    (summary,) = insitu.load(folder / "run.h5").summary(10).variables
    return summary


def test_summary_of_a_large_variable_has_all_of_its_values(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.run.summary.MOST_BYTES", 1000)
    summary = record_spike(tmp_path)
    assert not summary.sampled and (summary.low, summary.high) == (1, 100)
    assert summary.mean == pytest.approx(1.99) and summary.last == 1
    assert summary.means == pytest.approx([1, 1, 1, 10.9, 1, 1, 1, 1, 1, 1])
    assert summary.norms[3] == pytest.approx(10.9 * 50**0.5)


@pytest.mark.parametrize("held", [10**6, 1000])
def test_mean_of_values_of_different_sizes_is_that_of_their_elements(
    held: int, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("insitu.store.run.summary.MOST_BYTES", held)
    with JournalWriter(tmp_path / "run.h5.parts") as journal:
        for step in range(10):
            journal.step(step, 0.0, [tensor("x", 0, np.full(10 * (step + 1), float(step)))])
    (summary,) = insitu.load(tmp_path / "run.h5").summary().variables
    assert summary.mean == pytest.approx(sum(step * (step + 1) for step in range(10)) / 55)


def test_summary_of_a_variable_that_is_too_large_to_read_is_sampled(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("insitu.store.run.summary.MOST_BYTES", 1000)
    monkeypatch.setattr("insitu.store.run.summary.MOST_READ", 2000)
    summary = record_spike(tmp_path)
    assert summary.sampled and len(summary.means) <= 10 and summary.rows == 100


def test_closed_run_raises_a_clear_error(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    merge_journals(tmp_path / "run.h5.parts", tmp_path / "run.h5")
    run = Run.open(tmp_path / "run.h5")
    series = run["forward.x"]
    run.close()
    with pytest.raises(StoreError, match=r"run\.h5' is closed: load it again"):
        _ = series.values


def test_empty_series(tmp_path: Path) -> None:
    record(tmp_path / "run.h5.parts")
    series = Run.open(tmp_path / "run.h5.parts")["ragged"][99:]
    assert isinstance(series, Series) and series.values == [] and series.padded()[0].shape == (0,)
    assert os.path.exists(tmp_path / "run.h5.parts")
